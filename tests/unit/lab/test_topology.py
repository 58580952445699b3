# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.unit.lab import given as g


def node(**changes: Any) -> dict[str, Any]:
    return {"topology": {"nodes": [{"name": "a", **changes}]}}


def default(**changes: Any) -> dict[str, Any]:
    return {"topology": {"defaults": changes}}


AT = "nodes[0]"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"name": "My_Lab"}, [("lab-value", "name")]),
        ({"topology": {"name": "-"}}, [("lab-value", "name")]),
        ({"name": True}, [("lab-value", "name")]),  # of a topology file: name: yes
        ({"topology": {"nodes": [{"name": "localhost"}]}}, [("lab-value", f"{AT}.name")]),
        ({"topology": {"nodes": [{"name": "all"}]}}, [("lab-value", f"{AT}.name")]),
        ({"topology": {"nodes": [{"name": "vm2"}]}, "target": "vm"}, [("lab-value", f"{AT}.name")]),
        ({"topology": {"nodes": [{"name": "vm2"}]}}, []),
        ({"topology": ["a"]}, [("lab-value", "topology")]),
        ({"topology": {"nods": []}}, [("lab-key", "topology")]),
        ({"topology": {"nodes": {}}}, [("lab-value", "nodes")]),
        ({"topology": {"nodes": ["a"]}}, [("lab-value", AT)]),
        ({"topology": {"nodes": [{}]}}, [("lab-value", f"{AT}.name")]),
        ({"topology": {"nodes": [{"name": "a"}, {"name": "a"}]}}, [("lab-node-twice", "nodes[1]")]),
        ({"topology": {"node_cidr": "10.0.0.0/25"}}, [("lab-value", "node_cidr")]),
        ({"topology": {"node_cidr": "10.0.0.1/24"}}, [("lab-value", "node_cidr")]),
        ({"topology": {"pod_cidr": "10.0.0.0/17"}}, [("lab-value", "pod_cidr")]),
        ({"topology": {"service_cidr": "10.0.0.0/8"}}, [("lab-value", "service_cidr")]),
        ({"topology": {"service_cidr": "fd00::/108"}}, [("lab-value", "service_cidr")]),
        ({"topology": {"service_cidr": "169.254.0.0/16"}}, [("lab-value", "service_cidr")]),
        ({"topology": {"node_cidr": "127.0.5.0/24"}}, [("lab-value", "node_cidr")]),
        ({"topology": {"node_cidr": "fe80::/64", "ip_family": "ipv6"}}, [("lab-value", "node_cidr")]),
        ({"topology": {"pod_cidr": "0.0.0.0/8"}}, [("lab-value", "pod_cidr")]),
        ({"topology": {"pod_cidr": "240.0.0.0/8"}}, [("lab-value", "pod_cidr")]),
        ({"kubernetes_version": "1.37"}, [("lab-value", "kubernetes_version")]),
        ({"kubernetes_version": None}, [("lab-value", "kubernetes_version")]),
        ({"kubernetes_version": None, "topology": {"kubernetes_version": 1.36}}, [("lab-value", "kubernetes_version")]),
        ({"nodes": 0}, [("lab-value", "nodes")]),
        ({"nodes": 201}, [("lab-value", "nodes")]),
        ({"target": "vm", "hosts": 0}, [("lab-value", "hosts")]),
        ({"target": "vm", "hosts": 17}, [("lab-value", "hosts")]),
        ({"lab_dir": "lab"}, [("lab-value", "lab_dir")]),
        ({"lab_dir": "/var/my lab"}, [("lab-value", "lab_dir")]),
        ({"lab_dir": "/srv/x/../lab"}, [("lab-value", "lab_dir")]),
        ({"lab_dir": "/" + "x" * 54}, [("lab-value", "lab_dir")]),
        (node(share="2/1"), [("lab-value", f"{AT}.share")]),
        (node(share="1/0"), [("lab-value", f"{AT}.share")]),
        (node(share="0/3"), [("lab-value", f"{AT}.share")]),
        (node(share=0.5), [("lab-value", f"{AT}.share")]),
        (node(share="1/3", cpu="1"), [("lab-value", f"{AT}.share")]),
        (node(cpu="many"), [("core-quantity", f"{AT}.cpu")]),
        (node(cpu=0), [("lab-value", f"{AT}.cpu")]),
        (node(cpu="-1"), [("lab-value", f"{AT}.cpu")]),
        (node(memory="1Mi"), [("lab-value", f"{AT}.memory")]),
        (node(pids=10), [("lab-value", f"{AT}.pids")]),
        (node(pids=2**22), []),
        (node(pids=2**22 + 1), [("lab-value", f"{AT}.pids")]),
        (node(pids=True), [("lab-value", f"{AT}.pids")]),
        (node(pids="many"), [("lab-value", f"{AT}.pids")]),
        (node(proxy_backend="nft"), [("lab-value", f"{AT}.proxy_backend")]),
        (
            {"topology": {"kube_proxy": "daemonset", "defaults": {"proxy_backend": "ballast"}}},
            [("lab-value", "defaults.proxy_backend")],
        ),
        (node(runtime="gvisor"), [("lab-value", f"{AT}.runtime")]),
        (node(host=["vm1"]), [("lab-value", f"{AT}.host")]),
        (node(pod_cidr="10.1.0.0"), [("lab-value", f"{AT}.pod_cidr")]),  # a /32
        (node(pod_cidr="10.1.0.0/28"), []),
        (node(pod_cidr="10.1.0.0/29"), [("lab-value", f"{AT}.pod_cidr")]),
        (node(pod_cidr="10.1.0.0/33"), [("lab-value", f"{AT}.pod_cidr")]),
        (node(labels=["a"]), [("lab-value", f"{AT}.labels")]),
        (node(labels={"a": True}), [("lab-value", f"{AT}.labels.a")]),
        (node(labels={"a b": "c"}), [("instance-label", f"{AT}.labels")]),
        (node(labels={5: "c", "a b": "c"}), [("instance-label", f"{AT}.labels")]),
        (node(labels={"node-role.kubernetes.io/w": ""}), [("instance-label-reserved", f"{AT}.labels")]),
        (node(taints=["a"]), [("lab-value", f"{AT}.taints[0]")]),
        (node(taints=[{"key": "a"}]), [("lab-value", f"{AT}.taints[0].effect")]),
        (node(taints=[{"effect": "NoSchedule"}]), [("lab-value", f"{AT}.taints[0].key")]),
        (node(taints=[{"key": "a", "effect": "Never"}]), [("lab-value", f"{AT}.taints[0].effect")]),
        (node(taints=[{"key": "a b", "effect": "NoSchedule"}]), [("instance-label", f"{AT}.taints[0]")]),
        (node(taints=[{"key": "a", "effect": "NoSchedule", "to": "b"}]), [("lab-key", f"{AT}.taints[0]")]),
        (
            node(taints=[{"key": "a", "value": value, "effect": "NoSchedule"} for value in "bc"]),
            [("instance-twice", f"{AT}.taints[1]")],
        ),
        (node(taints=[{"key": "a", "effect": effect} for effect in ("NoSchedule", "NoExecute")]), []),
        ({"topology": {"kube_proxy": "pod"}}, [("lab-value", "kube_proxy")]),
        ({"topology": {"api_server": ["event-ttl=3h"]}}, [("lab-value", "api_server")]),
        ({"topology": {"scheduler": {"--v": 1}}}, [("plane-argument-name", "scheduler.--v")]),
        ({"topology": {"feature_gates": {"A": "on"}}}, [("plane-gate", "feature_gates.A")]),
        (node(kubelet={"cgroupRoot": "/x"}), [("instance-kubelet-own", f"{AT}.kubelet")]),
        (default(kubelet={"featureGates": {}}), [("instance-kubelet-own", "defaults.kubelet")]),
        (node(kubelet={"registerNode": False}), [("instance-kubelet-own", f"{AT}.kubelet")]),
        (node(kubelet={"enableServer": False}), [("instance-kubelet-own", f"{AT}.kubelet")]),
        (node(kubelet={"systemCgroups": "/system"}), [("instance-kubelet-own", f"{AT}.kubelet")]),
        (node(kubelet=["maxPods"]), [("lab-value", f"{AT}.kubelet")]),
        (node(mounts=[{"host": "/srv", "node": "data"}]), [("instance-path", "nodes.a.mounts[0].node")]),
        (node(mounts=[{"host": "/srv"}]), [("instance-path", "nodes.a.mounts[0].node")]),
        (node(mounts=[{"host": "/srv", "node": "/d", "readOnly": True}]), [("lab-key", f"{AT}.mounts[0]")]),
        (
            node(mounts=[{"host": "/srv", "node": "/d", "read_only": "no"}]),
            [("lab-value", f"{AT}.mounts[0].read_only")],
        ),
        (node(mounts=["/srv:/d"]), [("lab-value", f"{AT}.mounts[0]")]),
        (node(mounts=[{"host": "/srv", "node": "/var/lib"}]), [("instance-mount-place", "nodes.a.mounts[0].node")]),
        (node(mounts=[{"host": "/srv", "node": g.DIR}]), [("instance-mount-place", "nodes.a.mounts[0].node")]),
        ({"topology": {"registry_mirrors": ["docker.io"]}}, [("instance-mirrors", "registry_mirrors")]),
        (
            {"topology": {"registry_mirrors": {"docker.io": ["mirror.example"]}}},
            [("instance-mirror", "registry_mirrors.docker.io[0]")],
        ),
        ({"topology": {"control_planes": 2}}, [("lab-value", "control_planes")]),
        ({"topology": {"control_planes": True}}, [("lab-value", "control_planes")]),
        ({"topology": {"control_planes": 3}, "target": "vm"}, [("lab-value", "control_planes")]),
        (
            {"topology": {"control_planes": 3}, "target": "vm", "bootstrap": "kubeadm"},
            [("lab-value", "control_planes")],
        ),
        ({"topology": {"publish": "8080:30080"}}, [("lab-value", "publish")]),
        ({"topology": {"publish": [4830]}}, [("lab-value", "publish")]),  # what YAML takes 80:30 for
        ({"topology": {"publish": ["8080:30080/sctp"]}}, [("lab-value", "publish")]),
        ({"topology": {"publish": ["70000:30080"]}}, [("lab-value", "publish")]),
        ({"topology": {"publish": ["8080:30080", "8080:30081"]}}, [("lab-value", "publish")]),
        ({"topology": {"publish": ["6443:30443"]}}, [("lab-value", "publish")]),
        ({"topology": {"publish": ["2379:30080"]}}, [("lab-value", "publish")]),
        ({"topology": {"publish": ["6443:30443/udp", "443:30443"]}}, []),
        ({"topology": {"audit": "Everything"}}, [("lab-value", "audit")]),
        ({"topology": {"encryption": True}}, [("lab-value", "encryption")]),
        (
            {"topology": {"kube_proxy": "daemonset", "nodes": [{"name": "a"}, {"name": "b", "proxy_backend": "ipvs"}]}},
            [("lab-value", "kube_proxy")],
        ),
        (default(pids=1), [("lab-value", "defaults.pids")]),
        (default(host="vm1"), [("lab-key", "defaults")]),
        (default(labels={"a b": "c"}), [("instance-label", "defaults.labels")]),
    ],
)
def test_a_fault_is_told_once_with_its_path(changes: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert g.faults(**changes) == found


def test_the_nearest_known_name_is_suggested() -> None:
    with pytest.raises(BallastError) as caught:
        g.request(topology={"nodes": [{"name": "a", "tains": []}]})
    assert str(caught.value).splitlines() == [
        "nodes[0]: unknown key 'tains'; allowed: cpu, host, kubelet, labels, memory, mounts, name, pids, pod_cidr, proxy_backend, runtime, share, taints",
        "  do:    did you mean taints?",
        "  id:    lab-key   (docs/reference/errors-lab.md#lab-key)",
    ]
    with pytest.raises(BallastError, match="remove it") as caught:
        g.request(topology={"colour": "red"})
    assert "feature_gates" in caught.value.text
    assert "left out" not in caught.value.text


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        ({"topology": {"defaults": {"proxy_backend": "kpng"}}}, "nftables, iptables, ipvs, ballast"),
        (
            {"topology": {"kube_proxy": "daemonset", "defaults": {"proxy_backend": "ballast"}}},
            "nftables, iptables, ipvs",
        ),
        (
            {"topology": {"defaults": {"proxy_backend": "ballast"}}, "target": "vm", "bootstrap": "kubeadm"},
            "nftables, iptables, ipvs",
        ),
    ],
)
def test_a_backend_is_refused_with_those_that_are_possible(changes: dict[str, Any], allowed: str) -> None:
    with pytest.raises(BallastError) as caught:
        g.request(**changes)
    assert caught.value.text.endswith(f"is not one of {allowed}")


def test_nodes_of_a_lab_may_have_different_backends() -> None:
    topology = {
        "defaults": {"proxy_backend": "ballast"},
        "nodes": [{"name": "a", "proxy_backend": "ipvs"}, {"name": "b"}],
    }
    assert [node.proxy_backend for node in g.request(topology=topology).nodes] == ["ipvs", "ballast"]


def test_every_fault_is_told_at_once() -> None:
    nodes = [{"name": "A", "cpu": "x"}, {"name": "b", "share": "x"}]
    found = g.faults(name="_", kubernetes_version="x", lab_dir="x", topology={"defaults": {"pids": 1}, "nodes": nodes})
    paths = {path for _id, path in found}
    assert paths == {
        "name",
        "kubernetes_version",
        "lab_dir",
        "nodes[0].name",
        "nodes[0].cpu",
        "nodes[1].share",
        "defaults.pids",
    }
    assert len(found) == len(paths)


def test_what_is_not_said_has_its_default() -> None:
    request = g.request()
    assert [node.name for node in request.nodes] == ["n1", "n2", "n3"]
    assert {(node.proxy_backend, node.runtime, node.pids, node.share) for node in request.nodes} == {
        ("nftables", "runc", 8192, None)
    }
    assert (request.name, request.kubernetes_version, request.hosts) == ("lab", "1.37.1", 0)
    assert [str(network) for network in request.service_cidr] == ["10.96.0.0/16"]


def test_a_node_has_the_defaults_that_it_does_not_replace() -> None:
    taint = {"key": "a", "value": None, "effect": "NoSchedule"}
    defaults = {"labels": {"a": "1", "b": 2}, "taints": [taint], "cpu": 0.5, "memory": "1Gi", "proxy_backend": "ipvs"}
    nodes = [{"name": "x"}, {"name": "y", "labels": {"b": "3"}, "taints": [], "cpu": "2", "runtime": "crun"}]
    x, y = g.request(topology={"defaults": defaults, "nodes": nodes}).nodes
    assert (x.labels, x.cpu_millis, x.memory_bytes, x.proxy_backend) == ({"a": "1", "b": "2"}, 500, 2**30, "ipvs")
    assert x.taints == ({"key": "a", "value": "", "effect": "NoSchedule"},)
    assert (y.labels, y.taints, y.cpu_millis, y.runtime) == ({"a": "1", "b": "3"}, (), 2000, "crun")


def test_the_number_of_nodes_takes_the_first_and_adds_what_is_missing() -> None:
    topology = {"nodes": [{"name": "n2", "share": "1/4"}, {"name": "db"}]}
    assert [node.name for node in g.request(topology=topology).nodes] == ["n2", "db"]
    assert [node.name for node in g.request(topology=topology, nodes=1).nodes] == ["n2"]
    grown = g.request(topology=topology, nodes=4).nodes
    assert [node.name for node in grown] == ["n2", "db", "n1", "n3"]
    assert grown[0].share == Fraction(1, 4)


def test_a_version_may_have_its_v() -> None:
    assert g.request(kubernetes_version="v1.36.4").kubernetes_version == "1.36.4"


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    topology=st.dictionaries(
        st.sampled_from(["name", "nodes", "defaults", "node_cidr", "pod_cidr", "kubernetes_version", "x"]),
        _ANY,
        max_size=4,
    )
)
def test_nonsense_is_refused_and_never_a_fault_of_ours(topology: dict[str, Any]) -> None:
    g.faults(topology=topology)


@given(
    row=st.dictionaries(
        st.sampled_from(["labels", "taints", "share", "cpu", "memory", "pids", "proxy_backend", "host", "pod_cidr"]),
        _ANY,
    )
)
def test_nonsense_in_a_node_is_refused_too(row: dict[str, Any]) -> None:
    g.faults(topology={"nodes": [{"name": "a", **row}], "defaults": row})
