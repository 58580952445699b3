# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine of kubelet_instance_info: what there is of a host's instances, and what it answers to the production readiness
questionnaire."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .._core.engine import Finding, ResourceEngine
from .._core.errors import BallastError
from .._core.events import Progress
from .._core.host import Host
from .._core.kinds import fields
from .._core.ledger import Ledger, ledger_path
from .._core.plan import ABSENT, Recorded, Resource, Value
from .._core.service import Service, is_incomplete
from .answers import Look, Measured, reading
from .engine import ENGINE, InstanceEngine
from .model import Desired, Instance, desired_from_params
from .readings import read_proxy_health
from .record import read_options
from .spec import SPEC
from .usage import read_host, read_memory, read_pids

INFO_SPEC: dict[str, Any] = {**SPEC, "readiness": {"type": "bool", "default": False}}
# Kinds that an instance needs at every moment, and that a restart of the host or another program takes away. Files are
# looked for by their paths.
_LIVE = ("cgroup", "netns", "veth", "route", "mountns", "private-directory", "run-directory", "service", "supervisor")
_STORED = ("directory", "file")


@dataclass(frozen=True)
class Asked:
    desired: Desired
    readiness: bool

    @property
    def state_dir(self) -> str:
        return self.desired.state_dir

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Asked:
        return cls(desired_from_params(params), params["readiness"])


class InstanceReader(ResourceEngine[Asked]):
    name = InstanceEngine.name
    kinds = InstanceEngine.kinds

    def resources(self, desired: Asked) -> list[Resource]:
        return []

    def verify(self, desired: Asked, host: Host, progress: Progress) -> list[Finding]:
        return []

    def report(self, desired: Asked, host: Host) -> dict[str, object]:
        told = {**ENGINE.report(desired.desired, host), "options": read_options(host, desired.state_dir)}
        if not desired.readiness:
            return told
        return {**told, "readiness": reading(self._look(desired.desired, told, host)).as_json()}

    def _look(self, desired: Desired, told: Mapping[str, Any], host: Host) -> Look:
        ledger = Ledger(ledger_path(desired.state_dir), host=host, kinds=self.kinds)
        values = {
            one.key: self._value(one, host) for one in ledger.recorded if one.kind in _LIVE or one.kind in _STORED
        }
        rows = {row["name"]: row for row in told["instances"]}
        return Look(
            state_dir=desired.state_dir,
            recorded=ledger.recorded,
            run_is_open=ledger.open,
            measured=tuple(
                _measured(desired, one, rows[one.name], host)
                for one in desired.instances
                if one.name in rows and not one.stopped
            ),
            broken=tuple(_broken(ledger.recorded, values)),
            lacking=tuple(_lacking(values, host)),
            host=read_host(host, desired.state_dir),
        )

    def _value(self, one: Recorded, host: Host) -> Value:
        if one.kind in _STORED:
            return ABSENT if host.stat(one.target) is None else {}
        try:
            return self._read(one.kind, one.target, host)
        except BallastError as error:
            return {"unread": error.in_one_line}


READER = InstanceReader()


def _measured(desired: Desired, instance: Instance, row: Mapping[str, Any], host: Host) -> Measured:
    cgroup = desired.cgroup(instance)
    return Measured(
        row=row,
        proxy=read_proxy_health(instance, host),
        pods=len(host.listdir(os.path.join(row["home"], "kubelet", "pods"))),
        memory=read_memory(host, cgroup),
        pids=read_pids(host, cgroup),
    )


def _broken(recorded: tuple[Recorded, ...], values: Mapping[tuple[str, str], Value]) -> Iterator[str]:
    for one in recorded:
        if one.key not in values:
            continue
        value = values[one.key]
        if value == ABSENT:
            yield f"{one.title} is gone"
        elif "unread" in fields(value):
            yield f"{one.title} cannot be read: {fields(value)['unread']}"
        elif not _is_whole(one.kind, fields(value)):
            yield f"{one.title} is not whole"


def _is_whole(kind: str, value: Mapping[str, Value]) -> bool:
    """By what each kind reads of one that is there in part. A service that is down is told by its own failure mode."""
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


def _lacking(values: Mapping[tuple[str, str], Value], host: Host) -> Iterator[str]:
    """Programs of services, and bridges of links."""
    services = [value for value in _of_kind(values, "service") if not is_incomplete(value)]
    bridges = {str(fields(value).get("bridge") or "") for value in _of_kind(values, "veth")} - {""}
    paths = {Service.from_value(value).argv[0] for value in services}
    paths |= {f"/sys/class/net/{name}" for name in bridges}
    yield from sorted(path for path in paths if host.stat(path) is None)


def _of_kind(values: Mapping[tuple[str, str], Value], kind: str) -> Iterator[Value]:
    return (one for key, one in values.items() if key[0] == kind and one != ABSENT and "unread" not in fields(one))
