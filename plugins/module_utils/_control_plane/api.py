# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects of the API server as resources: made by server-side apply, read back whole."""

from __future__ import annotations

from typing import Any

from .._core.engine.context import Context
from .._core.engine.events import NullSink, Progress
from .._core.engine.kinds import fields
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.host.host import Host
from .._core.kube.client import Refused
from .._core.text.errors import PeerError
from .messages import MESSAGES
from .pki.identities import CONTROL_PLANE, writer_of
from .ready import wait_for_api
from .record import Record, load_record
from .rights import LABELS, ensure_rights, refusal_error, write_object

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

    While the API server does not answer, its objects read as absent. A plan that starts the server then says "make", and
    the server-side apply changes nothing where the object exists.
    """

    def read(self, ctx: Context[Any], target: str) -> Value:
        path, record = _split_target(ctx.host, target)
        if record is None:
            return ABSENT
        try:
            current = record.api(ctx.host).find(path)
        except PeerError:
            return ABSENT  # if these credentials are refused, `write` reports that
        if current is None:
            return ABSENT
        return {name: part for name, part in current.items() if name not in ("metadata", "status")}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        path, record = _split_target(ctx.host, target)
        if record is None:
            raise MESSAGES.error("plane-not-there", path=target.partition(_OF)[2])
        wait_for_api(ctx.host, Progress(NullSink(), feature="plane"), record)
        ensure_rights(ctx.host, record, CONTROL_PLANE)
        metadata = {"name": path.rpartition("/")[2], "labels": LABELS}
        write_object(ctx.host, record, path, {**fields(after), "metadata": metadata}, writer_of(path, CONTROL_PLANE))

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        path, record = _split_target(ctx.host, target)
        if record is not None:
            ensure_rights(ctx.host, record, CONTROL_PLANE)
            try:
                record.api(ctx.host, writer_of(path, CONTROL_PLANE)).delete(path)
            except Refused as error:
                raise refusal_error(record, "DELETE", path, error) from error


API_KINDS = {"api-object": ApiObjectKind()}


def _split_target(host: Host, target: str) -> tuple[str, Record | None]:
    path, _of, state_dir = target.partition(_OF)
    return path, load_record(host, state_dir)
