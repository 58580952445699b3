# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of this host that a machine's process may use: its program with libraries, kernel, images, its own disk, its link.
Nothing else, since root in a User Mode Linux guest can read the files of its process (`mount -t hostfs`)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from .._core.engine.plan import Value
from .._core.host.host import Host
from .._core.text.errors import Unavailable
from .confine import Confinement
from .engines import Engine

_SECONDS = 30
_LIBRARY = re.compile(r"(?:^|=> )(/\S+) \(0x", re.MULTILINE)  # ldd(1): `libc.so.6 => /lib/.../libc.so.6 (0x7f...)`
_SCRATCH_BYTES = 2**20  # for the sockets and the pid file of User Mode Linux
_MORE_SHM_BYTES = 16 * 2**20  # besides a guest's memory


def confinement_of(
    host: Host, engine: Engine, directory: str, machine: Mapping[str, Value], *, program: str
) -> Confinement:
    """`machine`: `{uid, tap, files, memory_mib}`; a machine without a tap is a probe, which has no disk of its own either."""
    executable = host.which(program) if "/" not in program else program
    if executable is None:
        raise Unavailable(program)
    uid, tap, files = int(str(machine["uid"])), str(machine["tap"]), machine["files"]
    given = [str(path) for path in files] if isinstance(files, list) else []
    present = [path for path in engine.data if host.stat(path) is not None]
    uml = engine.memory_in_shm
    shm = int(str(machine["memory_mib"])) * 2**20 + _MORE_SHM_BYTES
    return Confinement(
        program=executable,
        uid=uid,
        reads=tuple(dict.fromkeys([executable, *_libraries(host, executable), *present, *given])),
        writes=(os.path.join(directory, "disk"),) if tap else (),
        devices=engine.devices,
        scratch={os.path.join(directory, "uml"): _SCRATCH_BYTES, "/dev/shm": shm} if uml else {},
        tap=tap,
        tap_headers=not uml,
        listen=os.path.join(directory, "qmp.sock") if tap and not uml else "",
        fixed_addresses=uml,
    )


def _libraries(host: Host, program: str) -> list[str]:
    # ldd fails for a static program.
    return _LIBRARY.findall(host.run(["ldd", program], timeout=_SECONDS, check=False).stdout.replace("\t", ""))
