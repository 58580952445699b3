# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of a traffic policy: which packets reach which endpoints, and which are masqueraded.

They are the same with and without session affinity: the statements that translate a packet are passed in.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..model import CLUSTER_IP, Frontend, LocalDetector
from . import layout
from .expressions import DROP, EQUAL, UNEQUAL, AnonymousSet, Match, Meta, Statement, Verdict
from .objects import Rule

# The traffic policy of packets to a frontend, as used in names of chains.
INTERNAL = "cluster-ip"
EXTERNAL = "external"  # externalTrafficPolicy Cluster
LOCAL = "local"  # externalTrafficPolicy Local

Translation = tuple[Statement, ...]  # the end of a rule; () if there is no endpoint to translate to


def policy_of(frontend: Frontend) -> str:
    if frontend.kind == CLUSTER_IP:
        return INTERNAL
    return LOCAL if frontend.service.external_local else EXTERNAL


@dataclass(frozen=True)
class PolicyRules:
    """The rules of each policy on one node."""

    family: layout.Family
    detector: LocalDetector
    mark: int
    masquerade_all: bool

    def rules(self, policy: str, everywhere: Translation, here: Translation) -> tuple[Rule, ...]:
        """The rules of `policy`. Only LOCAL uses `here`. Source: kube-proxy, nftables/proxier.go."""
        if policy == INTERNAL:
            return (*self._internal_masquerade(), Rule(everywhere))
        mark = layout.add_mark(self.mark)
        if policy == EXTERNAL:
            # The reply must come back through this node, wherever the endpoint is.
            return (Rule((mark, *everywhere)),)
        # The policy preserves the source address of clients outside. For a pod it is preserved with any endpoint, and
        # packets of the node itself have no client address, so both may use the endpoints of all nodes.
        return (
            *(Rule((match, *everywhere)) for match in self._from_local_pod(EQUAL)),
            Rule((layout.local_source(), mark, *everywhere)),
            Rule(here or (Verdict(DROP),)),
        )

    def _internal_masquerade(self) -> tuple[Rule, ...]:
        """Masquerade sources outside the cluster: their replies must pass this node, since pods do not know where the packet
        entered."""
        mark = layout.add_mark(self.mark)
        if self.masquerade_all:
            return (Rule((mark,)),)
        return tuple(Rule((match, mark)) for match in self._from_local_pod(UNEQUAL))

    def _from_local_pod(self, operator: str) -> tuple[Match, ...]:
        """Matches packets from pods of this node, or with UNEQUAL all others; empty if pods cannot be recognized."""
        if not self.detector.kind:
            return ()
        if self.detector.kind == "cidr":
            return (Match(self.family.source, AnonymousSet.of(self.detector.value), operator),)
        name = self.detector.value + ("*" if self.detector.kind == "prefix" else "")
        return (Match(Meta("iifname"), AnonymousSet.of(name), operator),)
