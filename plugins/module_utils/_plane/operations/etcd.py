# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asking the etcd of a control plane, by the JSON gateway of its API, as the API server's own client.

What it answers is parsed strictly: 64-bit numbers are texts there, and what is zero or empty is left out
(https://protobuf.dev/programming-guides/json/).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..._core.errors import BallastError, PeerError
from ..._core.host import Host
from ..record import Record
from .messages import MESSAGES

_EVERY_KEY = "AA=="  # a zero byte, in base64: from it, to it, is the range of all keys
_COMPACTED = 11  # the code OUT_OF_RANGE of gRPC: history before or after what is kept


@dataclass(frozen=True)
class EtcdStatus:
    version: str  # "3.6.14"
    size_bytes: int
    used_bytes: int
    quota_bytes: int  # 0 when it does not say
    revision: int
    leader: bool  # whether there is one
    member: str  # name of the member that answered
    member_id: str  # hexadecimal, as etcdctl shows it
    peer_urls: tuple[str, ...]
    alarms: tuple[str, ...]  # "NOSPACE", "CORRUPT"


def etcd_status(host: Host, record: Record) -> EtcdStatus:
    """PeerError when it does not answer, or not as etcd does."""
    status = _ask(host, record, "maintenance/status", {})
    members = _ask(host, record, "cluster/member/list", {})
    alarms = _ask(host, record, "maintenance/alarm", {"action": "GET"})
    try:
        identity = int(status["header"]["member_id"])
        (member,) = (each for each in members["members"] if int(each["ID"]) == identity)
        return EtcdStatus(
            version=str(status["version"]),
            size_bytes=int(status["dbSize"]),
            used_bytes=int(status.get("dbSizeInUse", 0)),
            quota_bytes=int(status.get("dbSizeQuota", 0)),
            revision=int(status["header"]["revision"]),
            leader=int(status.get("leader", 0)) != 0,
            member=str(member.get("name", "")),
            member_id=f"{identity:x}",
            peer_urls=tuple(str(url) for url in member.get("peerURLs", [])),
            alarms=tuple(sorted({str(each["alarm"]) for each in alarms.get("alarms", [])})),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise _strange(record, "maintenance/status", repr(error)) from error


def count_keys(host: Host, record: Record, *, revision: int) -> Optional[int]:
    """How many keys there were at a revision; None when etcd no longer knows (it keeps some minutes)."""
    asked = {"key": _EVERY_KEY, "range_end": _EVERY_KEY, "count_only": True, "revision": str(revision)}
    answer = _ask(host, record, "kv/range", asked, also=_COMPACTED)
    if answer.get("code") == _COMPACTED:
        return None
    try:
        return int(answer.get("count", 0))
    except (ValueError, TypeError) as error:
        raise _strange(record, "kv/range", repr(answer)) from error


def silent(record: Record, error: BallastError) -> BallastError:
    """The error for an etcd that did not answer."""
    found = error.found or error.text
    return MESSAGES.error("plane-etcd-silent", url=record.etcd.endpoints[0], log=f"{record.state_dir}/log", found=found)


def _ask(host: Host, record: Record, path: str, body: Mapping[str, object], *, also: int = 0) -> dict[str, Any]:
    try:
        answer = host.request(
            f"{record.etcd.endpoints[0]}/v3/{path}",
            method="POST",
            body=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            ca=record.etcd.authority or None,
            cert=record.etcd.client or None,
            key=record.etcd.key or None,
            timeout=10,
        )
    except PeerError as error:
        raise silent(record, error) from error
    try:
        found = json.loads(answer.body)
    except ValueError as error:
        raise _strange(record, path, answer.body.decode(errors="replace")) from error
    if not isinstance(found, dict) or (answer.status != 200 and not (also and found.get("code") == also)):
        raise _strange(record, path, answer.body.decode(errors="replace"))
    return found


def _strange(record: Record, path: str, found: str) -> BallastError:
    return MESSAGES.error("plane-etcd-answer", url=record.etcd.endpoints[0], path=f"/v3/{path}", found=found[:300])
