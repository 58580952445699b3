# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a control plane is like now, measured."""

from __future__ import annotations

import json
import re

from .._core.errors import PeerError
from .._core.host import Host
from .._core.service import service_pid
from .pki import not_after
from .ready import ready_seconds
from .record import Record

_RSS = re.compile(rb"^VmRSS:\s+(\d+) kB$", re.MULTILINE)


def report(host: Host, record: Record) -> dict[str, object]:
    """The keys of RETURN beside those that every module has."""
    pids = {member.component: service_pid(host, member.service) for member in record.members}
    components = [
        {"name": name, "pid": pid, "rss_bytes": 0 if pid is None else _rss_bytes(host, pid)}
        for name, pid in pids.items()
    ]
    return {
        "kubernetes_version": running_version(host, record),
        "endpoint": record.endpoint,
        "kubeconfig": record.kubeconfig,
        "ready_seconds": ready_seconds(host, record),
        "components": components,
        "rss_bytes": sum(int(str(component["rss_bytes"])) for component in components),
        "certificates": [
            {"name": path, "not_after": end}
            for path in record.certificates
            for end in [not_after(host, path)]
            if end is not None
        ],
    }


def running_version(host: Host, record: Record) -> str | None:
    """What the API server says that it is, without the leading v; None when it does not answer."""
    try:
        answer = record.ask(host, "/version")
    except PeerError:
        return None
    if answer.status != 200:
        return None
    try:
        return str(json.loads(answer.body)["gitVersion"]).lstrip("v")
    except (ValueError, KeyError, TypeError):  # whatever answers at this address, it is no API server
        return None


def _rss_bytes(host: Host, pid: int) -> int:
    match = _RSS.search(host.read(f"/proc/{pid}/status") or b"")
    return int(match[1]) * 1024 if match else 0
