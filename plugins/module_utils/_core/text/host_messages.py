# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about commands, files and requests that fail on this machine."""

from __future__ import annotations

from .errors import COMMAND_FAILED, PAGE, TOOL_MISSING, Bug, HostError, Message, Messages, PeerError

MESSAGES = Messages(
    PAGE,
    [
        TOOL_MISSING,
        COMMAND_FAILED,
        Message(
            id="core-not-a-directory",
            error=HostError,
            text="{path} should be a directory",
            remedy="move it away, then run the same command again",
        ),
        Message(
            id="core-not-a-file",
            error=HostError,
            text="{path} should be a file",
            remedy="move it away, then run the same command again",
        ),
        Message(
            id="core-not-a-symlink",
            error=HostError,
            text="{path} should be a symlink",
            remedy="move it away, then run the same command again",
        ),
        Message(
            id="core-enospc",
            error=HostError,
            text="cannot {verb} {path}",
            remedy="free space on that filesystem, then run the same command again",
        ),
        Message(
            id="core-edquot",
            error=HostError,
            text="cannot {verb} {path}",
            remedy="remove files or raise the quota, then run the same command again",
        ),
        Message(
            id="core-eacces",
            error=HostError,
            text="cannot {verb} {path}",
            remedy="root is denied too: find what confines this run (a container, a security module, the server of a network filesystem)",
        ),
        Message(
            id="core-eperm",
            error=HostError,
            text="cannot {verb} {path}",
            remedy="root is denied too: find what confines this run (a container, a security module, an immutable file)",
        ),
        Message(
            id="core-erofs",
            error=HostError,
            text="cannot {verb} {path}",
            remedy="the filesystem is mounted read-only; choose another directory",
        ),
        Message(
            id="core-einval",
            error=HostError,
            text="cannot {verb} {path}",
            remedy="look at that path: it is a pipe, a device or a socket instead of a file, or a file of the kernel that refuses the value",
        ),
        Message(
            id="core-eagain",
            error=HostError,
            text="cannot {verb} {path}",
            remedy="run the same command again when the program that holds a lease on that file has ended",
        ),
        Message(
            id="core-enoent",
            error=HostError,
            text="cannot {verb} {path}",
            remedy="check that the directories above it exist, then run the same command again",
        ),
        Message(
            id="core-eexist",
            error=HostError,
            text="cannot {verb} {path}",
            remedy="run the same command again: another program made it a moment ago",
        ),
        Message(
            id="core-eio",
            error=HostError,
            text="cannot {verb} {path}",
            remedy="read the kernel log (dmesg): the disk or its filesystem is damaged",
        ),
        Message(
            id="core-os",
            error=HostError,
            text="cannot {verb} {path}",
            remedy="fix what the kernel reports, then run the same command again",
        ),
        Message(
            id="core-not-root",
            error=HostError,
            text="{what}",
            remedy="run it as root: `become: true` in the play, or `--become` on the command line",
        ),
        Message(
            id="core-too-large",
            error=HostError,
            text="{what} exceeds the limit of {limit} bytes",
            remedy="find out what wrote that much; expected data is smaller",
        ),
        Message(
            id="core-place-open",
            error=HostError,
            text="{path} is not safe to use: other users can write {where}",
            remedy="choose another path; or check the content, then remove the permission: chmod go-w {place}",
        ),
        Message(
            id="core-place-owner",
            error=HostError,
            text="{path} is not safe to use: {place} belongs to another user",
            remedy="choose another path; or inspect {place}, then remove it or change its owner: chown root {place}",
        ),
        Message(
            id="core-hard-link",
            error=HostError,
            text="{path} is not safe to write: the file has hard links",
            remedy="find them (find / -xdev -samefile {path}), and remove the unwanted ones",
        ),
        Message(
            id="core-not-a-lock",
            error=HostError,
            text="cannot lock {path}: it is not a lock file",
            remedy="inspect it and move it, then run the same command again",
        ),
        Message(
            id="core-locked",
            error=HostError,
            text="another run is active here: {path} is locked",
            remedy="wait until it ends, then run the same command again",
        ),
        Message(
            id="core-mounted",
            error=HostError,
            text="cannot remove {path}: it contains mounts, whose content would be deleted too",
            remedy="find what uses them, unmount them (umount {mount}), then run the same command again",
        ),
        Message(
            id="core-below-root",
            error=HostError,
            text="{path} of process {pid} cannot be read",
            remedy="make it a regular file of the usual size, then run the same command again",
        ),
        Message(
            id="core-no-cgroup",
            error=HostError,
            text="no cgroup hierarchy is mounted under /sys/fs/cgroup",
            remedy="mount cgroup2 there: mount -t cgroup2 none /sys/fs/cgroup",
        ),
        Message(
            id="core-no-answer",
            error=PeerError,
            text="{method} {url}: no response",
            remedy="check that the program behind this address is running, and read its log",
        ),
        Message(
            id="core-url",
            error=Bug,
            text="not a valid address for a request: {url}",
            remedy="",
        ),
    ],
)
