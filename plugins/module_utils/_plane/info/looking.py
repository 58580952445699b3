# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the production readiness of a control plane needs that nothing else of it reads. Changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from typing import Any, Optional

from ..._core.errors import PeerError
from ..._core.exposition import Sample, parse_exposition
from ..._core.host import Host
from ..._core.kinds import Kind
from ..._core.ledger import Ledger, ledger_path
from ..._core.readiness import Reading, off
from ..._core.service import is_to_run
from ..operations.archive import KEPT, NEEDED
from ..readiness import NAME
from ..record import Member, Record, record_path
from .readings import API_METRICS, ETCD_METRICS, WORK, Look, plane_reading

_NAMES = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_TOOLS = ("etcdctl", "etcdutl")


def absent_reading(state_dir: str) -> Reading:
    return off(NAME, f"There is no control plane in {state_dir}.", record_path(state_dir))


def read_readiness(host: Host, record: Record, told: Mapping[str, Any], kinds: Mapping[str, Kind]) -> Reading:
    """`told` is what the module returns. A control plane that was stopped on purpose is off, one that died is not."""
    if not any(is_to_run(host, member.service) for member in record.members):
        return off(
            NAME, f"The control plane {record.name} in {record.state_dir} is stopped.", record_path(record.state_dir)
        )
    return plane_reading(record, told, _look(host, record, kinds))


def _look(host: Host, record: Record, kinds: Mapping[str, Kind]) -> Look:
    ledger = Ledger(ledger_path(record.state_dir), host=host, kinds=kinds)
    keys = [os.path.join(record.state_dir, KEPT[name]) for name in NEEDED if name in KEPT]
    return Look(
        health={member.component: _unwell(host, record, member) for member in record.members},
        objects=_objects(host, record),
        api_metrics=_api_metrics(host, record),
        etcd_metrics=_etcd_metrics(host, record),
        missing=_missing(host, record.bin_dir, [member.component for member in record.members]),
        missing_tools=_missing(host, record.bin_dir, _TOOLS),
        missing_keys=tuple(path for path in keys if host.stat(path) is None),
        supervisor=_supervisor(host),
        recorded=len(ledger.recorded),
        unfinished=ledger.open,
        free_bytes=host.free_bytes(record.state_dir),
    )


def _unwell(host: Host, record: Record, member: Member) -> str:
    try:
        answer = record.ask_health(host, member)
    except PeerError as error:
        return error.in_one_line
    return "" if answer.status == 200 else f"it answers {answer.status}: {_failing(answer.body)}"


def _failing(body: bytes) -> str:
    lines = [line for line in body.decode(errors="replace").splitlines() if not line.startswith("[+]")]
    return " ".join(lines)[:300]


def _objects(host: Host, record: Record) -> dict[str, int]:
    """By path, where it is served and says how many there are."""
    found = {}
    for path in WORK:
        try:
            answer = record.ask(host, f"{path}?limit=1", accept=_NAMES)
        except PeerError:
            return {}
        count = _count(answer.body) if answer.status == 200 else None
        if count is not None:
            found[path] = count
    return found


def _count(body: bytes) -> Optional[int]:
    """Of a list whose first page this is; None for another answer."""
    try:
        listed = json.loads(body)
        count = len(listed["items"]) + int((listed.get("metadata") or {}).get("remainingItemCount") or 0)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return count if count >= 0 else None


def _api_metrics(host: Host, record: Record) -> tuple[Sample, ...]:
    try:
        answer = record.ask(host, "/metrics", accept="text/plain")
    except PeerError:
        return ()
    return _samples(answer.status, answer.body, API_METRICS)


def _etcd_metrics(host: Host, record: Record) -> tuple[Sample, ...]:
    etcd = record.etcd
    try:
        answer = host.request(
            f"{etcd.endpoints[0]}/metrics",
            ca=etcd.authority or None,
            cert=etcd.client or None,
            key=etcd.key or None,
            timeout=10,
        )
    except PeerError:
        return ()
    return _samples(answer.status, answer.body, ETCD_METRICS)


def _samples(status: int, body: bytes, names: Collection[str]) -> tuple[Sample, ...]:
    return parse_exposition(body.decode(errors="replace"), names) if status == 200 else ()


def _missing(host: Host, directory: str, names: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if host.stat(os.path.join(directory, name)) is None)


def _supervisor(host: Host) -> str:
    if host.is_systemd():
        return "systemd"
    return "runit" if host.which("runsvdir") else ""
