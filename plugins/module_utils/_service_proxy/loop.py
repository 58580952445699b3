# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""The loop of `ballast-service-proxy`: one thread that receives changes and brings them into the kernel.

It sleeps until something wakes it: the feed has API objects, the kernel reports another program's transaction or a changed
address, a signal arrives, or a comparison of the whole table is due. Then it takes everything there is and programs it.
Whatever arrives meanwhile, and during a rest whose length depends on the time this took, forms the next batch: a single
change is programmed at once, while a hundred changes per second share the cost of transactions (`rest_seconds`).

Nothing is programmed before everything has been listed once: until then, the rules of an earlier run keep serving. The state
of the kernel is not stored anywhere.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Optional, Protocol

from .._core.host.gc_pause import collect_rarely, pause_collection
from .._core.kube.informer import backoff
from .._core.text.errors import BallastError
from .._rules.frontends import Key, claims_of
from .._rules.model import Frontend
from .._rules.nftables.compile import Compiler
from .family_rules import Ports
from .netlink import Commit
from .node import Circumstances, circumstances_of, node_port_addresses_of
from .objects import Change, Objects, Seen
from .ports import (
    Accepted,
    Connection,
    Failed,
    HealthChecks,
    LoopSettings,
    NodeState,
    Programmed,
    Queued,
    Refused,
    Repaired,
    ServiceName,
    Sink,
)
from .programming import FamilyProgrammer, Outcome, Tables
from .tallies import Tallies

# The loop is busy for at most a fortieth of the time, unless that would delay a change by more than 1/15 s. A transaction
# costs more than a change, so of a hundred changes per second about six share one.
_REST_SHARE, _REST_MOST = 39, 1 / 15
_COLLECTION_SECONDS = 600.0


class Source(Protocol):
    """The API objects; the interface of `Feed`."""

    @property
    def complete(self) -> bool: ...

    @property
    def lost(self) -> Optional[tuple[float, BallastError]]: ...

    def take(self) -> list[Seen]: ...


class KernelEvents(Tables, Protocol):
    """The interface of `Kernel`."""

    def intrusions(self) -> Mapping[int, Commit]: ...


class Waker:
    """Ends the loop's sleep; may be called from any thread."""

    def __init__(self) -> None:
        self.socket, self._far = socket.socketpair()
        self.socket.setblocking(False)
        self._far.setblocking(False)
        self._called = False

    def __call__(self) -> None:
        if self._called:  # it will wake up anyway
            return
        self._called = True
        with suppress(BlockingIOError):
            self._far.send(b"\0")

    def drain(self) -> None:
        """Call before taking what the waker was called for."""
        with suppress(BlockingIOError):
            while self.socket.recv(4096):
                pass
        # Last: otherwise a call in between would find `_called` set and send nothing, although its byte has been read here.
        self._called = False

    def close(self) -> None:
        self.socket.close()
        self._far.close()


class Loop:
    def __init__(
        self,
        settings: LoopSettings,
        source: Source,
        kernel: KernelEvents,
        sink: Sink,
        *,
        families: tuple[int, ...],
        addresses: Callable[[], list[str]],
        clean: Callable[[int, Sequence[Frontend], Sequence[Frontend], Collection[str]], None],
    ) -> None:
        """`addresses` reads those on the links of the node. `clean` gets destinations of a family as they were and as they are,
        once their rules are in force (`ConnectionCleaner`): those of Services that have changed, or all where rules may have
        been missing; and the addresses that node ports are served on."""
        self._settings = settings
        self._source = source
        self._kernel = kernel
        self._sink = sink
        self._families = families
        self._read_addresses = addresses
        self._clean = clean
        self.objects = Objects(settings.service_proxy_name or None)
        self._programmers = {family: FamilyProgrammer(family, kernel) for family in families}
        self._circumstances: Mapping[int, Circumstances] = {}
        self._compilers: dict[int, Compiler] = {}
        # By family, the node's addresses that have node ports.
        self._own: dict[int, Collection[str]] = dict.fromkeys(families, ())
        self._tallies = {family: Tallies(family) for family in families}
        self._addresses: Optional[list[str]] = None  # None: must be read
        self._pending: set[ServiceName] = set()  # Services whose rules may differ from the API
        self._triggered: list[tuple[int, float]] = []  # (family, time of the change behind an EndpointSlice)
        self._began = time.time()
        self._refused: dict[ServiceName, str] = {}  # as last reported
        self._unreadable: dict[ServiceName, str] = {}
        self._quarantine: set[ServiceName] = set()  # refused by the kernel
        self._must_resolve = True  # the node, the configuration or ServiceCIDRs have changed
        self._followed: Optional[bool] = None
        self._node_state: Optional[NodeState] = None  # as last reported
        self._intruders: dict[int, tuple[Commit, float]] = {}  # by family: the transaction, and since when
        # Families whose last attempt failed, and the Services that they lack. They are retried after a while; the others do
        # not wait for them.
        self._behind: dict[int, frozenset[ServiceName]] = {}
        self._attempts = 0  # consecutive failed attempts
        self._retry_at = 0.0  # monotonic clock, like the next two
        self._not_before = 0.0
        self._compare_at = 0.0
        self._reported_checks: Optional[HealthChecks] = None

    # What wakes the loop

    def address_changed(self) -> None:
        self._addresses = None
        self._must_resolve = True

    def take_settings(self, settings: LoopSettings) -> None:
        """Apply the settings of a reload, in the loop's thread."""
        self._settings = settings
        self._must_resolve = True
        self._doubt()

    @property
    def timeout(self) -> float:
        """How many seconds it may sleep."""
        now = time.monotonic()
        if not self._source.complete:
            return 1.0
        if self._intruders.keys() - self._behind.keys():
            return 0.0
        due = 0.0 if self._pending or self._must_resolve else self._compare_at
        if self._behind:
            due = min(due, self._retry_at)
        return max(0.0, due - now, self._not_before - now)

    @pause_collection()
    def turn(self) -> None:
        """Take what there is, and program it."""
        began = time.monotonic()
        self._report_connection()
        for family, commit in self._kernel.intrusions().items():
            if family in self._programmers:
                self._programmers[family].doubt()
                self._intruders[family] = (commit, began)
        complete = self._source.complete  # first: whatever is listed later waits for the next turn
        change = self.objects.take(self._source.take())
        self._note(change)
        if not complete:
            return
        if self._node_state is None:
            self._report_node()
        now = time.monotonic()
        retry = bool(self._behind) and now >= self._retry_at
        compare = now >= self._compare_at
        try:
            self._repair(retry)
            if now >= self._not_before and (self._pending or self._must_resolve or retry or compare):
                self._program(retry=retry, compare=compare)
        except BallastError as error:  # from the configuration or the node's addresses
            self._not_before = self._fail(error, *self._families)

    # What a turn does

    def _doubt(self) -> None:
        for programmer in self._programmers.values():
            programmer.doubt()

    def _note(self, change: Change) -> None:
        if change.events or change.endpoint_events:
            # Nothing is queued if no rule can differ, as after a change of a headless Service.
            concerned = self._families if change.services else ()
            families = tuple(family for family in concerned if change.events or family in change.families)
            self._sink(Queued(time.time(), change.events, change.endpoint_events, families))
        self._pending |= change.services
        # Changes from before the start were not delayed by this program.
        self._triggered += [(family, at) for family, at in change.triggered if at >= self._began]
        if change.node or change.cidrs:
            self._must_resolve = True
        if change.node:
            self._report_node()
        for text in change.faults:
            self._sink(Failed(time.time(), text))
        for name in change.readable:
            self._unreadable.pop(name, None)
        for name, _uid, text in change.unreadable:
            self._unreadable[name] = text
        if change.readable or change.unreadable:
            self._report_refused({})

    def _resolve(self) -> None:
        """Apply the present node, configuration and ServiceCIDRs. Each family whose rules depend on a change gets a new
        compiler, and all its Services are read again if their meaning may have changed."""
        if not self._must_resolve:
            return
        if self._addresses is None:
            self._addresses = self._read_addresses()
        resolved = circumstances_of(self._settings, self.objects, self._addresses, self._families)
        for family, circumstances in resolved.items():
            before = self._circumstances.get(family)
            if before != circumstances:
                self._compilers[family] = Compiler(circumstances.view, circumstances.config)
            if before is None or before.release != circumstances.release:
                self._pending |= self.objects.services.keys()
            self._own[family] = node_port_addresses_of(circumstances, self._addresses)
        self._circumstances = resolved
        self._must_resolve = False

    def _fail(self, error: BallastError, *families: int) -> float:
        """Report a failure; returns when to try again."""
        self._attempts += 1
        self._sink(Failed(time.time(), error.in_one_line, families))
        return time.monotonic() + backoff(self._attempts)

    def _repair(self, retry: bool) -> None:
        for family, (commit, began) in list(self._intruders.items()):
            if family in self._behind and not retry:
                continue
            programmer = self._programmers[family]
            try:
                operations = programmer.repair().operations
            except BallastError as error:
                self._behind.setdefault(family, frozenset())
                self._retry_at = self._fail(error, family)
                continue
            del self._intruders[family]
            # Also where who took the rules away has brought them back.
            self._clean(family, (), programmer.frontends(), self._own[family])
            if operations:
                duration = time.monotonic() - began
                self._sink(Repaired(time.time(), family, duration, operations, commit.pid, commit.program))

    def _program(self, *, retry: bool, compare: bool) -> None:
        self._resolve()
        started = time.monotonic()
        if compare:
            self._doubt()
            self._pending |= self._quarantine
            self._compare_at = started + self._settings.sync_seconds
        pending, done = frozenset(self._pending), frozenset[ServiceName]()
        outcomes: dict[int, Outcome] = {}
        for family in self._families:
            names = pending | self._behind.get(family, frozenset())
            if family not in self._behind or retry:
                try:
                    outcomes[family] = self._program_family(family, names)
                except BallastError as error:
                    self._retry_at = self._fail(error, family)
                else:
                    self._behind.pop(family, None)
                    done |= names
                    continue
            self._behind[family] = names
        self._pending.clear()
        self._not_before = time.monotonic() + self._settings.min_sync_seconds
        if not self._behind:
            self._attempts = 0
        if outcomes:
            self._report_outcomes(outcomes, done, started)

    def _program_family(self, family: int, names: frozenset[ServiceName]) -> Outcome:
        programmer, release = self._programmers[family], self._circumstances[family].release
        states = {name: self.objects.state_of(name, family, release) for name in names}
        in_force = {name: programmer.state_of(name) for name in names}
        # Most Services have one family; there is nothing to do for the other.
        changed = {name: state for name, state in states.items() if state != in_force[name]}
        claimed = self._destinations_of(family, (each[name].ports for name in changed for each in (in_force, states)))
        before = programmer.frontends_at(claimed)
        outcome = programmer.program(self._compilers[family], changed)
        if outcome.full:  # what the kernel had meanwhile is not known
            self._clean(family, (), programmer.frontends(), self._own[family])
        for name in changed:
            self._tallies[family].replace(name, programmer.state_of(name).ports, self._settings.node_name)
        self._clean(family, before, programmer.frontends_at(claimed), self._own[family])
        return outcome

    def _destinations_of(self, family: int, services: Iterable[Ports]) -> frozenset[Key]:
        """What these Services claim, and what comes before or after it at the node's own addresses: an external IP is looked for
        before a node port. Another Service may have it."""
        own = frozenset(self._own[family])
        claimed = frozenset(key for ports in services for key in claims_of(ports))
        before = {(address, protocol, port) for at, protocol, port in claimed if not at for address in own}
        after = {("", protocol, port) for at, protocol, port in claimed if at in own}
        return claimed | before | after

    def _report_outcomes(self, outcomes: Mapping[int, Outcome], names: frozenset[ServiceName], started: float) -> None:
        """`names` are the Services that were programmed."""
        triggered = tuple(each for each in self._triggered if each[0] in outcomes)
        self._triggered = [each for each in self._triggered if each[0] in self._behind]
        refused = {name: text for outcome in outcomes.values() for name, text in outcome.refused.items()}
        self._quarantine = (self._quarantine - names) | refused.keys()
        self._sink(
            Programmed(
                at=time.time(),
                duration=time.monotonic() - started,
                full=any(outcome.full for outcome in outcomes.values()),
                families=tuple(outcomes),
                services=len(names) - len(refused),
                operations=sum(outcome.operations for outcome in outcomes.values()),
                behind=tuple(self._behind),
                pending_services=len(frozenset[ServiceName]().union(*self._behind.values())),
                triggered_at=triggered,
                served=max(programmer.count for programmer in self._programmers.values()),
                no_local={family: tallies.no_local for family, tallies in self._tallies.items()},
            )
        )
        self._report_refused(refused)
        self._report_checks()

    # Reports

    def _report_connection(self) -> None:
        lost = self._source.lost
        followed = self._source.complete and lost is None
        if followed != self._followed and (followed or lost is not None):
            self._followed = followed
            self._sink(Connection(time.time(), followed, "" if lost is None else lost[1].in_one_line))

    def _report_node(self) -> None:
        node = self.objects.node
        known = node is not None and self.objects.node_known
        self._node_state = node.state if node and known else NodeState(self._settings.node_name, known=False)
        self._sink(self._node_state)

    def _report_refused(self, refused: Mapping[ServiceName, str]) -> None:
        held = {name: self._refused.get(name, "") for name in self._quarantine}
        now = {**held, **refused, **self._unreadable}
        for name in self._refused.keys() - now.keys():
            self._sink(Accepted(name))
        for name, text in now.items():
            if self._refused.get(name) != text:
                self._sink(Refused(time.time(), name, text, self.objects.uids.get(name, "")))
        self._refused = now

    def _report_checks(self) -> None:
        # A family without an address of the node serves nobody, and neither does one whose addresses do not match
        # nodePortAddresses.
        served = {
            family: at.node_ports
            for family, at in self._circumstances.items()
            if at.view.node.primary and (at.node_ports.all_local or at.node_ports.addresses)
        }
        addresses = {family: () if ports.all_local else tuple(ports.addresses) for family, ports in served.items()}
        checks = HealthChecks(
            tuple(check for family in served for check in self._tallies[family].health_checks()), addresses
        )
        if checks != self._reported_checks:
            self._reported_checks = checks
            self._sink(checks)


def rest_seconds(worked: float) -> float:
    """How long changes are collected after a turn that took `worked` seconds."""
    return min(_REST_MOST, _REST_SHARE * worked)


def run(loop: Loop, waker: Waker, kernel: Any, ended: threading.Event, inbox: Callable[[], list[LoopSettings]]) -> None:
    """Run until `ended` is set and `waker` is called. `inbox` returns the settings of reloads since its last call."""
    with selectors.DefaultSelector() as selector, collect_rarely(_COLLECTION_SECONDS) as collect_if_due:
        for readable in (waker.socket, kernel.fileno(), kernel.addresses.socket):
            selector.register(readable, selectors.EVENT_READ)
        while not ended.is_set():
            selector.select(loop.timeout)
            began = time.monotonic()
            waker.drain()
            for settings in inbox():
                loop.take_settings(settings)
            if kernel.addresses.drain():
                loop.address_changed()
            loop.turn()
            collect_if_due()
            ended.wait(rest_seconds(time.monotonic() - began))
