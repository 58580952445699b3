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
            text="{option}: {value!r} is not a path that can be used here",
            remedy="use an absolute path of letters, digits and the characters . _ - /",
        ),
        Message(
            id="plane-tool-missing",
            error=HostError,
            text="bin_dir: {path} does not hold {names}",
            remedy="run the role ballast.kube.kubernetes_binaries with the family etcd, or set bin_dir to the directory that holds them",
        ),
        Message(
            id="plane-etcd-silent",
            error=PeerError,
            text="etcd at {url} does not answer",
            remedy="start the control plane (state present); if its etcd does not stay up, see {log}, and restore a backup by"
            " ballast.kube.control_plane_restore with replace true",
        ),
        Message(
            id="plane-etcd-answer",
            error=PeerError,
            text="etcd at {url} answered {path} with something that is not understood",
            remedy="see whether that address is etcd's, of version 3.5 or later",
        ),
        Message(
            id="plane-etcd-corrupt",
            error=HostError,
            text="the data of etcd in {path} is damaged, and etcd does not start with it",
            remedy="stop the control plane (state stopped), restore a backup by ballast.kube.control_plane_restore with replace true,"
            " which keeps the damaged data aside, and start it (state present)",
        ),
        Message(
            id="plane-etcd-older",
            error=HostError,
            text="etcd in {bin_dir} is older than etcd {version}, which last served the data in {path}",
            remedy="set bin_dir to programs with etcd {version} or later: etcd goes back by a restore only, of a backup that the older one took",
        ),
        Message(
            id="plane-etcd-not-ours",
            error=UserError,
            text="{path} keeps its data in an etcd that this collection does not manage ({endpoints})",
            remedy="let the owner of that etcd back it up and restore it: a snapshot would hold the data of all its users",
        ),
        Message(
            id="plane-backup-place",
            error=HostError,
            text="path: there is no directory for {path}",
            remedy="make it, readable by root alone: mkdir -p -m 0700 {parent}",
        ),
        Message(
            id="plane-backup-foreign",
            error=HostError,
            text="path: {path} exists and is not a backup of this collection",
            remedy="choose another path, or move that file away",
        ),
        Message(
            id="plane-backup-space",
            error=HostError,
            text="there is no room in {path}: {needed} bytes are needed",
            remedy="free space on that filesystem, or choose another directory, then run the same command again",
        ),
        Message(
            id="plane-backup-snapshot",
            error=HostError,
            text="the snapshot of etcd could not be taken",
            remedy="see the log of etcd in {log}, then run the same command again; an earlier backup at that path is as it was",
        ),
        Message(
            id="plane-snapshot-unsound",
            error=HostError,
            text="the snapshot of etcd in {path} does not pass etcdutl's check; nothing was changed",
            remedy="for a backup: see the log of etcd and the disk, then run the same command again; for a restore: use another backup",
        ),
        Message(
            id="plane-backup-keys",
            error=HostError,
            text="{path} does not have the keys that a restore needs: {names}",
            remedy="run ballast.kube.control_plane for it first: it makes what is missing",
        ),
        Message(
            id="plane-archive-missing",
            error=UserError,
            text="archive: {path} is not there",
            remedy="set archive to a file that ballast.kube.control_plane_backup wrote",
        ),
        Message(
            id="plane-archive-unsound",
            error=HostError,
            text="archive: {path} is not a whole backup; nothing was changed",
            remedy="use another backup: this one was cut, changed, or never was one",
        ),
        Message(
            id="plane-archive-format",
            error=UserError,
            text="archive: {path} has format {format}, which this version of the collection does not know",
            remedy="use the version of the collection that wrote it, or a later one",
        ),
        Message(
            id="plane-archive-etcd",
            error=HostError,
            text="archive: its data is of etcd {found_version}, and {path} is of {version}",
            remedy="set bin_dir to the binaries of etcd {found_version} or later",
        ),
        Message(
            id="plane-restore-running",
            error=HostError,
            text="the control plane in {path} runs",
            remedy="stop it: ballast.kube.control_plane with state stopped, or restore into another state_dir",
        ),
        Message(
            id="plane-restore-data",
            error=UserError,
            text="{path} has data already",
            remedy="set replace to true, which moves that data aside and keeps it, or restore into another state_dir",
        ),
        Message(
            id="plane-restore-unfinished",
            error=HostError,
            text="a restore into {path} was begun and is not finished",
            remedy="run ballast.kube.control_plane_restore again with the same archive: it goes on where it was",
        ),
        Message(
            id="plane-restore-other",
            error=HostError,
            text="a restore into {path} that was begun earlier is finished now; it was of another archive",
            remedy="to have the data of this archive, run the same command again with replace true",
        ),
        Message(
            id="plane-restore-members",
            error=UserError,
            text="members: {value} members cannot start from data that was restored for {restored}",
            remedy="set members to {restored}; for another number run and stop it first, then restore with replace: true",
        ),
        Message(
            id="plane-restore-network",
            error=UserError,
            text="service_cidr: {value} is not that of the restored data",
            remedy="set service_cidr to {found_network}: addresses of Services are allocated from it",
        ),
        Message(
            id="plane-restore-differs",
            error=HostError,
            text="what etcd holds is not what the backup held",
            remedy="stop the control plane, restore again with replace true, and keep the log of etcd for a report",
        ),
        Message(
            id="plane-downgrade",
            error=UserError,
            text="kubernetes_version: {version} is older than {served}, which last served the data in {path}",
            remedy="use {served} or later: an older API server cannot read all that a newer one stored;"
            " to go back, restore a backup that was taken before the upgrade",
        ),
        Message(
            id="plane-version-jump",
            error=UserError,
            text="kubernetes_version: {version} is more than one minor version after {served}, which last served the data in {path}",
            remedy="go by {between} first: each version can read what the one before it stored, and no older one is promised",
        ),
    ],
)
