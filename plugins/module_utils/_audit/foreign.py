# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds rules of other programs that drop packets that the rules of Services serve. Pure.

Traces a sample of served packets. Other nftables tables are traced together with ours, so that each hook sees the packet as
it is at that point. In the other subsystem (iptables next to nftables, and vice versa) the packet is traced as it is after
translation, which is when filters see it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Optional

from .._rules.backend import NFT_FAMILIES, Backend
from .._rules.iptables import objects as ipt
from .._rules.iptables.backend import Iptables
from .._rules.ipvs.backend import Ipvs
from .._rules.ipvs.objects import IpSet, IpvsRules
from .._rules.nftables import expressions as nft
from .._rules.nftables.objects import Chain, Ruleset, Table
from .._rules.node_rules import NodeRules, rules_of_one
from .._rules.packet import DROP, REJECT, UNKNOWN, Surroundings, endpoint_text
from .facts import Facts
from .findings import AuditFinding, finding, list_some
from .foreign_translation import Taken
from .messages import ERROR
from .remedies import remedy_of_translation, rules_that_accept
from .tracing.packet_path import Tracer
from .verdict_comparison import Served, Trace, describe_answer, describe_route

_SAMPLE = 60  # served packets to trace
# Chains that enforce NetworkPolicies (Calico, kube-router, Weave, Azure, Antrea), as a trace names them: what these drop is
# what the cluster asks for, and a rule that accepts it would end the policy.
_OF_POLICIES = re.compile(
    r"(?:\w+: -A |ip6? calico (?:filter-)?)(?:cali-|KUBE-(?:POD-FW|NWPLCY|ROUTER)-|WEAVE-NPC|AZURE-NPM|ANTREA-POL-)"
)


@dataclass(frozen=True)
class _Foreign:
    trace: Trace
    after_translation: bool
    drops: Optional[str]  # a chain that drops packets by default
    wrote: Callable[[str], bool]  # whether a line of Answer.why is one of these rules
    is_nft: bool = False


def find_drops(
    facts: Facts,
    backend: Backend,
    rules: Any,
    judged: Any,
    served: Sequence[Served],
    surroundings: Surroundings,
    *,
    family: int,
    sets: Sequence[IpSet] = (),
) -> Iterator[AuditFinding]:
    """`rules` as they were read; `judged`: those of Services; `sets`: ipsets of all programs. Each rule that drops has one finding, unless
    it enforces a NetworkPolicy. Without any, there is one finding about rules that could not be traced."""
    sample = served[:: max(1, len(served) // _SAMPLE)]
    for foreign in _foreign(facts, backend, rules, judged, surroundings, family=family, sets=tuple(sets)):
        differences = [difference for sampled in sample for difference in _check(foreign, sampled, family)]
        certain = [difference for difference in differences if difference.severity == ERROR]
        yield from {difference.found: difference for difference in reversed(certain or differences[:1])}.values()


def translation_finding(taken: Taken, family: int) -> AuditFinding:
    """The finding about a rule that takes packets to Services. It names the Service if there is only one."""
    packet, answer, count = taken.packet, taken.answer, len(taken.services)
    more = f"; it meets {count} Services: {list_some(taken.services)}" if count > 1 else ""
    reason = answer.problem.text if answer.problem is not None else "; ".join(answer.why)
    shown = " or ".join(f"({describe_answer(way)})" for way in answer.ways) if answer.ways else describe_answer(answer)
    return finding(
        "rules-audit-foreign-nat" if taken.is_certain else "rules-audit-foreign-nat-unclear",
        family=family,
        service=taken.services[0] if count == 1 else "",
        packet=describe_route(packet),
        expected=describe_answer(taken.expected),
        answer=shown,
        reason=reason,
        rule=taken.rule.shown,
        more=more,
        remedy=remedy_of_translation(taken.rule, endpoint_text(packet.destination, packet.port)),
    )


def _foreign(
    facts: Facts,
    backend: Backend,
    rules: Any,
    judged: Any,
    surroundings: Surroundings,
    *,
    family: int,
    sets: tuple[IpSet, ...],
) -> Iterator[_Foreign]:
    for key, table in facts.ruleset.tables.items():
        if table.family not in (NFT_FAMILIES[family], "inet"):
            continue
        beside = isinstance(judged, Table)
        whole = {key: table, (judged.family, judged.name): judged} if beside else {key: table}
        drops = next((f"table {' '.join(key)}, chain {name}" for name in _find_dropping(table)), None)
        is_its = partial(_begins_with, f"{' '.join(key)} ")
        yield _Foreign(Tracer(NodeRules(Ruleset(whole)), surroundings).answer, not beside, drops, is_its, is_nft=True)
    in_use = backend.variant if isinstance(backend, (Iptables, Ipvs)) else ""
    for (variant, of), tables in facts.iptables.items():
        if of == family and variant != in_use:
            trace = Tracer(NodeRules(iptables={variant: tables}, sets=sets), surroundings).answer
            yield _Foreign(trace, True, _find_dropping_chain(tables, variant), _is_not_of_kube)
    if in_use:
        tables = rules.tables if isinstance(rules, IpvsRules) else rules
        whole_rules = rules_of_one(rules, variant=in_use)
        trace_whole = Tracer(replace(whole_rules, sets=whole_rules.sets or sets), surroundings).answer
        yield _Foreign(trace_whole, False, _find_dropping_chain(tables, in_use), _is_not_of_kube)


def _begins_with(beginning: str, line: str) -> bool:
    return line.startswith(beginning)


def _is_not_of_kube(line: str) -> bool:
    return "-A KUBE-" not in line or _OF_POLICIES.match(line) is not None


def _check(foreign: _Foreign, served: Served, family: int) -> Iterator[AuditFinding]:
    packet = served.packet
    if foreign.after_translation:
        host, _colon, port = served.expected.endpoints[0].rpartition(":")
        packet = replace(packet, destination=host.strip("[]"), port=int(port))
    answer = foreign.trace(packet)
    if answer.verdict == UNKNOWN and answer.problem is not None and foreign.drops:
        yield finding("rules-audit-foreign-unclear", family=family, chain=foreign.drops, problem=answer.problem.text)
    rule = next((line for line in reversed(answer.why) if foreign.wrote(line)), "")
    if answer.verdict in (DROP, REJECT) and not _OF_POLICIES.match(rule):
        yield finding(
            "rules-audit-foreign-drop",
            family=family,
            packet=describe_route(served.packet),
            expected=describe_answer(served.expected),
            verdict=answer.verdict,
            rule=rule,
            accept=rules_that_accept(served.packet, is_nft=foreign.is_nft),
        )


def _find_dropping(table: Table) -> Iterator[str]:
    """Base chains that drop or reject every packet that none of their rules accepts."""
    for name, chain in table.chains.items():
        if chain.base is not None and (chain.base.policy == "drop" or _drops_everything(chain)):
            yield name


def _drops_everything(chain: Chain) -> bool:
    return any(_is_drop(rule.statements[-1:]) and not _conditions(rule.statements) for rule in chain.rules)


def _is_drop(last: Sequence[nft.Statement]) -> bool:
    return any(isinstance(statement, nft.Reject) or statement == nft.Verdict(nft.DROP) for statement in last)


def _conditions(statements: Sequence[nft.Statement]) -> list[nft.Statement]:
    conditions = (nft.Match, nft.Vmap, nft.Limit, nft.Unknown)
    return [statement for statement in statements if isinstance(statement, conditions)]


def _find_dropping_chain(tables: ipt.Tables, variant: str) -> Optional[str]:
    for table in tables.tables:
        for name in ipt.BUILT_IN[table.name]:
            chain = table.by_name.get(name)
            if chain is not None and (chain.policy == "DROP" or any(_is_plain_drop(rule) for rule in chain.rules)):
                return f"iptables ({variant}), table {table.name}, chain {name}"
    return None


def _is_plain_drop(rule: ipt.Rule) -> bool:
    return not rule.matches and (isinstance(rule.target, ipt.Reject) or rule.target == ipt.Verdict("DROP"))
