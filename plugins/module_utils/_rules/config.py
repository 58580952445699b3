# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses KubeProxyConfiguration into the rule settings of one backend and one family."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .._core.text.decode import show
from .._core.text.errors import BallastError, Problems
from .addresses import Network, parse_address, parse_network
from .config_keys import check_config
from .gates import LOCALHOST_NODE_PORTS, Release
from .messages import MESSAGES
from .model import IPTABLES, IPVS, NFTABLES, WINKERNEL, LocalDetector, NodeView, RuleConfig
from .node_ports import PRIMARY
from .nodes import UNSPECIFIED
from .packet import PROTOCOLS

BACKENDS = (NFTABLES, IPTABLES, IPVS, WINKERNEL)
LOCAL_MODES = ("ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix")
MODES = ("iptables", "ipvs", "nftables", "kernelspace")
# Source: the kernel, net/netfilter/ipvs/Kconfig.
SCHEDULERS = ("rr", "wrr", "lc", "wlc", "fo", "ovf", "lblc", "lblcr", "dh", "sh", "mh", "sed", "nq", "twos")
LOCALHOST = "localhost"
ALL = "all"
KEYWORDS: Mapping[str, Mapping[int, str]] = {
    LOCALHOST: {4: "127.0.0.0/8", 6: "::1/128"},
    ALL: {4: "0.0.0.0/0", 6: "::/0"},
}
DEFAULT_MASQUERADE_BIT = 14
_HIGHEST_BIT = 31
# Interface names that both iptables and nft take literally: at most 15 characters, as in the kernel, none of them special.
_LINK = re.compile(r"[A-Za-z0-9_.@:=~-]{1,15}")
_LINK_NAME = "the name of a link: 1 to 15 of letters, digits and _ . @ : = ~ -"
_LIMITED_TO_NODE_IP = 30  # minor version of kube-proxy, nftables; "primary" exists since 1.31


_SO = "so packets from outside this node's pods cannot be recognized"
# Path, reason and remedy for a mode that needs a network but has none.
_NO_DETECTOR = {
    "ClusterCIDR": ("clusterCIDR", f"it has no network of that family, {_SO}", "add the network of the cluster's pods"),
    "NodeCIDR": (
        "detectLocalMode",
        f"the Node has no podCIDR of that family, {_SO}",
        "let kube-controller-manager assign one (--allocate-node-cidrs), or choose another mode",
    ),
}


@dataclass(frozen=True)
class Winkernel:
    """The policy settings in section `winkernel`."""

    source_vip: str = ""  # "" where it is not given
    enable_dsr: bool = False


@dataclass(frozen=True)
class ParsedConfig:
    """`warnings` are about settings that kube-proxy accepts but that do not do what they seem to; `own_warnings` about
    settings that kube-proxy implements and our rules do not."""

    rules: RuleConfig
    winkernel: Winkernel = Winkernel()
    warnings: tuple[BallastError, ...] = ()
    own_warnings: tuple[BallastError, ...] = ()


def parse_config(data: object, *, backend: str, family: int, node: NodeView) -> ParsedConfig:
    """`data` has the keys of KubeProxyConfiguration, or is None. `backend` is one of BACKENDS and need not match `mode`.
    `node` is this node in `family`. Problems, with all faults.

    iptables and ipvs read the section `iptables` for masquerading, nftables its own. Source: kube-proxy,
    apis/config/types.go, apis/config/v1alpha1/defaults.go, util/localdetector.go.
    """
    reading = _Reading(backend, family, node)
    values = check_config(data, reading.problems)
    section = values["nftables" if backend == "nftables" else "iptables"]
    release = Release(node.minor, values.get("featureGates", {}))
    reading.warnings += release.warnings(backend)
    networks = reading.node_port_addresses(values.get("nodePortAddresses", ()), release)
    rules = RuleConfig(
        backend=backend,
        detector=reading.detector(values),
        masquerade_all=section.get("masqueradeAll", False),
        masquerade_bit=reading.masquerade_bit(values),
        node_port_addresses=networks,
        localhost_node_ports=values["iptables"].get("localhostNodePorts", True),
        rejected_on_loopback=reading.rejected_on_loopback(networks, release),
        tcp_be_liberal=values["conntrack"].get("tcpBeLiberal", False),
        scheduler=reading.choice(values["ipvs"], "scheduler", SCHEDULERS, "ipvs.") or "rr",
        strict_arp=values["ipvs"].get("strictARP", False),
        exclude_cidrs=reading.networks(values["ipvs"].get("excludeCIDRs", ()), "ipvs.excludeCIDRs"),
    )
    winkernel = Winkernel(reading.source_vip(values), values["winkernel"].get("enableDSR", False))
    reading.choice(values, "mode", MODES)
    reading.bind_address(values.get("bindAddress", ""))
    Problems.raise_if(reading.problems)
    return ParsedConfig(rules, winkernel, tuple(reading.warnings), tuple(reading.own_warnings))


class _Reading:
    """Reads the values that need more than a type check; collects problems and warnings."""

    def __init__(self, backend: str, family: int, node: NodeView) -> None:
        self.backend = backend
        self.family = family
        self.node = node
        self.problems: list[BallastError] = []
        self.warnings: list[BallastError] = []
        self.own_warnings: list[BallastError] = []

    def choice(self, values: Mapping[str, Any], key: str, choices: Sequence[str], path: str = "") -> str:
        value: str = values.get(key, "")
        if value and value not in choices:
            self._wrong(f"{path}{key}", value, f"one of {', '.join(choices)}")
            return ""
        return value

    def masquerade_bit(self, values: Mapping[str, Any]) -> int:
        """The bit from the backend's own section. The other section is checked too, because the next change of backend may
        use it."""
        own_bit = DEFAULT_MASQUERADE_BIT
        for section in ("iptables", "nftables"):
            bit = values[section].get("masqueradeBit", DEFAULT_MASQUERADE_BIT)
            if not 0 <= bit <= _HIGHEST_BIT:
                self._wrong(f"{section}.masqueradeBit", bit, f"a bit from 0 to {_HIGHEST_BIT}")
            elif (section == "nftables") == (self.backend == "nftables"):
                own_bit = bit
        return own_bit

    def detector(self, values: Mapping[str, Any]) -> LocalDetector:
        mode = self.choice(values, "detectLocalMode", LOCAL_MODES) or LOCAL_MODES[0]
        cluster = self._cluster_cidrs(values.get("clusterCIDR", ""))
        if mode == "BridgeInterface":
            return LocalDetector("bridge", self._link(values, mode, "bridgeInterface"))
        if mode == "InterfaceNamePrefix":
            return LocalDetector("prefix", self._link(values, mode, "interfaceNamePrefix"))
        cidr = self.node.pod_cidr if mode == "NodeCIDR" else next(iter(cluster), "")
        if not cidr and self.backend != "winkernel":
            self._warn_of_no_detector(mode)
        return LocalDetector("cidr", cidr) if cidr else LocalDetector()

    def node_port_addresses(self, values: Sequence[str], release: Release) -> Optional[tuple[str, ...]]:
        """The networks of this family, with all keywords but "primary" replaced; None if the list is empty. A list without a
        network of this family means all addresses, as in kube-proxy."""
        if not values:
            return self._unset_node_port_addresses(release)
        networks: list[str] = []
        for index, value in enumerate(values):
            path = f"nodePortAddresses[{index}]"
            if value in (PRIMARY, *KEYWORDS) and value in values[:index]:
                self._wrong(path, value, "given once")
            if value == PRIMARY:
                networks.extend([PRIMARY] if self.node.primary else [])
            elif value in KEYWORDS:
                networks.append(KEYWORDS[value][self.family])
            else:
                expected = f"a network, or one of {', '.join((PRIMARY, *KEYWORDS))}"
                networks.extend(self._of_family([self._network(value, path, expected)]))
            self._warn_of_localhost(value, release)
        if not networks and self.backend == NFTABLES and release.known_minor == _LIMITED_TO_NODE_IP:
            return self._node_ip()
        if not networks:
            self.warnings.append(MESSAGES.error("rules-config-open-node-ports", family=self.family))
            networks.append(KEYWORDS[ALL][self.family])
        return tuple(dict.fromkeys(networks))

    def _unset_node_port_addresses(self, release: Release) -> Optional[tuple[str, ...]]:
        """The default. nftables of 1.29 served node ports on all addresses; that of 1.30 on the node's IP, without the
        fallback that "primary" has."""
        if self.backend == NFTABLES and release.known_minor < _LIMITED_TO_NODE_IP:
            return (KEYWORDS[ALL][self.family],)
        return self._node_ip() if self.backend == NFTABLES and release.known_minor == _LIMITED_TO_NODE_IP else None

    def _node_ip(self) -> tuple[str, ...]:
        """kube-proxy uses a loopback address as the IP of a node that has none."""
        return (PRIMARY,) if self.node.primary else (KEYWORDS[LOCALHOST][self.family],)

    def rejected_on_loopback(self, networks: Optional[Sequence[str]], release: Release) -> tuple[str, ...]:
        """The protocols that kube-proxy's nftables rules reject on loopback. Where loopback is requested explicitly, a
        userspace proxy in kube-proxy serves TCP there."""
        if self.backend != NFTABLES or not release.is_on(LOCALHOST_NODE_PORTS):
            return ()
        served = any(_is_loopback(network) for network in networks or ())
        return tuple(protocol for protocol in PROTOCOLS if not (served and protocol == "TCP"))

    def networks(self, values: Iterable[str], path: str) -> tuple[str, ...]:
        expected = "a network as in 10.0.0.0/8 or fd00::/64"
        parsed = [self._network(value, f"{path}[{index}]", expected) for index, value in enumerate(values)]
        return tuple(sorted(set(self._of_family(parsed))))

    def source_vip(self, values: Mapping[str, Any]) -> str:
        text = values["winkernel"].get("sourceVip", "")
        parsed = parse_address(text)
        if text and parsed is None:
            self._wrong("winkernel.sourceVip", text, "an address of IPv4 or IPv6")
        return parsed.text if parsed is not None and parsed.family == self.family else ""

    def bind_address(self, text: str) -> None:
        """Check bindAddress. kube-proxy uses it as the node's primary address, and so does a snapshot read with this
        configuration (nodes.py)."""
        if not text:
            return
        parsed = parse_address(text)
        if parsed is None:
            self._wrong("bindAddress", text, "an address of IPv4 or IPv6")
        elif parsed.family == self.family and parsed.text not in (*UNSPECIFIED, self.node.primary):
            primary = self.node.primary or "which has none of its family"
            self.warnings.append(MESSAGES.error("rules-config-bind-address", value=parsed.text, primary=primary))

    def _cluster_cidrs(self, text: str) -> Sequence[str]:
        """`text` is one network, or one per family, such as "10.0.0.0/8,fd00::/48"."""
        parts = text.split(",") if text else []
        parsed = [self._network(part.strip(), "clusterCIDR", "a network, or one of each family") for part in parts]
        families = [network.family for network in parsed if network is not None]
        if len(families) != len(set(families)):
            self._wrong("clusterCIDR", text, "a network, or one of each family, with a comma between them")
        return self._of_family(parsed)

    def _link(self, values: Mapping[str, Any], mode: str, key: str) -> str:
        value: str = values["detectLocal"].get(key, "")
        if not _LINK.fullmatch(value):
            self._wrong(f"detectLocal.{key}", value, f"{_LINK_NAME}; detectLocalMode {mode} needs it")
            return ""
        return value

    def _network(self, value: str, path: str, expected: str) -> Optional[Network]:
        parsed = parse_network(value)
        if parsed is None:
            self._wrong(path, value, expected)
        return parsed

    def _of_family(self, networks: Iterable[Optional[Network]]) -> Sequence[str]:
        return [network.text for network in networks if network is not None and network.family == self.family]

    def _warn_of_no_detector(self, mode: str) -> None:
        path, reason, remedy = _NO_DETECTOR[mode]
        fields = {"path": path, "mode": mode, "family": self.family, "reason": reason, "remedy": remedy}
        self.warnings.append(MESSAGES.error("rules-config-detector", found="", **fields))

    def _warn_of_localhost(self, value: str, release: Release) -> None:
        """Warn that node ports on loopback do not work. Not for `all`, which includes loopback without asking for it."""
        network = parse_network(KEYWORDS[LOCALHOST][self.family] if value == LOCALHOST else value)
        asks = network is not None and network.family == self.family and _is_loopback(network.text)
        if asks and not (self.backend == "iptables" and self.family == 4):
            fields = {"value": show(value), "backend": self.backend, "family": self.family}
            by_kube_proxy = self.backend == NFTABLES and release.is_on(LOCALHOST_NODE_PORTS)
            warnings = self.own_warnings if by_kube_proxy else self.warnings
            warnings.append(MESSAGES.error("rules-config-localhost", found="", **fields))

    def _wrong(self, path: str, value: object, expected: str) -> None:
        self.problems.append(MESSAGES.error("rules-config-value", path=path, value=show(value), wanted=expected))


def _is_loopback(network: str) -> bool:
    return network.startswith(("127.", "::1/"))
