# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects that a lab applies to its API server."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Optional, Union

from .._control_plane.pki.identities import Identity
from .._core.engine.context import Context
from .._core.engine.kinds import Kind, fields
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.engine.wait import Pending, Ready, wait
from .._core.host.host import NOTHING
from .._core.kube.client import Refused
from .._core.text.errors import PeerError
from .._core.text.json_text import parse_json
from .cluster import Cluster, open_cluster
from .messages import MESSAGES

_ANNOTATION = "ballast.local/applied"
_SECONDS = 30.0  # until a new resource is served, which takes less than one


class ManifestKind:
    """The manifest as we applied it, which an annotation of the object keeps. The target is `PLACE PATH`, see `open_cluster`.

    The object itself differs: the API server fills in defaults that change with its version, and others may change it.
    `identity` applies the manifest.
    """

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        # The present run, and its clusters by place.
        self._opened: tuple[Optional[Context[Any]], dict[str, Cluster]] = (None, {})

    def read(self, ctx: Context[Any], target: str) -> Value:
        place, path = target.split(" ")
        cluster = self._cluster(ctx, place)
        try:
            manifest = None if cluster is None else cluster.reader(ctx.host, path).find(path)
        except PeerError:
            manifest = None
        if manifest is None:
            return ABSENT
        applied: Value = parse_json(manifest["metadata"].get("annotations", {}).get(_ANNOTATION, "{}"))
        return applied

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        place, path = target.split(" ")
        cluster = self._cluster(ctx, place)
        if cluster is None:
            raise MESSAGES.error("lab-none", directory=os.path.dirname(place))
        manifest = fields(after)
        text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
        metadata = fields(manifest["metadata"])
        annotations = {**fields(metadata.get("annotations", {})), _ANNOTATION: text}
        body = {**manifest, "metadata": {**metadata, "annotations": annotations}}
        writer = cluster.writer(ctx.host, path)

        def probe() -> Union[Ready[None], Pending]:
            try:
                writer.apply(path, body)
            except Refused as error:
                if error.id != "core-api-absent":  # as for a moment after its CRD was created
                    raise
                return Pending(error.found or error.text)
            return Ready(None)

        try:
            wait(ctx.host, ctx.progress, f"{manifest['kind']} {metadata['name']}", probe, deadline_seconds=_SECONDS)
        except Refused as error:
            raise MESSAGES.error("lab-pods", kubeconfig=cluster.kubeconfig, found=error.found) from error

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        place, path = target.split(" ")
        cluster = open_cluster(ctx.host, place, self._identity)
        if cluster is not None:
            writer = cluster.writer(ctx.host, path)
            with suppress(Refused):
                writer.delete(path)

    def _cluster(self, ctx: Context[Any], place: str) -> Optional[Cluster]:
        """One cluster for all objects of a run: it gets one certificate, and ensures its rights once."""
        run, clusters = self._opened
        if run is not ctx:
            self._opened = (ctx, clusters := {})
        if place not in clusters:
            cluster = open_cluster(ctx.host, place, self._identity)
            if cluster is None:
                return None
            clusters[place] = cluster
        return clusters[place]


def manifest_kinds(identity: Identity) -> dict[str, Kind]:
    return {"manifest": ManifestKind(identity)}


def manifest_resources(
    place: str, manifests: Mapping[str, Mapping[str, Any]], *, group: str, kinds: Mapping[str, str] = NOTHING
) -> list[Resource]:
    """`manifests` by object path; `kinds` has the kind of resource for objects that are no plain manifests, also by path."""
    return [
        Resource(
            kind=kinds.get(path, "manifest"),
            target=f"{place} {path}",
            value=manifest,
            title=f"{manifest['kind']} {manifest['metadata']['name']}",
            group=group,
        )
        for path, manifest in manifests.items()
    ]
