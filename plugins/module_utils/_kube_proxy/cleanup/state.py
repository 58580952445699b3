# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state from which a clean-up is planned: what was read from the node, its settings and connections, the rules in
use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ..._audit.destinations import Key, find_in_iptables, find_in_nftables
from ..._audit.facts import UdpConnection, read_connections
from ..._core.host.host import KERNEL_LIMIT, Host
from ..._core.host.names import MARK
from ..._core.text.errors import BallastError, CommandFailed, Unavailable
from ..._rules.backend import KUBE_PROXY_TABLE, SERVICE_PROXY_TABLE, Backend
from ..._rules.backends import backend_named
from ..._rules.iptables.backend import Iptables
from ..._rules.ipvs.backend import Ipvs
from ..._rules.ipvs.plan import select_own
from ..._rules.model import IPTABLES, IPVS, NFTABLES
from ..._rules.nftables import transaction
from ..._rules.nftables.backend import Nftables
from ..._rules.nftables.layout import SERVICE_PROXY
from ..._rules.node_addresses import read_links, surroundings_with
from ..._rules.packet import Surroundings
from ..._rules.record import read_record, read_setting
from ..modes import BALLAST
from . import settings
from .connections import select_connections
from .read import Reading, read

_SECONDS = 60


@dataclass(frozen=True)
class CleanupState:
    mode: str
    reading: Reading
    values: Mapping[str, Optional[str]]  # of the settings
    recorded: Mapping[str, str]  # original values
    configured: Mapping[str, tuple[str, str]]  # (value, file) in sysctl files
    counters: tuple[str, ...]
    has_conntrack: bool
    connections: tuple[UdpConnection, ...]  # to `former`
    former: frozenset[Key] = frozenset()  # destinations of Services in the stale rules
    backend: Optional[Backend] = None  # of the rules in use, if there are such connections
    rules: Mapping[int, Any] = field(default_factory=dict)
    surroundings: Surroundings = Surroundings()


def observe(host: Host, mode: str, *, originals: Mapping[str, str]) -> CleanupState:
    reading = read(host, mode)
    recorded = dict(originals)
    for backend in (IPTABLES, IPVS):
        if backend != mode:
            recorded.update(read_record(host, backend).original_settings)
    state = CleanupState(
        mode=mode,
        reading=reading,
        values={setting.name: read_setting(host, setting.name) for setting in settings.SETTINGS},
        recorded=recorded,
        configured=settings.parse_files(_setting_files(host)),
        counters=_counters(host),
        has_conntrack=host.which("conntrack") is not None,
        connections=(),
    )
    return _with_connections(host, state)


def _setting_files(host: Host) -> Iterator[tuple[str, str]]:
    for path in settings.file_order({directory: host.listdir(directory) for directory in settings.DIRECTORIES}):
        data = host.read(path)
        if data is not None:
            yield path, data.decode(errors="replace")


def _counters(host: Host) -> tuple[str, ...]:
    """The names of nfacct objects; none if the tool or the kernel's support is missing."""
    try:
        listed = host.run(["nfacct", "list"], timeout=_SECONDS, limit=KERNEL_LIMIT).stdout
    except (Unavailable, CommandFailed):
        return ()
    return tuple(line.rpartition("= ")[2].strip(" ;") for line in listed.splitlines() if "= " in line)


def _with_connections(host: Host, state: CleanupState) -> CleanupState:
    """Read the rules in use, which may be many, only if a connection has one of the former destinations."""
    listed, _problem = read_connections(host)
    if not listed:
        return state
    try:
        links = read_links(host)
    except Unavailable:
        return state
    around = surroundings_with(links)
    former = frozenset(_former(host, state))
    connections = select_connections(listed, former, around)
    if not connections:
        return state
    backend = _backend(host, state)
    rules = {
        family: _rules(host, backend, family) for family in sorted({_version(connection) for connection in connections})
    }
    return CleanupState(
        **{
            **vars(state),
            "connections": tuple(connections),
            "former": former,
            "backend": backend,
            "rules": rules,
            "surroundings": around,
        }
    )


def _version(connection: UdpConnection) -> int:
    return 6 if ":" in connection.destination else 4


def _former(host: Host, state: CleanupState) -> set[Key]:
    """The destinations of Services in the stale rules."""
    destinations: set[Key] = set()
    for (variant, _family), tables in state.reading.tables.items():
        if variant != state.reading.variant:
            destinations |= find_in_iptables(tables)
    for rules in state.reading.ipvs.rules.values():
        destinations |= {(server.address, server.protocol, server.port) for server in select_own(rules).servers}
    for family, table in state.reading.nft_tables:
        if table == KUBE_PROXY_TABLE and state.mode != NFTABLES:
            there = transaction.read(host, family, table)
            destinations |= find_in_nftables(there) if there is not None else set()
    return destinations


def _backend(host: Host, state: CleanupState) -> Backend:
    if state.mode == IPTABLES:
        return Iptables(state.reading.variant)
    if state.mode == IPVS:
        return Ipvs(state.reading.variant)
    if state.mode == BALLAST:
        return Nftables(SERVICE_PROXY_TABLE, owner=SERVICE_PROXY)
    of_kube_proxy = any(table == KUBE_PROXY_TABLE for _family, table in state.reading.nft_tables)
    return backend_named(NFTABLES, host, table=KUBE_PROXY_TABLE if of_kube_proxy else MARK)


def _rules(host: Host, backend: Backend, family: int) -> Any:
    """The rules, or the error if they cannot be read, in which case connections are kept."""
    try:
        return backend.read(host, family)
    except BallastError as error:
        return error


def is_carried(state: CleanupState) -> bool:
    """Whether rules of the mode in use, kube-proxy's or ours, serve the Services after the clean-up."""
    if state.mode == BALLAST:
        return any(table == SERVICE_PROXY_TABLE for _family, table in state.reading.nft_tables)
    if state.mode == NFTABLES:
        return any(table in (KUBE_PROXY_TABLE, MARK) for _family, table in state.reading.nft_tables)
    if state.reading.undecided:
        return True
    return any(
        variant == state.reading.variant and tables.chain("nat", "KUBE-SERVICES") is not None
        for (variant, _family), tables in state.reading.tables.items()
    )
