# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file system of an instance: what it shows of its host, and where the instance's own writes go.

    HOME/root            its `/`: mount points, and what is made beside them
    HOME/changes/NAME    what it wrote, removed or changed in /NAME of the host: upper and work directory of an overlay

Programs and kernel file systems are the host's. Every other directory of `/` is an overlay: reads get the host's files, writes
stay with the instance. Where an overlay would not work or would be stale, a bind mount shows the host's own directory.
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
)  # /run has sockets of the host
# Units that the host's systemd reads, and this collection's own files, which programs of host and nodes share.
_SHARED = ("/etc/systemd", CONFIG_DIRECTORY, "/var/cache/ballast", "/var/lib/ballast")
KUBELET_ROOT = "/var/lib/kubelet"
CONTAINERD_STATE = "/run/containerd"
# Here the programs of an instance see files of the instance.
MOUNT_POINTS = (KUBELET_ROOT, CONTAINERD_STATE, "/run/netns", "/var/lib/cni", "/var/log/containers")
KEPT = (*(f"/{name}" for name in _OF_HOST), *_SHARED)  # paths that show the host's own files
_DISKS = ("btrfs", "ext2", "ext3", "ext4", "f2fs", "xfs", "zfs")
_BELOW_OVERLAYS = (*_DISKS, "overlay", "tmpfs")
# Mounts of other programs that are useless to others, or that even a look would trigger. The first group is not even looked at.
_UNTOUCHED = ("autofs", "fuse", "nsfs")
_OF_RUNTIMES = "overlay"
_MADE = "X-mount.mkdir"  # makes the mount point again if a pod has removed it
_SECONDS = 30
_NAME = re.compile(r"[-A-Za-z0-9._]+", re.ASCII)
_PATH = re.compile(r"(/[-A-Za-z0-9._]+)+", re.ASCII)  # needs no quoting in an overlay's options


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
        """The line, with white space and backslashes as fstab(5) writes them."""
        words = (word.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011") for word in self)
        return f"{' '.join(words)} 0 0\n"


def root_of(home: str) -> str:
    """The directory on the host that becomes the instance's root."""
    return f"{home}/root"


def bind(source: str, target: str) -> Row:
    """A bind mount. A missing mount point is made."""
    return Row(source, target, "none", f"bind,{_MADE}")


def tmpfs(target: str) -> Row:
    """An empty tmpfs. A missing mount point is made."""
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
    # If DEFAULT is a mount of its own, a symbolic link there would make it reach a directory of the host.
    if "etc" in overlaid and DEFAULT not in kinds:
        _link_resolvers(host, f"{_place_of(home, '/etc')}/upper/{DEFAULT.rpartition('/')[2]}")
    return [*rows, *_inner(host, home, kinds, overlaid)]


def _link_resolvers(host: Host, path: str) -> None:
    """containerd pulls images inside, where no stub resolver on the host's loopback answers. Keeps a file that the instance wrote."""
    if host.readlink(path) in BEHIND_STUBS:
        host.remove(path)
    real = find_resolv_conf(host)
    if real and host.stat(path) is None:
        host.symlink(path, real)


def follow(host: Host, paths: Sequence[str]) -> list[str]:
    """The paths with the host's symbolic links resolved. An instance has the same links, but a mount into its directory must not
    follow them, as they would lead out of it."""
    if not paths:
        return []
    return host.run(["realpath", "--canonicalize-missing", "--", *paths], timeout=_SECONDS).stdout.splitlines()


def _inner(host: Host, home: str, kinds: Mapping[str, str], overlaid: Sequence[str]) -> list[Row]:
    """Mounts below overlaid directories, which an overlay does not show; parents come first."""
    below = [target for target in kinds if target.split("/")[1] in overlaid and target.count("/") > 1]
    left_out: list[str] = []  # together with everything below: these have no mount point
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
    """The filesystem type last mounted at each mount point, see proc_pid_mountinfo(5)."""
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
    """The upper directory gets the mode and owner of the host's, as an overlay shows those of its upper directory."""
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
