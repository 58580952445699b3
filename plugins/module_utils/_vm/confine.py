# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts an untrusted program as a user of its own, in namespaces that hold only what it needs.

    pid = host.spawn(confine(["qemu-system-x86_64", ...], Confinement(program="/usr/bin/qemu-system-x86_64", uid=...)), log=...)

Its mount namespace has an empty root with only the listed files, at their own paths. Its network namespace has no link: a tap is passed
as an open descriptor. Its processes are in a PID namespace and end together. It has no capability, its bounding set is empty, and
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
    program: str  # its executable; with `reads`, all that it can execute
    uid: int  # also its only group
    reads: tuple[str, ...] = ()  # files and directories, read-only; links are followed
    writes: tuple[str, ...] = ()  # files that `uid` owns, without links and second names
    devices: tuple[str, ...] = ()  # below /dev: the program gets its own nodes for them
    scratch: Mapping[str, int] = field(
        default_factory=dict
    )  # empty in-memory file systems, each with its maximum size in bytes
    # Passed as descriptors from FIRST_FD on, in this order, if set:
    tap: str = ""  # name of a tap on the host, which must exist
    tap_headers: bool = False  # each packet with a virtio_net_hdr (linux/virtio_net.h)
    listen: str = ""  # path of a unix socket to make, to which only root can connect
    fixed_addresses: bool = (
        False  # personality(2) ADDR_NO_RANDOMIZE; User Mode Linux would set it through /proc, which it lacks here
    )


def own_uid(identity: str) -> int:
    """The user of one instance of a program. Its number is in a range that nothing else uses, so it needs no entry in /etc/passwd,
    owns only what it is given, and two instances have no access to each other.
    """
    return OWN_UIDS[int.from_bytes(hashlib.sha256(identity.encode()).digest()[:4], "big") % len(OWN_UIDS)]


def confine(argv: Sequence[str], confinement: Confinement, *, wait: bool = False) -> list[str]:
    """The command that becomes `argv`. Without `wait` it ends once the program, which leads its own session, has started; with `wait` it
    ends when the program does, with its status."""
    order = json.dumps({**asdict(confinement), "argv": list(argv), "wait": wait}, sort_keys=True)
    return [sys.executable, "-IS", "-c", inspect.getsource(confined_program), order]
