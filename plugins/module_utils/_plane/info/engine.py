# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine of control_plane_info: all that can be read of a control plane, without a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Optional

from ..._core.engine import Finding, ResourceEngine
from ..._core.errors import BallastError
from ..._core.events import Progress
from ..._core.host import Host
from ..._core.kinds import fields
from ..._core.ledger import Ledger, ledger_path
from ..._core.plan import ABSENT, Resource
from ..._core.service import service_pid
from ..aggregation import deployment as aggregation
from ..engine import PlaneEngine
from ..operations.etcd import count_keys, etcd_status
from ..pki import CertificateKind, not_after
from ..profiles import compose
from ..record import Member, Record, needed_record, record_path
from ..report import report
from . import drift
from .asking import foreign_names, native, served
from .controllers import running_controllers
from .looking import absent_reading, read_readiness
from .processes import options, program_version, running_argv


@dataclass(frozen=True)
class Reading:
    """A control plane that is read, known by its state directory alone."""

    state_dir: str
    readiness: bool = False

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Reading:
        return cls(state_dir=str(params["state_dir"]).rstrip("/"), readiness=bool(params.get("readiness")))


class PlaneReader(ResourceEngine[Reading]):
    name = "plane"
    kinds = PlaneEngine.kinds

    def resources(self, desired: Reading) -> list[Resource]:
        return []

    def verify(self, desired: Reading, host: Host, progress: Progress) -> list[Finding]:
        return []

    def report(self, desired: Reading, host: Host) -> dict[str, object]:
        if desired.readiness and host.stat(record_path(desired.state_dir)) is None:
            return {"readiness": absent_reading(desired.state_dir).as_json()}
        record = needed_record(host, desired.state_dir)
        told = whole(host, record)
        if not desired.readiness:
            return told
        return {**told, "readiness": read_readiness(host, record, told, self.kinds).as_json()}


def whole(host: Host, record: Record) -> dict[str, object]:
    """Everything. What cannot be asked while the control plane does not answer is null, and is no drift."""
    plain = report(host, record)
    found = served(host, record)
    foreign = None if found is None else foreign_names(host, record)
    ours = None if found is None or foreign is None else native(found, foreign)
    controllers = running_controllers(host, record)
    composition = compose(record.choice)
    different = [
        *drift.of_resources(composition, ours),
        *drift.of_controllers(record, composition, controllers),
        *drift.of_processes(record, host),
        *drift.of_files(record, host, PlaneReader.kinds),
    ]
    return {
        **plain,
        "state": drift.state_of(record, host),
        "profile": record.choice.profile,
        "shape": record.choice.shape,
        "bin_dir": record.bin_dir,
        "components": [_component(host, record.member(name), old) for name, old in _by_name(plain)],
        "left_out": [{"name": name, "why": why} for name, why in sorted(composition.left_out.items())],
        "served": None if found is None else [{**asdict(each), "resources": list(each.resources)} for each in found],
        "controllers": None if controllers is None else list(controllers),
        "etcd": _etcd(host, record),
        "aggregation": aggregation.reported(record.state_dir, record.name, host),
        "certificates": _certificates(host, record),
        "drift": [asdict(each) for each in different],
    }


def _by_name(plain: Mapping[str, object]) -> list[tuple[str, dict[str, object]]]:
    components: Any = plain["components"]
    return [(str(each["name"]), each) for each in components]


def _component(host: Host, member: Member, plain: Mapping[str, object]) -> dict[str, object]:
    """With its flags: each that was asked for, with the reason, and what of it the process has."""
    running = options(running_argv(host, member))
    flags = [
        {"name": flag.name, "value": flag.value, "why": flag.why, "in_effect": flag.value in running.get(flag.name, ())}
        for flag in member.flags
    ]
    version = program_version(host, service_pid(host, member.service))
    return {**plain, "version": version, "log": member.log, "flags": flags}


def _etcd(host: Host, record: Record) -> dict[str, object]:
    """With `fault` when it does not answer, is without a leader, or has an alarm; empty when it is well."""
    endpoints = list(record.etcd.endpoints)
    try:
        found = etcd_status(host, record)
        keys: Optional[int] = count_keys(host, record, revision=found.revision)
    except BallastError as error:
        return {"endpoints": endpoints, "healthy": False, "fault": error.in_one_line}
    fault = "" if found.leader else "it has no leader"
    if found.alarms:
        fault = f"alarm: {', '.join(found.alarms)}"
    told = {**asdict(found), "peer_urls": list(found.peer_urls), "alarms": list(found.alarms)}
    return {"endpoints": endpoints, "healthy": not fault, "fault": fault, **told, "keys": keys}


def _certificates(host: Host, record: Record) -> list[dict[str, object]]:
    recorded = Ledger(ledger_path(record.state_dir), host=host, kinds=PlaneReader.kinds).recorded
    found: list[dict[str, object]] = []
    for old in recorded:
        value = CertificateKind().read(host, old.target) if old.kind == "certificate" else ABSENT
        if value == ABSENT:
            continue
        path = old.target.partition(" ")[0]
        told = {name: fields(value).get(name) for name in ("subject", "authority", "fault")}
        found.append({"name": path, "not_after": not_after(host, path), **told})
    return found


READER = PlaneReader()
