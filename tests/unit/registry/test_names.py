# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The directory of a lab is used by runs for that lab only."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.engine import ControlPlaneEngine
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from ansible_collections.ballast.kube.plugins.module_utils._instance.engine import InstanceEngine
from ansible_collections.ballast.kube.plugins.module_utils._instance.hostnet import (
    SPEC,
    HostNetworkEngine,
    HostNetworkRequest,
)
from ansible_collections.ballast.kube.plugins.module_utils._lab.engine import ENGINE as LAB_ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._lab.engine import LabRequest
from ansible_collections.ballast.kube.plugins.module_utils._registry.names import (
    REGISTRY,
    find_registered_name,
    refuse_others_directory,
)
from tests.unit.control_plane import given as plane
from tests.unit.fakes import FakeHost
from tests.unit.instance import given as nodes

LAB = "/var/lib/ballast/lab"


def host() -> FakeHost:
    machine = FakeHost()
    machine.given(f"{REGISTRY}/lab.json", f'{{"lab_dir": "{LAB}"}}')
    return machine


def network(name: str, state: str) -> HostNetworkRequest:
    options = {option: row.get("default") for option, row in SPEC.items()}
    given = {"state": state, "state_dir": f"{LAB}/network", "lab": name, "bridge": "br0", "address": "10.97.0.1/24"}
    return HostNetworkRequest.from_params({**options, **given}, FakeHost())


ENGINES: list[Any] = [
    pytest.param(ControlPlaneEngine(), lambda name, state: plane.desired(name=name, state=state), id="control plane"),
    pytest.param(InstanceEngine(), lambda name, state: nodes.desired(lab=name, state=state), id="instances"),
    pytest.param(HostNetworkEngine(), network, id="network"),
]


@pytest.mark.parametrize(("engine", "request_of"), ENGINES)
@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_run_for_another_name_is_refused_in_the_directory_of_a_lab(engine: Any, request_of: Any, state: str) -> None:
    machine = host()
    with pytest.raises(HostError, match="was not created by this collection") as refused:
        engine.read_recorded(Context(request_of("kubernetes", state), machine))
    assert refused.value.id == "core-not-ours"
    assert "which lab recorded as its own" in refused.value.found
    assert machine.effects == []
    assert engine.read_recorded(Context(request_of("lab", state), machine)) == ()


@pytest.mark.parametrize(
    ("path", "name"),
    [(f"{LAB}/plane", "lab"), (f"{LAB}2/plane", "kubernetes"), ("/var/lib/ballast/control-plane", "kubernetes")],
)
def test_other_directories_and_the_lab_itself_are_left_to_run(path: str, name: str) -> None:
    refuse_others_directory(host(), path, name=name)


def test_a_lab_without_its_record_is_still_known_by_its_name() -> None:
    machine = host()
    desired = LabRequest(state="absent", state_dir=LAB, name="", lab=None)
    assert LAB_ENGINE.preview(Context(desired, machine))["name"] == "lab"
    assert find_registered_name(machine, "/var/lib/ballast/other") == ""


def test_nothing_is_refused_on_a_host_without_labs() -> None:
    refuse_others_directory(FakeHost(), f"{LAB}/plane", name="kubernetes")
