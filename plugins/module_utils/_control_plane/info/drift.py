# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a control plane differs from the request of the last run: served resources, processes, flags, certificates, files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Optional

from ..._core.engine.context import Context
from ..._core.engine.journal import Journal, journal_path
from ..._core.engine.kinds import Kind, digest, fields
from ..._core.engine.plan import ABSENT, Recorded, Value
from ..._core.host.host import Host
from ..._core.service.services import service_pid
from ..pki.encryption import KIND as ENCRYPTION_KIND
from ..profiles.profiles import FULL, Composition
from ..record import LOAD_BALANCER, Member, Record
from .processes import parse_flags, read_argv

_WITH_FAULTS = ("certificate", "key-pair", "kubeconfig", ENCRYPTION_KIND)  # kinds whose value says what is wrong
_ABOUT = {"certificate": "certificate", "key-pair": "certificate", "service": "process"}  # by kind; others are files
NOTHING = "(nothing)"


@dataclass(frozen=True)
class Drift:
    about: str  # "resource", "controller", "process", "program", "flag", "certificate", "file"
    subject: str
    wanted: str
    found: str


def compare_resources(whole: Composition, native: Optional[frozenset[str]]) -> list[Drift]:
    """Drift of the served native resources. Empty while they are unknown (`native` is None)."""
    if native is None:
        return []
    if whole.everything_served:  # by the stock API server, except for removed resources
        missing, further = set(whole.resources) - native, native.intersection(whole.removed)
    else:
        missing, further = set(whole.resources) - native, native.difference(whole.resources)
    return [
        *(Drift("resource", name, "served", "not served") for name in sorted(missing)),
        *(Drift("resource", name, "not served", "served") for name in sorted(further)),
    ]


def compare_controllers(record: Record, whole: Composition, running: Optional[tuple[str, ...]]) -> list[Drift]:
    """Drift of the running controllers. Empty while nothing answers (`running` is None). In profile full, only removed
    controllers that still run: some default controllers exit without a cloud or a network to allocate."""
    if running is None:
        return []
    expected = whole.controllers
    missing = [] if record.choice.profile == FULL else sorted(set(expected).difference(running))
    return [
        *(Drift("controller", name, "runs", "does not run") for name in missing),
        *(Drift("controller", name, "does not run", "runs") for name in sorted(set(running).difference(expected))),
    ]


def compare_processes(record: Record, host: Host) -> list[Drift]:
    """Drift of the processes. Empty when none runs, as the control plane is then stopped."""
    pids = {member: service_pid(host, member.service) for member in record.members}
    if not any(pids.values()):
        return []
    return [each for member, pid in pids.items() for each in _compare_process(record, host, member, pid)]


def _compare_process(record: Record, host: Host, member: Member, pid: Optional[int]) -> Iterator[Drift]:
    argv = () if pid is None else read_argv(host, member)
    if not argv:
        yield Drift("process", member.name, "runs", "does not run")
        return
    program = record.program(member)
    if argv[0] != program:
        yield Drift("program", member.name, program, argv[0])
    elif (host.readlink(f"/proc/{pid}/exe") or "").endswith(" (deleted)"):
        yield Drift("program", member.name, program, "another file than when it was started")
    if member.component == LOAD_BALANCER:
        return  # its configuration file says what it does
    expected, actual = parse_flags(("", *(f"--{flag.name}={flag.value}" for flag in member.flags))), parse_flags(argv)
    for name in sorted({*expected, *actual}):
        if expected.get(name) != actual.get(name):
            shown = [",".join(values.get(name, (NOTHING,))) for values in (expected, actual)]
            yield Drift("flag", f"{member.name} --{name}", *shown)


def compare_files(record: Record, host: Host, kinds: Mapping[str, Kind]) -> list[Drift]:
    """Drift of certificates, keys, kubeconfigs and service definitions, read as the module reads them."""
    recorded = Journal(journal_path(record.state_dir), host=host, kinds=kinds).recorded
    ctx = Context(None, host)
    values = {old: kinds[old.kind].read(ctx, old.target) for old in recorded if _is_read(old)}
    return [
        *(each for old, value in values.items() for each in _compare_value(old, value)),
        *_compare_configs(record, host, {old.target: value for old, value in values.items() if _is_whole(old, value)}),
    ]


def _is_read(old: Recorded) -> bool:
    return old.kind in (*_WITH_FAULTS, "service")


def _is_whole(old: Recorded, value: Value) -> bool:
    return old.kind == "service" and value != ABSENT and not _is_incomplete(old, value)


def _compare_value(old: Recorded, value: Value) -> Iterator[Drift]:
    about = _ABOUT.get(old.kind, "file")
    subject = old.target.partition(" ")[0]
    if value == ABSENT:
        yield Drift(about, subject, "there", "gone")
    elif _is_incomplete(old, value):
        yield Drift("file", subject, "as it was written", "edited, or gone in part")
    elif fields(value).get("fault"):
        yield Drift(about, subject, "sound", str(fields(value)["fault"]))


def _is_incomplete(old: Recorded, value: Value) -> bool:
    """A service whose files were edited, or are partly missing."""
    return old.kind == "service" and value != ABSENT and fields(value)["argv"] == ["/incomplete"]


def _compare_configs(record: Record, host: Host, services: Mapping[str, Value]) -> Iterator[Drift]:
    """Drift of files in STATE_DIR/config that a command line names: the definition of a service holds their digest."""
    for member in record.members:
        value = services.get(member.service)
        if value is None:
            continue
        paths = list(config_paths(record, (flag.value for flag in member.flags)))
        now = digest(*(host.read(path) or b"" for path in paths))
        if now != fields(value).get("config_digest"):
            yield Drift("file", ", ".join(paths), f"as {member.name} was started with", "changed since")


def config_paths(record: Record, values: Iterable[str]) -> Iterator[str]:
    """Those values that are paths in STATE_DIR/config, without the file of encryption keys."""
    directory = os.path.join(record.state_dir, "config") + "/"
    return (value for value in values if value.startswith(directory) and not value.endswith("/encryption.json"))


def read_state(record: Record, host: Host) -> str:
    """`running`; `stopped` when no process runs; else `degraded`."""
    running = [service_pid(host, member.service) is not None for member in record.members]
    return "running" if all(running) else "degraded" if any(running) else "stopped"
