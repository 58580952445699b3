# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's state of the ipvs backend: read it, change it.

Nothing makes ipvs, ipsets, addresses and rules change at once. What is atomic: the iptables rules of a table
(iptables/restore.py), and each line of the others by itself. The order of `plan` keeps what lies between harmless, and
`commit` puts everything back when a part fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..._core.errors import BallastError, CommandFailed
from ..._core.host import Host
from ..iptables import restore
from .iptables import LAYOUT
from .messages import MESSAGES
from .objects import IpvsRules
from .parse import parse
from .plan import IP, IPSET, IPVSADM, AnyOperation, Operation, own, plan

CONNECTIONS = "/proc/net/ip_vs"

_READ_SECONDS = 60
_BATCH_SECONDS = 300
_BATCHES = {
    IPSET: ("ipset", "restore"),
    IPVSADM: ("ipvsadm", "-R"),
    IP: ("ip", "-batch", "-"),
}


def read(host: Host, *, family: int, variant: str) -> IpvsRules:
    """One family of the live state; `variant` is that of iptables (iptables/restore.py). Loads no module: where the kernel
    has not got ip_vs loaded there is no virtual server, and ipvsadm, which would load it, is not asked."""
    connections = (host.read(CONNECTIONS) or b"").decode(errors="replace")
    servers = host.run(["ipvsadm", "-S", "-n"], timeout=_READ_SECONDS).stdout if connections else ""
    return parse(
        tables=restore.read(host, family=family, variant=variant),
        servers=servers,
        connections=connections,
        sets=host.run(["ipset", "save"], timeout=_READ_SECONDS).stdout,
        links=host.run(["ip", "-j", "address", "show"], timeout=_READ_SECONDS).stdout,
    )


def commit(operations: Sequence[AnyOperation], host: Host, *, found: IpvsRules, variant: str) -> None:
    """Do `operations`, planned from `found`. When one fails, no later one is begun, what was changed is put back as far as
    it can be, and rules-ipvs-commit says what became of it. Connections that were open to a virtual server which was
    removed and put back are lost."""
    try:
        _run(operations, host, found=found, variant=variant)
    except BallastError as failed:
        state = _put_back(host, found=found, variant=variant)
        raise MESSAGES.error("rules-ipvs-commit", found=failed.found, problem=failed.text, state=state) from failed


def _put_back(host: Host, *, found: IpvsRules, variant: str) -> str:
    try:
        now = read(host, family=found.family, variant=variant)
        back = plan(own(found), now, overdue=None)
        _run(back, host, found=now, variant=variant)
    except BallastError as failed:
        return f"what it had changed could not be put back: {failed.text}"
    return "what it had changed is put back" if back else "nothing had been changed"


def _run(operations: Sequence[AnyOperation], host: Host, *, found: IpvsRules, variant: str) -> None:
    for tool, batch in groupby(operations, key=lambda one: one.tool if isinstance(one, Operation) else ""):
        if tool:
            run_batch(tool, [one.line for one in batch if isinstance(one, Operation)], host)
        else:
            rules = [one for one in batch if isinstance(one, restore.Operation)]
            restore.commit(rules, host, found=found.tables, layout=LAYOUT, variant=variant)


def run_batch(tool: str, lines: Sequence[str], host: Host) -> None:
    argv = _BATCHES[tool]
    done = host.run(argv, timeout=_BATCH_SECONDS, stdin="".join(line + "\n" for line in lines).encode())
    if tool == IPVSADM and done.stderr.strip():  # its status is that of the last line alone
        raise CommandFailed(argv, status=done.status, output=done.stderr)
