# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about what stops a run, and about what earlier runs left behind."""

from __future__ import annotations

from .errors import PAGE, Bug, HostError, Message, Messages, PeerError

MESSAGES = Messages(
    PAGE,
    [
        Message(
            id="core-not-ours",
            error=HostError,
            text="{path} was not created by this collection, so it is neither used nor removed",
            remedy="choose an empty or new directory; to remove something, choose the directory that it was created in",
        ),
        Message(
            id="core-taken",
            error=HostError,
            text="{what} belongs to another program",
            remedy="choose another name, or remove it yourself if nothing needs it",
        ),
        Message(
            id="core-not-held",
            error=HostError,
            text="after the run, {count} steps are still needed: {titles}",
            remedy="find the other program that changes this on the machine, then run the same command again",
        ),
        Message(
            id="core-interrupted",
            error=HostError,
            text="interrupted {where}",
            remedy="run it again to go on",
        ),
        Message(
            id="core-undo",
            error=HostError,
            text="an earlier run was killed, and {count} of its steps cannot be undone",
            remedy="fix the reported reasons, then run the same command again",
        ),
        Message(
            id="core-ledger",
            error=HostError,
            text="{path}:{line}: this version cannot read the journal",
            remedy="remove the resources with the version of the collection that wrote the journal",
        ),
        Message(
            id="core-registry",
            error=HostError,
            text="{path} does not record a directory for the name {name}",
            remedy='write {{"lab_dir": "DIRECTORY"}} into it, or remove it if no resource of that name remains',
        ),
        Message(
            id="core-no-sysctl",
            error=HostError,
            text="this kernel has no setting {name}",
            remedy="use a kernel with this feature",
        ),
        Message(
            id="core-wait-deadline",
            error=PeerError,
            text="{subject}: not within {seconds} seconds",
            remedy="read its log; on a slow machine, run the same command again to continue waiting",
        ),
        Message(
            id="core-wait-impossible",
            error=PeerError,
            text="{subject}: {reason}",
            remedy="",
        ),
        Message(
            id="core-engines",
            error=HostError,
            text="the engines at {path} differ from those that this task needs",
            remedy="check whether the disk of this host is full or broken, then run the same command again",
        ),
        Message(
            id="core-bug",
            error=Bug,
            text="an internal error of ballast.kube stopped the run",
            remedy="report it with its traceback from this host's system log",
        ),
        Message(
            id="core-value",
            error=Bug,
            text="expected {expected}, not {value}",
            remedy="",
        ),
        Message(
            id="core-kind",
            error=Bug,
            text="{engine} has no kind {kind}",
            remedy="",
        ),
        Message(
            id="core-resource-twice",
            error=Bug,
            text="two resources have one kind and target",
            remedy="",
        ),
    ],
)
