# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module of a whole node: its features are those of their own modules, in what they do and in what is said of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._ansible import run as loop
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Host
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import switch
from ansible_collections.ballast.kube.plugins.module_utils._node.features import FEATURES
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.installation import INSTALLATION
from ansible_collections.ballast.kube.plugins.modules import image_pull_proxy, image_pulls, kube_proxy, node
from tests.unit.ansible.toy import Ran
from tests.unit.fakes import FakeHost
from tests.unit.kube_proxy import fake_node as proxy_node
from tests.unit.pulls.deployment import machine as proxy_machine
from tests.unit.pulls.node import fake_node as pulls_node

ROOT = Path(__file__).resolve().parents[3]
MODULES = {"image_pull_proxy": image_pull_proxy, "image_pulls": image_pulls, "kube_proxy": kube_proxy}
LISTENERS = [proxy_machine.listener("n1")]
PULLS = {
    "kubelet_service": pulls_node.KUBELET,
    "runtime_service": pulls_node.CONTAINERD,
    "container_runtime": "containerd",
    "kubeconfig": "/etc/kubernetes/admin.conf",
}
ENDPOINT = "/run/ballast-pull-proxy/n1.sock"


def a_pulls_node() -> FakeHost:
    """On which a pull proxy can be installed too."""
    host = pulls_node.Node().host
    host.given_cgroups(1)
    for path in ("/usr/local/bin", "/usr/local/lib"):
        host.given_directory(path)
    return host


# By feature, a machine on which it can be asked for, and what is asked.
CASES: dict[str, tuple[Callable[[], FakeHost], dict[str, Any]]] = {
    "image_pull_proxy": (lambda: proxy_machine.runit().host, {"max_in_flight": 3, "listeners": LISTENERS}),
    "image_pulls": (a_pulls_node, {**PULLS, "max_parallel_image_pulls": 5, "runtime": {"max_concurrent_downloads": 8}}),
    "kube_proxy": (lambda: proxy_node.Node().host, {"mode": "nftables", "service": proxy_node.SERVICE}),
}


@pytest.fixture
def on(started: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Starts a module on a machine in memory, without what that has not: files of progress, rules to look at."""
    monkeypatch.setattr(loop, "FileSink", lambda _path: loop.NullSink())
    monkeypatch.setattr(type(FEATURES["kube_proxy"].engine), "require", lambda _self, _ctx, _state: None)
    monkeypatch.setattr(switch, "compare_rules", lambda *_arguments, **_options: [])

    def run(machine: Host, module: Any, /, **params: Any) -> Ran:
        monkeypatch.setattr(loop, "LocalHost", lambda: machine)
        return started(module.main, **params)

    return run


def told(result: dict[str, Any]) -> str:
    """Without what differs from run to run, and what Ansible adds."""
    other = ("seconds", "change_seconds", "invocation", "warnings", "diff")
    left = {key: value for key, value in result.items() if key not in other}
    return json.dumps(left, sort_keys=True)


@pytest.mark.parametrize("check", [True, False], ids=["check", "do"])
@pytest.mark.parametrize("name", CASES)
def test_a_feature_returns_what_its_module_returns(on: Callable[..., Ran], name: str, check: bool) -> None:
    make, asked = CASES[name]
    how = {"_ansible_check_mode": check, "_ansible_diff": True}
    alone, together = on(make(), MODULES[name], **how, **asked), on(make(), node, **how, **{name: asked})
    assert (alone.status, together.status) == (0, 0), alone.result
    assert told(together.result[name]) == told(alone.result)
    assert together.result["changed"] is alone.result["changed"] is True
    texts = [(row["before"], row["after"]) for row in alone.result["diff"]]
    assert [(row["before"], row["after"]) for row in together.result["diff"]] == texts
    assert {row["after_header"].partition(": ")[0] for row in together.result["diff"]} == {name}


@pytest.mark.parametrize("name", CASES)
def test_after_the_module_of_a_feature_there_is_nothing_left_to_do(on: Callable[..., Ran], name: str) -> None:
    make, asked = CASES[name]
    host = make()
    assert on(host, MODULES[name], **asked).status == 0
    effects = len(host.effects)
    found = on(host, node, **{name: asked})
    assert (found.status, found.result["changed"], len(host.effects) - effects) == (0, False, 0)


def test_the_proxy_and_the_kubelet_that_it_serves_are_planned_before_either_is_there(on: Callable[..., Ran]) -> None:
    host = a_pulls_node()
    asked = {"image_pull_proxy": CASES["image_pull_proxy"][1]}
    pulls = {**PULLS, "image_service_endpoint": ENDPOINT}
    found = on(host, node, _ansible_check_mode=True, image_pulls=pulls, **asked)
    assert (found.status, host.effects) == (0, [])
    assert [found.result[name]["changed"] for name in ("image_pull_proxy", "image_pulls")] == [True, True]
    alone = on(host, image_pulls, _ansible_check_mode=True, **pulls)
    assert told(found.result["image_pulls"]) == told(alone.result)


def test_limits_of_a_proxy_that_is_not_there_yet_are_refused_in_check_mode_as_by_a_task_of_their_own(
    on: Callable[..., Ran],
) -> None:
    host, pulls = a_pulls_node(), {**PULLS, "host": {"max_in_flight": 4}}
    alone = on(host, image_pulls, _ansible_check_mode=True, **pulls)
    found = on(host, node, _ansible_check_mode=True, image_pulls=pulls, image_pull_proxy=CASES["image_pull_proxy"][1])
    assert found.message == f"image_pulls: {alone.message}"
    assert (found.result["id"], found.result["image_pull_proxy"]["changed"]) == ("pulls-node-no-proxy", True)
    assert host.effects == []


def test_no_feature_is_begun_on_a_node_that_a_distribution_manages(on: Callable[..., Ran]) -> None:
    """The pull proxy would be installed, and no kubelet could be pointed at it."""
    host = a_pulls_node()
    host.given_process(("/usr/local/bin/k3s", "server"))
    pulls = {"image_service_endpoint": ENDPOINT}
    ran = on(host, node, image_pull_proxy=CASES["image_pull_proxy"][1], image_pulls=pulls)
    assert (ran.result["id"], host.effects) == ("pulls-node-rancher", [])
    assert ran.message.startswith("image_pulls: k3s runs the kubelet of this node")


def test_errors_of_input_of_all_features_are_told_at_once(on: Callable[..., Ran]) -> None:
    host = a_pulls_node()
    found = on(
        host,
        node,
        image_pull_proxy={"max_in_flight": -1, "listeners": LISTENERS},
        image_pulls={**PULLS, "registry_burst": 0},
        kube_proxy={"mode": "nftables", "drain_seconds": -1, "config": {"mode": "ipvs"}},
    )
    assert re.findall(r"^(\w+): (\S+):", found.message, flags=re.MULTILINE) == [
        ("image_pull_proxy", "max_in_flight"),
        ("image_pulls", "registry_burst"),
        ("kube_proxy", "config.mode"),
        ("kube_proxy", "drain_seconds"),
    ]
    assert (found.status, host.effects, host.commands) == (1, [], [])


def test_a_failure_in_the_second_keeps_the_first(on: Callable[..., Ran]) -> None:
    host = proxy_machine.runit().host
    asked = {name: asked for name, (_make, asked) in CASES.items()}
    found = on(host, node, **{**asked, "image_pulls": {**PULLS, "registry_burst": 5}})
    assert (found.status, found.result["id"]) == (1, "pulls-node-service")
    assert found.message.startswith("image_pulls: ")
    assert found.message.endswith("not touched: kube_proxy")
    assert found.result["image_pull_proxy"]["changed"] is True
    assert json.loads(host.text(INSTALLATION.config))["max_in_flight"] == 3


def documented(*modules: str) -> dict[str, Any]:
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build/collections")}
    argv = [str(Path(sys.executable).with_name("ansible-doc")), "--type", "module", "--json"]
    names = [f"ballast.kube.{module}" for module in modules]
    done = subprocess.run([*argv, *names], env=environment, capture_output=True, text=True, timeout=120, check=True)
    return {name.rpartition(".")[2]: row["doc"] for name, row in json.loads(done.stdout).items()}


def test_each_option_is_documented_as_by_its_module() -> None:
    found = documented("node", *FEATURES)
    options = found["node"]["options"]
    assert list(options) == sorted(FEATURES)
    for name in FEATURES:
        theirs = json.dumps(found[name]["options"], sort_keys=True)
        ours = json.dumps(options[name]["suboptions"], sort_keys=True)
        assert ours.replace(f"O({name}.", "O(") == theirs
        assert re.findall(rf"O\((?!{name}\.)[^)]*\)", ours) == re.findall(r"O\([^)#]*#[^)]*\)", theirs)


def test_the_examples_are_of_the_options_that_there_are() -> None:
    tasks = [task["ballast.kube.node"] for task in yaml.safe_load(node.EXAMPLES)]
    assert {name for task in tasks for name in task} == set(FEATURES)
    for task in tasks:
        for name, asked in task.items():
            assert set(asked) <= set(FEATURES[name].spec)
    assert set(yaml.safe_load(node.RETURN)) == set(FEATURES)
