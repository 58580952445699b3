# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a preflight goes by: what was asked, and what is on the node. Read once; the checks themselves are pure (rules.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ...._core.collector import collection_paused
from ...._core.errors import BallastError, Problems, Unavailable
from ...._core.exposition import parse_exposition, total
from ...._core.host import Host
from ...._core.sockets import parse_sockets
from ...config import BACKENDS, parse_config
from ...config_keys import KEYS
from ...ipvs.parse import Key, parse_listing
from ...model import IPTABLES, IPVS, NFTABLES, FamilyView, RuleConfig
from ...parse import parse_snapshot
from ...surroundings import Links, families, own_addresses, read_links
from ..bridge import bridge_config
from . import kernel, neighbours
from .neighbours import Closed, KubeChainRule, Portmap
from .versions import Version, parse_version

SERVICE, DAEMONSET = "service", "daemonset"
DEPLOYMENTS = (SERVICE, DAEMONSET)
NEWER_NFT: Version = (1, 1, 3)  # from this one on, what nft writes with sets makes an older nft crash
_SECONDS = 60
_SOCKETS = (("TCP", "/proc/net/tcp"), ("TCP", "/proc/net/tcp6"), ("UDP", "/proc/net/udp"), ("UDP", "/proc/net/udp6"))
_IPTABLES_TOOLS = ("iptables", "iptables-save", "iptables-restore")
_NFT_VERSION = re.compile(r"nftables (v\S+)")
# What has to be on the node itself. The bridge takes nft in every change; the rest is kube-proxy's, whose image has it.
_TOOLS: Mapping[str, tuple[str, ...]] = {
    NFTABLES: (),
    IPTABLES: _IPTABLES_TOOLS,
    IPVS: (*_IPTABLES_TOOLS, "ipset"),
}


@dataclass(frozen=True)
class Asked:
    """The change, and what is known of kube-proxy and the cluster."""

    from_mode: str  # in effect now; "" where kube-proxy has not run yet
    to_mode: str
    config: Mapping[str, Any]  # KubeProxyConfiguration as it is now
    wanted_config: Mapping[str, Any]  # as it would be
    kube_proxy_version: str = ""  # of the kube-proxy that would start, as in "v1.36.4"; "": not known
    deployment: str = SERVICE
    node_name: str = ""
    snapshot: Optional[object] = None  # a `v1 List`; None: not known
    metrics: str = ""  # of the kube-proxy that runs now, in the Prometheus text format; "": not known


@dataclass(frozen=True)
class Facts:
    """Empty means that nothing is there, but for `views` (no snapshot was given) and what `unread` tells of."""

    asked: Asked
    kernel: Optional[Version] = None  # None: not known
    nft: Optional[Version] = None  # of the node; None: not there, or not known
    missing_tools: tuple[str, ...] = ()
    modules: Mapping[str, str] = field(default_factory=dict)  # name: state, of those that were asked for
    refused_statements: tuple[str, ...] = ()  # of kube-proxy's rules, by the kernel
    refused_rules: tuple[str, ...] = ()  # the bridge, compiled from the snapshot
    has_ipv6: bool = True
    tables_with_sets: tuple[str, ...] = ()  # of other programs; only where nft is from NEWER_NFT on
    closed: tuple[Closed, ...] = ()
    kube_chain_rules: tuple[KubeChainRule, ...] = ()
    firewalld: tuple[str, ...] = ()
    flushing_files: tuple[str, ...] = ()
    portmaps: tuple[Portmap, ...] = ()
    agents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    links: Links = ()
    virtual_servers: Mapping[Key, int] = field(default_factory=dict)  # with their connections
    listeners: tuple[tuple[str, int, str], ...] = ()  # address, port and protocol
    views: Mapping[int, FamilyView] = field(default_factory=dict)  # empty: no snapshot was given
    before: Mapping[int, RuleConfig] = field(default_factory=dict)  # by family, for the mode that is left
    after: Mapping[int, RuleConfig] = field(default_factory=dict)  # for the mode that is entered
    padded_ranges: tuple[str, ...] = ()  # loadBalancerSourceRanges with blanks at an end
    unread: tuple[tuple[str, str], ...] = ()  # what could not be read, and why

    @property
    def version(self) -> Optional[Version]:
        """Of kube-proxy."""
        return parse_version(self.asked.kube_proxy_version)

    def counted(self, metric: str) -> Optional[float]:
        """What kube-proxy has counted since its start; None where it does not tell."""
        return total(parse_exposition(self.asked.metrics, [metric]), metric)

    def gate(self, name: str) -> Optional[bool]:
        """A feature gate as it would be set; None where it is not."""
        return gate(self.asked.wanted_config, name)

    def addresses_of(self, link: str) -> tuple[str, ...]:
        return next((addresses for name, addresses in self.links if name == link), ())


def gate(config: Mapping[str, Any], name: str) -> Optional[bool]:
    gates = config.get("featureGates")
    value = gates.get(name) if isinstance(gates, Mapping) else None
    return value if isinstance(value, bool) else None


def read_facts(host: Host, asked: Asked) -> Facts:
    """Changes nothing. UserError for a snapshot or a wanted configuration that cannot be; a current configuration that is
    not understood, and what else cannot be read, is in `unread`."""
    with collection_paused():
        return _read_facts(host, asked)


def _read_facts(host: Host, asked: Asked) -> Facts:
    unread: list[tuple[str, str]] = []
    links = _links(host, unread)
    views = _views(asked, links)
    after = _configs(asked.wanted_config, asked.to_mode, views)
    release = _text(host, "/proc/sys/kernel/osrelease").strip()
    release_version = parse_version(release)
    if release_version is None:
        unread.append(("the version of the kernel", release or "the kernel does not say it"))
    nft = _nft_version(host, unread)
    rulesets = neighbours.read_rulesets(host, unread)
    closed_tables, tables = neighbours.read_closed_tables(host, rulesets, unread)
    here = families(host)
    modules = kernel.read_modules(host, release, _modules(asked, after))
    return Facts(
        asked=asked,
        kernel=release_version,
        nft=nft,
        missing_tools=_missing_tools(host, asked),
        modules=modules,
        refused_statements=kernel.refused_statements(host, here, modules) if asked.to_mode == NFTABLES else (),
        refused_rules=kernel.refused_rules(host, views, _bridge_configs(asked, views, after), here),
        has_ipv6=6 in here,
        tables_with_sets=neighbours.tables_with_sets(host) if nft is not None and nft >= NEWER_NFT else (),
        closed=(*neighbours.closed_in_iptables(rulesets), *closed_tables),
        kube_chain_rules=tuple(neighbours.kube_chain_rules(rulesets)),
        firewalld=neighbours.read_firewalld(host, tables),
        flushing_files=neighbours.read_flushing_files(host),
        portmaps=neighbours.read_portmaps(host, unread),
        agents=neighbours.agents(rulesets, links, tables),
        links=links,
        virtual_servers=_virtual_servers(host, unread),
        listeners=tuple(_listeners(host)),
        views=views,
        before=_current_configs(asked, views, unread),
        after=after,
        padded_ranges=tuple(_padded_ranges(asked.snapshot)),
        unread=tuple(unread),
    )


def _links(host: Host, unread: list[tuple[str, str]]) -> Links:
    try:
        return read_links(host)
    except BallastError as error:
        unread.append(("links and addresses", error.text))
        return ()


def _views(asked: Asked, links: Links) -> Mapping[int, FamilyView]:
    if asked.snapshot is None:
        return {}
    found = parse_snapshot(asked.snapshot, node_name=asked.node_name, node_ips=own_addresses(links))
    return {view.family: view for view in found.views}


def _configs(config: Mapping[str, Any], mode: str, views: Mapping[int, FamilyView]) -> dict[int, RuleConfig]:
    return {
        family: parse_config(config, backend=mode, family=family, node=view.node).rules
        for family, view in views.items()
    }


def _current_configs(
    asked: Asked, views: Mapping[int, FamilyView], unread: list[tuple[str, str]]
) -> Mapping[int, RuleConfig]:
    """kube-proxy runs with it, so that what we do not understand of it is no input error."""
    if asked.from_mode not in BACKENDS:
        return {}
    try:
        return _configs(asked.config, asked.from_mode, views)
    except Problems as error:
        unread.append(("the configuration that kube-proxy has now", "; ".join(one.text for one in error.problems)))
    except BallastError as error:
        unread.append(("the configuration that kube-proxy has now", error.text))
    return {}


def _bridge_configs(
    asked: Asked, views: Mapping[int, FamilyView], after: Mapping[int, RuleConfig]
) -> Mapping[int, RuleConfig]:
    """Of the bridge, which answers as the mode that is left; where that cannot be told, as the one that is entered."""
    known = {key: value for key, value in asked.config.items() if key in KEYS}
    try:
        return _configs(bridge_config(known, asked.from_mode), NFTABLES, views)
    except BallastError:
        return after if asked.to_mode == NFTABLES else {}


def _missing_tools(host: Host, asked: Asked) -> tuple[str, ...]:
    needed = ("nft", *(_TOOLS[asked.to_mode] if asked.deployment == SERVICE else ()))
    return tuple(tool for tool in needed if host.which(tool) is None)


def _modules(asked: Asked, after: Mapping[int, RuleConfig]) -> Sequence[str]:
    if asked.to_mode == NFTABLES:
        return kernel.nftables_modules()
    if asked.to_mode == IPVS:
        schedulers = sorted({config.scheduler for config in after.values()}) or ["rr"]
        return (*kernel.IPVS_MODULES, *(f"ip_vs_{one}" for one in schedulers))
    return ()


def _nft_version(host: Host, unread: list[tuple[str, str]]) -> Optional[Version]:
    try:
        said = host.run(["nft", "--version"], timeout=_SECONDS).stdout.strip()
    except Unavailable:
        return None  # it is among the missing tools
    except BallastError as error:
        unread.append(("the version of nft", error.text))
        return None
    match = _NFT_VERSION.match(said)
    found = parse_version(match[1]) if match else None
    if found is None:
        unread.append(("the version of nft", said or "it says nothing"))
    return found


def _virtual_servers(host: Host, unread: list[tuple[str, str]]) -> Mapping[Key, int]:
    try:
        listed = parse_listing(_text(host, kernel.IPVS_LISTING))
    except BallastError as error:
        unread.append((kernel.IPVS_LISTING, error.text))
        return {}
    return {key: sum(servers.values()) for key, servers in listed.items()}


def _listeners(host: Host) -> Iterator[tuple[str, int, str]]:
    for protocol, path in _SOCKETS:
        for one in parse_sockets(_text(host, path)):
            if one.is_open_to_all:
                yield one.address, one.port, protocol


def _padded_ranges(snapshot: object) -> Iterator[str]:
    """parse_snapshot has been through it: what is not of this form has no such ranges."""
    items = snapshot.get("items") if isinstance(snapshot, Mapping) else None
    for item in items if isinstance(items, list) else []:
        spec = item.get("spec") if isinstance(item, Mapping) else None
        ranges = spec.get("loadBalancerSourceRanges") if isinstance(spec, Mapping) else None
        for one in ranges if isinstance(ranges, list) else []:
            if isinstance(one, str) and one != one.strip():
                metadata = item["metadata"]
                yield f"{metadata.get('namespace')}/{metadata.get('name')}: {one!r}"


def _text(host: Host, path: str) -> str:
    return (host.read(path) or b"").decode(errors="replace")
