# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Becomes another program, as another user, in namespaces that hold only the files it was given. Root runs it as
`python -IS -c THIS ORDER`; `confine.py` makes the order and documents its fields.

Everything that needs root is done here, before the program begins: the program never has a privilege that it could keep. Files are
opened first, and bound by their descriptors, so that nobody can exchange one between the check and the mount.

Sources: mount_namespaces(7), pid_namespaces(7), pivot_root(2), prctl(2), linux/if_tun.h.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import struct
import sys
from typing import Any, Optional

FIRST_FD = 3  # the first descriptor passed in, after the standard ones
_NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000  # mount, uts, ipc, pid, net
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_DETACH = 2
_SET_PDEATHSIG, _CAPBSET_DROP, _SET_NO_NEW_PRIVS = 1, 24, 38
_NO_RANDOMIZE = 0x0040000
_TUNSETIFF, _TUNSETOWNER, _IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x400454CA, 0x400454CC, 0x0002, 0x1000, 0x4000
_ROOT = "/run"  # any directory: it is only covered in this mount namespace

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> int:
    """Call a function of libc. OSError if it fails."""
    if (answer := getattr(_libc, name)(*arguments)) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return int(answer)


def _mount(source: str, target: str, kind: Optional[str], flags: int, data: str = "") -> None:
    words = [word.encode() if word else None for word in (source, target, kind, data)]
    _call("mount", words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])


def _tap(name: str, *, headers: bool) -> int:
    """A descriptor of an existing tap device: the kernel would create a missing one."""
    if not os.path.exists(f"/sys/class/net/{name}/tun_flags"):
        raise FileNotFoundError(f"no tap device {name}")
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    flags = _IFF_TAP | _IFF_NO_PI | (_IFF_VNET_HDR if headers else 0)
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(tap, _TUNSETOWNER, 0)  # otherwise everybody could use it once this program has ended
    os.set_blocking(tap, False)
    return tap


def _listener(path: str) -> int:
    """A unix socket to which only root can connect."""
    if os.path.lexists(path):
        os.unlink(path)
    made = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    made.bind(path)
    os.umask(before)
    made.listen(1)
    return made.detach()


def _away(descriptor: int) -> int:
    """The same file under a higher number, away from the numbers that the program will see."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 64)
    os.close(descriptor)
    return moved


def _open(path: str, uid: int, *, writes: bool) -> int:
    """A descriptor of the file to bind. A file that the program may write must be owned by it and have no second name."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | (os.O_NOFOLLOW if writes else 0))
    about = os.fstat(descriptor)
    if writes and not (stat.S_ISREG(about.st_mode) and about.st_uid == uid and about.st_nlink == 1):
        raise PermissionError(f"{path} is no file of user {uid} alone")
    return descriptor


def _bind(opened: int, path: str, *, writes: bool) -> None:
    target = _ROOT + path
    if stat.S_ISDIR(os.fstat(opened).st_mode):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT, 0o644))
    _mount(f"/proc/self/fd/{opened}", target, None, _BIND)
    # Keep the flags that the mount already has; in a container they may be locked.
    kept = os.statvfs(target).f_flag & (_RDONLY | _NOSUID | _NODEV | _NOEXEC)
    _mount("none", target, None, _REMOUNT | _BIND | kept | _NOSUID | _NODEV | (0 if writes else _RDONLY))


def _make_devices(devices: list[str], uid: int) -> None:
    """Make separate nodes for existing devices, which the program may open whatever the mode of the host's nodes."""
    numbers = {path: os.stat(path).st_rdev for path in devices}
    os.makedirs(f"{_ROOT}/dev")
    _mount("ballast", f"{_ROOT}/dev", "tmpfs", _NOSUID | _NOEXEC, "mode=0755,size=64k")
    for path, number in numbers.items():
        os.mknod(_ROOT + path, stat.S_IFCHR | 0o600, number)
        os.chown(_ROOT + path, uid, uid)


def _enclose(order: dict[str, Any]) -> None:
    """Leave this process with a root file system of its own."""
    uid = order["uid"]
    _call("unshare", _NAMESPACES)
    _mount("none", "/", None, _REC | _PRIVATE)
    places = [*((path, False) for path in order["reads"]), *((path, True) for path in order["writes"])]
    opened = [(_open(path, uid, writes=writes), path, writes) for path, writes in places]
    _mount("ballast", _ROOT, "tmpfs", _NOSUID | _NODEV, "mode=0755,size=1m")
    _make_devices(order["devices"], uid)
    for number, path, writes in opened:
        _bind(number, path, writes=writes)
        os.close(number)
    for path, size in order["scratch"].items():
        os.makedirs(_ROOT + path, exist_ok=True)
        _mount("ballast", _ROOT + path, "tmpfs", _NOSUID | _NODEV, f"mode=0700,uid={uid},gid={uid},size={size}")
    os.chdir(_ROOT)
    _call("pivot_root", b".", b".")
    _call("umount2", b".", _DETACH)
    os.chdir("/")
    _mount("none", "/", None, _REMOUNT | _RDONLY | _NOSUID | _NODEV)


def _renounce(order: dict[str, Any]) -> None:
    """Become the user for good, without a privilege or a way to get one."""
    uid = order["uid"]
    for capability in range(64):
        _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)  # EINVAL beyond the last capability that the kernel knows
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _call("prctl", _SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # its memory is a guest's, and must not be dumped
    os.umask(0o077)


def _become(order: dict[str, Any], handed: list[int]) -> None:
    """Execute the program, with only the descriptors passed in."""
    for number, descriptor in enumerate(handed, start=FIRST_FD):
        os.dup2(descriptor, number, inheritable=True)
    if order["fixed_addresses"]:
        _call("personality", ctypes.c_ulong(_NO_RANDOMIZE))
    os.execve(order["program"], order["argv"], {"LC_ALL": "C"})


def _be_init(order: dict[str, Any], handed: list[int], trouble_writer: int) -> int:
    """The first process of the namespace; when it ends, all others end. It is not the program itself: the kernel would not let that end by
    its own signals (pid_namespaces(7)), as User Mode Linux does after a panic."""
    try:
        _renounce(order)
        if order["wait"]:
            _call("prctl", _SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        program = os.fork()
        if program == 0:
            if not order["wait"]:
                os.setsid()
            _become(order, handed)
    except (OSError, ValueError) as error:
        os.write(trouble_writer, f"{order['program']}: {error}".encode())
        return 127
    for descriptor in (trouble_writer, *handed):
        os.close(descriptor)
    while True:
        ended, status = os.wait()
        if ended == program:
            return _exit_status(status)


def _exit_status(status: int) -> int:
    """The exit status for a status of waitpid(2), as a shell reports it."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def main(order: dict[str, Any]) -> int:
    """The exit status: that of the program with `wait`, else 0 once it has started. OSError when it could not start."""
    handed = []
    if order["tap"]:
        handed.append(_away(_tap(order["tap"], headers=order["tap_headers"])))
    if order["listen"]:
        handed.append(_away(_listener(order["listen"])))
    trouble_reader, trouble_writer = (_away(descriptor) for descriptor in os.pipe())
    _enclose(order)
    child = os.fork()
    if child == 0:
        os._exit(_be_init(order, handed, trouble_writer))
    os.close(trouble_writer)
    trouble = os.read(trouble_reader, 4096)  # empty when the program has started, as the pipe then closes
    if trouble:
        os.waitpid(child, 0)
        raise OSError(trouble.decode(errors="replace"))
    return _exit_status(os.waitpid(child, 0)[1]) if order["wait"] else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main(json.loads(sys.argv[1])))
    except (OSError, ValueError) as error:
        raise SystemExit(f"ballast: cannot confine: {error}") from error
