# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every message of backup, restore, renewal and upgrade, by id."""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-control-plane.md",
    [
        Message(
            id="plane-operation-path",
            error=UserError,
            text="{option}: {value!r} is not an allowed path",
            remedy="use an absolute path of letters, digits and the characters . _ - /",
        ),
        Message(
            id="plane-tool-missing",
            error=HostError,
            text="bin_dir: {path} lacks {names}",
            remedy="run the role ballast.kube.kubernetes_binaries with the family etcd, or set bin_dir to the directory that contains them",
        ),
        Message(
            id="plane-etcd-silent",
            error=PeerError,
            text="etcd at {url} does not respond",
            remedy="start the control plane (state: present); if its etcd keeps failing, read {log}, and restore a backup with "
            "ballast.kube.control_plane_restore and replace: true",
        ),
        Message(
            id="plane-etcd-answer",
            error=PeerError,
            text="etcd at {url} returned an unexpected response for {path}",
            remedy="check that etcd 3.5 or later listens on that address",
        ),
        Message(
            id="plane-etcd-corrupt",
            error=HostError,
            text="etcd's data in {path} is damaged, so etcd does not start",
            remedy="stop the control plane (state: stopped), restore a backup with ballast.kube.control_plane_restore and replace: true, which "
            "keeps the damaged data in another directory, then start it (state: present)",
        ),
        Message(
            id="plane-etcd-older",
            error=HostError,
            text="etcd in {bin_dir} is older than etcd {version}, which last served the data in {path}",
            remedy="set bin_dir to a directory with etcd {version} or later; only a restore of a backup that the older etcd took can downgrade etcd",
        ),
        Message(
            id="plane-etcd-not-ours",
            error=UserError,
            text="the control plane in {path} keeps its data in an etcd that this collection does not manage ({endpoints})",
            remedy="ask the owner of that etcd to back it up and restore it: a snapshot contains the data of all its users",
        ),
        Message(
            id="plane-backup-place",
            error=HostError,
            text="path: the directory of {path} does not exist",
            remedy="create it, readable only by root: mkdir -p -m 0700 {parent}",
        ),
        Message(
            id="plane-backup-foreign",
            error=HostError,
            text="path: {path} exists and is not a backup by this collection",
            remedy="choose another path, or move that file",
        ),
        Message(
            id="plane-backup-space",
            error=HostError,
            text="{path} has too little free space: {needed} bytes are needed",
            remedy="free space on that filesystem, or choose another directory, then run the same command again",
        ),
        Message(
            id="plane-backup-snapshot",
            error=HostError,
            text="taking the snapshot of etcd failed",
            remedy="read the log of etcd in {log}, then run the same command again; an earlier backup at that path is unchanged",
        ),
        Message(
            id="plane-snapshot-unsound",
            error=HostError,
            text="the snapshot of etcd in {path} fails etcdutl's check; nothing was changed",
            remedy="for a backup: check etcd's log and the disk, then run the same command again; for a restore: use another backup",
        ),
        Message(
            id="plane-backup-keys",
            error=HostError,
            text="{path} lacks the keys that a restore needs: {names}",
            remedy="run ballast.kube.control_plane for it first, which creates missing keys",
        ),
        Message(
            id="plane-archive-missing",
            error=UserError,
            text="archive: {path} does not exist",
            remedy="set archive to a file that ballast.kube.control_plane_backup wrote",
        ),
        Message(
            id="plane-archive-unsound",
            error=HostError,
            text="archive: {path} is not a complete backup; nothing was changed",
            remedy="use another backup: this file was truncated or changed, or is not a backup",
        ),
        Message(
            id="plane-archive-format",
            error=UserError,
            text="archive: {path} has format {format}, which this version of the collection cannot read",
            remedy="use the version of the collection that wrote it, or a later one",
        ),
        Message(
            id="plane-archive-etcd",
            error=HostError,
            text="archive: its data comes from etcd {found_version}, but {path} contains etcd {version}",
            remedy="set bin_dir to a directory with etcd {found_version} or later",
        ),
        Message(
            id="plane-restore-running",
            error=HostError,
            text="the control plane in {path} is running",
            remedy="stop it with ballast.kube.control_plane and state: stopped, or restore into another state_dir",
        ),
        Message(
            id="plane-restore-data",
            error=UserError,
            text="{path} already contains data",
            remedy="set replace: true, which moves that data to another directory and keeps it, or restore into another state_dir",
        ),
        Message(
            id="plane-restore-unfinished",
            error=HostError,
            text="a restore into {path} was interrupted",
            remedy="run ballast.kube.control_plane_restore again with the same archive to resume it",
        ),
        Message(
            id="plane-restore-other",
            error=HostError,
            text="this run completed an interrupted restore of another archive into {path}",
            remedy="to restore this archive, run the same command again with replace: true",
        ),
        Message(
            id="plane-restore-members",
            error=UserError,
            text="members: {value} members cannot start with data that was restored for {restored}",
            remedy="set members to {restored}; for another number, start and stop the control plane with it first, then restore with replace: true",
        ),
        Message(
            id="plane-restore-network",
            error=UserError,
            text="service_cidr: {value} differs from that of the restored data",
            remedy="set service_cidr to {found_network}, from which the Services' addresses were allocated",
        ),
        Message(
            id="plane-restore-differs",
            error=HostError,
            text="etcd's content differs from the backup's",
            remedy="stop the control plane, restore again with replace: true, and report the problem with the log of etcd",
        ),
        Message(
            id="plane-downgrade",
            error=UserError,
            text="kubernetes_version: {version} is older than {served}, which last used the data in {path}",
            remedy="use {served} or later: an older API server cannot read all objects of a newer one; to downgrade, restore a backup that was "
            "taken before the upgrade",
        ),
        Message(
            id="plane-version-jump",
            error=UserError,
            text="kubernetes_version: {version} is more than one minor version newer than {served}, which last used the data in {path}",
            remedy="upgrade to {between} first: each version is only guaranteed to read objects of the version before it",
        ),
    ],
)
