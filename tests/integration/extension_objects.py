# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects that lead an API server to an extension server behind a Service, and what it answers with them."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

from tests.integration.lab import Lab


def raw(lab: Lab, path: str) -> str:
    try:
        return lab.kubectl("get", "--raw", path)
    except subprocess.CalledProcessError as error:
        return str(error.stderr)


def applied(lab: Lab, path: Path) -> str:
    try:
        return lab.kubectl("apply", "-f", str(path))
    except subprocess.CalledProcessError:  # its kind is not served yet
        return ""


def refusal(lab: Lab) -> str:
    try:
        lab.kubectl("create", "configmap", "refused", "--dry-run=server")
    except subprocess.CalledProcessError as error:
        return str(error.stderr)
    return ""


CONVERTED = "converted.example.com"


def behind_a_service(address: str, ca: Path) -> dict[str, object]:
    """An APIService, a webhook and a conversion webhook that name the Service default/wardle, whose only endpoint is this address."""
    bundle = base64.b64encode(ca.read_bytes()).decode()
    service = {"name": "wardle", "namespace": "default"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    webhook = {
        "name": "wardle.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"service": {**service, "path": "/admit"}, "caBundle": bundle},
        "rules": [rule],
    }
    group = {"group": "wardle.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10}
    items = [
        {"apiVersion": "v1", "kind": "Service", "metadata": service, "spec": {"ports": [{"port": 443}]}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**service, "labels": {"kubernetes.io/service-name": "wardle"}},
            "addressType": "IPv4",
            "ports": [{"name": "", "port": 8443, "protocol": "TCP"}],
            "endpoints": [{"addresses": [address]}],
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1.wardle.example.com"},
            "spec": {**group, "service": service, "caBundle": bundle},
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "wardle"},
            "webhooks": [webhook],
        },
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"parts.{CONVERTED}"},
            "spec": {
                "group": CONVERTED,
                "scope": "Namespaced",
                "names": {"plural": "parts", "singular": "part", "kind": "Part"},
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": version == "v1",
                        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                    for version in ("v1", "v2")
                ],
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {
                        "conversionReviewVersions": ["v1"],
                        "clientConfig": {"service": {**service, "path": "/convert"}, "caBundle": bundle},
                    },
                },
            },
        },
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}
