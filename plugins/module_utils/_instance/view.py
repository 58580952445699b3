# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file system of an instance: what it shows of its host, and where its own writes go.

    HOME/root            its `/`: mount points, and what is made beside them
    HOME/changes/NAME    what it has written, removed or changed in /NAME of the host: upper and work directory of an overlay

Programs and the kernel's own file systems are the host's. Every other directory of `/` is an overlay: reads go to the host's files,
writes stay with the instance. A bind mount rather than an overlay shows what only works, or is only current, as the host's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .._agent.installation import CONFIG_DIRECTORY
from .._core.host.host import Host
from .resolvers import BEHIND_STUBS, DEFAULT, find_resolv_conf

_OF_HOST = (
    *("bin", "boot", "dev", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr"),
)  # sockets of the host are in /run
# Units that the host's systemd reads; this collection's own files, which programs of the host share with those of nodes.
_SHARED = ("/etc/systemd", CONFIG_DIRECTORY, "/var/cache/ballast", "/var/lib/ballast")
KUBELET_ROOT = "/var/lib/kubelet"
CONTAINERD_STATE = "/run/containerd"
# What programs of an instance have at these paths is its own.
MOUNT_POINTS = (KUBELET_ROOT, CONTAINERD_STATE, "/run/netns", "/var/lib/cni", "/var/log/containers")
KEPT = (*(f"/{name}" for name in _OF_HOST), *_SHARED)  # shows the host's own files
_DISKS = ("btrfs", "ext2", "ext3", "ext4", "f2fs", "xfs", "zfs")
_BELOW_OVERLAYS = (*_DISKS, "overlay", "tmpfs")
# Mounts of other programs that nobody else can use, or that a look would make. Those of the first row are not even looked at.
_UNTOUCHED = ("autofs", "fuse", "nsfs")
_OF_RUNTIMES = "overlay"
_MADE = "X-mount.mkdir"  # the directory to mount on: also where a pod has removed it
_SECONDS = 30
_NAME = re.compile(r"[-A-Za-z0-9._]+", re.ASCII)
_PATH = re.compile(r"(/[-A-Za-z0-9._]+)+", re.ASCII)  # needs no quoting in options of an overlay


def is_of_host(path: str) -> bool:
    """Whether an instance shows the host's own files there."""
    return any(f"{path}/".startswith(f"{kept}/") for kept in KEPT)


class Row(NamedTuple):
    """A line of fstab(5)."""

    source: str
    target: str
    kind: str
    options: str

    def as_line(self) -> str:
        words = (word.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011") for word in self)
        return f"{' '.join(words)} 0 0\n"


def root_of(home: str) -> str:
    return f"{home}/root"


def bind(source: str, target: str) -> Row:
    return Row(source, target, "none", f"bind,{_MADE}")


def tmpfs(target: str) -> Row:
    return Row("ballast", target, "tmpfs", f"mode=0755,{_MADE}")


def prepare(host: Host, home: str) -> list[Row]:
    """Make the directories of an instance's file system; return the mounts that show the host's files in it."""
    root = root_of(home)
    host.make_directory(root, mode=0o755)
    # Other users of the host may not enter: a copy of /tmp is in it.
    host.make_directory(f"{home}/changes", mode=0o700)
    kinds = _mounts(host)
    overlaid = []
    rows = [Row(root, root, "none", "bind")]
    for name in sorted(host.listdir("/")):
        kind = kinds.get(f"/{name}", "")
        stat = None if _is_untouched(kind) or not _NAME.fullmatch(name) else host.stat(f"/{name}")
        if stat is not None and stat.kind == "symlink":
            host.symlink(f"{root}/{name}", host.readlink(f"/{name}") or "")
        elif stat is not None and stat.kind == "directory":
            host.make_directory(f"{root}/{name}")
            if name in _OF_HOST or kind not in ("", *_BELOW_OVERLAYS):
                rows.append(Row(f"/{name}", f"{root}/{name}", "none", "rbind"))
            else:
                overlaid.append(name)
                rows.append(_overlay(host, home, f"/{name}"))
    if "etc" in overlaid and DEFAULT not in kinds:  # a link would lead that mount to a directory of the host
        _link_resolvers(host, f"{_place_of(home, '/etc')}/upper/{DEFAULT.rpartition('/')[2]}")
    return [*rows, *_inner(host, home, kinds, overlaid)]


def _link_resolvers(host: Host, path: str) -> None:
    """containerd pulls images inside, where no stub on the host's loopback answers. A file that the instance has of its own stays."""
    if host.readlink(path) in BEHIND_STUBS:
        host.remove(path)
    real = find_resolv_conf(host)
    if real and host.stat(path) is None:
        host.symlink(path, real)


def follow(host: Host, paths: Sequence[str]) -> list[str]:
    """Where links of the host lead on the way to each of the paths. An instance has the same links, but to mount in its directory they
    are of no use: they would lead out of it."""
    if not paths:
        return []
    return host.run(["realpath", "--canonicalize-missing", "--", *paths], timeout=_SECONDS).stdout.splitlines()


def _inner(host: Host, home: str, kinds: Mapping[str, str], overlaid: Sequence[str]) -> list[Row]:
    """Mounts below overlaid directories, which an overlay does not show; parents come first."""
    below = [target for target in kinds if target.split("/")[1] in overlaid and target.count("/") > 1]
    left_out: list[str] = []  # with all that is below: there is no place to mount it on
    rows = []
    shared = follow(host, [path for path in _SHARED if host.stat(path)])
    for target in sorted({*below, *shared}):
        is_shared = any(target == path or target.startswith(f"{path}/") for path in shared)
        if f"{target}/".startswith((f"{home}/", *(f"{path}/" for path in left_out))):
            continue
        kind = kinds.get(target, "")
        stat = None if _is_untouched(kind) else host.stat(target)
        if stat is None or (kind == _OF_RUNTIMES and stat.kind != "file" and not is_shared):
            left_out.append(target)
        elif not is_shared and stat.kind == "directory" and kind in _DISKS:
            row = _overlay(host, home, target)
            rows.append(row._replace(options=f"{row.options},{_MADE}"))
        elif stat.kind == "directory":
            rows.append(bind(target, f"{root_of(home)}{target}"))
        else:
            rows.append(Row(target, f"{root_of(home)}{target}", "none", "bind"))
    return rows


def _is_untouched(kind: str) -> bool:
    return kind.partition(".")[0] in _UNTOUCHED or kind == "fuseblk"


def _mounts(host: Host) -> dict[str, str]:
    """By mount point the type of what is mounted there last, proc_pid_mountinfo(5)."""
    kinds = {}
    for line in (host.read("/proc/self/mountinfo") or b"").decode(errors="replace").splitlines():
        before, _dash, after = line.partition(" - ")
        target = before.split(" ")[4]
        if _PATH.fullmatch(target):
            kinds[target] = after.split(" ")[0]
    return kinds


def _place_of(home: str, target: str) -> str:
    return f"{home}/changes/{target[1:].replace('/', '%')}"


def _overlay(host: Host, home: str, target: str) -> Row:
    """The upper directory shows its own mode and owner, so it has those of the host's."""
    place = _place_of(home, target)
    upper, work = f"{place}/upper", f"{place}/work"
    stat = host.stat(target)
    if host.stat(upper) is None:
        host.make_directory(upper, mode=stat.mode if stat else 0o755)
        if stat and (stat.uid, stat.gid) != (0, 0):
            host.run(["chown", f"{stat.uid}:{stat.gid}", upper], timeout=30)
    host.make_directory(work)
    options = f"lowerdir={target},upperdir={upper},workdir={work}"
    return Row("ballast", f"{root_of(home)}{target}", "overlay", options)
