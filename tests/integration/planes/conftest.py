# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One control plane of each profile for the whole suite, all up at once: what takes half a minute in one of them goes on
while the others are asked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.profiles import PROFILES
from tests.integration import plane_lab
from tests.integration.plane_client import Client
from tests.integration.plane_lab import Plane
from tests.integration.planes import slow
from tests.integration.planes.promise import ENCRYPTION


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.lab)
            item.add_marker(pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a control plane"))


@pytest.fixture(scope="package")
def planes(request: pytest.FixtureRequest) -> Iterator[Mapping[str, Plane]]:
    """Those that a test was chosen for, by profile."""
    profiles = sorted({item.callspec.params["plane"] for item in request.session.items if _has_plane(item)})
    with ExitStack() as stack, ThreadPoolExecutor(len(profiles)) as threads:
        found = {profile: stack.enter_context(plane_lab.place(profile, **_options(profile))) for profile in profiles}
        try:
            list(threads.map(_begin, found.values()))
            yield found
        finally:
            list(threads.map(_end, found.values()))


@pytest.fixture(scope="package", params=PROFILES)
def plane(request: pytest.FixtureRequest, planes: Mapping[str, Plane]) -> Plane:
    return planes[request.param]


@pytest.fixture(scope="package")
def admin(plane: Plane) -> Iterator[Client]:
    with plane.client() as client:
        yield client


@pytest.fixture
def namespace(admin: Client, request: pytest.FixtureRequest) -> str:
    """A new one, for this test alone."""
    name = request.node.originalname.removeprefix("test_").replace("_", "-")[:60].strip("-")
    admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


def _has_plane(item: pytest.Item) -> bool:
    """A test of what no profile of this version promises is among the items, and has none."""
    mine = str(item.path).startswith(os.path.dirname(__file__)) and "plane" in getattr(item, "fixturenames", ())
    return mine and item.callspec.params["plane"] in PROFILES


def _options(profile: str) -> dict[str, Any]:
    return {"encryption": ENCRYPTION[profile]}


def _begin(plane: Plane) -> None:
    plane.run()
    slow.begin(plane)


def _end(plane: Plane) -> None:
    if os.path.exists(plane.state_dir):
        plane.run(state="absent")
