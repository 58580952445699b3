# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The chains that kube-proxy's nftables table has on every node, by release. Pure.

Source: kube-proxy 1.29, 1.30 and 1.33, nftables/proxier.go; observed: tests/matrix.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .._rules.gates import NEWEST
from .._rules.nftables.objects import Hook
from .._rules.packet import PROTOCOLS


@dataclass(frozen=True)
class KubeProxyLayout:
    """`last_minor` is the last minor version with this layout; `hooks` are the base chains; `filled` are regular chains that
    always have rules; `others` are those that may be empty or absent. Chains of one Service or endpoint, whose names contain
    a slash, are not included."""

    last_minor: int
    hooks: Mapping[str, Hook]
    filled: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def shared(self) -> tuple[str, ...]:
        """All regular chains of the layout."""
        return (*self.filled, *self.others)

    @property
    def has_cluster_ips(self) -> bool:
        """Whether it rejects ports of a clusterIP that no Service has."""
        return "cluster-ips-check" in self.filled

    @property
    def required(self) -> frozenset[str]:
        return frozenset((*self.hooks, *self.filled))


_NAT_HOOKS = {
    "nat-prerouting": Hook("nat", "prerouting", -100),
    "nat-output": Hook("nat", "output", -100),
    "nat-postrouting": Hook("nat", "postrouting", 100),
}
_FILLED = ("services", "masquerading", "cluster-ips-check", "nodeport-endpoints-check", "service-endpoints-check")
_OTHERS = (
    *("firewall-check", "reject-chain", "mark-for-masquerade", "hairpin-check"),
    *(f"localhost-nodeport-reject-{protocol.lower()}" for protocol in PROTOCOLS),
)
_FROM_1_33 = KubeProxyLayout(
    last_minor=NEWEST,
    hooks={
        "filter-prerouting-pre-dnat": Hook("filter", "prerouting", -110),
        "filter-output-pre-dnat": Hook("filter", "output", -110),
        "filter-input": Hook("filter", "input", 0),
        "filter-forward": Hook("filter", "forward", 0),
        "filter-output": Hook("filter", "output", 0),
        **_NAT_HOOKS,
    },
    filled=_FILLED,
    others=_OTHERS,
)
_FROM_1_30 = KubeProxyLayout(
    last_minor=32,
    hooks={
        "filter-prerouting": Hook("filter", "prerouting", -110),
        "filter-input": Hook("filter", "input", -110),
        "filter-forward": Hook("filter", "forward", -110),
        "filter-output": Hook("filter", "output", -110),
        "filter-output-post-dnat": Hook("filter", "output", -90),
        **_NAT_HOOKS,
    },
    filled=_FILLED,
    others=_OTHERS,
)
_OF_1_29 = KubeProxyLayout(  # alpha
    last_minor=29,
    hooks={
        "filter-input": Hook("filter", "input", -101),
        "filter-forward": Hook("filter", "forward", -101),
        "filter-output": Hook("filter", "output", -101),
        **_NAT_HOOKS,
    },
    filled=("services", "masquerading", "endpoints-check", "firewall-check", "firewall-allow-check"),
    others=("forward", "reject-chain", "mark-for-masquerade"),
)
LAYOUTS = (_FROM_1_33, _FROM_1_30, _OF_1_29)  # newest first


def layout_of(chains: Collection[str]) -> KubeProxyLayout:
    """The layout with the most chains in common with a table, which may lack some; of equal ones, the newest."""
    return max(LAYOUTS, key=lambda layout: len(layout.required.union(layout.others).intersection(chains)))
