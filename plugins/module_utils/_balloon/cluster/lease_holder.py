# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Acquires, renews and releases the Leases of the hosts that a run works on."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..._core.engine.events import Progress
from ..._core.host.host import Host
from ..._core.kube.client import is_temporary
from ..._core.text.errors import PeerError
from .lease import Leases
from .messages import MESSAGES

_POLL_SECONDS = 2.0


class LeaseHolder:
    """`given_up`: by host, why nothing more is done there.

    The previous holder may have resized balloons since the facts were read, and a watch may be late: `read_again` is called
    after a Lease is acquired, before anything is done. For Leases held at the start, the caller has read the facts since.
    """

    def __init__(
        self, leases: Leases, host: Host, progress: Progress, *, read_again: Callable[[], None], patience: float
    ) -> None:
        self._leases = leases
        self._host = host
        self._progress = progress
        self._read_again = read_again
        self._patience = patience
        self._begun = host.monotonic()
        self._next_poll = self._begun
        self._known = set(leases.held)  # hosts with facts as new as the Lease
        self.given_up: dict[str, str] = {}

    def tend(self, hosts: Collection[str]) -> Collection[str]:
        """Acquire missing Leases, renew what is due, and release the Leases of other hosts. Returns the hosts that this call gives
        up.

        PeerError when the server refuses; while it does not answer, `may_act` says how long a Lease remains usable.
        """
        before = set(self.given_up)
        done = self._leases.held - set(hosts)
        if done:
            self._leases.release(done)
        try:
            for host in sorted(self._leases.renew()):
                self.given_up[host] = self._describe("balloon-lease-lost", host)
            self._known &= self._leases.held
            self._ask(set(hosts) - self._leases.held - set(self.given_up))
            if not self._leases.held <= self._known:
                held = self._leases.held
                self._read_again()
                self._known |= held
        except PeerError as error:
            if not is_temporary(error):
                raise
        return self.given_up.keys() - before

    def may_act(self, host: str) -> bool:
        """As `Leases.may_act`; False also until the facts are as new as the Lease."""
        return host in self._known and self._leases.may_act(host)

    def is_paused(self, hosts: Collection[str]) -> bool:
        """Whether a held Lease could not be renewed in time, which means that the API server does not answer."""
        return any(host in self._leases.held and not self._leases.may_act(host) for host in hosts)

    def _ask(self, missing: Collection[str]) -> None:
        now = self._host.monotonic()
        if not missing or now < self._next_poll:
            return
        self._next_poll = now + _POLL_SECONDS
        held = self._leases.acquire(missing)
        for host in sorted(set(missing) - held):
            holder = self._leases.holder_of(host)
            if holder and now - self._begun >= self._patience:
                self.given_up[host] = self._describe("balloon-lease-held", host)
            elif holder:
                self._progress.waiting(f"host {host}", f"{holder} is resizing its balloons")

    def _describe(self, id: str, host: str) -> str:
        holder = self._leases.holder_of(host) or "somebody else"
        return MESSAGES.error(id, host=host, holder=holder, seconds=round(self._patience)).in_one_line
