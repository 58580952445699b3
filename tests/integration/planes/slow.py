# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What takes a control plane long: begun as soon as it is up, and looked at by tests that come late."""

from __future__ import annotations

from tests.integration.plane_client import Client, eventually
from tests.integration.plane_lab import Plane
from tests.integration.planes.definitions import CRDS, definition

GROUP = "suite.example.com"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/widgets"
DOOMED = "doomed"  # a namespace with objects, which is being removed


def begin(plane: Plane) -> None:
    """The collector of garbage and the quota learn of a new CustomResourceDefinition up to 30 s later; a server that thinks
    it is one of several takes 5 s to establish one; the removal of a namespace takes at least 5 s."""
    with plane.client() as admin:
        admin.create(CRDS, definition("gadgets", "Gadget"))
        admin.create(CRDS, _widgets())
        admin.create("/api/v1/namespaces", {"metadata": {"name": DOOMED}})
        admin.create(f"/api/v1/namespaces/{DOOMED}/configmaps", {"metadata": {"name": "lost"}})
        admin.create(f"/api/v1/namespaces/{DOOMED}/secrets", {"metadata": {"name": "lost"}})
        eventually(lambda: make_widget(admin, DOOMED, "lost"), what="the new resource is served", seconds=60)
        admin.delete(f"/api/v1/namespaces/{DOOMED}")


def make_widget(admin: Client, namespace: str, name: str, **metadata: object) -> dict[str, object] | None:
    """None while the resource is not served."""
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name, **metadata}}
    answer = admin.ask(WIDGETS.format(namespace=namespace), "POST", body)
    assert answer.status in (201, 404), answer
    found: dict[str, object] = answer.body
    return found if answer.status == 201 else None


def _widgets() -> dict[str, object]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [version],
        },
    }
