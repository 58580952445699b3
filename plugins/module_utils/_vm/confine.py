# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program that is not trusted, started as a user that owns nothing else, in namespaces that hold only what it needs.

    pid = host.spawn(confine(["qemu-system-x86_64", ...], Confinement(program="/usr/bin/qemu-system-x86_64", uid=...)), log=...)

Its mount namespace has an empty root with the listed files at their own paths, its network namespace has no link: a tap comes as
an open descriptor. Its processes are in a PID namespace and end together. It has no capability, its bounding set is empty, and
`no_new_privs` is set before it begins.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from .._core.host.processes import OWN_UIDS
from . import confined_program

FIRST_FD = confined_program.FIRST_FD


@dataclass(frozen=True)
class Confinement:
    program: str  # its file; with `reads`, all that it can execute
    uid: int  # and its only group
    reads: tuple[str, ...] = ()  # files and directories, read-only; links are followed
    writes: tuple[str, ...] = ()  # files of `uid` alone: no link, no second name
    devices: tuple[str, ...] = ()  # below /dev: it gets nodes of its own for them
    scratch: Mapping[str, int] = field(
        default_factory=dict
    )  # empty file systems in memory, each with its greatest size in bytes
    # Handed in as descriptors from FIRST_FD on, in this order, those that are named:
    tap: str = ""  # of the host; it has to exist
    tap_headers: bool = False  # each packet with a virtio_net_hdr (linux/virtio_net.h)
    listen: str = ""  # a unix socket, made at this path, to which only root can connect
    fixed_addresses: bool = (
        False  # personality(2) ADDR_NO_RANDOMIZE, which User Mode Linux would set by /proc, and has none
    )


def own_uid(identity: str) -> int:
    """The user of one program's instance. Its number is in a range that nobody hands out, so it needs no entry in /etc/passwd,
    owns nothing but what it is given, and two instances are strangers to each other.
    """
    return OWN_UIDS[int.from_bytes(hashlib.sha256(identity.encode()).digest()[:4], "big") % len(OWN_UIDS)]


def confine(argv: Sequence[str], confinement: Confinement, *, wait: bool = False) -> list[str]:
    """The command that becomes `argv`. Without `wait` it ends once the program has begun, which leads a session of its own; with
    it, it ends as the program does, and with its status."""
    order = json.dumps({**asdict(confinement), "argv": list(argv), "wait": wait}, sort_keys=True)
    return [sys.executable, "-IS", "-c", inspect.getsource(confined_program), order]
