# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bridge: our own rules for every Service, which decide before kube-proxy's, while those go and come.

They are nftables rules at kube-proxy's priorities less one, in a table of their own, whatever the backends are that are
left and entered: the first NAT hook to translate a connection decides. New connections follow them from the moment that
the table is there until it goes; established ones follow conntrack, which neither end of the bridge touches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from ..._core.collector import collection_paused
from ..._core.host import Host
from ..backends import BRIDGE_TABLE, NFT_FAMILIES
from ..model import IPTABLES, NFTABLES
from ..nftables.presence import is_there as table_is_there
from ..surroundings import families, own_addresses, read_links

if TYPE_CHECKING:
    # With all that makes rules, which a run that changes nothing does not need, and which takes long to import.
    from ..nftables.objects import Table
    from ..parse import Snapshot

_OFFSET = -1
_EVERYWHERE = ["0.0.0.0/0", "::/0"]


def bridge_config(config: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """That of rules which answer as kube-proxy does in `mode`, the one that is left: masquerading as it is set there, and
    node ports on the same addresses. iptables and ipvs have them on all where nothing else is said, nftables on the
    primary ones (reference of kube-proxy 1.5)."""
    section = config.get(NFTABLES if mode == NFTABLES else IPTABLES)
    masquerade = section if isinstance(section, Mapping) else {}
    keys = ("clusterCIDR", "detectLocalMode", "detectLocal", "nodePortAddresses")
    found = {key: config[key] for key in keys if config.get(key)}
    found[NFTABLES] = {key: masquerade[key] for key in ("masqueradeAll", "masqueradeBit") if key in masquerade}
    if mode != NFTABLES and not found.get("nodePortAddresses"):
        found["nodePortAddresses"] = _EVERYWHERE
    return found


class Bridge:
    """Brings the table to a snapshot, by the difference to what it brought it to last."""

    def __init__(self, host: Host, config: Mapping[str, Any], node: str) -> None:
        from ..nftables.backend import Nftables

        self._host = host
        self._config = config
        self._node = node
        self._backend = Nftables(BRIDGE_TABLE, priority_offset=_OFFSET, lets_by=True)
        self._known: dict[int, Optional[Table]] = {}

    def bring(self, data: Mapping[str, Any]) -> int:
        """How many operations it took. What fails leaves the table of that family as it was."""
        from ..parse import parse_snapshot

        with collection_paused():
            addresses = own_addresses(read_links(self._host))
            found = parse_snapshot(data, node_name=self._node, node_ips=addresses)
            return sum(self._bring(family, found) for family in families(self._host))

    def _bring(self, family: int, found: Snapshot) -> int:
        from ..config import parse_config

        view = found.view(family)
        wanted = self._backend.compile(
            view, parse_config(self._config, backend=NFTABLES, family=family, node=view.node).rules
        )
        known = self._known.pop(family) if family in self._known else self._backend.read(self._host, family)
        operations = self._backend.plan(wanted, known)
        self._backend.commit(operations, self._host, known)
        self._known[family] = wanted
        return len(operations)


def is_there(host: Host) -> bool:
    return any(table_is_there(host, NFT_FAMILIES[family], BRIDGE_TABLE) for family in families(host))


def remove(host: Host) -> None:
    """In one transaction for each family. Connections that it has translated go on."""
    from ..nftables.backend import Nftables

    for family in families(host):
        backend = Nftables(BRIDGE_TABLE)
        there = backend.left(host, family)
        backend.commit(backend.plan(None, there), host, there)
