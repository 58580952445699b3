# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What control_plane_info returns: all that can be read of a control plane. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Optional

from ..._core.engine.context import Context
from ..._core.engine.journal import Journal, journal_path
from ..._core.engine.kinds import fields
from ..._core.engine.plan import ABSENT
from ..._core.host.host import Host
from ..._core.service.services import service_process
from ..._core.text.errors import BallastError
from ..aggregation import deployment as aggregation
from ..engine import ENGINE
from ..named.engine import read_named, state_dir_of
from ..operations.etcd import count_keys, read_etcd_status
from ..pki.pki import CertificateKind, read_not_after
from ..profiles.profiles import compose
from ..record import Member, Record, record_path, require_record
from ..report import report
from . import drift
from .api_reader import native_resources, read_foreign_names, read_group_versions
from .controllers import read_running_controllers
from .processes import has_flag, read_argv, read_program_version
from .readiness import read_readiness, report_absent


def read_params(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """What `control_plane_info` returns of the control plane in a state directory, or in the directory of a named one."""
    plane_dir = params.get("plane_dir")
    plane = {"plane": read_named(host, plane_dir)} if plane_dir else {}
    state_dir = str(params.get("state_dir") or state_dir_of(str(plane_dir))).rstrip("/")
    return {**_read_in(host, state_dir, params), **plane}


def _read_in(host: Host, state_dir: str, params: Mapping[str, Any]) -> dict[str, Any]:
    if params.get("readiness") and host.stat(record_path(state_dir)) is None:
        return {"readiness": report_absent(state_dir).as_json()}
    record = require_record(host, state_dir)
    report = read_control_plane(host, record)
    if not params.get("readiness"):
        return report
    return {**report, "readiness": read_readiness(host, record, report, ENGINE.kinds).as_json()}


def read_control_plane(host: Host, record: Record) -> dict[str, Any]:
    """Everything that can be read. What is unreadable while the control plane does not answer is null, and no drift."""
    plain = report(host, record)
    group_versions = read_group_versions(host, record)
    foreign = None if group_versions is None else read_foreign_names(host, record)
    ours = None if group_versions is None or foreign is None else native_resources(group_versions, foreign)
    controllers = read_running_controllers(host, record)
    composition = compose(record.choice)
    different = [
        *drift.compare_resources(composition, ours),
        *drift.compare_controllers(record, composition, controllers),
        *drift.compare_processes(record, host),
        *drift.compare_files(record, host, ENGINE.kinds),
    ]
    return {
        **plain,
        "state": drift.read_state(record, host),
        "profile": record.choice.profile,
        "deployment_mode": record.choice.deployment_mode,
        "bin_dir": record.bin_dir,
        "components": [_read_component(host, record.member(name), old) for name, old in _by_name(plain)],
        "left_out": [{"name": name, "why": why} for name, why in sorted(composition.left_out.items())],
        "served": None
        if group_versions is None
        else [{**asdict(each), "resources": list(each.resources)} for each in group_versions],
        "controllers": None if controllers is None else list(controllers),
        "etcd": _read_etcd(host, record),
        "aggregation": aggregation.read_agent(record.state_dir, record.name, host),
        "certificates": _read_certificates(host, record),
        "drift": [asdict(each) for each in different],
    }


def _by_name(plain: Mapping[str, object]) -> list[tuple[str, dict[str, object]]]:
    components: Any = plain["components"]
    return [(str(each["name"]), each) for each in components]


def _read_component(host: Host, member: Member, plain: Mapping[str, object]) -> dict[str, object]:
    """The component with its flags, each with its requested value, the reason, and whether the process has it."""
    running = read_argv(host, member)
    flags = [
        {"name": flag.name, "value": flag.value, "why": flag.why, "in_effect": has_flag(running, flag)}
        for flag in member.flags
    ]
    version = read_program_version(host, service_process(host, member.service))
    return {**plain, "version": version, "log": member.log, "flags": flags}


def _read_etcd(host: Host, record: Record) -> dict[str, object]:
    """`fault` is set when etcd does not answer, has no leader, or has an alarm."""
    endpoints = list(record.etcd.endpoints)
    try:
        status = read_etcd_status(host, record)
        keys: Optional[int] = count_keys(host, record, revision=status.revision)
    except BallastError as error:
        return {"endpoints": endpoints, "healthy": False, "fault": error.in_one_line}
    fault = "" if status.leader else "it has no leader"
    if status.alarms:
        fault = f"alarm: {', '.join(status.alarms)}"
    details = {**asdict(status), "peer_urls": list(status.peer_urls), "alarms": list(status.alarms)}
    return {"endpoints": endpoints, "healthy": not fault, "fault": fault, **details, "keys": keys}


def _read_certificates(host: Host, record: Record) -> list[dict[str, object]]:
    recorded = Journal(journal_path(record.state_dir), host=host, kinds=ENGINE.kinds).recorded
    certificates: list[dict[str, object]] = []
    for old in recorded:
        value = CertificateKind().read(Context(None, host), old.target) if old.kind == "certificate" else ABSENT
        if value == ABSENT:
            continue
        path = old.target.partition(" ")[0]
        details = {name: fields(value).get(name) for name in ("subject", "authority", "fault")}
        certificates.append({"name": path, "not_after": read_not_after(host, path), **details})
    return certificates
