# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record that a change of mode makes of connections through ipvs (ipvs_connections.py).

The record is in /run, because virtual servers do not survive a reboot either. It has the deadline until which a clean-up
keeps virtual servers that have open connections, and it says which ones belong to Services: kube-proxy removes the sets that
would reveal that for node ports.
"""

from __future__ import annotations

import ipaddress
import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Optional

from .._core.engine.ownership import make_marked_directory, require_private
from .._core.engine.prune_directories import remove_emptied
from .._core.host.host import KERNEL_LIMIT, Host
from .._core.host.names import MARK
from .._core.text.json_text import parse_json
from .._rules.record import namespace_name
from .messages import MESSAGES

if TYPE_CHECKING:
    from .._rules.ipvs.parse import Key

DIRECTORY = f"/run/{MARK}/kube-proxy"
CONNECTIONS = "/proc/net/ip_vs_conn"
# States in which no more data arrives; NONE is a session affinity template and not a connection.
_ENDED = frozenset(["NONE", "TIME_WAIT", "CLOSE", "CLOSED", "LISTEN"])


@dataclass(frozen=True)
class Draining:
    """The virtual servers that a change of mode left, each in the form of `ipvsadm -S -n`."""

    since: float  # seconds since the epoch
    until: Optional[float]  # when a clean-up may cut connections; None: only if forced to
    own: tuple[str, ...] = ()  # of Services, with open connections
    others: tuple[str, ...] = ()  # of other programs; only while kube-proxy starts

    @property
    def own_keys(self) -> frozenset[Key]:
        from .._rules.ipvs.parse import parse_servers  # imported late: a run that changes nothing finds no record

        return frozenset(server.key for block in self.own for server in parse_servers(block))

    def is_over(self, now: float) -> bool:
        """Whether the deadline has passed; never if there is none. `now` is in seconds since the epoch."""
        return self.until is not None and now >= self.until


def count_open(host: Host) -> Mapping[Key, int]:
    """The number of open connections, by virtual server; for UDP, flows that ip_vs has not forgotten yet. Empty without
    ip_vs."""
    data = (host.read(CONNECTIONS, limit=KERNEL_LIMIT) or b"").decode(errors="replace")
    counts: Counter[Key] = Counter()
    for line in data.splitlines()[1:]:
        words = line.split()  # protocol, client, port, virtual server, port, real server, port, state
        if len(words) >= 8 and words[7] not in _ENDED:
            counts[0, _address(words[3]), words[0], int(words[4], 16)] += 1
    return counts


def read_draining(host: Host) -> Optional[Draining]:
    """The record; None if no change has left connections through ipvs."""
    path = _path(host)
    require_private(host, path)
    data = host.read(path)
    if data is None:
        return None
    try:
        row = parse_json(data)
        until = None if row["until"] is None else float(row["until"])
        return Draining(float(row["since"]), until, tuple(map(str, row["own"])), tuple(map(str, row["others"])))
    except (ValueError, KeyError, TypeError) as error:
        raise MESSAGES.error("migrate-draining", path=path, found=repr(error)) from error


def write_draining(host: Host, draining: Optional[Draining]) -> None:
    """Write the record; None removes it."""
    if draining is None:
        host.remove(_path(host))
        remove_emptied(host, DIRECTORY)
        return
    require_private(host, DIRECTORY)
    if host.stat(DIRECTORY) is None:
        make_marked_directory(host, DIRECTORY, mode=0o755)
    shown = {"since": draining.since, "until": draining.until, "own": draining.own, "others": draining.others}
    host.write(_path(host), json.dumps(shown).encode(), mode=0o600)


def describe(host: Host) -> Optional[dict[str, object]]:
    """For the result of a module; None if nothing is draining."""
    draining = read_draining(host)
    if draining is None or not draining.own:
        return None
    counts = count_open(host)
    keys = draining.own_keys
    return {
        "virtual_servers": len(keys),
        "connections": sum(counts.get(key, 0) for key in keys),
        "until": show_time(draining.until),
    }


def show_time(seconds: Optional[float]) -> str:
    """A time in UTC; "" for None."""
    return "" if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


@lru_cache(maxsize=2**16)
def _address(text: str) -> str:
    """Parse an address as in ip_vs_conn: 0A600001, or all eight groups of an IPv6 address."""
    return str(ipaddress.ip_address(text if ":" in text else int(text, 16)))


def _path(host: Host) -> str:
    return os.path.join(DIRECTORY, f"{namespace_name(host)}-draining.json")
