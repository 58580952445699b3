# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The condition Available of APIServices, kept by each profile although no list names their servers."""

from __future__ import annotations

from typing import Any

from tests.integration.plane_client import Client, eventually
from tests.integration.plane_lab import Plane

_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
# Where Services are served, one that is not there is not found. Elsewhere the name decides; without a name server that answers, the
# request to it fails.
_REASONS = {"full": {"ServiceNotFound"}}
_OTHERS = {"ServiceNotFound", "FailedDiscoveryCheck"}


def condition(admin: Client, name: str) -> dict[str, Any]:
    rows = admin.get(f"{_SERVICES}/{name}").get("status", {}).get("conditions", [])
    return next((row for row in rows if row["type"] == "Available"), {})


def test_an_api_service_that_nobody_serves_is_not_available_and_says_why(plane: Plane, admin: Client) -> None:
    spec = {
        "group": "nobody.example.com",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "insecureSkipTLSVerify": True,
        "service": {"name": "nobody", "namespace": "default", "port": 443},
    }
    name = "v1.nobody.example.com"
    admin.create(_SERVICES, {"metadata": {"name": name}, "spec": spec})
    try:
        plane.kubectl("wait", "--for=condition=Available=False", f"apiservice/{name}", "--timeout=60s")
        found = condition(admin, name)
        assert found["reason"] in _REASONS.get(str(plane.params["profile"]), _OTHERS)
        assert "nobody" in found["message"]
        assert admin.ask("/apis/nobody.example.com/v1").status == 503
    finally:
        admin.delete(f"{_SERVICES}/{name}")


def test_an_api_service_of_its_own_is_available(admin: Client) -> None:
    found = eventually(lambda: condition(admin, "v1.rbac.authorization.k8s.io"), what="it has a condition")
    assert (found["status"], found["reason"]) == ("True", "Local")
