# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which runtime does the kubelet use: cases/runtimes.json."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.kubelet import find_kubelet
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.model import SPEC, ImagePullsRequest
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.runtime import find_runtime, runtime_service
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.unix_listener import find_unix_listener
from tests.unit import cases
from tests.unit.fakes import FakeHost
from tests.unit.kubelet.machine import machine, read_cases

LIMIT = {"runtime": {"max_concurrent_downloads": 8}}


def request(**options: Any) -> ImagePullsRequest:
    return ImagePullsRequest.from_params({**{name: row.get("default") for name, row in SPEC.items()}, **options})


def with_kubelet(case: dict[str, Any]) -> FakeHost:
    kubelet = {"argv": ["/usr/bin/kubelet", *case["kubelet"]], "cgroups": ["/system.slice/kubelet.service"]}
    return machine({**case, "processes": {"700": kubelet, **case["processes"]}})


@pytest.mark.parametrize("pyyaml", [True, False], ids=["PyYAML", "no PyYAML"])
@pytest.mark.parametrize("case", read_cases("runtimes"), ids=lambda case: case["name"])
def test_the_runtime_of_a_kubelet(case: dict[str, Any], pyyaml: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not pyyaml:
        monkeypatch.setitem(sys.modules, "yaml", None)
    host, answer = with_kubelet(case), case["answer"]
    desired = request(**LIMIT, **case.get("options", {}))
    if isinstance(answer, list):
        assert list(find_runtime(host, desired.layout)) == answer
        return
    with pytest.raises(BallastError) as caught:
        cases.plan_of(ENGINE, desired, host)
    assert caught.value.id == answer["error"]
    assert [says for says in answer["says"] if says not in str(caught.value)] == []
    assert host.effects == []


def test_a_socket_of_another_network_namespace_is_listed_there() -> None:
    case = {
        "processes": {
            "700": {"argv": ["kubelet"], "cgroups": ["/n1"], "own_network": False},
            "810": {"argv": ["c"], "cgroups": ["/n1"]},
        }
    }
    host = machine(case)
    host.given("/proc/700/net/unix", "Num\n0: 2 0 00010000 0001 01 77 /run/c.sock\n")
    host.given_link("/proc/810/fd/4", "socket:[77]")
    listener = find_unix_listener(host, "/run/c.sock", near=700)
    assert listener is not None
    assert listener.pid == 810
    assert find_unix_listener(host, "/run/d.sock", near=700) is None


def test_before_the_kubelet_runs_the_one_runtime_that_runs_is_taken() -> None:
    crio = {"argv": ["/usr/bin/crio"], "cgroups": ["/system.slice/crio.service"]}
    host = machine({"processes": {"850": crio}})
    assert find_runtime(host, request().layout) == ("crio", "crio")


def test_the_service_of_a_planned_step_is_known_while_its_runtime_is_down() -> None:
    host = machine({"processes": {}})
    assert runtime_service(host, request().layout, "containerd") == "containerd"
    assert runtime_service(host, request(runtime_service="c1").layout, "containerd") == "c1"


@pytest.mark.parametrize(
    "case", [case for case in read_cases("processes") if case["kubelets"]], ids=lambda case: case["name"]
)
@pytest.mark.parametrize("options", [LIMIT, {"serialize_image_pulls": False}], ids=["runtime", "kubelet"])
def test_what_a_distribution_manages_is_said_first_and_left_alone(
    case: dict[str, Any], options: dict[str, Any]
) -> None:
    host, distribution = machine(case), case["kubelets"][0]["distribution"]
    with pytest.raises(BallastError) as caught:
        cases.plan_of(ENGINE, request(**options, host={"max_in_flight": 4}), host)
    assert host.effects == []
    errors = [error.id for error in getattr(caught.value, "problems", [caught.value])]
    if distribution is None:
        assert "pulls-node-no-proxy" in errors
    else:
        assert len(errors) == 1
        assert caught.value.text.startswith(f"{distribution} runs the kubelet of this node")
        assert caught.value.remedy


def test_the_way_of_k3s_is_whole_and_has_no_flag_that_the_kubelet_lacks() -> None:
    host = machine(next(case for case in read_cases("processes") if case["name"].startswith("k3s server, its")))
    with pytest.raises(BallastError) as caught:
        cases.plan_of(ENGINE, request(max_parallel_image_pulls=3), host)
    for way in (
        "/etc/rancher/k3s/config.yaml",
        "/etc/rancher/k3s/config.yaml.d",
        "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d",
        "serialize-image-pulls=false",
        "config-v3.toml.tmpl",
    ):
        assert way in caught.value.remedy
    assert "max-parallel-image-pulls" not in caught.value.remedy


def test_what_an_earlier_run_set_is_removed_from_a_managed_node() -> None:
    host = machine(next(case for case in read_cases("processes") if case["name"].startswith("k3s server, its")))
    assert cases.plan_of(ENGINE, request(state="absent", **LIMIT), host).steps == ()


@pytest.mark.parametrize(
    "case", [case for case in read_cases("processes") if case["kubelets"]], ids=lambda case: case["name"]
)
def test_it_is_known_by_the_name_of_its_service_too(case: dict[str, Any]) -> None:
    host, expected = machine(case), case["kubelets"][0]
    if not expected["service"]:
        return
    kubelet = find_kubelet(host, request(kubelet_service=expected["service"]).layout)
    assert (kubelet.distribution.name if kubelet.distribution else None) == expected["distribution"]


@pytest.mark.parametrize(
    "case", [case for case in read_cases("processes") if case["kubelets"]], ids=lambda case: case["name"]
)
def test_a_managed_kubelet_is_reported(case: dict[str, Any]) -> None:
    host, expected = machine(case), case["kubelets"][0]
    if not expected["service"] and expected["distribution"] is None:
        return  # it is asked of its service
    report: Any = ENGINE.report(Context(request(), host))
    assert (report["kubelet"]["managed_by"], report["kubelet"]["running"]) == (expected["distribution"] or "", True)
    assert report["kubelet"]["settings"]["registryBurst"]["source"] is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="a listener that is not root's counts for nothing")
def test_a_real_socket_is_found_by_its_path_and_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var").symlink_to("run")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as other:
        listener.bind(str(tmp_path / "run/c.sock"))
        other.bind(str(tmp_path / "run/d.sock"))  # and does not listen
        listener.listen()
        for path in ("run/c.sock", "var/c.sock"):
            process = find_unix_listener(LocalHost(), str(tmp_path / path), near=os.getpid())
            assert process is not None
            assert process.pid == os.getpid()
        assert find_unix_listener(LocalHost(), str(tmp_path / "run/d.sock"), near=os.getpid()) is None
