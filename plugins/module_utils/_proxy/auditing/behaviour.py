# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each destination of the Services, asked of the rules by a few packets, and held to what is meant. Pure.

By meaning and not by text: every layout of every release is judged alike. Of a Service and family there is one finding, of
the worst that became of it; what all Services have in common is one finding for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Optional

from ..._core.errors import BallastError
from ..frontends import destination_text
from ..meaning import Meaning
from ..model import FamilyView, Frontend, RuleConfig
from ..packet import DNAT, Answer, Packet, Surroundings
from .destinations import Key, text
from .findings import AuditFinding, finding, some
from .probes import Probe, Prober

Ask = Callable[[Packet], Answer]
_Kind = tuple[str, bool, bool]  # verdict, masqueraded, masqueraded where it is its own endpoint
_Group = tuple[str, str, _Kind]  # title of the probe, kind of the destination, what is meant
Likeness = Callable[[Frontend], Optional[Hashable]]

_WRONG_ASKED = 100  # destinations that are alike and wrong: the others are taken to be as the last of these
_COMMON = 3  # Services that must fail alike before their failures are taken for one
_EXTRA_TOLD_APART = 20
_ENDPOINTS_TOLD = 4
# Errors of tracers that say: an entry that the kernel may draw is missing or differs.
_UNDECIDED = ("rules-nft-trace-undecided", "rules-iptables-undecided")


@dataclass(frozen=True)
class _Failure:
    title: str  # of the probe
    frontend: Frontend
    packet: Packet
    meant: Answer
    found: Optional[Answer]  # None: it differs by what is drawn
    shown: str
    like: str = ""  # the Service that was asked in the place of this one, as both are alike

    @property
    def group(self) -> _Group:
        """Failures that one shared rule may explain are of one group."""
        return _group(self.title, self.frontend, self.meant)

    @property
    def change(self) -> tuple[object, ...]:
        """From what to what, without the endpoints. Whether a packet that should be masqueraded is at least where it is its
        own endpoint, depends on the endpoints."""
        if self.found is None:
            return (_kind(self.meant), None)
        found = _kind(self.found)
        return (_kind(self.meant), found[:2] if self.meant.masquerade else found)


def _services(failures: Iterable[_Failure]) -> set[str]:
    return {one.frontend.service.title for one in failures}


def _group(title: str, frontend: Frontend, meant: Answer) -> _Group:
    return (title, frontend.kind, _kind(meant))


def _kind(answer: Answer) -> _Kind:
    return (answer.verdict, answer.masquerade, bool(answer.hairpin))


@dataclass(frozen=True)
class Served:
    """A packet that the rules of Services translate as they should."""

    packet: Packet
    meant: Answer


class Behaviour:
    """`known`: the destinations that the rules have entries for. `likeness`: equal for destinations of which one stands for
    all, None for those that only stand for themselves. `both_right`: of destinations that two Services claim, the rules may
    serve either."""

    def __init__(
        self,
        view: FamilyView,
        config: RuleConfig,
        surroundings: Surroundings,
        ask: Ask,
        *,
        known: Collection[Key],
        likeness: Likeness,
        mend: str,
        both_right: bool,
    ) -> None:
        self._view = view
        self._known = known
        self._likeness = likeness
        self._meaning = Meaning(view, config, surroundings)
        self._prober = Prober(view, config, surroundings)
        self._ask = ask
        self._mend = mend
        claimed = {one.destination for one in view.duplicates} if both_right else set()
        self._frontends = [one for one in view.frontends if destination_text(one.key) not in claimed]
        self._asked: dict[_Group, set[str]] = {}  # titles of Services by group
        self._failures: list[_Failure] = []
        self._unclear: dict[str, Packet] = {}  # a packet by what a tracer cannot tell
        self.served: list[Served] = []  # for who looks at what other programs do to them

    def findings(self) -> Iterator[AuditFinding]:
        self._ask_all()
        common = self._common()
        if common:
            yield self._told_as_one(common)
        shared = {id(one) for one in common}
        by_service: dict[str, list[_Failure]] = {}
        for failure in self._failures:
            if id(failure) not in shared:
                by_service.setdefault(failure.frontend.service.title, []).append(failure)
        for title, failures in by_service.items():
            yield self._told(title, failures)
        for problem, packet in self._unclear.items():
            yield finding("rules-audit-unclear", family=self._view.family, packet=route(packet), problem=problem)

    def undefined(self) -> Iterator[AuditFinding]:
        """Of a port that no Service has: one packet, as it is one rule."""
        probe = self._prober.undefined()
        if probe is None:
            return
        meant = self._meaning.answer(probe.packet)
        try:
            found = self._ask(probe.packet)
        except BallastError:  # a served packet that comes there tells of it
            return
        if found != meant:
            yield finding(
                "rules-audit-wrong",
                family=self._view.family,
                packet=f"{probe.title}, {route(probe.packet)}",
                expected=shown(meant),
                found=shown(found),
                mend=self._mend,
            )

    def _ask_all(self) -> None:
        """Of those that are alike one is asked if it is well, and some if it is not."""
        well: set[Hashable] = set()
        wrong: dict[Hashable, list[list[_Failure]]] = {}
        for frontend in self._frontends:
            likeness = self._likeness(frontend)
            if likeness is not None and likeness in well:
                continue
            asked = wrong.get(likeness, [])
            if likeness is not None and len(asked) >= _WRONG_ASKED:
                self._take_over(asked[-1], frontend)
                continue
            known = len(self._failures)
            for probe in self._prober.probes(frontend):
                self._try(probe, frontend)
            if self._failures[known:]:
                wrong.setdefault(likeness, []).append(self._failures[known:])
            else:
                well.add(likeness)

    def _take_over(self, failures: Iterable[_Failure], frontend: Frontend) -> None:
        for one in failures:
            self._asked[one.group].add(frontend.service.title)
            self._failures.append(replace(one, frontend=frontend, like=one.frontend.service.title))

    def _try(self, probe: Probe, frontend: Frontend) -> None:
        packet = probe.packet
        meant = self._meaning.answer(packet)
        self._asked.setdefault(_group(probe.title, frontend, meant), set()).add(frontend.service.title)
        try:
            found = self._ask(packet)
        except BallastError as error:
            if error.id in _UNDECIDED:
                self._failures.append(_Failure(probe.title, frontend, packet, meant, None, error.text))
            else:
                self._unclear.setdefault(error.text, packet)
            return
        if found != meant:
            self._failures.append(_Failure(probe.title, frontend, packet, meant, found, shown(found)))
        elif meant.verdict == DNAT:
            self.served.append(Served(packet, meant))

    def _common(self) -> list[_Failure]:
        """Failures that every Service has which was asked the same, if they are so many that it can be no accident; and
        with them those that are so few, but changed in the same way."""
        groups: dict[tuple[object, ...], list[_Failure]] = {}
        for failure in self._failures:
            groups.setdefault((failure.group, failure.change), []).append(failure)
        whole = [one for one in groups.values() if _services(one) == self._asked[one[0].group]]
        changes = {one[0].change for one in whole if len(_services(one)) >= _COMMON}
        return [failure for one in whole if one[0].change in changes for failure in one]

    def _told_as_one(self, failures: list[_Failure]) -> AuditFinding:
        first = failures[0]
        services = sorted(_services(failures))
        return finding(
            "rules-audit-common",
            family=self._view.family,
            count=len(services),
            services=some(services),
            packet=f"{first.title}, {route(first.packet)}",
            expected=shown(first.meant),
            found=first.shown,
            mend=self._mend,
        )

    def _told(self, service: str, failures: list[_Failure]) -> AuditFinding:
        is_missing = all(one.frontend.key not in self._known for one in failures)
        first = failures[0]
        alike = f"; asked of {first.like}, whose rules are alike" if first.like else ""
        rest = f"; so it is with {len(failures) - 1} more of its packets" if len(failures) > 1 else ""
        return finding(
            "rules-audit-missing" if is_missing else "rules-audit-wrong",
            family=self._view.family,
            service=service,
            packet=f"{first.title}, {route(first.packet)}",
            expected=shown(first.meant),
            found=first.shown + rest + alike,
            mend=self._mend,
        )


def extra(known: Iterable[Key], view: FamilyView, *, mend: str) -> Iterator[AuditFinding]:
    """Of destinations that the rules know and no Service has."""
    has: set[Key] = {one.key for one in view.frontends}
    has |= {(one.cluster_ip, "", 0) for one in view.services}
    has |= {(one.address, "", 0) for one in view.frontends}
    foreign = sorted(set(known) - has)
    # An address without ports is told of by its ports, if they are there.
    with_ports = {address for address, protocol, _port in foreign if protocol}
    foreign = [one for one in foreign if one[1] or one[0] not in with_ports]
    groups = [foreign] if len(foreign) > _EXTRA_TOLD_APART else [[one] for one in foreign]
    for group in groups:
        named = ", ".join(text(one) for one in group[:_EXTRA_TOLD_APART])
        more = len(group) - _EXTRA_TOLD_APART
        yield finding(
            "rules-audit-extra",
            family=view.family,
            destinations=named + (f" and {more} more" if more > 0 else ""),
            mend=mend,
        )


def unknown_addresses(view: FamilyView, there: set[str], *, mend: str) -> Iterator[AuditFinding]:
    """Cluster IPs that the set of them has not: packets to undefined ports of these go on as they are."""
    by_address: Mapping[str, str] = {one.cluster_ip: one.title for one in reversed(view.services)}
    absent = sorted(set(by_address) - there)
    for address in absent[:1]:
        yield finding(
            "rules-audit-wrong",
            family=view.family,
            service=by_address[address] if len(absent) == 1 else "",
            packet=f"to an undefined port of {', '.join(absent[:_EXTRA_TOLD_APART])}",
            expected="reject",
            found="pass: the set of cluster IPs has not got it",
            mend=mend,
        )


def route(packet: Packet) -> str:
    return f"{packet.source} to {text((packet.destination, packet.protocol, packet.port))}"


def shown(answer: Answer) -> str:
    if answer.verdict != DNAT:
        return answer.verdict
    more = len(answer.endpoints) - _ENDPOINTS_TOLD
    told = [f"dnat to {', '.join(answer.endpoints[:_ENDPOINTS_TOLD])}" + (f" and {more} more" if more > 0 else "")]
    told.append("masqueraded" if answer.masquerade else "its source kept")
    told += ["but not where it is its own endpoint"] if answer.hairpin else []
    told += [f"for {answer.affinity_seconds} s to the same one"] if answer.affinity_seconds else []
    return ", ".join(told)
