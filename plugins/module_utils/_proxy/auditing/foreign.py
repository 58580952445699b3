# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules of other programs that drop what the rules of Services serve. Pure.

They are asked about packets that are served. Tables of nftables beside ours are passed together with it, so that each hook
sees the packet as it is there. Rules of another subsystem (iptables beside nftables, and the other way round) are asked
about the packet as it is after translation, which is when filters see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Optional

from ..._core.errors import BallastError
from ..backends import NFT_FAMILIES, Backend
from ..iptables import objects as ipt
from ..iptables import trace as iptables_trace
from ..iptables.backend import Iptables
from ..ipvs.backend import Ipvs
from ..ipvs.objects import IpvsRules
from ..nftables import expressions as nft
from ..nftables.objects import Chain, Ruleset, Table
from ..nftables.trace import Tracer
from ..packet import DROP, REJECT, Answer, Packet, Surroundings
from .behaviour import Ask, Served, route, shown
from .facts import Facts
from .findings import AuditFinding, finding
from .messages import ERROR

_SAMPLE = 60  # served packets that they are asked about


@dataclass(frozen=True)
class _Foreign:
    ask: Ask
    after_translation: bool
    drops: Optional[str]  # a chain of it that drops what nothing lets pass
    has_written: Callable[[str], bool]  # whether a line of Answer.why is of its rules


def dropped(
    facts: Facts,
    backend: Backend,
    rules: Any,
    judged: Any,
    served: Sequence[Served],
    surroundings: Surroundings,
    *,
    family: int,
) -> Iterator[AuditFinding]:
    """`rules` as they were read; `judged`: what of them is of Services. Of each rule that drops there is one
    finding; what cannot be told for certain counts only where nothing is."""
    sample = served[:: max(1, len(served) // _SAMPLE)]
    for foreign in _foreign(facts, backend, rules, judged, surroundings, family=family):
        found = [told for one in sample for told in _asked(foreign, one, family)]
        certain = [one for one in found if one.severity == ERROR]
        yield from {one.found: one for one in reversed(certain or found[:1])}.values()


def _foreign(
    facts: Facts, backend: Backend, rules: Any, judged: Any, surroundings: Surroundings, *, family: int
) -> Iterator[_Foreign]:
    for key, table in facts.ruleset.tables.items():
        if table.family not in (NFT_FAMILIES[family], "inet"):
            continue
        beside = isinstance(judged, Table)
        whole = {key: table, (judged.family, judged.name): judged} if beside else {key: table}
        drops = next((f"table {' '.join(key)}, chain {one}" for one in _dropping(table)), None)
        is_its = partial(_begins_with, f"{' '.join(key)} ")
        yield _Foreign(Tracer(Ruleset(whole), surroundings).answer, not beside, drops, is_its)
    in_use = backend.variant if isinstance(backend, (Iptables, Ipvs)) else ""
    for (variant, of), tables in facts.iptables.items():
        if of == family and variant != in_use:
            ask = partial(_through_iptables, tables, surroundings)
            yield _Foreign(ask, True, _dropping_chain_of_iptables(tables, variant), _is_not_of_kube)
    if in_use:
        tables = rules.tables if isinstance(rules, IpvsRules) else rules
        whole_ask = backend.tracer(rules, surroundings)
        yield _Foreign(whole_ask, False, _dropping_chain_of_iptables(tables, in_use), _is_not_of_kube)


def _begins_with(beginning: str, line: str) -> bool:
    return line.startswith(beginning)


def _is_not_of_kube(line: str) -> bool:
    return "-A KUBE-" not in line


def _through_iptables(tables: ipt.Tables, surroundings: Surroundings, packet: Packet) -> Answer:
    return iptables_trace.trace(tables, packet, surroundings)


def _asked(foreign: _Foreign, one: Served, family: int) -> Iterator[AuditFinding]:
    packet = one.packet
    if foreign.after_translation:
        host, _colon, port = one.meant.endpoints[0].rpartition(":")
        packet = replace(packet, destination=host.strip("[]"), port=int(port))
    try:
        found = foreign.ask(packet)
    except BallastError as error:
        if foreign.drops:
            yield finding("rules-audit-foreign-unclear", family=family, chain=foreign.drops, problem=error.text)
        return
    if found.verdict in (DROP, REJECT):
        yield finding(
            "rules-audit-foreign-drop",
            family=family,
            packet=route(one.packet),
            expected=shown(one.meant),
            verdict=found.verdict,
            rule=next((line for line in reversed(found.why) if foreign.has_written(line)), ""),
        )


def _dropping(table: Table) -> Iterator[str]:
    """Base chains that drop or reject whatever no rule of theirs lets pass."""
    for name, chain in table.chains.items():
        if chain.base is not None and (chain.base.policy == "drop" or _drops_everything(chain)):
            yield name


def _drops_everything(chain: Chain) -> bool:
    return any(_is_drop(rule.statements[-1:]) and not _conditions(rule.statements) for rule in chain.rules)


def _is_drop(last: Sequence[nft.Statement]) -> bool:
    return any(isinstance(one, nft.Reject) or one == nft.Verdict(nft.DROP) for one in last)


def _conditions(statements: Sequence[nft.Statement]) -> list[nft.Statement]:
    return [one for one in statements if isinstance(one, (nft.Match, nft.Vmap, nft.Limit, nft.Unknown))]


def _dropping_chain_of_iptables(tables: ipt.Tables, variant: str) -> Optional[str]:
    for table in tables.tables:
        for name in ipt.BUILT_IN[table.name]:
            chain = table.by_name.get(name)
            if chain is not None and (chain.policy == "DROP" or any(_is_plain_drop(one) for one in chain.rules)):
                return f"iptables ({variant}), table {table.name}, chain {name}"
    return None


def _is_plain_drop(rule: ipt.Rule) -> bool:
    return not rule.matches and (isinstance(rule.target, ipt.Reject) or rule.target == ipt.Verdict("DROP"))
