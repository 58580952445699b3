# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chains and sets of a ServicePort with sessionAffinity ClientIP. They belong to one ServicePort; other Services share
theirs.

    cluster-ip-HASH-..., external-..., local-...   the rules of the traffic policy, then
    endpoints-HASH-..., local-endpoints-HASH-...   the endpoint that this source used last, else a random one
    endpoint-HASH-...                              remember the source, translate the destination
    affinity-HASH-...                              the sources of an endpoint, each until it is idle for timeoutSeconds

A source keeps its endpoint whichever address of the ServicePort it uses, so sets belong to the endpoints of a ServicePort
and not to destinations. When an endpoint is removed, so is its set, and its sources are assigned anew. One shared map from
source and destination to endpoint would load faster, but would keep sending sources to a removed endpoint for hours, and
removing them would race with new ones.

The cost, as the kernel searches sets by name linearly: 1,000 such Services with 4 endpoints each, among 10,000 Services,
take 4.5 s to load instead of 0.7 s (measured, Linux 6.18).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..model import Endpoint, Frontend, ServicePort
from . import layout
from .expressions import (
    GOTO,
    AnonymousMap,
    AnonymousSet,
    Constant,
    Match,
    Meta,
    Named,
    Nat,
    Numgen,
    SetUpdate,
    Statement,
    Verdict,
    Vmap,
)
from .objects import Chain, Rule, Set
from .policy import INTERNAL, PolicyRules, policy_of

_HASH_LENGTH = 12
_NAME_LIMIT = 240  # characters; the kernel allows 255 (NFT_NAME_MAXLEN)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9/_.-]")
DYNAMIC_SIZE = 65535  # the kernel's default for a dynamic set (nft_dynset_init)


@dataclass(frozen=True)
class Affinity:
    """The chains and sets that a frontend needs, and the chain that it enters."""

    entry: str
    chains: tuple[Chain, ...]
    sets: tuple[Set, ...]


def translate(
    policies: PolicyRules, frontend: Frontend, everywhere: Sequence[Endpoint], here: Sequence[Endpoint]
) -> Affinity:
    """Translate to `everywhere`; with externalTrafficPolicy Local, packets from outside to `here`."""
    service = frontend.service
    policy = policy_of(frontend)
    only_local = policy == INTERNAL and service.internal_local
    lists = [_choice(policies, service, layout.LOCAL_ENDPOINTS if only_local else layout.ENDPOINTS, everywhere)]
    to_local: tuple[Statement, ...] = ()
    if here:
        lists.append(_choice(policies, service, layout.LOCAL_ENDPOINTS, here))
        to_local = (Verdict(GOTO, lists[-1].name),)
    to_all = (Verdict(GOTO, lists[0].name),)
    entry = Chain(hash_name(policy, *_title(service)), policies.rules(policy, to_all, to_local))
    used = sorted({*everywhere, *here})
    return Affinity(
        entry=entry.name,
        chains=(entry, *lists, *(_endpoint(policies, service, endpoint) for endpoint in used)),
        sets=tuple(_sources(policies, service, endpoint) for endpoint in used),
    )


def hash_name(prefix: str, *parts: str) -> str:
    """`PREFIX-HASH-a/b/c`: a unique name for these parts, in characters that nft allows."""
    text = "/".join(parts)
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{prefix}-{digest}-{_NOT_IN_NAMES.sub('.', text)}"[:_NAME_LIMIT]


def _title(service: ServicePort) -> tuple[str, ...]:
    return (service.namespace, service.name, layout.protocol_name(service.protocol), service.port_name)


def _chain_name(service: ServicePort, endpoint: Endpoint) -> str:
    return hash_name("endpoint", *_title(service), endpoint.address, str(endpoint.port))


def _set_name(service: ServicePort, endpoint: Endpoint) -> str:
    """The timeout is part of the name, because the timeout of an existing set cannot be changed."""
    return hash_name("affinity", *_title(service), endpoint.address, str(endpoint.port), f"{service.affinity_seconds}s")


def _choice(policies: PolicyRules, service: ServicePort, kind: str, endpoints: Sequence[Endpoint]) -> Chain:
    """The chain that picks the endpoint whose set contains the source, else a random one. A removed endpoint has no set."""
    chains = [Verdict(GOTO, _chain_name(service, endpoint)) for endpoint in endpoints]
    known = [
        Rule((Match(policies.family.source, Named(_set_name(service, endpoint))), verdict))
        for endpoint, verdict in zip(endpoints, chains)
    ]
    slots = AnonymousMap(tuple(((str(slot),), verdict) for slot, verdict in enumerate(chains)))
    return Chain(hash_name(kind, *_title(service)), (*known, Rule((Vmap(Numgen(len(endpoints)), slots),))))


def _endpoint(policies: PolicyRules, service: ServicePort, endpoint: Endpoint) -> Chain:
    # Each new connection restarts the timeout. This is a separate rule, so that a full set does not prevent translation.
    remember = Rule((SetUpdate(_set_name(service, endpoint), policies.family.source),))
    protocol = Match(Meta("l4proto"), AnonymousSet.of(layout.protocol_name(service.protocol)))
    to = Nat("dnat", address=Constant((endpoint.address,)), port=Constant((str(endpoint.port),)))
    return Chain(_chain_name(service, endpoint), (remember, Rule((protocol, to))))


def _sources(policies: PolicyRules, service: ServicePort, endpoint: Endpoint) -> Set:
    return Set(
        _set_name(service, endpoint),
        (policies.family.address_type,),
        flags=("timeout",),
        dynamic=True,
        timeout_seconds=service.affinity_seconds,
        size=DYNAMIC_SIZE,
    )
