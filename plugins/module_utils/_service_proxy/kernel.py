# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""Our table in the kernel: transactions on it, and whether another program has changed it.

The kernel numbers nftables transactions. A transaction is ours if it is the only one between the numbers read before and
after; any other that touched the table is not. If that cannot be decided, or events were lost, the table counts as changed
by others: that costs a comparison, which then finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Optional

from .._core.host.host import Host
from .._rules.backend import NFT_FAMILIES, SERVICE_PROXY_TABLE
from .._rules.nftables import transaction
from .._rules.nftables.backend import Nftables
from .._rules.nftables.layout import SERVICE_PROXY
from .._rules.nftables.messages import MESSAGES
from .._rules.nftables.objects import Table
from .._rules.nftables.transaction import Operation
from .._rules.node_addresses import families
from .libnftables import LibNftables
from .netlink import AddressEvents, Commit, NftablesEvents, Overflow

_LARGE = 2000  # operations; see LibNftables
_GENERATIONS = 1 << 32
UNKNOWN = Commit(0, frozenset(), 0, "")  # by whom, and what, is unknown


class Kernel:
    """The tables of this process's network namespace. Not thread-safe. OSError if their events cannot be received."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._backend = Nftables(SERVICE_PROXY_TABLE, owner=SERVICE_PROXY)
        self._library = _library()
        self._events = NftablesEvents()
        self.addresses = AddressEvents()
        self._ours: set[int] = set()  # generations whose events have not arrived yet
        self._pid = 0  # of the thread that changes tables, as in the kernel's events; 0: not known yet
        self._unclear = False  # others may have changed the table unnoticed

    def fileno(self) -> int:
        """For select(): readable once nftables events have arrived."""
        return self._events.socket.fileno()

    def read(self, family: int) -> Optional[Table]:
        """Our table. HostError `rules-nft-others` if a table with our name is not ours."""
        self._backend.require_ours(self._host, family)
        return self._backend.read(self._host, family)

    def commit(self, operations: Sequence[Operation]) -> None:
        """Same as `transaction.commit`."""
        for stage in transaction.stages(operations):
            if len(stage) >= _LARGE or self._library is None:
                with self._unheard():
                    transaction.commit_stage(stage, self._host)
            else:
                self._run(stage, self._library)

    def check(self, operations: Sequence[Operation]) -> None:
        """Check whether `commit` would succeed, without changing anything."""
        transaction.check(operations, self._host)

    def intrusions(self) -> dict[int, Commit]:
        """By family, the last transaction of another program on our table since the last call."""
        intruders: dict[int, Commit] = {}
        try:
            commits = self._events.drain()
        except Overflow:
            commits, self._unclear = [], True
        for commit in commits:
            if commit.generation in self._ours:
                self._ours.discard(commit.generation)
                self._pid = commit.pid
                continue
            if self._pid and commit.pid == self._pid:
                continue
            intruders.update(
                (family, commit) for family, table in commit.tables if table == SERVICE_PROXY_TABLE and family
            )
        if self._unclear:
            self._unclear = False
            self._ours.clear()
            intruders = {family: intruders.get(family, UNKNOWN) for family in NFT_FAMILIES}
        return intruders

    def close(self) -> None:
        self._events.close()
        self.addresses.close()
        if self._library is not None:
            self._library.close()

    def _run(self, operations: Sequence[Operation], library: LibNftables) -> None:
        text = transaction.render(operations)
        refusal = library.run(text) if self._pid else self._run_counted(text, library)
        if refusal:
            raise MESSAGES.error("rules-nft-refused", command="libnftables", intruders=refusal)

    def _run_counted(self, text: str, library: LibNftables) -> str:
        """Run a transaction and identify it by its number, which takes two requests, because our thread's pid is not known
        yet."""
        before = self._events.generation()
        refusal = library.run(text)
        after = self._events.generation()
        if (after - before) % _GENERATIONS == 1 and not refusal:
            self._ours.add(after)
        return refusal

    @contextmanager
    def _unheard(self) -> Iterator[None]:
        """Ignore the events of the transaction; only determine whether there was another one."""
        before = self._events.generation()  # first: what happens in between is received and counted
        self._events.ignore()
        refused = True
        try:
            yield
            refused = False
        finally:
            self._events.listen()
            if (self._events.generation() - before) % _GENERATIONS != (0 if refused else 1):
                self._unclear = True


def remove_tables(host: Host) -> list[str]:
    """Remove our tables; returns those that existed. HostError `rules-nft-others` if a table with our name is not ours: then none
    is removed."""
    backend = Nftables(SERVICE_PROXY_TABLE, owner=SERVICE_PROXY)
    removed = []
    for family in families(host):
        backend.require_ours(host, family)
    for family in families(host):
        operations = transaction.plan(None, backend.read_for_removal(host, family))
        transaction.commit(operations, host)
        removed += [f"table {operation.family} {operation.table}" for operation in operations]
    return removed


def _library() -> Optional[LibNftables]:
    try:
        return LibNftables()
    except OSError:
        return None
