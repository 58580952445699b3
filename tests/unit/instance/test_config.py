# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._instance import config
from ansible_collections.ballast.kube.plugins.module_utils._instance.model import (
    BALLAST,
    Instance,
    InstancesRequest,
    Taint,
)
from tests.unit.instance import given as g
from tests.unit.instance.test_model import dual

try:
    import tomllib
except ImportError:  # Python 3.10 and older
    tomllib = None  # type: ignore[assignment]

GOLDEN = Path(__file__).parent / "golden"
HOME = f"{g.STATE}/n1"


def request(**changes: object) -> tuple[InstancesRequest, Instance]:
    row = g.instance(
        1,
        labels={"example.org/disk": "ssd", "a": "b"},
        taints=[{"key": "example.org/only", "value": None, "effect": "NoSchedule"}],
    )
    desired = g.desired(**{"instances": [row], **changes})
    return desired, desired.instances[0]


def texts(desired: InstancesRequest, instance: Instance) -> dict[str, str]:
    return {
        "kubeconfig.json": config.kubeconfig(desired, f"{HOME}/pki", "kubelet"),
        "kubelet.json": config.kubelet(desired, instance, HOME),
        "kube-proxy.json": config.kube_proxy(desired, instance, HOME),
        "service-proxy.json": config.service_proxy(desired, replace(instance, proxy_backend=BALLAST), HOME),
        "containerd.toml": config.containerd(desired, instance, HOME),
        "cni.json": config.cni(desired, instance),
        "kubelet-arguments.txt": "\n".join(config.kubelet_arguments(desired, instance, HOME)) + "\n",
    }


@pytest.mark.parametrize("name", sorted(texts(*request())))
def test_files_are_as_they_were(name: str) -> None:
    """With UPDATE_GOLDEN=1 the files are written anew; look at the difference."""
    text, path = texts(*request())[name], GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_the_kubelets_cgroup_is_the_instances_for_either_driver() -> None:
    desired, instance = request(cgroup_driver="systemd", lab="my-lab")
    root = json.loads(config.kubelet(desired, instance, HOME))["cgroupRoot"]
    # kubelet/cm ToSystemd: - in a part becomes _, parts are joined by -.
    assert "-".join(part.replace("-", "_") for part in root.strip("/").split("/")) == desired.cgroup(instance)
    desired, instance = request(lab="my-lab")
    assert json.loads(config.kubelet(desired, instance, HOME))["cgroupRoot"] == f"/{desired.cgroup(instance)}"


def test_an_instance_of_both_families_gives_pods_an_address_and_a_route_of_each() -> None:
    desired, instance = request(**dual())
    assert json.loads(config.kubelet(desired, instance, HOME))["address"] == "10.97.0.11"
    assert "--node-ip=10.97.0.11,fd00::b" in config.kubelet_arguments(desired, instance, HOME)
    assert json.loads(config.kube_proxy(desired, instance, HOME))["clusterCIDR"] == "10.128.0.0/16,fd00:1::/56"
    ipam = json.loads(config.cni(desired, instance))["plugins"][0]["ipam"]
    assert ipam["ranges"] == [[{"subnet": "10.128.1.0/24"}], [{"subnet": "fd00:1::/64"}]]
    assert ipam["routes"] == [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]


def test_nothing_that_belongs_to_the_host_is_set_by_an_instance() -> None:
    desired, instance = request()
    assert json.loads(config.kube_proxy(desired, instance, HOME))["conntrack"] == {"maxPerCore": 0}
    kubelet = json.loads(config.kubelet(desired, instance, HOME))
    assert kubelet["podLogsDir"].startswith(HOME)
    assert kubelet["failCgroupV1"] is False
    assert kubelet["authentication"]["anonymous"]["enabled"] is False
    assert kubelet["authorization"]["mode"] == "Webhook"


@example(text="\x7f")  # which JSON leaves as it is, and TOML refuses
@example(text="\N{GRINNING FACE}")  # two escapes in JSON, one in TOML
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text_survives_its_quoting(text: str) -> None:
    hostile = Instance(
        name=text,
        address="10.97.0.11",
        pod_cidr="10.128.1.0/24",
        labels=(),
        taints=(Taint(key=text, value=text, effect=text),),
        cpu_millis=None,
        memory_bytes=None,
        pids=None,
        proxy_backend=text,
        runtime=text,
        startup_taints=(),
    )
    desired = InstancesRequest(**{**vars(g.desired()), "bin_dir": text, "api_server": text, "cluster_cidr": text})
    found = texts(desired, hostile)
    assert json.loads(found["kubelet.json"])["registerWithTaints"] == [{"key": text, "value": text, "effect": text}]
    assert json.loads(found["kube-proxy.json"])["mode"] == text
    assert json.loads(found["kubeconfig.json"])["clusters"][0]["cluster"]["server"] == text
    if tomllib is not None:
        runtime = tomllib.loads(found["containerd.toml"])["plugins"]["io.containerd.cri.v1.runtime"]
        assert runtime["cni"]["bin_dirs"] == [text]
        assert runtime["containerd"]["runtimes"]["runc"]["options"]["BinaryName"] == text


@pytest.mark.parametrize(
    ("version", "policy"),
    [("1.34.4", None), ("1.35.8", "NeverVerify"), ("1.37.1", "NeverVerify"), ("1.100.0", "NeverVerify"), ("", None)],
)
def test_loaded_images_run_although_the_same_content_was_pulled(version: str, policy: str | None) -> None:
    """A kubelet before 1.35 refuses the setting without a feature gate that is off."""
    desired = InstancesRequest(**{**vars(g.desired()), "kubernetes_version": version})
    found = json.loads(config.kubelet(desired, desired.instances[0], HOME))
    assert found.get("imagePullCredentialsVerificationPolicy") == policy


def test_containerd_uses_the_driver_of_the_kubelet() -> None:
    for driver, wanted in (("systemd", "true"), ("cgroupfs", "false")):
        assert f"SystemdCgroup = {wanted}\n" in config.containerd(*request(cgroup_driver=driver), HOME)


def test_the_drop_in_of_startup_taints_has_those_of_the_file_that_it_stands_over() -> None:
    _desired, instance = request()
    instance = replace(instance, startup_taints=(Taint(key="example.org/unsized", value="", effect="NoSchedule"),))
    found = json.loads(config.startup_taints(instance))["registerWithTaints"]
    assert [taint["key"] for taint in found] == ["example.org/only", "example.org/unsized"]


def test_a_part_of_the_configuration_and_feature_gates_are_the_users() -> None:
    row = g.instance(1, kubelet={"maxPods": 30, "evictionSoft": {"memory.available": "200Mi"}})
    desired, instance = request(instances=[row], feature_gates={"B": False, "A": True})
    kubelet = json.loads(config.kubelet(desired, instance, HOME))
    assert (kubelet["maxPods"], kubelet["evictionSoft"]) == (30, {"memory.available": "200Mi"})
    assert kubelet["featureGates"] == {"A": True, "B": False}
    assert json.loads(config.kube_proxy(desired, instance, HOME))["featureGates"] == {"A": True, "B": False}
    assert "featureGates" not in json.loads(config.kubelet(*request(), HOME))


@pytest.mark.parametrize(
    ("changes", "id"),
    [
        *(
            ({"instances": [g.instance(1, kubelet={key: 1})]}, "instance-kubelet-own")
            for key in json.loads(config.kubelet(*request(), HOME))
            if key not in ("failCgroupV1", "imagePullCredentialsVerificationPolicy")
        ),
        ({"instances": [g.instance(1, kubelet={"featureGates": {"A": True}})]}, "instance-kubelet-own"),
        ({"feature_gates": {"A": "true"}}, "instance-gate"),
        ({"feature_gates": {"a b": True}}, "instance-gate"),
    ],
)
def test_what_an_instance_needs_is_refused(changes: dict[str, object], id: str) -> None:
    with pytest.raises(BallastError) as refused:
        g.desired(**changes)
    assert refused.value.id == id
