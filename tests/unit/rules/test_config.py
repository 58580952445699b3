# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import Problems, UserError
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import BACKENDS, ParsedConfig, parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.config_keys import KEYS
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import (
    FamilyView,
    LocalDetector,
    NodeView,
    RuleConfig,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_ports import node_port_addresses

NODES = {
    4: NodeView("n1", primary="192.0.2.10", addresses=("192.0.2.10", "10.9.0.1"), pod_cidr="10.1.0.0/24"),
    6: NodeView("n1", primary="2001:db8::10", addresses=("2001:db8::10",), pod_cidr="fd00:1::/64"),
}
BARE = NodeView("n1")
DUAL = {"clusterCIDR": "10.1.0.0/16,fd00:1::/48"}


def parse(data: object, backend: str = "nftables", family: int = 4, node: NodeView | None = None) -> ParsedConfig:
    return parse_config(data, backend=backend, family=family, node=node or NODES[family])


def rules(data: object, backend: str = "nftables", family: int = 4) -> RuleConfig:
    return parse(data, backend, family).rules


def warnings(data: object, backend: str = "nftables", family: int = 4, node: NodeView | None = None) -> list[str]:
    return [
        one.id for one in parse({**DUAL, **(data if isinstance(data, dict) else {})}, backend, family, node).warnings
    ]


def faults(data: object, **how: Any) -> list[tuple[str, str]]:
    with pytest.raises(UserError) as caught:
        parse(data, **how)
    problems = caught.value.problems if isinstance(caught.value, Problems) else (caught.value,)
    return [(problem.id, problem.text) for problem in problems]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("data", [None, {}, {"iptables": None, "detectLocal": None, "nodePortAddresses": None}])
def test_without_any_key_the_defaults_hold(data: object, backend: str) -> None:
    assert rules(data, backend) == RuleConfig(backend)


def test_a_configuration_as_kubeadm_writes_it_is_taken() -> None:
    data = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": "0.0.0.0",
        "bindAddressHardFail": False,
        "clientConnection": {
            "acceptContentTypes": "",
            "burst": 0,
            "contentType": "",
            "kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf",
            "qps": 0,
        },
        "clusterCIDR": "10.244.0.0/16",
        "configSyncPeriod": "0s",
        "conntrack": {
            "maxPerCore": None,
            "min": None,
            "tcpBeLiberal": False,
            "tcpCloseWaitTimeout": None,
            "tcpEstablishedTimeout": None,
            "udpStreamTimeout": "0s",
            "udpTimeout": "0s",
        },
        "detectLocal": {"bridgeInterface": "", "interfaceNamePrefix": ""},
        "detectLocalMode": "",
        "enableProfiling": False,
        "healthzBindAddress": "",
        "hostnameOverride": "",
        "iptables": {
            "localhostNodePorts": None,
            "masqueradeAll": False,
            "masqueradeBit": None,
            "minSyncPeriod": "0s",
            "syncPeriod": "0s",
        },
        "ipvs": {
            "excludeCIDRs": None,
            "minSyncPeriod": "0s",
            "scheduler": "",
            "strictARP": False,
            "syncPeriod": "0s",
            "tcpFinTimeout": "0s",
            "tcpTimeout": "0s",
            "udpTimeout": "0s",
        },
        "logging": {
            "flushFrequency": 0,
            "options": {"json": {"infoBufferSize": "0"}, "text": {"infoBufferSize": "0"}},
            "verbosity": 0,
        },
        "metricsBindAddress": "",
        "mode": "",
        "nftables": {"masqueradeAll": False, "masqueradeBit": None, "minSyncPeriod": "0s", "syncPeriod": "0s"},
        "nodePortAddresses": None,
        "oomScoreAdj": None,
        "portRange": "",
        "showHiddenMetricsForVersion": "",
        "winkernel": {
            "enableDSR": False,
            "forwardHealthCheckVip": False,
            "networkName": "",
            "rootHnsEndpointName": "",
            "sourceVip": "",
        },
    }
    found = parse(data)
    assert found == ParsedConfig(RuleConfig("nftables", detector=LocalDetector("cidr", "10.244.0.0/16")))


@pytest.mark.parametrize(
    ("backend", "masquerade_all", "bit"),
    [("nftables", False, 12), ("iptables", True, 13), ("ipvs", True, 13)],
)
def test_a_backend_reads_its_own_section(backend: str, masquerade_all: bool, bit: int) -> None:
    data = {
        "iptables": {"masqueradeAll": True, "masqueradeBit": 13},
        "nftables": {"masqueradeAll": False, "masqueradeBit": 12},
    }
    found = rules(data, backend)
    assert (found.masquerade_all, found.masquerade_bit) == (masquerade_all, bit)


def test_what_only_one_backend_uses_is_read() -> None:
    data = {
        "iptables": {"localhostNodePorts": False},
        "ipvs": {"scheduler": "wlc", "strictARP": True, "excludeCIDRs": ["10.0.0.1/8", "fd00::/8", "010.0.0.0/8"]},
        "conntrack": {"tcpBeLiberal": True},
    }
    found = rules(data, "ipvs")
    assert (found.localhost_node_ports, found.scheduler, found.strict_arp) == (False, "wlc", True)
    assert (found.tcp_be_liberal, found.exclude_cidrs) == (True, ("10.0.0.0/8",))
    assert rules(data, "ipvs", family=6).exclude_cidrs == ("fd00::/8",)


@pytest.mark.parametrize(
    ("data", "family", "expected"),
    [
        (DUAL, 4, LocalDetector("cidr", "10.1.0.0/16")),
        (DUAL, 6, LocalDetector("cidr", "fd00:1::/48")),
        ({"clusterCIDR": "fd00:1::/48, 10.1.0.0/16"}, 4, LocalDetector("cidr", "10.1.0.0/16")),
        ({"clusterCIDR": "10.1.0.0/16"}, 6, LocalDetector()),
        ({"detectLocalMode": "ClusterCIDR"}, 4, LocalDetector()),
        ({**DUAL, "detectLocalMode": "NodeCIDR"}, 4, LocalDetector("cidr", "10.1.0.0/24")),
        ({"detectLocalMode": "NodeCIDR"}, 6, LocalDetector("cidr", "fd00:1::/64")),
        (
            {"detectLocalMode": "BridgeInterface", "detectLocal": {"bridgeInterface": "cbr0"}},
            4,
            LocalDetector("bridge", "cbr0"),
        ),
        (
            {"detectLocalMode": "InterfaceNamePrefix", "detectLocal": {"interfaceNamePrefix": "veth"}},
            6,
            LocalDetector("prefix", "veth"),
        ),
    ],
)
def test_packets_of_this_nodes_pods_are_told_by(data: object, family: int, expected: LocalDetector) -> None:
    assert rules(data, family=family).detector == expected


@pytest.mark.parametrize(
    ("asked", "family", "expected"),
    [
        ([], 4, None),
        (["primary"], 4, ("primary",)),
        (["localhost"], 4, ("127.0.0.0/8",)),
        (["localhost"], 6, ("::1/128",)),
        (["all"], 6, ("::/0",)),
        (["primary", "localhost", "10.0.0.1/8"], 4, ("primary", "127.0.0.0/8", "10.0.0.0/8")),
        (["10.0.0.0/8", "fd00::/8"], 6, ("fd00::/8",)),
        (["10.0.0.0/8"], 6, ("::/0",)),
        (["10.0.0.0/8", "10.1.2.3/8"], 4, ("10.0.0.0/8",)),
    ],
)
def test_node_port_addresses_are_of_one_family(asked: list[str], family: int, expected: object) -> None:
    assert rules({"nodePortAddresses": asked}, family=family).node_port_addresses == expected


def test_the_primary_keyword_of_a_node_without_that_family_leaves_node_ports_open() -> None:
    found = parse({**DUAL, "nodePortAddresses": ["primary"]}, node=BARE)
    assert found.rules.node_port_addresses == ("0.0.0.0/0",)
    assert [one.id for one in found.warnings] == ["rules-config-open-node-ports"]
    assert node_port_addresses(FamilyView(4, BARE), found.rules).all_local


@pytest.mark.parametrize(
    ("data", "backend", "family", "expected"),
    [
        ({}, "nftables", 4, []),
        ({"clusterCIDR": "10.1.0.0/16"}, "nftables", 6, ["rules-config-detector"]),
        ({"clusterCIDR": None}, "iptables", 4, ["rules-config-detector"]),
        ({"clusterCIDR": None}, "winkernel", 4, []),
        ({"detectLocalMode": "NodeCIDR"}, "nftables", 4, []),
        ({"nodePortAddresses": ["10.0.0.0/8"]}, "nftables", 6, ["rules-config-open-node-ports"]),
        ({"nodePortAddresses": ["10.0.0.0/8"]}, "nftables", 4, []),
        ({"nodePortAddresses": ["localhost"]}, "nftables", 4, ["rules-config-localhost"]),
        ({"nodePortAddresses": ["127.0.0.1/32"]}, "ipvs", 4, ["rules-config-localhost"]),
        ({"nodePortAddresses": ["localhost"]}, "iptables", 4, []),
        ({"nodePortAddresses": ["localhost"]}, "iptables", 6, ["rules-config-localhost"]),
        ({"nodePortAddresses": ["all"]}, "nftables", 4, []),
        ({"bindAddress": "0.0.0.0"}, "nftables", 4, []),
        ({"bindAddress": "192.0.2.10"}, "nftables", 4, []),
        ({"bindAddress": "192.0.2.11"}, "nftables", 4, ["rules-config-bind-address"]),
        ({"bindAddress": "192.0.2.11"}, "nftables", 6, []),
    ],
)
def test_what_does_something_else_than_it_seems_is_a_warning(
    data: object, backend: str, family: int, expected: list[str]
) -> None:
    assert warnings(data, backend, family) == expected


def test_a_node_without_a_pod_network_is_a_warning() -> None:
    assert warnings({"detectLocalMode": "NodeCIDR"}, node=BARE) == ["rules-config-detector"]


def test_the_section_of_windows_is_read() -> None:
    found = parse({"winkernel": {"sourceVip": "10.1.0.2", "enableDSR": True}}, "winkernel").winkernel
    assert (found.source_vip, found.enable_dsr) == ("10.1.0.2", True)
    assert parse({"winkernel": {"sourceVip": "10.1.0.2"}}, "winkernel", family=6).winkernel.source_vip == ""


KEY, VALUE = "rules-config-key", "rules-config-value"


@pytest.mark.parametrize(
    ("data", "id", "start"),
    [
        ([], VALUE, "config: a list of 0 is not an object"),
        ("mode: ipvs", VALUE, 'config: "mode: ipvs" '),
        ({"kind": "KubeletConfiguration"}, VALUE, 'kind: "KubeletConfiguration" is not KubeProxyConfiguration'),
        ({"apiVersion": "v1"}, VALUE, 'apiVersion: "v1" '),
        ({"iptables": []}, VALUE, "iptables: a list of 0 is not an object"),
        ({"iptables": {"masqueradeBit": 32}}, VALUE, "iptables.masqueradeBit: 32 "),
        ({"nftables": {"masqueradeBit": -1}}, VALUE, "nftables.masqueradeBit: -1 "),
        ({"nftables": {"masqueradeBit": True}}, VALUE, "nftables.masqueradeBit: true "),
        ({"nftables": {"masqueradeAll": "yes"}}, VALUE, 'nftables.masqueradeAll: "yes" is not true or false'),
        ({"nftables": {"syncPeriod": "30"}}, VALUE, 'nftables.syncPeriod: "30" is not a duration'),
        ({"mode": "nft"}, VALUE, 'mode: "nft" is not one of'),
        ({"ipvs": {"scheduler": "random"}}, VALUE, 'ipvs.scheduler: "random" is not one of rr, wrr'),
        ({"ipvs": {"excludeCIDRs": ["10.0.0.1"]}}, VALUE, 'ipvs.excludeCIDRs[0]: "10.0.0.1" is not a network'),
        ({"ipvs": {"excludeCIDRs": "10.0.0.0/8"}}, VALUE, 'ipvs.excludeCIDRs: "10.0.0.0/8" is not a list'),
        ({"clusterCIDR": "10.0.0.0"}, VALUE, 'clusterCIDR: "10.0.0.0" '),
        ({"clusterCIDR": "10.0.0.0/8,10.1.0.0/16"}, VALUE, 'clusterCIDR: "10.0.0.0/8,10.1.0.0/16" '),
        ({"detectLocalMode": "clusterCIDR"}, VALUE, 'detectLocalMode: "clusterCIDR" is not one of ClusterCIDR'),
        ({"detectLocalMode": "BridgeInterface"}, VALUE, 'detectLocal.bridgeInterface: "" is not the name of a link'),
        (
            {"detectLocalMode": "InterfaceNamePrefix", "detectLocal": {"interfaceNamePrefix": 'cali" '}},
            VALUE,
            'detectLocal.interfaceNamePrefix: "cali\\" " ',
        ),
        (
            {"nodePortAddresses": ["Primary"]},
            VALUE,
            'nodePortAddresses[0]: "Primary" is not a network, or one of primary',
        ),
        ({"nodePortAddresses": ["all", "all"]}, VALUE, 'nodePortAddresses[1]: "all" is not given once'),
        ({"nodePortAddresses": [1]}, VALUE, "nodePortAddresses: a list of 1 is not a list of texts"),
        ({"bindAddress": "eth0"}, VALUE, 'bindAddress: "eth0" '),
        ({"winkernel": {"sourceVip": "vip"}}, VALUE, 'winkernel.sourceVip: "vip" '),
        ({"masqueradeAll": True}, KEY, "masqueradeAll: KubeProxyConfiguration has no such key"),
        ({"nftables": {"localhostNodePorts": True}}, KEY, "nftables.localhostNodePorts: "),
        ({1: 2}, KEY, "1: "),
    ],
)
def test_a_fault_is_refused_with_its_path(data: object, id: str, start: str) -> None:
    ((found, text),) = faults(data)
    assert found == id
    assert text.startswith(start)


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ({"nodePortAdresses": []}, "did you mean nodePortAddresses?"),
        ({"ipvs": {"strictArp": True}}, "did you mean ipvs.strictARP?"),
        ({"masqueradeBit": 14}, "did you mean iptables.masqueradeBit or nftables.masqueradeBit?"),
        ({"zzz": 1}, "remove it"),
    ],
)
def test_an_unknown_key_is_told_the_nearest(data: object, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(data)
    assert caught.value.remedy == hint


def test_every_fault_is_reported_at_once() -> None:
    data = {"mode": "nft", "nodePortAddresses": ["x", "y"], "nope": 1, "ipvs": {"scheduler": "x"}}
    assert len(faults(data)) == 5


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["primary", "10.0.0.0/8", "fd00::/8", "NodeCIDR", "BridgeInterface", "30s", "10.0.0.1", "ipvs"])
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
SECTIONS = {key: inner for key, inner in KEYS.items() if isinstance(inner, dict)}
CONFIGS = st.dictionaries(
    st.sampled_from(sorted(KEYS)) | st.text(max_size=4), JSON, max_size=5
) | st.fixed_dictionaries(
    {},
    optional={
        key: st.dictionaries(st.sampled_from(sorted(inner)), JSON, max_size=4) for key, inner in SECTIONS.items()
    },
)


@given(data=JSON | CONFIGS, backend=st.sampled_from(BACKENDS), family=st.sampled_from([4, 6]))
def test_any_value_is_read_or_refused(data: object, backend: str, family: int) -> None:
    try:
        found = parse(data, backend, family)
    except UserError as error:
        str(error)  # a message that cannot be shown would be a traceback of its own
    else:
        node_port_addresses(FamilyView(family, NODES[family]), found.rules)


@pytest.mark.parametrize("gates", ["AllAlpha=true", {"AllAlpha": "true"}, {1: True}, ["AllAlpha"]])
def test_gates_are_true_or_false_by_name(gates: object) -> None:
    with pytest.raises(UserError, match="featureGates"):
        parse({"featureGates": gates})
