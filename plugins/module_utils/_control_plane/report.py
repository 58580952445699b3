# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The measured state of a control plane."""

from __future__ import annotations

import re

from .._core.host.host import Host
from .._core.service.services import service_pid
from .._core.text.errors import PeerError
from .._core.text.json_text import parse_json
from .pki.pki import read_not_after
from .ready import read_ready_seconds
from .record import LOAD_BALANCER, Member, Record

_RSS = re.compile(rb"^VmRSS:\s+(\d+) kB$", re.MULTILINE)


def report(host: Host, record: Record) -> dict[str, object]:
    """The keys of RETURN, except those that every module has."""
    pids = {member.name: service_pid(host, member.service) for member in record.members}
    components = [
        {"name": name, "pid": pid, "rss_bytes": 0 if pid is None else _read_rss_bytes(host, pid)}
        for name, pid in pids.items()
    ]
    return {
        "kubernetes_version": read_version(host, record),
        "endpoint": record.endpoint,
        "kubeconfig": record.kubeconfig,
        "ready_seconds": read_ready_seconds(host, record),
        "components": components,
        "members": _read_members(host, record),
        "rss_bytes": sum(int(str(component["rss_bytes"])) for component in components),
        "certificates": [
            {"name": path, "not_after": end}
            for path in record.certificates
            for end in [read_not_after(host, path)]
            if end is not None
        ],
    }


def _read_members(host: Host, record: Record) -> list[dict[str, object]]:
    """Members by number, with processes that are down or do not report themselves healthy; empty where there is one member."""
    numbers = sorted({member.number for member in record.members})
    if len(numbers) == 1:
        return []
    down: dict[int, list[str]] = {number: [] for number in numbers}
    for member in record.members:
        if member.component != LOAD_BALANCER and not _is_healthy(host, record, member):
            down[member.number].append(member.name)
    return [{"number": number, "down": names} for number, names in down.items()]


def _is_healthy(host: Host, record: Record, member: Member) -> bool:
    if service_pid(host, member.service) is None:
        return False
    try:
        return record.ask_health(host, member).status == 200
    except PeerError:
        return False


def read_version(host: Host, record: Record) -> str | None:
    """The version that the API server reports, without the leading v; None when it does not answer."""
    try:
        answer = record.ask(host, "/version")
    except PeerError:
        return None
    if answer.status != 200:
        return None
    try:
        return str(parse_json(answer.body)["gitVersion"]).lstrip("v")
    except (ValueError, KeyError, TypeError):  # no API server answers at this address
        return None


def _read_rss_bytes(host: Host, pid: int) -> int:
    match = _RSS.search(host.read(f"/proc/{pid}/status") or b"")
    return int(match[1]) * 1024 if match else 0
