# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of the node itself (kernel, tools, nft) and of kube-proxy's release."""

from __future__ import annotations

from collections.abc import Sequence

from ..._core.text.packages import install_command, package_of
from ..._rules.model import IPTABLES, IPVS, NFTABLES
from .facts import DAEMONSET, NEWER_NFT, Facts, gate
from .kernel import ABSENT
from .rule import ANY, BLOCKER, TO_NFTABLES, WARNING, Rule, Transition
from .versions import Version, Versions, version_text

OLDEST_KERNEL: Version = (5, 13, 0)
OLDEST_NFT: Version = (1, 0, 1)
MANY_SERVICES, MANY_ENDPOINTS = 5_000, 50_000
IPVS_GATE, NFTABLES_GATE = "KubeProxyIPVS", "NFTablesProxyMode"
_INTERFACE_MODES = ("InterfaceNamePrefix", "BridgeInterface")
# The first release of each branch whose image has an nft that can read what newer versions write. For 1.35 and 1.36, the
# first that we examined: its build/common.sh names distroless-iptables v0.9.6.
_NFT_FIXED = ((1, 35, 8), (1, 36, 4), (1, 37, 0))
_INTERFACES_FIXED = ((1, 33, 6), (1, 34, 2), (1, 35, 0))


def kernel_too_old(facts: Facts) -> Sequence[str]:
    old = facts.kernel is not None and facts.kernel < OLDEST_KERNEL
    system = f" of {facts.distribution.name}" if facts.distribution.name else ""
    return [f"Linux {version_text(facts.kernel)}{system}"] if old and facts.kernel else []


def nft_too_old(facts: Facts) -> Sequence[str]:
    return [f"nft {version_text(facts.nft)}"] if facts.nft and facts.nft < OLDEST_NFT else []


def tool_missing(facts: Facts) -> Sequence[str]:
    """The missing tools, each with the command that installs it on this node."""
    return [f"{tool} ({install_command(facts.distribution, [package_of(tool)])})" for tool in facts.missing_tools]


def rules_refused(facts: Facts) -> Sequence[str]:
    return facts.refused_rules


def module_missing(facts: Facts) -> Sequence[str]:
    """What the kernel refuses; without nft, what the lists of modules lack."""
    if "nft" in facts.missing_tools:
        return _absent(facts)
    return facts.refused_statements


def ipvs_module_missing(facts: Facts) -> Sequence[str]:
    return _absent(facts)


def _absent(facts: Facts) -> Sequence[str]:
    return [f"module {name}: {state}" for name, state in facts.modules.items() if state == ABSENT]


def packages_missing(facts: Facts) -> Sequence[str]:
    if not facts.missing_packages:
        return []
    return [f"{', '.join(facts.missing_packages)}: {install_command(facts.distribution, facts.missing_packages)}"]


def newer_nft_tables(facts: Facts) -> Sequence[str]:
    if facts.nft is None or facts.nft < NEWER_NFT or not facts.tables_with_sets:
        return []
    return [f"nft {version_text(facts.nft)} here; with sets or maps: table {', table '.join(facts.tables_with_sets)}"]


def ipv6_disabled(facts: Facts) -> Sequence[str]:
    return [] if facts.has_ipv6 else ["/proc/net/if_inet6 is not there"]


# Releases


def version_unknown(facts: Facts) -> Sequence[str]:
    return [] if facts.version else [f"version {facts.change.kube_proxy_version or 'unknown'}"]


def always(facts: Facts) -> Sequence[str]:
    """For checks that depend only on the transition and the version."""
    return [f"kube-proxy {facts.change.kube_proxy_version}"]


def nftables_gate_off(facts: Facts) -> Sequence[str]:
    """The gate must be set in 1.29 and 1.30; it is on by default since 1.31, where it must not be false."""
    setting = facts.gate(NFTABLES_GATE)
    if setting is True or (setting is None and facts.version is not None and facts.version >= (1, 31, 0)):
        return []
    return [f"featureGates.{NFTABLES_GATE} is {'not set' if setting is None else 'false'}"]


def ipvs_gate_off(facts: Facts) -> Sequence[str]:
    """The gate is off by default since 1.40; before that it must not be false."""
    setting = facts.gate(IPVS_GATE)
    if setting is True or (setting is None and facts.version is not None and facts.version < (1, 40, 0)):
        return []
    return [f"featureGates.{IPVS_GATE} is {'not set' if setting is None else 'false'}"]


def no_way_back(facts: Facts) -> Sequence[str]:
    """The journal has the present configuration, with which this kube-proxy would not start unless the gate is set."""
    removed = facts.version is not None and facts.version >= (1, 43, 0)
    if not removed and gate(facts.change.config, IPVS_GATE) is True:
        return []
    return [f"kube-proxy {facts.change.kube_proxy_version} does not start in mode ipvs with its current configuration"]


def default_flips(facts: Facts) -> Sequence[str]:
    if facts.change.config.get("mode") or facts.change.from_mode != IPTABLES:
        return []
    return ["its current configuration sets no mode"]


def many(facts: Facts) -> Sequence[str]:
    services = len({(service.namespace, service.name) for view in facts.views.values() for service in view.services})
    endpoints = sum(len(service.endpoints) for view in facts.views.values() for service in view.services)
    big = services > MANY_SERVICES or endpoints > MANY_ENDPOINTS
    return [f"{services} Services, {endpoints} endpoints"] if big else []


def interface_mode(facts: Facts) -> Sequence[str]:
    mode = facts.change.new_config.get("detectLocalMode")
    return [f"detectLocalMode: {mode}"] if mode in _INTERFACE_MODES else []


# What could not be read


def snapshot_missing(facts: Facts) -> Sequence[str]:
    return [] if facts.views else ["no snapshot of Services is available"]


def unread(facts: Facts) -> Sequence[str]:
    return [f"{what}: {problem}" for what, problem in facts.unread]


_TO_IPVS = Transition(entering=(IPVS,), unchanged=True)
_EVERY_CHANGE = Transition(unchanged=True)
_TO_OR_IN_NFTABLES = Transition(entering=(NFTABLES,), unchanged=True)

RULES = (
    Rule(
        id="preflight-tool-missing",
        severity=BLOCKER,
        reads="PATH of root",
        condition=tool_missing,
        applies=_EVERY_CHANGE,
        source="nft loads the takeover table; pkg/util/iptables and pkg/proxy/ipvs/ipset of kube-proxy run the others",
    ),
    Rule(
        id="preflight-service-proxy-packages",
        severity=BLOCKER,
        reads="PATH of root, what /usr/bin/python3 finds; mode ballast",
        condition=packages_missing,
        applies=_EVERY_CHANGE,
        source="ballast-service-proxy imports prometheus_client, and runs nft",
    ),
    Rule(
        id="preflight-rules-refused",
        severity=BLOCKER,
        reads="nft --check of the takeover table, compiled from the snapshot",
        condition=rules_refused,
        applies=_EVERY_CHANGE,
        source="the kernel's response",
    ),
    Rule(
        id="preflight-module-missing",
        severity=BLOCKER,
        reads="nft --check of one rule per module; /proc/modules, modules.builtin, modules.dep",
        condition=module_missing,
        applies=TO_NFTABLES,
        source="siderolabs/pkgs#951",
    ),
    Rule(
        id="preflight-kernel-too-old",
        severity=BLOCKER,
        reads="/proc/sys/kernel/osrelease",
        condition=kernel_too_old,
        applies=TO_NFTABLES,
        source="pkg/proxy/nftables/supported.go, NFTablesKubeProxyKernelVersion; k/k#130401",
    ),
    Rule(
        id="preflight-nft-too-old",
        severity=BLOCKER,
        reads="nft --version",
        condition=nft_too_old,
        applies=TO_NFTABLES,
        source="pkg/proxy/nftables/supported.go; k/k#122743",
    ),
    Rule(
        id="preflight-newer-nft-tables",
        severity=BLOCKER,
        reads="nft --version; nft list sets and maps",
        condition=newer_nft_tables,
        applies=TO_NFTABLES,
        versions=Versions(since=(1, 29, 0), before=_NFT_FIXED),
        deployments=(DAEMONSET,),
        believed=True,
        source="k/k#136786, k/k#140898, k/k#140405, k0s#7293",
    ),
    Rule(
        id="preflight-ipv6-disabled",
        severity=BLOCKER,
        reads="/proc/net/if_inet6",
        condition=ipv6_disabled,
        applies=TO_NFTABLES,
        versions=Versions(since=(1, 29, 0), before=((1, 34, 0),)),
        believed=True,
        source="cmd/kube-proxy/app/server_linux.go, platformCheckSupported; k/k#131265",
    ),
    Rule(
        id="preflight-nftables-absent",
        severity=BLOCKER,
        reads="kube-proxy's version",
        condition=always,
        applies=_TO_OR_IN_NFTABLES,
        versions=Versions(before=((1, 29, 0),)),
        source="KEP-3866",
    ),
    Rule(
        id="preflight-nftables-gate",
        severity=BLOCKER,
        reads="featureGates of the configuration",
        condition=nftables_gate_off,
        applies=_TO_OR_IN_NFTABLES,
        versions=Versions(since=(1, 29, 0)),
        source="KEP-3866; pkg/features/kube_features.go",
    ),
    Rule(
        id="preflight-nftables-beta",
        severity=WARNING,
        reads="kube-proxy's version",
        condition=always,
        applies=TO_NFTABLES,
        versions=Versions(since=(1, 29, 0), before=((1, 33, 0),)),
        source="KEP-3866; k/k#130119",
    ),
    Rule(
        id="preflight-nftables-many",
        severity=BLOCKER,
        reads="Services and EndpointSlices",
        condition=many,
        applies=TO_NFTABLES,
        versions=Versions(since=(1, 29, 0), before=((1, 36, 0),)),
        source="k/k#135639, k/k#135800",
    ),
    Rule(
        id="preflight-interface-mode",
        severity=BLOCKER,
        reads="detectLocalMode of the configuration",
        condition=interface_mode,
        applies=_TO_OR_IN_NFTABLES,
        versions=Versions(since=(1, 29, 0), before=_INTERFACES_FIXED),
        source="k/k#134024, k/k#134099, k/k#134118",
    ),
    Rule(
        id="preflight-ipvs-module-missing",
        severity=BLOCKER,
        reads="/proc/net/ip_vs, /proc/modules, modules.builtin, modules.dep",
        condition=ipvs_module_missing,
        applies=_TO_IPVS,
        source="pkg/proxy/ipvs/proxier.go",
    ),
    Rule(
        id="preflight-ipvs-gate",
        severity=BLOCKER,
        reads="featureGates of the configuration",
        condition=ipvs_gate_off,
        applies=_TO_IPVS,
        versions=Versions(since=(1, 37, 0), before=((1, 43, 0),)),
        source="KEP-5495; k/k#139397",
    ),
    Rule(
        id="preflight-ipvs-removed",
        severity=BLOCKER,
        reads="kube-proxy's version",
        condition=always,
        applies=_TO_IPVS,
        versions=Versions(since=(1, 43, 0)),
        source="KEP-5495",
    ),
    Rule(
        id="preflight-ipvs-deprecated",
        severity=WARNING,
        reads="kube-proxy's version",
        condition=always,
        applies=Transition(entering=(IPVS,)),
        versions=Versions(since=(1, 35, 0), before=((1, 43, 0),)),
        source="KEP-5495; k/k#134539",
    ),
    Rule(
        id="preflight-no-way-back",
        severity=WARNING,
        reads="featureGates of the current configuration",
        condition=no_way_back,
        applies=Transition(leaving=(IPVS,)),
        versions=Versions(since=(1, 40, 0)),
        source="KEP-5495",
    ),
    Rule(
        id="preflight-default-flips",
        severity=WARNING,
        reads="mode of the current configuration",
        condition=default_flips,
        applies=Transition(leaving=(IPTABLES,)),
        versions=Versions(since=(1, 40, 0)),
        source="KEP-5343",
    ),
    Rule(
        id="preflight-version-unknown",
        severity=WARNING,
        reads="kube-proxy's version",
        condition=version_unknown,
        applies=ANY,
        source="the checks above that hold for some versions",
    ),
    Rule(
        id="preflight-snapshot-missing",
        severity=WARNING,
        reads="whether a snapshot was given",
        condition=snapshot_missing,
        applies=_EVERY_CHANGE,
        source="the checks below that need Services",
    ),
    Rule(
        id="preflight-unread",
        severity=WARNING,
        reads="every response that could not be parsed",
        condition=unread,
        applies=_EVERY_CHANGE,
        source="what is not known is not guessed",
    ),
)
