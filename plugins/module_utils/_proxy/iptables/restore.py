# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the rules that are there to those that are wanted: what to read, the smallest change, and one iptables-restore.

A chain of the layout whose rules differ is written anew as a whole, since iptables-restore flushes what it names. In the
chains that the kernel calls, and in those shared with the kubelet, only our rules are inserted, at the head (as kube-proxy
does: before what other programs accept or drop there), and only when they are missing. Nothing else is touched.

iptables-restore commits table by table, in both variants: when the second one is refused, the first has changed. `commit`
then puts back what it finds changed, so that a failure leaves the rules as they were.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ..._core.collector import collection_paused
from ..._core.errors import CommandFailed, Unavailable
from ..._core.host import Host
from .messages import MESSAGES
from .objects import BUILT_IN, Chain, Goto, Jump, Layout, Rule, Table, Tables, tables
from .parse import parse
from .text import appended, rule_text

NFT = "nft"
LEGACY = "legacy"
VARIANTS = (NFT, LEGACY)

ADD = "add chain"
REPLACE = "replace chain"
EMPTY = "empty chain"  # one to be removed that a rule of another program still names
DELETE = "delete chain"
INSERT = "insert rule"
REMOVE = "delete rule"

# The nft variant takes minutes for 10,000 Services, and longer where the processors have other work.
_SAVE_SECONDS = 600
_RESTORE_SECONDS = 1800
_LOCK_SECONDS = 60  # how long another program may hold the lock of the legacy variant
# How the comments of kube-proxy's jumps begin; the last three are of the userspace mode.
_COMMENTS = ("kube", "handle ClusterIPs", "handle service NodePorts", "Ensure that non-local NodePort")
_VERSION = re.compile(r"\((nf_tables|legacy)\)")


@dataclass(frozen=True)
class Operation:
    """One change of one chain. `rules` are those written, inserted (the first one foremost) or deleted."""

    kind: str
    table: str
    chain: str
    rules: tuple[Rule, ...] = ()

    @property
    def target(self) -> str:
        return f"{self.table} {self.chain}"


@collection_paused()
def plan(desired: Tables, found: Tables, layout: Layout) -> tuple[Operation, ...]:
    """The smallest change that brings the chains of `layout` from `found` to `desired`. With empty tables desired, it
    removes all of the layout."""
    operations: list[Operation] = []
    for name in BUILT_IN:
        operations.extend(_plan_table(name, desired.table(name), found.table(name), layout))
    return tuple(operations)


def _plan_table(name: str, desired: Table, found: Table, layout: Layout) -> Iterable[Operation]:
    for chain in desired.chains:
        there = found.by_name.get(chain.name)
        if layout.owns(name, chain.name):
            if there is None or there.rules != chain.rules:
                yield Operation(ADD if there is None else REPLACE, name, chain.name, chain.rules)
        elif there is None and chain.name not in BUILT_IN[name]:
            yield Operation(ADD, name, chain.name, chain.rules)
        else:
            present = there.rules if there is not None else ()
            missing = tuple(rule for rule in chain.rules if rule not in present)
            if missing:
                yield Operation(INSERT, name, chain.name, missing)
    for called in BUILT_IN[name]:
        wanted = _rules(desired, called)
        stale = tuple(rule for rule in _rules(found, called) if is_jump_of(layout, name, rule) and rule not in wanted)
        if stale:
            yield Operation(REMOVE, name, called, stale)
    leaving = [chain for chain in found.chains if layout.owns(name, chain.name) and chain.name not in desired.by_name]
    named_by_others = _named_by_others(found, layout) if leaving else frozenset()
    for chain in leaving:
        if chain.name not in named_by_others:
            yield Operation(DELETE, name, chain.name)
        elif chain.rules:
            yield Operation(EMPTY, name, chain.name)


def _rules(table: Table, chain: str) -> tuple[Rule, ...]:
    there = table.by_name.get(chain)
    return there.rules if there is not None else ()


def is_jump_of(layout: Layout, table: str, rule: Rule) -> bool:
    """Whether a rule of a chain that the kernel calls is the layout's. Other programs also jump to KUBE-MARK-MASQ from
    there; kube-proxy's own say what they are in their comments, since its first releases."""
    return (
        isinstance(rule.target, Jump) and layout.owns(table, rule.target.chain) and rule.comment.startswith(_COMMENTS)
    )


def _named_by_others(found: Table, layout: Layout) -> frozenset[str]:
    """Chains that rules jump to which are not the layout's."""
    return frozenset(
        rule.target.chain
        for chain in found.chains
        if not layout.owns(found.name, chain.name)
        for rule in chain.rules
        if isinstance(rule.target, (Jump, Goto)) and not is_jump_of(layout, found.name, rule)
    )


def own(found: Tables, layout: Layout) -> Tables:
    """What of `found` belongs to the layout: its chains, and its jumps in the chains that the kernel calls, whose policy
    is not its own."""
    kept: dict[str, dict[str, Chain]] = {}
    for table in found.tables:
        for chain in table.chains:
            rules = tuple(rule for rule in chain.rules if is_jump_of(layout, table.name, rule))
            if layout.owns(table.name, chain.name):
                rules = chain.rules
            elif not rules:
                continue
            kept.setdefault(table.name, {})[chain.name] = Chain(chain.name, rules)
    return tables(found.family, kept)


def restore_text(operations: Sequence[Operation]) -> str:
    """Input of `iptables-restore --noflush`. Chains are declared (and so emptied) before any rule names them; they are
    deleted when no rule does any more."""
    lines: list[str] = []
    for name in BUILT_IN:
        of_table = [operation for operation in operations if operation.table == name]
        if of_table:
            lines.append(f"*{name}")
            lines.extend(f":{one.chain} - [0:0]" for one in of_table if one.kind in (ADD, REPLACE, EMPTY, DELETE))
            for one in of_table:
                lines.extend(_rule_lines(one))
            lines.extend(f"-X {one.chain}" for one in of_table if one.kind == DELETE)
            lines.append("COMMIT")
    return "".join(line + "\n" for line in lines)


def _rule_lines(operation: Operation) -> list[str]:
    if operation.kind == INSERT:
        # Each goes to the head, so the last is inserted first.
        return [f"-I {operation.chain} 1 {rule_text(rule)}" for rule in reversed(operation.rules)]
    if operation.kind == REMOVE:
        return [f"-D {operation.chain} {rule_text(rule)}" for rule in operation.rules]
    return appended(Chain(operation.chain, operation.rules))


def variant_in_use(host: Host) -> str:
    """The variant that `iptables` is."""
    said = host.run(["iptables", "--version"], timeout=_SAVE_SECONDS).stdout
    found = _VERSION.search(said)
    if not found:
        raise MESSAGES.error("rules-iptables-variant", said=said.strip())
    return NFT if found[1] == "nf_tables" else LEGACY


def variants(host: Host) -> tuple[str, ...]:
    """Those whose rules this machine can show, the one that `iptables` is first. Raises Unavailable without iptables."""
    first = variant_in_use(host)
    others = [one for one in VARIANTS if one != first and host.which(f"iptables-{one}-save")]
    return (first, *others)


def read(host: Host, *, family: int, variant: str, as_written: Collection[tuple[str, str]] = ()) -> Tables:
    """The live rules of one variant. Tables that nobody has used yet are absent, and are not made by looking. Rules of the
    chains `as_written` can be deleted one by one, as those of the chains that the kernel calls."""
    done = host.run([_tool(host, family, variant, "save")], timeout=_SAVE_SECONDS)
    return parse(done.stdout, family=family, as_written=as_written)


def commit(operations: Sequence[Operation], host: Host, *, found: Tables, layout: Layout, variant: str) -> None:
    """Do `operations`, planned from `found`, in one iptables-restore. When it fails, what it changed is put back and
    rules-iptables-restore raised."""
    if not operations:
        return
    family = found.family
    try:
        _restore(operations, host, family=family, variant=variant)
    except CommandFailed as failed:
        state = _put_back(host, found=found, layout=layout, variant=variant)
        command = _tool(host, family, variant, "restore")
        raise MESSAGES.error(
            "rules-iptables-restore", found=failed.found, command=command, family=family, state=state
        ) from failed


def remove(operations: Sequence[Operation], host: Host, *, family: int, variant: str) -> None:
    """Do `operations`, which only remove, in one iptables-restore. When it fails, what is gone was to go: nothing is put
    back, and the next run goes on."""
    try:
        _restore(operations, host, family=family, variant=variant)
    except CommandFailed as failed:
        command = _tool(host, family, variant, "restore")
        state = "what was removed before stays removed"
        raise MESSAGES.error(
            "rules-iptables-restore", found=failed.found, command=command, family=family, state=state
        ) from failed


def _put_back(host: Host, *, found: Tables, layout: Layout, variant: str) -> str:
    """Undo what a failed restore did; what to say of it."""
    now = read(host, family=found.family, variant=variant)
    back = plan(own(found, layout), now, layout)
    if not back:
        return "nothing was changed"
    try:
        _restore(back, host, family=found.family, variant=variant)
    except CommandFailed as failed:
        return f"of what was changed, {len(back)} chains could not be put back ({failed.found})"
    return "what was changed is put back"


def _restore(operations: Sequence[Operation], host: Host, *, family: int, variant: str) -> None:
    host.run(
        [_tool(host, family, variant, "restore"), "--noflush", "--wait", str(_LOCK_SECONDS)],
        timeout=_RESTORE_SECONDS,
        stdin=restore_text(operations).encode(),
    )


def _tool(host: Host, family: int, variant: str, action: str) -> str:
    """The program of this variant: some distributions ship only the one that has no variant in its name."""
    base = "iptables" if family == 4 else "ip6tables"
    named = f"{base}-{variant}-{action}"
    if host.which(named):
        return named
    if variant_in_use(host) == variant:
        return f"{base}-{action}"
    raise Unavailable(named, package="iptables")


def removed(found: Tables, layout: Layout) -> tuple[Operation, ...]:
    """What `absent` does: the layout's chains and jumps go; shared chains and other programs' rules stay."""
    return plan(Tables(found.family), found, layout)
