# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects of the API server as resources: made by server-side apply, read back whole."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from .._core.errors import PeerError
from .._core.events import NullSink, Progress
from .._core.host import Host, Response
from .._core.kinds import fields
from .._core.names import MARK
from .._core.plan import ABSENT, Resource, Value
from .messages import MESSAGES
from .ready import wait_for_api
from .record import Record, load_record

_LABELS = {"app.kubernetes.io/managed-by": MARK}
_OF = " of "


def api_object(state_dir: str, path: str, value: dict[str, Value], *, group: str) -> Resource:
    """`value` is the object without metadata and status, with every field that the server would fill in."""
    name = path.rpartition("/")[2]
    return Resource(
        kind="api-object",
        target=f"{path}{_OF}{state_dir}",
        value=value,
        title=f"{value['kind']} {name}",
        group=group,
    )


class ApiObjectKind:
    """Value: the object without `metadata` and `status`.

    While the API server does not answer, nothing is known of its objects: they read as absent. A plan that starts it
    then says "make", and the server-side apply is harmless where the object is there.
    """

    def read(self, host: Host, target: str) -> Value:
        path, record = _found(host, target)
        if record is None:
            return ABSENT
        try:
            answer = record.ask(host, _quoted(path))
        except PeerError:
            return ABSENT
        if answer.status != 200:
            return ABSENT  # not there, or not for these credentials: then making it says so
        found = _parsed(answer, record, method="GET", path=path)
        return {name: part for name, part in found.items() if name not in ("metadata", "status")}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        path, record = _found(host, target)
        if record is None:
            raise MESSAGES.error("plane-not-there", path=target.partition(_OF)[2])
        wait_for_api(host, Progress(NullSink(), feature="plane"), record)
        metadata = {"name": path.rpartition("/")[2], "labels": _LABELS}
        answer = record.ask(
            host,
            f"{_quoted(path)}?fieldManager={MARK}&force=true",
            method="PATCH",
            body=json.dumps({**fields(after), "metadata": metadata}).encode(),
            content_type="application/apply-patch+yaml",
        )
        _parsed(answer, record, method="PATCH", path=path)

    def remove(self, host: Host, target: str, before: Value) -> None:
        path, record = _found(host, target)
        if record is not None:
            answer = record.ask(host, _quoted(path), method="DELETE")
            if answer.status != 404:
                _parsed(answer, record, method="DELETE", path=path)


API_KINDS = {"api-object": ApiObjectKind()}


def _found(host: Host, target: str) -> tuple[str, Record | None]:
    path, _of, state_dir = target.partition(_OF)
    return path, load_record(host, state_dir)


def _quoted(path: str) -> str:
    return quote(path, safe="/:")


def _parsed(answer: Response, record: Record, *, method: str, path: str) -> dict[str, Any]:
    if answer.status not in (200, 201):
        raise MESSAGES.error(
            "plane-api-refused",
            method=method,
            path=path,
            status=answer.status,
            log_dir=f"{record.state_dir}/log",
            found=answer.body.decode(errors="replace")[:500],
        )
    found: dict[str, Any] = json.loads(answer.body)
    return found
