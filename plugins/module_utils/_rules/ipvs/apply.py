# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads and changes the kernel state of the ipvs backend.

Nothing changes ipvs, ipsets, addresses and rules all at once. The iptables rules of one table are atomic
(iptables/restore.py), as is each line of the other tools. The order of `plan` keeps intermediate states harmless, and
`commit` restores everything if a part fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..._core.host.host import KERNEL_LIMIT, Host
from ..._core.text.errors import BallastError, CommandFailed
from ..iptables import restore
from .iptables import LAYOUT
from .messages import MESSAGES
from .objects import IpvsRules
from .parse import parse
from .plan import IP, IPSET, IPVSADM, AnyOperation, Operation, plan, select_own

CONNECTIONS = "/proc/net/ip_vs"

_READ_SECONDS = 60
_BATCH_SECONDS = 300
_BATCHES = {
    IPSET: ("ipset", "restore"),
    IPVSADM: ("ipvsadm", "-R"),
    IP: ("ip", "-batch", "-"),
}


def read(host: Host, *, family: int, variant: str) -> IpvsRules:
    """The live state of one family; `variant` is that of iptables (iptables/restore.py). Loads no module: without ip_vs
    there are no virtual servers, and ipvsadm, which would load it, is not run."""
    connections = (host.read(CONNECTIONS, limit=KERNEL_LIMIT) or b"").decode(errors="replace")
    servers = host.run(["ipvsadm", "-S", "-n"], timeout=_READ_SECONDS, limit=KERNEL_LIMIT).stdout if connections else ""
    return parse(
        tables=restore.read(host, family=family, variant=variant),
        servers=servers,
        connections=connections,
        sets=host.run(["ipset", "save"], timeout=_READ_SECONDS, limit=KERNEL_LIMIT).stdout,
        links=host.run(["ip", "-j", "address", "show"], timeout=_READ_SECONDS, limit=KERNEL_LIMIT).stdout,
    )


def commit(operations: Sequence[AnyOperation], host: Host, *, live: IpvsRules, variant: str) -> None:
    """Do `operations`, planned from `live`. After a failure no further operation runs, changes are undone as far as
    possible, and rules-ipvs-commit reports the result. A virtual server that was removed and restored loses its open
    connections."""
    try:
        _run(operations, host, live=live, variant=variant)
    except BallastError as failed:
        state = _put_back(host, live=live, variant=variant)
        raise MESSAGES.error("rules-ipvs-commit", found=failed.found, problem=failed.text, state=state) from failed


def _put_back(host: Host, *, live: IpvsRules, variant: str) -> str:
    try:
        now = read(host, family=live.family, variant=variant)
        back = plan(select_own(live), now, overdue=None)
        _run(back, host, live=now, variant=variant)
    except BallastError as failed:
        return f"its changes could not be undone: {failed.text}"
    return "all its changes were undone" if back else "nothing had been changed"


def _run(operations: Sequence[AnyOperation], host: Host, *, live: IpvsRules, variant: str) -> None:
    for tool, batch in groupby(
        operations, key=lambda operation: operation.tool if isinstance(operation, Operation) else ""
    ):
        if tool:
            run_batch(tool, [operation.line for operation in batch if isinstance(operation, Operation)], host)
        else:
            rules = [operation for operation in batch if isinstance(operation, restore.Operation)]
            restore.commit(rules, host, live=live.tables, layout=LAYOUT, variant=variant)


def run_batch(tool: str, lines: Sequence[str], host: Host) -> None:
    """Give these lines to a tool of `_BATCHES` as its input. CommandFailed if it refuses one of them."""
    argv = _BATCHES[tool]
    done = host.run(argv, timeout=_BATCH_SECONDS, stdin="".join(line + "\n" for line in lines).encode())
    if tool == IPVSADM and done.stderr.strip():  # its exit status is that of the last line only
        raise CommandFailed(argv, status=done.status, output=done.stderr)
