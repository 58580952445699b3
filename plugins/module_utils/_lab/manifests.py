# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects that a lab applies to its API server."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from .._control_plane.pki.identities import Identity, reader_of, writer_of
from .._control_plane.record import Record, load_record
from .._control_plane.rights import ensure_rights
from .._core.engine.context import Context
from .._core.engine.kinds import Kind, fields
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.host.host import Host
from .._core.kube.client import Refused
from .._core.text.errors import PeerError
from .._core.text.json_text import parse_json
from .messages import MESSAGES

_ANNOTATION = "ballast.local/applied"


class ManifestKind:
    """The manifest as we applied it, which an annotation of the object keeps. The target is `PLANE_DIR PATH`.

    The object itself differs: the API server fills in defaults that change with its version, and others may change it.
    `identity` applies it.
    """

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def read(self, ctx: Context[Any], target: str) -> Value:
        plane_dir, path = target.split(" ")
        record = load_record(ctx.host, plane_dir)
        try:
            manifest = None if record is None else record.api(ctx.host, reader_of(path, self._identity)).find(path)
        except PeerError:
            manifest = None
        if manifest is None:
            return ABSENT
        applied: Value = parse_json(manifest["metadata"].get("annotations", {}).get(_ANNOTATION, "{}"))
        return applied

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        plane_dir, path = target.split(" ")
        record = load_record(ctx.host, plane_dir)
        if record is None:
            raise MESSAGES.error("lab-none", directory=os.path.dirname(plane_dir))
        manifest = fields(after)
        text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
        metadata = {**fields(manifest["metadata"]), "annotations": {_ANNOTATION: text}}
        try:
            record.api(ctx.host, self._writer(ctx.host, record, path)).apply(path, {**manifest, "metadata": metadata})
        except Refused as error:
            raise MESSAGES.error("lab-pods", kubeconfig=record.kubeconfig, found=error.found) from error

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        plane_dir, path = target.split(" ")
        record = load_record(ctx.host, plane_dir)
        if record is not None:
            writer = self._writer(ctx.host, record, path)
            with suppress(Refused):
                record.api(ctx.host, writer).delete(path)

    def _writer(self, host: Host, record: Record, path: str) -> Identity:
        writer = writer_of(path, self._identity)
        ensure_rights(host, record, writer)
        return writer


def manifest_kinds(identity: Identity) -> dict[str, Kind]:
    return {"manifest": ManifestKind(identity)}


def manifest_resources(plane_dir: str, manifests: Mapping[str, Mapping[str, Any]], *, group: str) -> list[Resource]:
    """`manifests` by the path of each object."""
    return [
        Resource(
            kind="manifest",
            target=f"{plane_dir} {path}",
            value=manifest,
            title=f"{manifest['kind']} {manifest['metadata']['name']}",
            group=group,
        )
        for path, manifest in manifests.items()
    ]
