# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Discovery: what is promised is served, and nothing else."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info.controllers import (
    read_running_controllers,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.processes.etcd import etcd_client
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.profiles import compose
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from tests.integration import processes
from tests.integration.plane_client import Client, eventually
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


@pytest.mark.parametrize("plane", [FULL], indirect=True)
def test_full_serves_what_the_stock_api_server_serves(plane: Plane, admin: Client, tmp_path: Path) -> None:
    """The same program with nothing but what it needs to run, over data of its own."""
    with _stock(plane, tmp_path / "stock.log") as stock:
        wanted = served(stock)
    assert wanted == {name for name in served(admin) if not name.endswith(".suite.example.com")}


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
    found = read_running_controllers(LocalHost(), plane.record)
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


@contextmanager
def _stock(plane: Plane, log: Path) -> Iterator[Client]:
    """The stock API server with its own defaults, beside the plane and with its certificates and etcd."""
    port = _free_port(plane.address)
    of_plane = {"tls-cert-file": "apiserver.crt", "tls-private-key-file": "apiserver.key", "client-ca-file": "ca.crt"}
    given = {
        **{flag.name: flag.value for flag in etcd_client(plane.desired())},
        **{name: plane.pki(file) for name, file in of_plane.items()},
        "etcd-prefix": "/stock",
        "authorization-mode": "RBAC",
        "bind-address": plane.address,
        "secure-port": str(port),
        "service-cluster-ip-range": "10.96.0.0/16",
        "service-account-issuer": "https://stock.example.com",
        "service-account-key-file": plane.pki("sa.pub"),
        "service-account-signing-key-file": plane.pki("sa.key"),
    }
    argv = [plane.bin("kube-apiserver"), *(f"--{name}={value}" for name, value in given.items())]
    with processes.running(argv, log):
        endpoint = f"https://{plane.address}:{port}"
        with Client(endpoint, ca=plane.pki("ca.crt"), certificate=plane.pki("admin.crt")) as client:
            eventually(lambda: _is_ready(client), what=f"the stock API server is ready: {log}")
            yield client


def _is_ready(client: Client) -> bool:
    try:
        return client.ask("/readyz").ok
    except (OSError, HTTPException):
        return False


def _free_port(address: str) -> int:
    with socket.socket() as one:
        one.bind((address, 0))
        return int(one.getsockname()[1])
