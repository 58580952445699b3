# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What kubelet_instance_info returns: a host's instances, and its answers to the production readiness questionnaire."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from .._core.engine.context import Context
from .._core.engine.kinds import fields
from .._core.engine.plan import ABSENT, Recorded, Value
from .._core.host.host import Host
from .._core.service.service import Service, is_incomplete
from .._core.text.errors import BallastError
from .engine import ENGINE
from .model import Instance, InstancesRequest, desired_from_params
from .process_readings import read_proxy_health
from .readiness_answers import Facts, Measured, reading_of
from .record import read_options
from .spec import SPEC
from .usage import read_host, read_memory, read_pids

INFO_SPEC: dict[str, Any] = {**SPEC, "readiness": {"type": "bool", "default": False}}
# Kinds that a running instance always needs, and that a restart of the host or another program removes. Files are only
# checked for presence.
_LIVE = ("cgroup", "netns", "veth", "route", "mountns", "private-directory", "run-directory", "service", "supervisor")
_STORED = ("directory", "file")


def read_params(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """What `kubelet_instance_info` returns."""
    ctx = Context(desired_from_params(params, host), host)
    report = {**ENGINE.report(ctx), "options": read_options(host, ctx.desired.state_dir)}
    return {**report, "readiness": reading_of(_read_facts(ctx, report)).as_json()} if params["readiness"] else report


def _read_facts(ctx: Context[InstancesRequest], report: Mapping[str, Any]) -> Facts:
    host, desired, journal = ctx.host, ctx.desired, ENGINE.journal(ctx)
    values = {record.key: _read_value(record, ctx) for record in journal.recorded if record.kind in (*_LIVE, *_STORED)}
    rows = {row["name"]: row for row in report["instances"]}
    return Facts(
        state_dir=desired.state_dir,
        recorded=journal.recorded,
        run_is_open=journal.open,
        measured=tuple(
            _measure(desired, instance, rows[instance.name], host)
            for instance in desired.instances
            if instance.name in rows and not instance.stopped
        ),
        broken=tuple(_find_broken(journal.recorded, values)),
        lacking=tuple(_find_lacking(values, host)),
        host=read_host(host, desired.state_dir),
    )


def _read_value(record: Recorded, ctx: Context[InstancesRequest]) -> Value:
    if record.kind in _STORED:
        return ABSENT if ctx.host.stat(record.target) is None else {}
    try:
        return ENGINE.read_value(record.kind, record.target, ctx)
    except BallastError as error:
        return {"unread": error.in_one_line}


def _measure(desired: InstancesRequest, instance: Instance, row: Mapping[str, Any], host: Host) -> Measured:
    cgroup = desired.cgroup(instance)
    return Measured(
        row=row,
        proxy=read_proxy_health(instance, host),
        pods=len(host.listdir(os.path.join(row["home"], "kubelet", "pods"))),
        memory=read_memory(host, cgroup),
        pids=read_pids(host, cgroup),
    )


def _find_broken(recorded: tuple[Recorded, ...], values: Mapping[tuple[str, str], Value]) -> Iterator[str]:
    for record in recorded:
        if record.key not in values:
            continue
        value = values[record.key]
        if value == ABSENT:
            yield f"{record.title} is missing"
        elif "unread" in fields(value):
            yield f"{record.title} cannot be read: {fields(value)['unread']}"
        elif not _is_whole(record.kind, fields(value)):
            yield f"{record.title} is incomplete"


def _is_whole(kind: str, value: Mapping[str, Value]) -> bool:
    """Whether a resource is complete, by what its kind reads. A service that is down has a failure mode of its own."""
    if kind == "service":
        return not is_incomplete(value)
    if kind == "cgroup":
        return "memory_bytes" in value
    if kind == "netns":
        return value["lo"] is True
    if kind == "veth":
        return bool(value["bridge"] and value["address"] and value["gateway"])
    if kind == "route":
        return bool(value["via"])
    if kind == "mountns":
        return isinstance(value["mounts"], list)
    if kind == "private-directory":
        return not value
    return kind != "supervisor" or value["running"] is True


def _find_lacking(values: Mapping[tuple[str, str], Value], host: Host) -> Iterator[str]:
    """Missing programs of services, and missing bridges of links."""
    services = [value for value in _of_kind(values, "service") if not is_incomplete(value)]
    bridges = {str(fields(value).get("bridge") or "") for value in _of_kind(values, "veth")} - {""}
    paths = {Service.from_value(value).argv[0] for value in services}
    paths |= {f"/sys/class/net/{name}" for name in bridges}
    yield from sorted(path for path in paths if host.stat(path) is None)


def _of_kind(values: Mapping[tuple[str, str], Value], kind: str) -> Iterator[Value]:
    known = (value for key, value in values.items() if key[0] == kind and value != ABSENT)
    return (value for value in known if "unread" not in fields(value))
