# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of a traffic policy: who reaches which endpoints, and whose packets are masqueraded.

They are the same for Services with session affinity and without: what translates a packet is handed in.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..model import CLUSTER_IP, Frontend, LocalDetector
from . import layout
from .expressions import DROP, EQUAL, UNEQUAL, AnonymousSet, Match, Meta, Statement, Verdict
from .objects import Rule

# The traffic policy of a packet to a frontend, as part of names of chains.
INTERNAL = "cluster-ip"
EXTERNAL = "external"  # externalTrafficPolicy Cluster
LOCAL = "local"  # externalTrafficPolicy Local

Translation = tuple[Statement, ...]  # the end of a rule; () where there is no endpoint to translate to


def policy_of(frontend: Frontend) -> str:
    if frontend.kind == CLUSTER_IP:
        return INTERNAL
    return LOCAL if frontend.service.external_local else EXTERNAL


@dataclass(frozen=True)
class PolicyRules:
    """Rules of each policy, for one node."""

    family: layout.Family
    detector: LocalDetector
    mark: int
    masquerade_all: bool

    def rules(self, policy: str, everywhere: Translation, here: Translation) -> tuple[Rule, ...]:
        """The rules of `policy`. Only LOCAL uses `here`. Source: reference of kube-proxy 1.3."""
        if policy == INTERNAL:
            return (*self._internal_masquerade(), Rule(everywhere))
        mark = layout.add_mark(self.mark)
        if policy == EXTERNAL:
            # The answer must come back through this node, wherever the endpoint is.
            return (Rule((mark, *everywhere)),)
        # The policy preserves the source of clients outside. A pod's source is preserved with any endpoint, and packets
        # of the node itself have no client source, so both may use the endpoints of all nodes.
        return (
            *(Rule((match, *everywhere)) for match in self._from_local_pod(EQUAL)),
            Rule((layout.local_source(), mark, *everywhere)),
            Rule(here or (Verdict(DROP),)),
        )

    def _internal_masquerade(self) -> tuple[Rule, ...]:
        """A source outside the cluster gets answers only through this node: pods do not know where it came in."""
        mark = layout.add_mark(self.mark)
        if self.masquerade_all:
            return (Rule((mark,)),)
        return tuple(Rule((match, mark)) for match in self._from_local_pod(UNEQUAL))

    def _from_local_pod(self, operator: str) -> tuple[Match, ...]:
        """Matches packets of pods of this node, or with UNEQUAL all others; empty where pods cannot be recognised."""
        if not self.detector.kind:
            return ()
        if self.detector.kind == "cidr":
            return (Match(self.family.source, AnonymousSet.of(self.detector.value), operator),)
        name = self.detector.value + ("*" if self.detector.kind == "prefix" else "")
        return (Match(Meta("iifname"), AnonymousSet.of(name), operator),)
