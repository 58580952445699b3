# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares expected and traced verdicts, for a few packets to each destination of the Services. Pure.

It compares verdicts and not rules, so it judges every layout of every release alike. A Service has one finding per family; a
failure that all Services have in common is one finding for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Optional

from .._rules.frontends import destination_text
from .._rules.gates import NEWEST
from .._rules.model import FamilyView, Frontend, RuleConfig
from .._rules.packet import DNAT, EITHER, Answer, Packet, Surroundings
from .destinations import Key, text
from .expected_verdict import ExpectedVerdicts
from .findings import AuditFinding, finding, list_some
from .probes import Probe, Prober

Trace = Callable[[Packet], Answer]
_Kind = tuple[str, bool, bool]  # verdict, masqueraded, masqueraded if it is its own endpoint
_Group = tuple[str, str, _Kind]  # title of the probe, kind of the destination, expected kind
EquivalenceKey = Callable[[Frontend], Optional[Hashable]]

_WRONG_TRACED = 100  # equivalent wrong destinations to trace; the rest is assumed to fail like the last of them
_COMMON = 3  # Services that must fail alike before their failures are one finding
_EXTRA_LISTED = 20
_ENDPOINTS_LISTED = 4
# Errors of tracers if an entry that the kernel may choose is missing or different.
_UNDECIDED = ("rules-trace-undecided",)
_REPORTED = ("rules-dump-part", "rules-undecoded")  # node.py reports these once


@dataclass(frozen=True)
class _Failure:
    title: str  # title of the probe
    frontend: Frontend
    packet: Packet
    expected: Answer
    traced: Optional[Answer]  # None: it depends on a random choice
    shown: str
    sample: str = ""  # the equivalent Service that was traced instead

    @property
    def group(self) -> _Group:
        """Failures that one shared rule may explain have the same group."""
        return _group(self.title, self.frontend, self.expected)

    @property
    def change(self) -> tuple[object, ...]:
        """The expected and traced kinds of verdict, without what depends on the endpoints: if a packet should be
        masqueraded, whether it is masqueraded when it is its own endpoint."""
        if self.traced is None:
            return (_kind(self.expected), None)
        traced = _kind(self.traced)
        return (_kind(self.expected), traced[:2] if _masquerades(self.expected) else traced)


def _services(failures: Iterable[_Failure]) -> set[str]:
    return {failure.frontend.service.title for failure in failures}


def _group(title: str, frontend: Frontend, expected: Answer) -> _Group:
    return (title, frontend.kind, _kind(expected))


def _kind(answer: Answer) -> _Kind:
    return (answer.verdict, _masquerades(answer), bool(answer.hairpin))


def _masquerades(answer: Answer) -> bool:
    """Whether it masquerades packets that do not come from their own endpoint."""
    return any(masqueraded and endpoint not in answer.hairpin for endpoint, masqueraded in answer.masqueraded)


@dataclass(frozen=True)
class Served:
    """A packet that the rules of Services translate as expected."""

    packet: Packet
    expected: Answer


class VerdictComparison:
    """`known` are the destinations that have entries in the rules. `equivalence` returns equal keys for destinations of
    which one trace is enough, None for a destination without equivalents. `both_right`: the rules may serve either of two
    Services that claim one destination. `minor` is the version of the kube-proxy that wrote nftables rules."""

    def __init__(
        self,
        view: FamilyView,
        config: RuleConfig,
        surroundings: Surroundings,
        trace: Trace,
        *,
        known: Collection[Key],
        equivalence: EquivalenceKey,
        remedy: str,
        both_right: bool,
        minor: int = NEWEST,
    ) -> None:
        self._view = view
        self._known = known
        self._equivalence = equivalence
        self._expected = ExpectedVerdicts(view, config, surroundings, minor=minor)
        self._prober = Prober(view, config, surroundings)
        self._trace = trace
        self._remedy = remedy
        claimed = {duplicate.destination for duplicate in view.duplicates} if both_right else set()
        self._frontends = [frontend for frontend in view.frontends if destination_text(frontend.key) not in claimed]
        self._checked: dict[_Group, set[str]] = {}  # titles of Services by group
        self._failures: list[_Failure] = []
        self._unclear: dict[str, Packet] = {}  # for each tracer problem, a packet that has it
        self.served: list[Served] = []  # for foreign.py

    def check_services(self) -> Iterator[AuditFinding]:
        """Trace all packets. Yields a finding for the failure that all Services have in common, one for each other
        wrong Service, and one for each problem because of which packets could not be traced."""
        self._trace_all()
        common = self._find_common()
        if common:
            yield self._common_finding(common)
        shared = {id(failure) for failure in common}
        by_service: dict[str, list[_Failure]] = {}
        for failure in self._failures:
            if id(failure) not in shared:
                by_service.setdefault(failure.frontend.service.title, []).append(failure)
        for title, failures in by_service.items():
            yield self._service_finding(title, failures)
        for problem, packet in self._unclear.items():
            yield finding(
                "rules-audit-unclear", family=self._view.family, packet=describe_route(packet), problem=problem
            )

    def check_undefined_port(self) -> Iterator[AuditFinding]:
        """Check one packet to a port that no Service has: a single rule decides about all such packets."""
        probe = self._prober.undefined_port_probe()
        if probe is None:
            return
        expected = self._expected.answer(probe.packet)
        traced = self._trace(probe.packet)
        if traced.problem is None and traced != expected:  # an unclear rule has a finding already
            yield finding(
                "rules-audit-wrong",
                family=self._view.family,
                packet=f"{probe.title}, {describe_route(probe.packet)}",
                expected=describe_answer(expected),
                found=describe_answer(traced),
                remedy=self._remedy,
            )

    def _trace_all(self) -> None:
        """Of equivalent destinations, trace one if it is right and several if it is wrong."""
        right: set[Hashable] = set()
        wrong: dict[Hashable, list[list[_Failure]]] = {}
        for frontend in self._frontends:
            key = self._equivalence(frontend)
            if key is not None and key in right:
                continue
            alike = wrong.get(key, [])
            if key is not None and len(alike) >= _WRONG_TRACED:
                self._copy_failures(alike[-1], frontend)
                continue
            known = len(self._failures)
            for probe in self._prober.probes(frontend):
                self._trace_probe(probe, frontend)
            if self._failures[known:]:
                wrong.setdefault(key, []).append(self._failures[known:])
            else:
                right.add(key)

    def _copy_failures(self, failures: Iterable[_Failure], frontend: Frontend) -> None:
        for failure in failures:
            self._checked[failure.group].add(frontend.service.title)
            self._failures.append(replace(failure, frontend=frontend, sample=failure.frontend.service.title))

    def _trace_probe(self, probe: Probe, frontend: Frontend) -> None:
        packet = probe.packet
        expected = self._expected.answer(packet)
        self._checked.setdefault(_group(probe.title, frontend, expected), set()).add(frontend.service.title)
        traced = self._trace(packet)
        if traced.problem is not None:
            if traced.problem.id in _UNDECIDED:
                self._failures.append(_Failure(probe.title, frontend, packet, expected, None, traced.problem.text))
            elif traced.problem.id not in _REPORTED:
                self._unclear.setdefault(traced.problem.text, packet)
        elif traced != expected:
            self._failures.append(_Failure(probe.title, frontend, packet, expected, traced, describe_answer(traced)))
        elif expected.verdict == DNAT:
            self.served.append(Served(packet, expected))

    def _find_common(self) -> list[_Failure]:
        """Failures that every traced Service of a group has, if there are enough Services to rule out coincidence; and those
        of smaller groups with the same change."""
        groups: dict[tuple[object, ...], list[_Failure]] = {}
        for failure in self._failures:
            groups.setdefault((failure.group, failure.change), []).append(failure)
        whole = [group for group in groups.values() if _services(group) == self._checked[group[0].group]]
        changes = {group[0].change for group in whole if len(_services(group)) >= _COMMON}
        return [failure for group in whole if group[0].change in changes for failure in group]

    def _common_finding(self, failures: list[_Failure]) -> AuditFinding:
        first = failures[0]
        services = sorted(_services(failures))
        return finding(
            "rules-audit-common",
            family=self._view.family,
            count=len(services),
            services=list_some(services),
            packet=f"{first.title}, {describe_route(first.packet)}",
            expected=describe_answer(first.expected),
            found=first.shown,
            remedy=self._remedy,
        )

    def _service_finding(self, service: str, failures: list[_Failure]) -> AuditFinding:
        is_missing = all(failure.frontend.key not in self._known for failure in failures)
        first = failures[0]
        alike = f"; traced for {first.sample}, whose rules are identical" if first.sample else ""
        rest = f"; the same holds for {len(failures) - 1} more of its packets" if len(failures) > 1 else ""
        return finding(
            "rules-audit-missing" if is_missing else "rules-audit-wrong",
            family=self._view.family,
            service=service,
            packet=f"{first.title}, {describe_route(first.packet)}",
            expected=describe_answer(first.expected),
            found=first.shown + rest + alike,
            remedy=self._remedy,
        )


def find_extra(known: Iterable[Key], view: FamilyView, *, remedy: str) -> Iterator[AuditFinding]:
    """Findings about destinations that have rules but no Service."""
    has: set[Key] = {frontend.key for frontend in view.frontends}
    has |= {(service.cluster_ip, "", 0) for service in view.services}
    has |= {(frontend.address, "", 0) for frontend in view.frontends}
    foreign = sorted(set(known) - has)
    # An address alone adds no information if its ports are listed.
    with_ports = {address for address, protocol, _port in foreign if protocol}
    foreign = [key for key in foreign if key[1] or key[0] not in with_ports]
    groups = [foreign] if len(foreign) > _EXTRA_LISTED else [[key] for key in foreign]
    for group in groups:
        named = ", ".join(text(key) for key in group[:_EXTRA_LISTED])
        more = len(group) - _EXTRA_LISTED
        yield finding(
            "rules-audit-extra",
            family=view.family,
            destinations=named + (f" and {more} more" if more > 0 else ""),
            remedy=remedy,
        )


def find_missing_cluster_ips(view: FamilyView, there: set[str], *, remedy: str) -> Iterator[AuditFinding]:
    """A finding about cluster IPs that are missing in their set: packets to their undefined ports pass."""
    by_address: Mapping[str, str] = {service.cluster_ip: service.title for service in reversed(view.services)}
    absent = sorted(set(by_address) - there)
    for address in absent[:1]:
        yield finding(
            "rules-audit-wrong",
            family=view.family,
            service=by_address[address] if len(absent) == 1 else "",
            packet=f"to an undefined port of {', '.join(absent[:_EXTRA_LISTED])}",
            expected="reject",
            found="pass: the set of cluster IPs lacks it",
            remedy=remedy,
        )


def describe_route(packet: Packet) -> str:
    return f"{packet.source} to {text((packet.destination, packet.protocol, packet.port))}"


def describe_answer(answer: Answer) -> str:
    if answer.verdict == EITHER:
        return " or ".join(f"({describe_answer(way)})" for way in answer.ways)
    if answer.verdict != DNAT:
        return answer.verdict
    more = len(answer.endpoints) - _ENDPOINTS_LISTED
    parts = [f"dnat to {', '.join(answer.endpoints[:_ENDPOINTS_LISTED])}" + (f" and {more} more" if more > 0 else "")]
    parts.append("masqueraded" if _masquerades(answer) else "with its source kept")
    parts += ["except when it is its own endpoint"] if answer.hairpin else []
    parts += [f"to the same one for {answer.affinity_seconds} s"] if answer.affinity_seconds else []
    return ", ".join(parts)
