# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""KubeProxyConfiguration to what it says of rules, for one backend and one family."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .._core.errors import BallastError, Problems
from .addresses import Network, parse_address, parse_network
from .config_keys import checked
from .messages import MESSAGES
from .model import IPTABLES, IPVS, NFTABLES, WINKERNEL, LocalDetector, NodeView, RuleConfig
from .node_ports import PRIMARY
from .reading import show

BACKENDS = (NFTABLES, IPTABLES, IPVS, WINKERNEL)
LOCAL_MODES = ("ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix")
MODES = ("iptables", "ipvs", "nftables", "kernelspace")
# Of the kernel, net/netfilter/ipvs/Kconfig.
SCHEDULERS = ("rr", "wrr", "lc", "wlc", "fo", "ovf", "lblc", "lblcr", "dh", "sh", "mh", "sed", "nq", "twos")
LOCALHOST = "localhost"
ALL = "all"
KEYWORDS: Mapping[str, Mapping[int, str]] = {
    LOCALHOST: {4: "127.0.0.0/8", 6: "::1/128"},
    ALL: {4: "0.0.0.0/0", 6: "::/0"},
}
DEFAULT_MASQUERADE_BIT = 14
_HIGHEST_BIT = 31
# What iptables and nft take for a link's name as it stands: the kernel's 15 signs, none with a meaning to either.
_LINK = re.compile(r"[A-Za-z0-9_.@:=~-]{1,15}")
_LINK_NAME = "the name of a link: 1 to 15 of letters, digits and _ . @ : = ~ -"
_UNSPECIFIED = ("0.0.0.0", "::")


_SO = "so that no packet is known to come from elsewhere than this node's pods"
# Path, reason and remedy of a mode that goes by a network, where there is none.
_NO_DETECTOR = {
    "ClusterCIDR": ("clusterCIDR", f"it has no network of that family, {_SO}", "add the network of the cluster's pods"),
    "NodeCIDR": (
        "detectLocalMode",
        f"the Node has no podCIDR of that family, {_SO}",
        "let kube-controller-manager give Nodes one (--allocate-node-cidrs), or choose another mode",
    ),
}


@dataclass(frozen=True)
class Winkernel:
    """The section of that name, as far as it bears on policies."""

    source_vip: str = ""  # "" where it is not given
    enable_dsr: bool = False


@dataclass(frozen=True)
class ParsedConfig:
    """`warnings` are configurations that kube-proxy accepts, and that do something else than they seem to."""

    rules: RuleConfig
    winkernel: Winkernel = Winkernel()
    warnings: tuple[BallastError, ...] = ()


def parse_config(data: object, *, backend: str, family: int, node: NodeView) -> ParsedConfig:
    """`data` has the keys of KubeProxyConfiguration, None for none at all; `backend` is one of BACKENDS, whatever `mode`
    says, and `node` is this node in `family`. Problems, with every fault.

    iptables and ipvs read the section `iptables` for masquerading, nftables its own. Source: reference of kube-proxy 1.4,
    1.5, 1.6.
    """
    reading = _Reading(backend, family, node)
    values = checked(data, reading.problems)
    section = values["nftables" if backend == "nftables" else "iptables"]
    rules = RuleConfig(
        backend=backend,
        detector=reading.detector(values),
        masquerade_all=section.get("masqueradeAll", False),
        masquerade_bit=reading.masquerade_bit(values),
        node_port_addresses=reading.node_port_addresses(values.get("nodePortAddresses", ())),
        localhost_node_ports=values["iptables"].get("localhostNodePorts", True),
        tcp_be_liberal=values["conntrack"].get("tcpBeLiberal", False),
        scheduler=reading.choice(values["ipvs"], "scheduler", SCHEDULERS, "ipvs.") or "rr",
        strict_arp=values["ipvs"].get("strictARP", False),
        exclude_cidrs=reading.networks(values["ipvs"].get("excludeCIDRs", ()), "ipvs.excludeCIDRs"),
    )
    winkernel = Winkernel(reading.source_vip(values), values["winkernel"].get("enableDSR", False))
    reading.choice(values, "mode", MODES)
    reading.bind_address(values.get("bindAddress", ""))
    Problems.raise_if(reading.problems)
    return ParsedConfig(rules, winkernel, tuple(reading.warnings))


class _Reading:
    """The values that need more than their type, with what is wrong with them."""

    def __init__(self, backend: str, family: int, node: NodeView) -> None:
        self.backend = backend
        self.family = family
        self.node = node
        self.problems: list[BallastError] = []
        self.warnings: list[BallastError] = []

    def choice(self, values: Mapping[str, Any], key: str, choices: Sequence[str], path: str = "") -> str:
        value: str = values.get(key, "")
        if value and value not in choices:
            self._wrong(f"{path}{key}", value, f"one of {', '.join(choices)}")
            return ""
        return value

    def masquerade_bit(self, values: Mapping[str, Any]) -> int:
        """Of the backend's own section; the other is checked as well, as it may be in use after the next migration."""
        found = DEFAULT_MASQUERADE_BIT
        for section in ("iptables", "nftables"):
            bit = values[section].get("masqueradeBit", DEFAULT_MASQUERADE_BIT)
            if not 0 <= bit <= _HIGHEST_BIT:
                self._wrong(f"{section}.masqueradeBit", bit, f"a bit from 0 to {_HIGHEST_BIT}")
            elif (section == "nftables") == (self.backend == "nftables"):
                found = bit
        return found

    def detector(self, values: Mapping[str, Any]) -> LocalDetector:
        mode = self.choice(values, "detectLocalMode", LOCAL_MODES) or LOCAL_MODES[0]
        cluster = self._cluster_cidrs(values.get("clusterCIDR", ""))
        if mode == "BridgeInterface":
            return LocalDetector("bridge", self._link(values, mode, "bridgeInterface"))
        if mode == "InterfaceNamePrefix":
            return LocalDetector("prefix", self._link(values, mode, "interfaceNamePrefix"))
        found = self.node.pod_cidr if mode == "NodeCIDR" else next(iter(cluster), "")
        if not found and self.backend != "winkernel":
            self._warn_of_no_detector(mode)
        return LocalDetector("cidr", found) if found else LocalDetector()

    def node_port_addresses(self, asked: Sequence[str]) -> Optional[tuple[str, ...]]:
        """The networks of this family, keywords replaced but for "primary"; None where nothing is asked for. Where a list
        names none of this family, the network of all addresses: so kube-proxy takes it."""
        if not asked:
            return None
        found: list[str] = []
        for index, value in enumerate(asked):
            path = f"nodePortAddresses[{index}]"
            if value in (PRIMARY, *KEYWORDS) and value in asked[:index]:
                self._wrong(path, value, "given once")
            if value == PRIMARY:
                found.extend([PRIMARY] if self.node.primary else [])
            elif value in KEYWORDS:
                found.append(KEYWORDS[value][self.family])
            else:
                wanted = f"a network, or one of {', '.join((PRIMARY, *KEYWORDS))}"
                found.extend(self._of_family([self._network(value, path, wanted)]))
            self._warn_of_localhost(value)
        if not found:
            self.warnings.append(MESSAGES.error("rules-config-open-node-ports", family=self.family))
            found.append(KEYWORDS[ALL][self.family])
        return tuple(dict.fromkeys(found))

    def networks(self, values: Iterable[str], path: str) -> tuple[str, ...]:
        wanted = "a network as in 10.0.0.0/8 or fd00::/64"
        parsed = [self._network(value, f"{path}[{index}]", wanted) for index, value in enumerate(values)]
        return tuple(sorted(set(self._of_family(parsed))))

    def source_vip(self, values: Mapping[str, Any]) -> str:
        text = values["winkernel"].get("sourceVip", "")
        parsed = parse_address(text)
        if text and parsed is None:
            self._wrong("winkernel.sourceVip", text, "an address of IPv4 or IPv6")
        return parsed.text if parsed is not None and parsed.family == self.family else ""

    def bind_address(self, text: str) -> None:
        """kube-proxy takes it for the primary address of the node. We go by the Node object: `primary` has one source."""
        if not text:
            return
        parsed = parse_address(text)
        if parsed is None:
            self._wrong("bindAddress", text, "an address of IPv4 or IPv6")
        elif parsed.family == self.family and parsed.text not in (*_UNSPECIFIED, self.node.primary):
            primary = self.node.primary or "which has none of its family"
            self.warnings.append(MESSAGES.error("rules-config-bind-address", value=parsed.text, primary=primary))

    def _cluster_cidrs(self, text: str) -> Sequence[str]:
        """`text` is a network, or two of different families as in "10.0.0.0/8,fd00::/48"."""
        parts = text.split(",") if text else []
        parsed = [self._network(part.strip(), "clusterCIDR", "a network, or one of each family") for part in parts]
        families = [one.family for one in parsed if one is not None]
        if len(families) != len(set(families)):
            self._wrong("clusterCIDR", text, "a network, or one of each family, with a comma between them")
        return self._of_family(parsed)

    def _link(self, values: Mapping[str, Any], mode: str, key: str) -> str:
        value: str = values["detectLocal"].get(key, "")
        if not _LINK.fullmatch(value):
            self._wrong(f"detectLocal.{key}", value, f"{_LINK_NAME}; detectLocalMode {mode} needs it")
            return ""
        return value

    def _network(self, value: str, path: str, wanted: str) -> Optional[Network]:
        parsed = parse_network(value)
        if parsed is None:
            self._wrong(path, value, wanted)
        return parsed

    def _of_family(self, networks: Iterable[Optional[Network]]) -> Sequence[str]:
        return [one.text for one in networks if one is not None and one.family == self.family]

    def _warn_of_no_detector(self, mode: str) -> None:
        path, reason, remedy = _NO_DETECTOR[mode]
        fields = {"path": path, "mode": mode, "family": self.family, "reason": reason, "remedy": remedy}
        self.warnings.append(MESSAGES.error("rules-config-detector", found="", **fields))

    def _warn_of_localhost(self, value: str) -> None:
        """`all` has loopback in it as well, but does not ask for it."""
        network = parse_network(KEYWORDS[LOCALHOST][self.family] if value == LOCALHOST else value)
        asks = network is not None and network.family == self.family and network.text.startswith(("127.", "::1/"))
        if asks and not (self.backend == "iptables" and self.family == 4):
            fields = {"value": show(value), "backend": self.backend, "family": self.family}
            self.warnings.append(MESSAGES.error("rules-config-localhost", found="", **fields))

    def _wrong(self, path: str, value: object, wanted: str) -> None:
        self.problems.append(MESSAGES.error("rules-config-value", path=path, value=show(value), wanted=wanted))
