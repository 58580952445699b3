# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cells of the matrix: every value of a key of KubeProxyConfiguration that changes rules, in each version and mode that has it.

The keys are those of config_keys.py and the gates are those of gates.py: a key or a gate that is neither here nor named as one without
effect fails tests/unit/audit/test_matrix.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.rules import RULES
from ansible_collections.ballast.kube.plugins.module_utils._rules.gates import GATES, NEWEST, OLDEST, Release

# Modes: a backend, and for iptables its variant.
NFTABLES, NFT, LEGACY, IPVS = "nftables", "iptables-nft", "iptables-legacy", "ipvs"
IPTABLES = (NFT, LEGACY)
EVERY = (NFTABLES, *IPTABLES, IPVS)
FIRST_WITH_NFTABLES = 29
BASE = {"clusterCIDR": "10.244.0.0/16,fd00:10:244::/56"}


@dataclass(frozen=True)
class Change:
    """One change of the base. `keys`: what it is a value of."""

    title: str
    config: Mapping[str, Any]
    keys: tuple[str, ...]
    modes: tuple[str, ...] = (NFTABLES, NFT, IPVS)
    since: int = OLDEST
    until: int = NEWEST


@dataclass(frozen=True)
class Cell:
    minor: int
    mode: str
    title: str
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def backend(self) -> str:
        return self.mode.partition("-")[0]


def _change(key: str, value: Any, **more: Any) -> Change:
    section, _dot, name = key.partition(".")
    return Change(f"{key}: {value}", {section: {name: value}} if name else {key: value}, (key,), **more)


_LINKS = {"BridgeInterface": ("bridgeInterface", "cni0"), "InterfaceNamePrefix": ("interfaceNamePrefix", "cni")}
CHANGES: tuple[Change, ...] = (
    Change("base", {}, (), modes=EVERY),
    _change("clusterCIDR", "10.244.0.0/16"),
    _change("clusterCIDR", ""),
    _change("detectLocalMode", "NodeCIDR"),
    *(
        Change(
            f"detectLocalMode: {mode}",
            {"detectLocalMode": mode, "detectLocal": {key: link}},
            ("detectLocalMode", f"detectLocal.{key}"),
        )
        for mode, (key, link) in _LINKS.items()
    ),
    _change("nodePortAddresses", ["primary"], since=31),
    _change("nodePortAddresses", ["10.97.249.0/24"]),
    _change("nodePortAddresses", ["10.50.0.0/16", "fd00:50::/64"], modes=EVERY),
    _change("nodePortAddresses", ["203.0.113.0/24", "2001:db8:203::/48"]),
    _change("nodePortAddresses", ["0.0.0.0/0", "::/0"]),
    _change("nodePortAddresses", ["127.0.0.0/8"]),
    _change("nodePortAddresses", ["primary", "localhost"], since=37),
    _change("nodePortAddresses", ["all"], since=37),
    _change("bindAddress", "10.50.0.11"),
    _change("bindAddress", "fd00:50::11"),
    _change("iptables.masqueradeAll", True, modes=EVERY),
    _change("iptables.masqueradeBit", 5, modes=(*IPTABLES, IPVS)),
    _change("iptables.localhostNodePorts", False, modes=IPTABLES),
    _change("nftables.masqueradeAll", True, modes=(NFTABLES,)),
    _change("nftables.masqueradeBit", 5, modes=(NFTABLES,)),
    _change("conntrack.tcpBeLiberal", True),
    *(_change("ipvs.scheduler", scheduler, modes=(IPVS,)) for scheduler in ("lc", "sh", "mh")),
    _change("ipvs.strictARP", True, modes=(IPVS,)),
    _change("ipvs.excludeCIDRs", ["10.96.7.0/24", "fd00:96::/112"], modes=(IPVS,)),
)
ELSEWHERE = ("winkernel", "mode")  # nothing here runs Windows
# Releases whose mode nftables never gets a rule for a prefix of links into the kernel.
_WITHOUT_PREFIX = next(rule.versions for rule in RULES if rule.id == "preflight-interface-mode")
_LAST_PATCH = 99
WITHOUT_RULES = (
    *("apiVersion", "kind", "clientConnection", "logging", "hostnameOverride", "healthzBindAddress", "oomScoreAdj"),
    *("metricsBindAddress", "bindAddressHardFail", "enableProfiling", "showHiddenMetricsForVersion", "portRange"),
    *("configSyncPeriod", "windowsRunAsService", "iptables.syncPeriod", "iptables.minSyncPeriod"),
    *("nftables.syncPeriod", "nftables.minSyncPeriod", "conntrack.maxPerCore", "conntrack.min"),
    *("conntrack.tcpEstablishedTimeout", "conntrack.tcpCloseWaitTimeout", "conntrack.udpTimeout"),
    *("conntrack.udpStreamTimeout", "ipvs.syncPeriod", "ipvs.minSyncPeriod", "ipvs.tcpTimeout", "ipvs.tcpFinTimeout"),
    "ipvs.udpTimeout",
)


def cells(minor: int) -> Iterator[Cell]:
    """Of one minor version."""
    for change in (*CHANGES, *_gate_changes(minor)):
        if change.since <= minor <= change.until:
            for mode in change.modes:
                if mode == NFTABLES and not _writes(minor, change):
                    continue
                yield Cell(minor, mode, change.title, _config(minor, mode, change.config))


def _writes(minor: int, change: Change) -> bool:
    """Whether the last patch of this minor version writes nftables rules with these settings."""
    has_prefix = "detectLocal.interfaceNamePrefix" in change.keys
    return minor >= FIRST_WITH_NFTABLES and not (has_prefix and (1, minor, _LAST_PATCH) in _WITHOUT_PREFIX)


def _gate_changes(minor: int) -> Iterator[Change]:
    """Each gate that this version lets be set, turned; with the values of other keys that it is about."""
    for name in GATES:
        value = not Release(minor).is_on(name)
        if GATES[name].stage(minor) is None or list(Release(minor, {name: value}).warnings("")):
            continue
        if name in ("NFTablesProxyMode", "KubeProxyIPVS"):  # whether kube-proxy runs at all
            continue
        yield Change(f"featureGates.{name}: {value}", {"featureGates": {name: value}}, ("featureGates",))
        if name == "KubeProxyNFTablesLocalhostNodePorts":
            for asked in (["primary", "localhost"], ["127.0.0.0/8", "::1/128"], ["all", "localhost"]):
                config = {"featureGates": {name: value}, "nodePortAddresses": asked}
                yield Change(f"featureGates.{name}: {value}, nodePortAddresses: {asked}", config, (), (NFTABLES,))


def _config(minor: int, mode: str, changed: Mapping[str, Any]) -> Mapping[str, Any]:
    config = {**BASE, **changed}
    if mode == NFTABLES and minor <= 30:  # alpha
        config["featureGates"] = {**config.get("featureGates", {}), "NFTablesProxyMode": True}
    return {key: value for key, value in config.items() if value != ""}
