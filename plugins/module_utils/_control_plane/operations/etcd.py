# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to the etcd of a control plane, through the JSON gateway of its API, with the API server's client certificate.

Answers are parsed strictly: 64-bit numbers are texts, and zero or empty values are omitted
(https://protobuf.dev/programming-guides/json/).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..._core.host.host import Host
from ..._core.text.errors import BallastError, PeerError
from ..._core.text.json_text import parse_json
from ..record import Record
from .messages import MESSAGES

_EVERY_KEY = "AA=="  # a zero byte in base64: as key and as range_end it selects all keys
_COMPACTED = 11  # gRPC's code OUT_OF_RANGE: the revision is compacted, or in the future


@dataclass(frozen=True)
class EtcdStatus:
    version: str  # "3.6.14"
    size_bytes: int
    used_bytes: int
    quota_bytes: int  # 0 when etcd does not report it
    revision: int
    leader: bool  # whether there is one
    member: str  # name of the member that answered
    member_id: str  # hexadecimal, as etcdctl shows it
    peer_urls: tuple[str, ...]
    alarms: tuple[str, ...]  # "NOSPACE", "CORRUPT"


def read_etcd_status(host: Host, record: Record) -> EtcdStatus:
    """PeerError when etcd does not answer, or the answer is not etcd's."""
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
        raise _strange_answer(record, "maintenance/status", repr(error)) from error


def count_keys(host: Host, record: Record, *, revision: int) -> Optional[int]:
    """How many keys there were at a revision; None when etcd no longer knows (it keeps some minutes)."""
    query = {"key": _EVERY_KEY, "range_end": _EVERY_KEY, "count_only": True, "revision": str(revision)}
    answer = _ask(host, record, "kv/range", query, also=_COMPACTED)
    if answer.get("code") == _COMPACTED:
        return None
    try:
        return int(answer.get("count", 0))
    except (ValueError, TypeError) as error:
        raise _strange_answer(record, "kv/range", repr(answer)) from error


def silent_error(record: Record, error: BallastError) -> BallastError:
    """The error for an etcd that did not answer."""
    reason = error.found or error.text
    return MESSAGES.error(
        "plane-etcd-silent", url=record.etcd.endpoints[0], log=f"{record.state_dir}/log", found=reason
    )


def _ask(host: Host, record: Record, path: str, body: Mapping[str, object], *, also: int = 0) -> dict[str, Any]:
    try:
        answer = record.etcd.ask(host, f"/v3/{path}", body=json.dumps(body).encode())
    except PeerError as error:
        raise silent_error(record, error) from error
    try:
        value = parse_json(answer.body)
    except ValueError as error:
        raise _strange_answer(record, path, answer.body.decode(errors="replace")) from error
    if not isinstance(value, dict) or (answer.status != 200 and not (also and value.get("code") == also)):
        raise _strange_answer(record, path, answer.body.decode(errors="replace"))
    return value


def _strange_answer(record: Record, path: str, reason: str) -> BallastError:
    return MESSAGES.error("plane-etcd-answer", url=record.etcd.endpoints[0], path=f"/v3/{path}", found=reason[:300])
