# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Leases of the hosts that a run works on, over its time: asked for until they are there, renewed, given back."""

from __future__ import annotations

from collections.abc import Callable, Collection

from .._core.errors import PeerError
from .._core.events import Progress
from .._core.host import Host
from .cluster import is_temporary
from .cluster_messages import MESSAGES
from .lease import Leases

_POLL_SECONDS = 2.0


class Holding:
    """`given_up` says of a host why nothing more is done there.

    Whoever held a host before may have moved its balloons since the facts were read, and a watch may be late to tell: what is
    there is read anew by `read_anew` once a host is ours, before anything is done. Leases that are held already when this
    begins are of one who has read since.
    """

    def __init__(
        self, leases: Leases, host: Host, progress: Progress, *, read_anew: Callable[[], None], patience: float
    ) -> None:
        self._leases = leases
        self._host = host
        self._progress = progress
        self._read_anew = read_anew
        self._patience = patience
        self._begun = host.monotonic()
        self._next_poll = self._begun
        self._known = set(leases.held)  # hosts of which the facts are as new as the Lease
        self.given_up: dict[str, str] = {}

    def tend(self, hosts: Collection[str]) -> Collection[str]:
        """Ask for those that are missing, and renew what is due. The Leases of all other hosts are given back. Returns the
        hosts that are given up from now on.

        PeerError where the server refuses; while it does not answer, `may_act` says how long what is held still counts.
        """
        before = set(self.given_up)
        done = self._leases.held - set(hosts)
        if done:
            self._leases.release(done)
        try:
            for host in sorted(self._leases.renew()):
                self.given_up[host] = self._told("balloon-lease-lost", host)
            self._known &= self._leases.held
            self._ask(set(hosts) - self._leases.held - set(self.given_up))
            if not self._leases.held <= self._known:
                held = self._leases.held
                self._read_anew()
                self._known |= held
        except PeerError as error:
            if not is_temporary(error):
                raise
        return self.given_up.keys() - before

    def may_act(self, host: str) -> bool:
        return host in self._known and self._leases.may_act(host)

    def paused(self, hosts: Collection[str]) -> bool:
        """One of these is ours and could not be renewed in time: the API server is away, for all of them."""
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
                self.given_up[host] = self._told("balloon-lease-held", host)
            elif holder:
                self._progress.waiting(f"host {host}", f"{holder} is at work on its balloons")

    def _told(self, id: str, host: str) -> str:
        holder = self._leases.holder_of(host) or "somebody else"
        return MESSAGES.error(id, host=host, holder=holder, seconds=round(self._patience)).in_one_line
