# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The input of the preflight checks: the change, and facts about the node, read once. The checks are pure (rules.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ..._core.host.gc_pause import pause_collection
from ..._core.host.host import KERNEL_LIMIT, Host
from ..._core.host.sockets import parse_sockets
from ..._core.text.errors import BallastError, Problems, Unavailable
from ..._core.text.exposition import parse_exposition, total
from ..._core.text.json_text import mapping_in, rows_in
from ..._core.text.packages import UNKNOWN, Distribution, read_distribution
from ..._rules.config import BACKENDS, parse_config
from ..._rules.config_keys import KEYS
from ..._rules.ipvs.parse import Key, parse_listing
from ..._rules.ipvs.surrounding_machines import Route, read_routes, read_users
from ..._rules.ipvs.used_addresses import User
from ..._rules.model import IPTABLES, IPVS, NFTABLES, FamilyView, RuleConfig
from ..._rules.node_addresses import Links, families, own_addresses, read_links
from ..._rules.node_rules import NodeRules
from ..._rules.parse import parse_snapshot
from ..._service_proxy.deployment.installation import INSTALLATION
from ..takeover_table import takeover_config
from . import foreign_programs, kernel
from .foreign_programs import Closed, KubeChainRule, Portmap
from .versions import Version, parse_version

SERVICE, DAEMONSET = "service", "daemonset"
DEPLOYMENTS = (SERVICE, DAEMONSET)
NEWER_NFT: Version = (1, 1, 3)  # since this version, sets are written in a form that crashes older versions
_SECONDS = 60
_SOCKETS = (("TCP", "/proc/net/tcp"), ("TCP", "/proc/net/tcp6"), ("UDP", "/proc/net/udp"), ("UDP", "/proc/net/udp6"))
_IPTABLES_TOOLS = ("iptables", "iptables-save", "iptables-restore")
_NFT_VERSION = re.compile(r"nftables (v\S+)")
# Tools that the node needs. Every change needs nft for the takeover table; the image of a kube-proxy in a pod has the rest.
_TOOLS: Mapping[str, tuple[str, ...]] = {
    NFTABLES: (),
    IPTABLES: _IPTABLES_TOOLS,
    IPVS: (*_IPTABLES_TOOLS, "ipset"),
}


@dataclass(frozen=True)
class ModeChange:
    """The change, and what is known about kube-proxy and the cluster."""

    from_mode: str  # in effect now; "" if kube-proxy has not run yet
    to_mode: str
    config: Mapping[str, Any]  # the present KubeProxyConfiguration
    new_config: Mapping[str, Any]  # after the change
    is_ours: bool = False  # whether our service proxy serves after the change, in place of kube-proxy
    kube_proxy_version: str = ""  # of the kube-proxy that would start, such as "v1.36.4"; "": unknown
    deployment: str = SERVICE
    node_name: str = ""
    snapshot: Optional[object] = None  # a `v1 List`; None: unknown
    metrics: str = ""  # of the kube-proxy that runs now, in Prometheus text format; "": unknown
    api_server: str = ""  # its URL in the kubeconfig; "": unknown


@dataclass(frozen=True)
class Facts:
    """An empty field means that there is none, except for `views` (no snapshot was given) and what `unread` lists."""

    change: ModeChange
    kernel: Optional[Version] = None  # None: unknown
    distribution: Distribution = UNKNOWN
    nft: Optional[Version] = None  # the node's; None: not installed or unknown
    missing_tools: tuple[str, ...] = ()
    missing_packages: tuple[str, ...] = ()  # that our service proxy needs, if it is to serve
    has_ipvsadm: bool = False  # used to recreate virtual servers (../ipvs_connections.py)
    modules: Mapping[str, str] = field(default_factory=dict)  # the state, by name, of modules that the new mode needs
    refused_statements: tuple[str, ...] = ()  # statements of kube-proxy's rules that the kernel refuses
    refused_rules: tuple[str, ...] = ()  # rules of the takeover table, compiled from the snapshot
    has_ipv6: bool = True
    tables_with_sets: tuple[str, ...] = ()  # other programs' tables; only with nft NEWER_NFT or later
    closed: tuple[Closed, ...] = ()
    kube_chain_rules: tuple[KubeChainRule, ...] = ()
    foreign: Mapping[int, NodeRules] = field(
        default_factory=dict
    )  # by family: the rules of all programs that may translate
    firewalld: tuple[str, ...] = ()
    flushing_files: tuple[str, ...] = ()
    portmaps: tuple[Portmap, ...] = ()
    agents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    links: Links = ()
    routes: tuple[Route, ...] = ()
    address_users: tuple[User, ...] = ()  # who uses addresses near this node, besides the Nodes
    virtual_servers: Mapping[Key, int] = field(default_factory=dict)  # with their number of connections
    listeners: tuple[tuple[str, int, str], ...] = ()  # (address, port, protocol)
    views: Mapping[int, FamilyView] = field(default_factory=dict)  # empty if no snapshot was given
    before: Mapping[int, RuleConfig] = field(default_factory=dict)  # by family, for the old mode
    after: Mapping[int, RuleConfig] = field(default_factory=dict)  # for the new mode
    padded_ranges: tuple[str, ...] = ()  # loadBalancerSourceRanges with leading or trailing blanks
    unread: tuple[tuple[str, str], ...] = ()  # (what, why): what could not be read

    @property
    def version(self) -> Optional[Version]:
        """kube-proxy's version; None if unknown."""
        return parse_version(self.change.kube_proxy_version)

    def count_of(self, metric: str) -> Optional[float]:
        """kube-proxy's count since its start; None if its metrics do not have it."""
        return total(parse_exposition(self.change.metrics, [metric]), metric)

    def gate(self, name: str) -> Optional[bool]:
        """A feature gate after the change; None if it is not set."""
        return gate(self.change.new_config, name)

    def addresses_of(self, link: str) -> tuple[str, ...]:
        """The addresses of a link; none if there is no such link."""
        return next((addresses for name, addresses in self.links if name == link), ())


def gate(config: Mapping[str, Any], name: str) -> Optional[bool]:
    """A feature gate of a KubeProxyConfiguration; None if it is not set."""
    value = mapping_in(config, "featureGates").get(name)
    return value if isinstance(value, bool) else None


def read_facts(host: Host, change: ModeChange) -> Facts:
    """Read the facts, changing nothing. UserError for an invalid snapshot or new configuration. A current configuration that
    is not understood is added to `unread`, as is everything else that cannot be read."""
    with pause_collection():
        return _read_facts(host, change)


def _read_facts(host: Host, change: ModeChange) -> Facts:
    unread: list[tuple[str, str]] = []
    links = _links(host, unread)
    views = _views(change, links)
    after = _configs(change.new_config, change.to_mode, views)
    routes = read_routes(host)
    release = _text(host, "/proc/sys/kernel/osrelease").strip()
    release_version = parse_version(release)
    if release_version is None:
        unread.append(("the version of the kernel", release or "the kernel does not report it"))
    nft = _nft_version(host, unread)
    rulesets = foreign_programs.read_rulesets(host, unread)
    nftables = foreign_programs.read_nftables(host, rulesets, unread)
    here = families(host)
    modules = kernel.read_modules(host, release, _modules(change, after))
    return Facts(
        change=change,
        kernel=release_version,
        distribution=read_distribution(host),
        nft=nft,
        missing_tools=_missing_tools(host, change),
        missing_packages=tuple(INSTALLATION.missing(host).values()) if change.is_ours else (),
        has_ipvsadm=host.which("ipvsadm") is not None,
        modules=modules,
        refused_statements=kernel.refused_statements(host, here, modules) if change.to_mode == NFTABLES else (),
        refused_rules=kernel.refused_rules(host, views, _takeover_configs(change, views, after), here),
        has_ipv6=6 in here,
        tables_with_sets=foreign_programs.tables_with_sets(host) if nft is not None and nft >= NEWER_NFT else (),
        closed=(*foreign_programs.closed_in_iptables(rulesets), *nftables.closed),
        kube_chain_rules=tuple(foreign_programs.kube_chain_rules(rulesets)),
        foreign=foreign_programs.select_translating(nftables.translating, rulesets),
        firewalld=foreign_programs.read_firewalld(host, nftables.names),
        flushing_files=foreign_programs.read_flushing_files(host),
        portmaps=foreign_programs.read_portmaps(host, unread),
        agents=foreign_programs.agents(rulesets, links, nftables.names),
        links=links,
        routes=routes,
        address_users=read_users(host, routes, api_server=change.api_server),
        virtual_servers=_virtual_servers(host, unread),
        listeners=tuple(_listeners(host)),
        views=views,
        before=_current_configs(change, views, unread),
        after=after,
        padded_ranges=tuple(_padded_ranges(change.snapshot)),
        unread=tuple(unread),
    )


def _links(host: Host, unread: list[tuple[str, str]]) -> Links:
    try:
        return read_links(host)
    except BallastError as error:
        unread.append(("interfaces and addresses", error.text))
        return ()


def _views(change: ModeChange, links: Links) -> Mapping[int, FamilyView]:
    if change.snapshot is None:
        return {}
    snapshot = parse_snapshot(
        change.snapshot, node_name=change.node_name, node_ips=own_addresses(links), config=change.new_config
    )
    return {view.family: view for view in snapshot.views}


def _configs(config: Mapping[str, Any], mode: str, views: Mapping[int, FamilyView]) -> dict[int, RuleConfig]:
    return {
        family: parse_config(config, backend=mode, family=family, node=view.node).rules
        for family, view in views.items()
    }


def _current_configs(
    change: ModeChange, views: Mapping[int, FamilyView], unread: list[tuple[str, str]]
) -> Mapping[int, RuleConfig]:
    """The rule settings of the current configuration. kube-proxy runs with it, so what we do not understand is no input
    error."""
    if change.from_mode not in BACKENDS:
        return {}
    try:
        return _configs(change.config, change.from_mode, views)
    except BallastError as error:
        texts = "; ".join(problem.text for problem in Problems.of(error))
        unread.append(("kube-proxy's current configuration", texts))
    return {}


def _takeover_configs(
    change: ModeChange, views: Mapping[int, FamilyView], after: Mapping[int, RuleConfig]
) -> Mapping[int, RuleConfig]:
    """The rule settings of the takeover table, which behaves like the old mode, or, if that is unknown, like the new one."""
    known = {key: value for key, value in change.config.items() if key in KEYS}
    try:
        return _configs(takeover_config(known, change.from_mode), NFTABLES, views)
    except BallastError:
        return after if change.to_mode == NFTABLES else {}


def _missing_tools(host: Host, change: ModeChange) -> tuple[str, ...]:
    needed = ("nft", *(_TOOLS[change.to_mode] if change.deployment == SERVICE else ()))
    return tuple(tool for tool in needed if host.which(tool) is None)


def _modules(change: ModeChange, after: Mapping[int, RuleConfig]) -> Sequence[str]:
    if change.to_mode == NFTABLES:
        return kernel.nftables_modules()
    if change.to_mode == IPVS:
        schedulers = sorted({config.scheduler for config in after.values()}) or ["rr"]
        return (*kernel.IPVS_MODULES, *(f"ip_vs_{scheduler}" for scheduler in schedulers))
    return ()


def _nft_version(host: Host, unread: list[tuple[str, str]]) -> Optional[Version]:
    try:
        output = host.run(["nft", "--version"], timeout=_SECONDS).stdout.strip()
    except Unavailable:
        return None  # it is one of the missing tools
    except BallastError as error:
        unread.append(("the version of nft", error.text))
        return None
    match = _NFT_VERSION.match(output)
    version = parse_version(match[1]) if match else None
    if version is None:
        unread.append(("the version of nft", output or "it reports nothing"))
    return version


def _virtual_servers(host: Host, unread: list[tuple[str, str]]) -> Mapping[Key, int]:
    try:
        listed = parse_listing(_text(host, kernel.IPVS_LISTING))
    except BallastError as error:
        unread.append((kernel.IPVS_LISTING, error.text))
        return {}
    return {key: sum(servers.values()) for key, servers in listed.items()}


def _listeners(host: Host) -> Iterator[tuple[str, int, str]]:
    for protocol, path in _SOCKETS:
        for sock in parse_sockets(_text(host, path)):
            if sock.is_open_to_all:
                yield sock.address, sock.port, protocol


def _padded_ranges(snapshot: object) -> Iterator[str]:
    """An item of another form has no such ranges: parse_snapshot has checked the snapshot."""
    for item in rows_in(snapshot, "items"):
        ranges = mapping_in(item, "spec").get("loadBalancerSourceRanges")
        for source_range in ranges if isinstance(ranges, list) else []:
            if isinstance(source_range, str) and source_range != source_range.strip():
                metadata = item["metadata"]
                yield f"{metadata.get('namespace')}/{metadata.get('name')}: {source_range!r}"


def _text(host: Host, path: str) -> str:
    return (host.read(path, limit=KERNEL_LIMIT) or b"").decode(errors="replace")
