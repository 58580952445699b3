# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All that a clean-up goes by: the node as it was read, its settings, its connections, and the rules in use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ...._core.errors import BallastError, CommandFailed, Unavailable
from ...._core.host import Host
from ...._core.names import MARK
from ...auditing.destinations import Key, in_iptables, in_nftables
from ...auditing.facts import UdpConnection, read_connections
from ...backends import KUBE_PROXY_TABLE, Backend, backend_named
from ...iptables.backend import Iptables
from ...ipvs.backend import Ipvs
from ...ipvs.plan import own
from ...model import IPTABLES, IPVS, NFTABLES
from ...nftables import transaction
from ...packet import Surroundings
from ...record import read_record, read_setting
from ...surroundings import LINK, read_links
from . import settings
from .connections import of_services
from .read import Reading, read

_SECONDS = 60


@dataclass(frozen=True)
class State:
    mode: str
    reading: Reading
    values: Mapping[str, Optional[str]]  # of settings
    recorded: Mapping[str, str]  # their values before
    configured: Mapping[str, tuple[str, str]]  # by files
    counters: tuple[str, ...]
    has_conntrack: bool
    connections: tuple[UdpConnection, ...]  # to destinations of the rules left over
    backend: Optional[Backend] = None  # of the rules in use, where there are such connections
    rules: Mapping[int, Any] = field(default_factory=dict)
    surroundings: Surroundings = Surroundings()


def observe(host: Host, mode: str, *, originals: Mapping[str, str]) -> State:
    reading = read(host, mode)
    recorded = dict(originals)
    for backend in (IPTABLES, IPVS):
        if backend != mode:
            recorded.update(read_record(host, backend).original_settings)
    state = State(
        mode=mode,
        reading=reading,
        values={one.name: read_setting(host, one.name) for one in settings.SETTINGS},
        recorded=recorded,
        configured=settings.parse_files(_setting_files(host)),
        counters=_counters(host),
        has_conntrack=host.which("conntrack") is not None,
        connections=(),
    )
    return _with_connections(host, state)


def _setting_files(host: Host) -> Iterator[tuple[str, str]]:
    for path in settings.file_order({one: host.listdir(one) for one in settings.DIRECTORIES}):
        data = host.read(path)
        if data is not None:
            yield path, data.decode(errors="replace")


def _counters(host: Host) -> tuple[str, ...]:
    """Names of nfacct objects; none where the tool or the kernel's part is missing."""
    try:
        listed = host.run(["nfacct", "list"], timeout=_SECONDS).stdout
    except (Unavailable, CommandFailed):
        return ()
    return tuple(line.rpartition("= ")[2].strip(" ;") for line in listed.splitlines() if "= " in line)


def _with_connections(host: Host, state: State) -> State:
    """The rules in use are read only where a connection is to one of the former destinations: they may be great."""
    listed, _problem = read_connections(host)
    if not listed:
        return state
    try:
        links = read_links(host)
    except Unavailable:
        return state
    around = Surroundings(tuple(link for link in links if link[0] != LINK))
    found = of_services(listed, _former(host, state), around)
    if not found:
        return state
    backend = _backend(host, state)
    rules = {family: _rules(host, backend, family) for family in sorted({_version(one) for one in found})}
    return State(
        **{**vars(state), "connections": tuple(found), "backend": backend, "rules": rules, "surroundings": around}
    )


def _version(one: UdpConnection) -> int:
    return 6 if ":" in one.destination else 4


def _former(host: Host, state: State) -> set[Key]:
    """Destinations of Services that the rules left over have."""
    found: set[Key] = set()
    for (variant, _family), tables in state.reading.tables.items():
        if variant != state.reading.variant:
            found |= in_iptables(tables)
    for rules in state.reading.ipvs.rules.values():
        found |= {(one.address, one.protocol, one.port) for one in own(rules).servers}
    for family, table in state.reading.nft_tables:
        if table == KUBE_PROXY_TABLE and state.mode != NFTABLES:
            there = transaction.read(host, family, table)
            found |= in_nftables(there) if there is not None else set()
    return found


def _backend(host: Host, state: State) -> Backend:
    if state.mode == IPTABLES:
        return Iptables(state.reading.variant)
    if state.mode == IPVS:
        return Ipvs(state.reading.variant)
    of_kube_proxy = any(table == KUBE_PROXY_TABLE for _family, table in state.reading.nft_tables)
    return backend_named(NFTABLES, host, table=KUBE_PROXY_TABLE if of_kube_proxy else MARK)


def _rules(host: Host, backend: Backend, family: int) -> Any:
    """The error of reading, where they cannot be read: the connections then stay."""
    try:
        return backend.read(host, family)
    except BallastError as error:
        return error


def carried(state: State) -> bool:
    """Whether there are rules of the mode in use, kube-proxy's or ours, that carry Services when all else is gone."""
    if state.mode == NFTABLES:
        return any(table in (KUBE_PROXY_TABLE, MARK) for _family, table in state.reading.nft_tables)
    if state.reading.undecided:
        return True
    return any(
        variant == state.reading.variant and tables.chain("nat", "KUBE-SERVICES") is not None
        for (variant, _family), tables in state.reading.tables.items()
    )
