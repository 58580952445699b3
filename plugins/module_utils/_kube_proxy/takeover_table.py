# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The takeover table: rules for every Service that serve new connections while kube-proxy changes its mode.

They are nftables rules in a separate table, one priority before kube-proxy's, whatever its old and new modes are: the first
NAT hook that translates a connection decides. New connections follow the table while it exists. Established ones follow
conntrack, which neither creating nor removing the table affects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from .._core.host.gc_pause import pause_collection
from .._core.host.host import Host
from .._core.text.json_text import mapping_in
from .._rules.backend import NFT_FAMILIES, TAKEOVER_TABLE
from .._rules.model import IPTABLES, NFTABLES
from .._rules.nftables.presence import has_table as table_is_there
from .._rules.node_addresses import families, own_addresses, read_links
from .modes import rules_of

if TYPE_CHECKING:
    # The compilers are slow to import, and a run that changes nothing does not need them.
    from .._rules.nftables.objects import Table
    from .._rules.parse import Snapshot

_OFFSET = -1
_EVERYWHERE = ["0.0.0.0/0", "::/0"]


def takeover_config(config: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """A configuration for rules that behave like kube-proxy's in `mode`, the old mode: the same masquerading, and node ports
    on the same addresses. By default iptables and ipvs serve them on all addresses, nftables on the primary ones
    (_rules/node_ports.py)."""
    mode = rules_of(mode)
    masquerade = mapping_in(config, NFTABLES if mode == NFTABLES else IPTABLES)
    keys = ("clusterCIDR", "detectLocalMode", "detectLocal", "nodePortAddresses")
    result = {key: config[key] for key in keys if config.get(key)}
    result[NFTABLES] = {key: masquerade[key] for key in ("masqueradeAll", "masqueradeBit") if key in masquerade}
    if mode != NFTABLES and not result.get("nodePortAddresses"):
        result["nodePortAddresses"] = _EVERYWHERE
    return result


class TakeoverTable:
    """Keeps the table in line with the latest snapshot, by applying the difference to the previous one."""

    def __init__(self, host: Host, config: Mapping[str, Any], node: str) -> None:
        from .._rules.nftables.backend import Nftables
        from .._rules.nftables.layout import TAKEOVER

        self._host = host
        self._config = config
        self._node = node
        self._backend = Nftables(TAKEOVER_TABLE, priority_offset=_OFFSET, dscp_bypass=True, owner=TAKEOVER)
        self._known: dict[int, Optional[Table]] = {}

    def update(self, data: Mapping[str, Any]) -> int:
        """Write the rules of a snapshot; returns the number of operations. An error leaves that family's table unchanged."""
        from .._rules.parse import parse_snapshot

        with pause_collection():
            addresses = own_addresses(read_links(self._host))
            snapshot = parse_snapshot(data, node_name=self._node, node_ips=addresses, config=self._config)
            return sum(self._update(family, snapshot) for family in families(self._host))

    def _update(self, family: int, snapshot: Snapshot) -> int:
        from .._rules.config import parse_config

        view = snapshot.view(family)
        table = self._backend.compile(
            view, parse_config(self._config, backend=NFTABLES, family=family, node=view.node).rules
        )
        known = self._known.pop(family) if family in self._known else self._read(family)
        operations = self._backend.plan(table, known)
        self._backend.commit(operations, self._host, known)
        self._known[family] = table
        return len(operations)

    def _read(self, family: int) -> Optional[Table]:
        self._backend.require_ours(self._host, family)
        return self._backend.read(self._host, family)


def is_there(host: Host) -> bool:
    return any(table_is_there(host, NFT_FAMILIES[family], TAKEOVER_TABLE) for family in families(host))


def require_ours(host: Host) -> None:
    """HostError if another program has a table with this name."""
    from .._rules.nftables.backend import Nftables
    from .._rules.nftables.layout import TAKEOVER

    for family in families(host):
        Nftables(TAKEOVER_TABLE, owner=TAKEOVER).require_ours(host, family)


def remove(host: Host) -> None:
    """Remove the table, in one transaction per family. Connections that it has translated continue."""
    from .._rules.nftables.backend import Nftables
    from .._rules.nftables.layout import TAKEOVER

    for family in families(host):
        backend = Nftables(TAKEOVER_TABLE, owner=TAKEOVER)
        backend.require_ours(host, family)
        there = backend.read_for_removal(host, family)
        backend.commit(backend.plan(None, there), host, there)
