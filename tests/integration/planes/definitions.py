# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CustomResourceDefinition that the suite looks at from all sides: two versions, a schema, status and scale."""

from __future__ import annotations

from typing import Any

GROUP = "crds.suite.example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "x-kubernetes-validations": [
                {"rule": "self.size <= self.limit", "message": "size may not be above limit"},
                {"rule": "!has(oldSelf.color) || self.color == oldSelf.color", "message": "color may not change"},
            ],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "description": "How many there are."},
                "limit": {"type": "integer", "default": 10},
                "color": {"type": "string", "enum": ["red", "blue"]},
            },
        },
        "status": {
            "type": "object",
            "properties": {"size": {"type": "integer"}, "selector": {"type": "string"}},
        },
    },
}
_SCALE = {
    "specReplicasPath": ".spec.size",
    "statusReplicasPath": ".status.size",
    "labelSelectorPath": ".status.selector",
}


def definition(plural: str, kind: str) -> dict[str, Any]:
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {"openAPIV3Schema": _SCHEMA},
            "subresources": {"status": {}, "scale": _SCALE},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        }
        for name in ("v1", "v1beta1")
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "shortNames": [plural[:2]]},
            "conversion": {"strategy": "None"},
            "versions": versions,
        },
    }
