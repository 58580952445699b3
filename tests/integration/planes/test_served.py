# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Discovery: what is promised is served, and nothing else."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._plane.info.controllers import running_controllers
from ansible_collections.ballast.kube.plugins.module_utils._plane.profiles import compose
from tests.integration.plane_client import Client
from tests.integration.plane_lab import VERSION, Plane
from tests.integration.planes.promise import FULL, controllers, promised


def test_discovery_says_what_is_promised(plane: Plane, admin: Client) -> None:
    composition = compose(plane.desired().choice)
    profile = str(plane.params["profile"])
    found = {name for name in served(admin) if not name.endswith(".suite.example.com")}
    if profile == FULL:
        assert composition.everything_served
        assert sorted(promised(profile) - found) == []
    else:
        assert sorted(found) == sorted(promised(profile))
        assert sorted(composition.resources) == sorted(promised(profile))


def test_what_is_not_promised_is_not_there(plane: Plane, admin: Client) -> None:
    expected = 200 if plane.params["profile"] == FULL else 404
    for path in ("/api/v1/pods", "/api/v1/nodes", "/api/v1/services", "/apis/apps/v1/deployments"):
        assert admin.ask(path).status == expected, path


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3", "/version", "/readyz", "/livez", "/metrics"])
def test_the_other_paths_answer(admin: Client, path: str) -> None:
    assert admin.ask(path).status == 200


def test_it_is_the_version_that_was_asked_for(admin: Client) -> None:
    assert admin.get("/version")["gitVersion"].lstrip("v").partition("+")[0] == VERSION


def test_the_openapi_of_each_group_is_complete(admin: Client) -> None:
    """What kubectl checks an apply against."""
    for path, place in admin.get("/openapi/v3")["paths"].items():
        document = admin.get(place["serverRelativeURL"])
        assert document["paths"], path


def test_controllers_are_those_whose_resources_are_served(plane: Plane) -> None:
    profile = str(plane.params["profile"])
    found = running_controllers(LocalHost(), plane.record)
    assert found is not None
    if profile == FULL:
        assert sorted(controllers(profile) - set(found)) == []
    else:
        assert sorted(found) == sorted(controllers(profile))
        assert sorted(compose(plane.desired().choice).controllers) == sorted(controllers(profile))


def served(admin: Client) -> frozenset[str]:
    """Resources of every served version, without subresources."""
    places = {"/api/v1": ""}
    for group in admin.get("/apis")["groups"]:
        places.update({f"/apis/{version['groupVersion']}": group["name"] for version in group["versions"]})
    return frozenset(
        f"{resource['name']}.{group}".rstrip(".")
        for path, group in places.items()
        for resource in admin.get(path)["resources"]
        if "/" not in resource["name"]
    )
