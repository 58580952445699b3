# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects of the lab's API, as they were asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from .._core.errors import PeerError
from .._core.host import Host
from .._core.kinds import fields
from .._core.plan import ABSENT, Resource, Value
from .._plane.record import load_record
from .messages import MESSAGES

_ANNOTATION = "ballast.local/applied"


class ManifestKind:
    """The object as we asked for it, which an annotation of it keeps. The target is `PLANE_DIR PATH`.

    The API server fills in defaults that change with its version, and others may change the object: what we asked for
    does not.
    """

    def read(self, host: Host, target: str) -> Value:
        plane_dir, path = target.split(" ")
        record = load_record(host, plane_dir)
        try:
            answer = record.ask(host, path) if record else None
        except PeerError:
            answer = None
        if answer is None or answer.status != 200:
            return ABSENT
        text = json.loads(answer.body)["metadata"].get("annotations", {}).get(_ANNOTATION, "{}")
        applied: Value = json.loads(text)
        return applied

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        plane_dir, path = target.split(" ")
        record = load_record(host, plane_dir)
        if record is None:
            raise MESSAGES.error("lab-none", directory=os.path.dirname(plane_dir))
        manifest = fields(after)
        text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
        metadata = {**fields(manifest["metadata"]), "annotations": {_ANNOTATION: text}}
        answer = record.ask(
            host,
            f"{path}?fieldManager=ballast&force=true",
            method="PATCH",
            body=json.dumps({**manifest, "metadata": metadata}).encode(),
            content_type="application/apply-patch+yaml",
        )
        if answer.status not in (200, 201):
            found = answer.body.decode(errors="replace")
            raise MESSAGES.error("lab-pods", kubeconfig=record.kubeconfig, found=found)

    def remove(self, host: Host, target: str, before: Value) -> None:
        plane_dir, path = target.split(" ")
        record = load_record(host, plane_dir)
        if record is not None:
            record.ask(host, path, method="DELETE")


MANIFEST_KINDS = {"manifest": ManifestKind()}


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
