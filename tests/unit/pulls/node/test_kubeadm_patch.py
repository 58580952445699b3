# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits of a kubelet as a patch, with which kubeadm writes the kubelet's configuration file."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, UserError
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.info import read_params
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.kubeadm_patch import CONFIG, FILE_NAME
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.model import INFO_SPEC
from tests.unit import cases
from tests.unit.fakes import Answer, Call, FakeHost
from tests.unit.pulls.node.fake_node import CONFIG_DIR
from tests.unit.pulls.node.kubeadm_node import DEFAULT_FILE, KubeadmNode

PATCHES = "/etc/kubernetes/patches"
PATCH = f"{PATCHES}/{FILE_NAME}"
THEIRS = f"{PATCHES}/kubeletconfiguration0+merge.yaml"
INSTANCE = "/var/lib/kubelet/instance-config.yaml"
LIMIT = {"max_parallel_image_pulls": 5, "kubeadm_patches": PATCHES}


class PatchedNode(KubeadmNode):
    """Its kubeadm writes config.yaml of `config_map`, the patches, and instance-config.yaml, as the real one does."""

    base = CONFIG

    def __init__(self, *, has_directory: bool = True) -> None:
        super().__init__()
        api = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
        self.config_map: dict[str, Any] = {**api, "maxPods": 50, "serializeImagePulls": True}
        self.runs: list[tuple[str, ...]] = []
        self.knows_dry_run_dir = True
        self.host.given(INSTANCE, 'containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock"\n')
        if has_directory:
            self.host.given_directory(PATCHES)
            self.host.given(THEIRS, "registryBurst: 7\n")
            self.host.given(f"{PATCHES}/kube-apiserver.yaml", "metadata: {}\n")
        self.host.on("kubeadm", answer=self._kubeadm)
        self.host.on("kubeadm", answer=self._kubeadm, reads=lambda argv: "--dry-run" in argv)
        self.host.given(CONFIG, self._written(PATCHES, INSTANCE))
        self.host.cut_power = self._cut_power  # type: ignore[method-assign]
        self._restart(None)  # type: ignore[arg-type]
        self.starts = 0
        self.host.effects.clear()

    def _cut_power(self) -> None:
        FakeHost.cut_power(self.host)
        for name in self.host.listdir("/run"):  # a tmpfs
            if name.startswith(".ballast-"):
                self.host.remove_tree(f"/run/{name}")

    def _kubeadm(self, call: Call) -> Answer:
        assert call.argv[:6] == ("kubeadm", "upgrade", "node", "phase", "kubelet-config", "--patches")
        if call.argv[7:] == ("--dry-run",):
            result = call.env["KUBEADM_UPGRADE_DRYRUN_DIR"]
            if self.knows_dry_run_dir:
                text = self._written(call.argv[6], f"{result}/instance-config.yaml")
                self.host.given(f"{result}/config.yaml", text)
        else:
            self.runs.append(call.argv)
            self.host.given(CONFIG, self._written(call.argv[6], INSTANCE))
        return ""

    def _written(self, patches: str, instance: str) -> str:
        config = dict(self.config_map)
        names = [name for name in sorted(self.host.listdir(patches)) if name.startswith("kubeletconfiguration")]
        for path in [*(f"{patches}/{name}" for name in names), instance]:
            for key, value in (yaml.safe_load(self.host.text(path)) or {}).items():
                config[key] = value
                if value is None:
                    del config[key]
        return json.dumps(config)


def titles(node: PatchedNode, **options: Any) -> list[str]:
    return [f"{step.verb} {step.title}" for step in cases.apply(ENGINE, node.request(**options), node.host).steps]


def ids_of(node: PatchedNode, **options: Any) -> list[str]:
    with pytest.raises(BallastError) as caught:
        titles(node, **options)
    return [each.id for each in getattr(caught.value, "problems", [caught.value])]


@pytest.mark.parametrize("has_directory", [True, False])
def test_kubeadm_writes_the_limits_with_one_restart_and_takes_them_away(has_directory: bool) -> None:
    node = PatchedNode(has_directory=has_directory)
    before = node.host.snapshot()
    made = [] if has_directory else [f"make directory {PATCHES}"]
    assert titles(node, **LIMIT) == [*made, f"make kubeadm's patch {PATCH}"]
    assert (node.starts, node.effective["maxParallelImagePulls"]) == (1, 5)
    assert "not in effect yet" not in node.host.text(PATCH)
    assert json.loads(node.host.text(CONFIG))["serializeImagePulls"] is False
    assert node.host.read(DEFAULT_FILE) is None
    ran = len(node.host.commands)
    assert titles(node, **LIMIT) == []
    assert not any("kubeadm" in argv for argv in node.host.commands[ran:]), "a second run asks kubeadm nothing"
    assert titles(node, **{**LIMIT, "max_parallel_image_pulls": 6}) == [f"change kubeadm's patch {PATCH}"]
    assert node.effective["maxParallelImagePulls"] == 6
    titles(node, state="absent")
    assert node.host.snapshot() == before
    assert (node.starts, node.effective["maxParallelImagePulls"]) == (3, None)
    assert node.runs == [("kubeadm", "upgrade", "node", "phase", "kubelet-config", "--patches", PATCHES)] * 3


def test_a_run_killed_anywhere_is_finished_or_undone_by_the_next() -> None:
    nodes: list[PatchedNode] = []

    def machine() -> Any:
        nodes.append(PatchedNode())
        return nodes[-1].host

    want, nothing = PatchedNode().request(**LIMIT), PatchedNode().request(state="absent")
    kills = cases.check_kills(
        ENGINE, machine, want, nothing, lambda _host: nodes[-1].effective["maxParallelImagePulls"] == 5
    )
    assert kills > 20


def test_limits_that_an_upgrade_without_the_patches_took_away_are_set_again() -> None:
    node = PatchedNode(has_directory=False)
    titles(node, **LIMIT)
    node.host.given(CONFIG, node._written("/absent", INSTANCE))
    assert titles(node, **LIMIT) == [f"change kubeadm's patch {PATCH}"]
    assert json.loads(node.host.text(CONFIG))["maxParallelImagePulls"] == 5
    assert titles(node, **LIMIT) == []


@pytest.mark.parametrize("name", ["maxPods", "evictionHard"])
def test_what_somebody_wrote_into_the_file_is_not_lost(name: str) -> None:
    node = PatchedNode()
    node.host.given(CONFIG, json.dumps({**json.loads(node.host.text(CONFIG)), name: "by hand"}))
    before = node.host.snapshot()
    plan = node.request(**LIMIT)
    with pytest.raises(BallastError, match=f"kubeadm would also change {name} in"):
        ENGINE.observe(Context(plan, node.host))
    assert node.host.snapshot() == before
    assert node.runs == []


def test_a_removal_that_would_roll_out_something_else_is_refused_and_undone() -> None:
    node = PatchedNode()
    titles(node, **LIMIT)
    node.config_map["maxPods"] = 200
    assert ids_of(node, state="absent") == ["pulls-node-kubeadm-differs"]
    assert node.effective["maxParallelImagePulls"] == 5
    node.config_map["maxPods"] = 50
    titles(node, state="absent")
    assert node.effective["maxParallelImagePulls"] is None


def test_a_patch_that_is_read_after_it_and_sets_the_same_key_is_named() -> None:
    node = PatchedNode()
    node.host.given(f"{PATCHES}/kubeletconfigurationz+merge.yaml", "maxParallelImagePulls: 2\n")
    node.host.given(CONFIG, node._written(PATCHES, INSTANCE))
    before = node.host.snapshot()
    assert ids_of(node, **LIMIT) == ["pulls-node-not-in-effect"]
    assert node.host.snapshot() == before


def test_from_a_drop_in_to_a_patch_and_back() -> None:
    node = PatchedNode()
    node.host.given_directory("/etc/default")
    before = node.host.snapshot()
    titles(node, max_parallel_image_pulls=5)
    titles(node, **LIMIT)
    assert node.effective["maxParallelImagePulls"] == 5
    assert node.host.stat(CONFIG_DIR) is None
    titles(node, max_parallel_image_pulls=5)
    assert node.effective["maxParallelImagePulls"] == 5
    assert node.host.read(PATCH) is None
    titles(node, state="absent")
    assert node.host.snapshot() == before


def test_a_kubelet_that_does_not_start_with_it_gets_the_former_file() -> None:
    node = PatchedNode()
    before = node.host.snapshot()
    node.can_start = lambda _name: "maxParallelImagePulls" not in node.host.text(CONFIG)  # type: ignore[method-assign]
    assert ids_of(node, **LIMIT) == ["pulls-node-kubelet-failed"]
    assert node.host.snapshot() == before
    assert node.kubelet_pid()


def without_kubeadm() -> PatchedNode:
    node = PatchedNode()
    node.host._rules[:] = [rule for rule in node.host._rules if rule.prefix != ("kubeadm",)]
    return node


def failing() -> PatchedNode:
    node = PatchedNode()
    node.host.on("kubeadm", answer=1)
    return node


def old() -> PatchedNode:
    node = PatchedNode()
    node.knows_dry_run_dir = False
    return node


class Elsewhere(PatchedNode):
    base = "/etc/kubernetes/kubelet-config.yaml"  # as kubespray's nodes have it


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (without_kubeadm, "pulls-node-kubeadm"),
        (failing, "pulls-node-kubeadm"),
        (old, "pulls-node-kubeadm-version"),
        (Elsewhere, "pulls-node-kubeadm-config"),
    ],
)
def test_where_kubeadm_cannot_do_it_nothing_is_changed(make: Any, expected: str) -> None:
    node = make()
    before = node.host.snapshot()
    assert ids_of(node, **LIMIT) == [expected]
    assert node.host.snapshot() == before


def test_the_directory_is_an_absolute_path() -> None:
    with pytest.raises(UserError, match="kubeadm_patches: patches is not an absolute path"):
        PatchedNode().request(kubeadm_patches="patches")


@pytest.mark.parametrize("options", [LIMIT, {"max_parallel_image_pulls": 5}], ids=["patch", "drop-in and flag"])
def test_readiness_knows_what_was_made_on_a_node_of_kubeadm(options: dict[str, Any]) -> None:
    node = PatchedNode(has_directory=False)
    node.host.given_directory("/etc/default")
    titles(node, **options)
    given = {name: row.get("default") for name, row in INFO_SPEC.items()}
    report = read_params(node.host, {**given, "readiness": True, "kubeconfig": "/etc/kubernetes/admin.conf"})
    answers = report["readiness"]["answers"]
    enabled = answers["enabled"]
    assert answers["dependencies"]["verdict"] == "yes"
    assert (enabled["verdict"], "maxParallelImagePulls: 5" in enabled["text"]) == ("yes", True)
