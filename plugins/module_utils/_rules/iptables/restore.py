# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the live rules, plans the smallest change to the desired ones, and applies it with one iptables-restore.

A chain of the layout whose rules differ is written as a whole, because iptables-restore flushes the chains it declares. In
built-in chains, and in those shared with the kubelet, our rules are only inserted, at the head (as kube-proxy does: before
the rules of other programs accept or drop packets), and only if they are missing. Nothing else is touched.

Both variants of iptables-restore commit table by table: if the second one is refused, the first has changed already.
`commit` then undoes that, so that a failure leaves the rules as they were.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ..._core.host.gc_pause import pause_collection
from ..._core.host.host import KERNEL_LIMIT, Host
from ..._core.text.errors import CommandFailed, Unavailable
from .messages import MESSAGES
from .objects import BUILT_IN, Chain, Goto, Jump, Layout, Rule, Table, Tables, tables
from .parse import parse
from .text import append_lines, rule_text

NFT = "nft"
LEGACY = "legacy"
VARIANTS = (NFT, LEGACY)

ADD = "add chain"
REPLACE = "replace chain"
EMPTY = "empty chain"  # no longer desired, but a rule of another program still jumps to it
DELETE = "delete chain"
INSERT = "insert rule"
REMOVE = "delete rule"

# The nft variant takes minutes for 10,000 Services, and longer on a busy CPU.
_SAVE_SECONDS = 600
_RESTORE_SECONDS = 1800
_LOCK_SECONDS = 60  # the longest wait for another program to release the lock of the legacy variant
# Prefixes of the comments of kube-proxy's jumps; the last three are of the userspace mode.
_COMMENTS = ("kube", "handle ClusterIPs", "handle service NodePorts", "Ensure that non-local NodePort")
_VERSION = re.compile(r"\((nf_tables|legacy)\)")


@dataclass(frozen=True)
class Operation:
    """One change of one chain. `rules` are those written, inserted (topmost first) or deleted."""

    kind: str
    table: str
    chain: str
    rules: tuple[Rule, ...] = ()

    @property
    def target(self) -> str:
        return f"{self.table} {self.chain}"


@pause_collection()
def plan(desired: Tables, live: Tables, layout: Layout) -> tuple[Operation, ...]:
    """The smallest change that brings the chains of `layout` from `live` to `desired`. If `desired` has no tables, it
    removes everything of the layout."""
    operations: list[Operation] = []
    for name in BUILT_IN:
        operations.extend(_plan_table(name, desired.table(name), live.table(name), layout))
    return tuple(operations)


def _plan_table(name: str, desired: Table, live: Table, layout: Layout) -> Iterable[Operation]:
    for chain in desired.chains:
        there = live.by_name.get(chain.name)
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
        required = _rules(desired, called)
        stale = tuple(rule for rule in _rules(live, called) if is_jump_of(layout, name, rule) and rule not in required)
        if stale:
            yield Operation(REMOVE, name, called, stale)
    leaving = [chain for chain in live.chains if layout.owns(name, chain.name) and chain.name not in desired.by_name]
    named_by_others = _named_by_others(live, layout) if leaving else frozenset()
    for chain in leaving:
        if chain.name not in named_by_others:
            yield Operation(DELETE, name, chain.name)
        elif chain.rules:
            yield Operation(EMPTY, name, chain.name)


def _rules(table: Table, chain: str) -> tuple[Rule, ...]:
    there = table.by_name.get(chain)
    return there.rules if there is not None else ()


def is_jump_of(layout: Layout, table: str, rule: Rule) -> bool:
    """Whether a rule of a built-in chain belongs to the layout. Other programs jump to KUBE-MARK-MASQ from there too; but
    kube-proxy's own rules have had known comments since its first releases."""
    return (
        isinstance(rule.target, Jump) and layout.owns(table, rule.target.chain) and rule.comment.startswith(_COMMENTS)
    )


def _named_by_others(live: Table, layout: Layout) -> frozenset[str]:
    """Chains of the layout that rules outside it jump to."""
    return frozenset(
        rule.target.chain
        for chain in live.chains
        if not layout.owns(live.name, chain.name)
        for rule in chain.rules
        if isinstance(rule.target, (Jump, Goto)) and not is_jump_of(layout, live.name, rule)
    )


def select_own(live: Tables, layout: Layout) -> Tables:
    """The part of `live` that belongs to the layout: its chains, and its jumps in built-in chains, without policies."""
    kept: dict[str, dict[str, Chain]] = {}
    for table in live.tables:
        for chain in table.chains:
            rules = tuple(rule for rule in chain.rules if is_jump_of(layout, table.name, rule))
            if layout.owns(table.name, chain.name):
                rules = chain.rules
            elif not rules:
                continue
            kept.setdefault(table.name, {})[chain.name] = Chain(chain.name, rules)
    return tables(live.family, kept)


def changeable(desired: Tables, live: Tables, layout: Layout) -> Tables:
    """The part of `live` that `plan` may change: that of the layout, and in shared chains the rules that `desired` has there
    too."""
    kept: dict[str, dict[str, Chain]] = {}
    for table in live.tables:
        for chain in table.chains:
            required = _rules(desired.table(table.name), chain.name)
            rules = chain.rules
            if not layout.owns(table.name, chain.name):
                rules = tuple(rule for rule in rules if rule in required or is_jump_of(layout, table.name, rule))
            if rules or layout.owns(table.name, chain.name):
                kept.setdefault(table.name, {})[chain.name] = Chain(chain.name, rules)
    return tables(live.family, kept)


def result(desired: Tables, live: Tables, layout: Layout) -> Tables:
    """`changeable` after the operations of `plan`."""
    there = changeable(desired, live, layout)
    chains = {table.name: dict(table.by_name) for table in there.tables}
    for operation in plan(desired, live, layout):
        of_table = chains.setdefault(operation.table, {})
        held = of_table[operation.chain].rules if operation.chain in of_table else ()
        rules = operation.rules
        if operation.kind == INSERT:
            rules = (*operation.rules, *held)
        elif operation.kind == REMOVE:
            rules = tuple(rule for rule in held if rule not in operation.rules)
        of_table[operation.chain] = Chain(operation.chain, rules)
        if operation.kind == DELETE or (operation.kind == REMOVE and not rules):
            del of_table[operation.chain]
    return tables(live.family, {name: held for name, held in chains.items() if held})


def restore_text(operations: Sequence[Operation]) -> str:
    """The input for `iptables-restore --noflush`. Chains are declared, and so flushed, before any rule refers to them, and
    deleted after the last rule that does."""
    lines: list[str] = []
    for name in BUILT_IN:
        of_table = [operation for operation in operations if operation.table == name]
        if of_table:
            lines.append(f"*{name}")
            lines.extend(
                f":{operation.chain} - [0:0]"
                for operation in of_table
                if operation.kind in (ADD, REPLACE, EMPTY, DELETE)
            )
            for change in of_table:
                lines.extend(_rule_lines(change))
            lines.extend(f"-X {operation.chain}" for operation in of_table if operation.kind == DELETE)
            lines.append("COMMIT")
    return "".join(line + "\n" for line in lines)


def _rule_lines(operation: Operation) -> list[str]:
    if operation.kind == INSERT:
        # Each is inserted at the head, so the last one goes first.
        return [f"-I {operation.chain} 1 {rule_text(rule)}" for rule in reversed(operation.rules)]
    if operation.kind == REMOVE:
        return [f"-D {operation.chain} {rule_text(rule)}" for rule in operation.rules]
    return append_lines(Chain(operation.chain, operation.rules))


def variant_in_use(host: Host) -> str:
    """The variant of the command `iptables`."""
    output = host.run(["iptables", "--version"], timeout=_SAVE_SECONDS).stdout
    version = _VERSION.search(output)
    if not version:
        raise MESSAGES.error("rules-iptables-variant", said=output.strip())
    return NFT if version[1] == "nf_tables" else LEGACY


def variants(host: Host) -> tuple[str, ...]:
    """The variants whose rules this machine can show, that of `iptables` first. Raises Unavailable without iptables."""
    first = variant_in_use(host)
    others = [variant for variant in VARIANTS if variant != first and host.which(f"iptables-{variant}-save")]
    return (first, *others)


def read(
    host: Host,
    *,
    family: int,
    variant: str,
    as_written: Collection[tuple[str, str]] = (),
    refuse_hidden: bool = True,
) -> Tables:
    """The live rules of one variant, as `parse` reads them. Unused tables are absent, and reading does not create them.
    Rules of built-in chains and of the chains `as_written` can be deleted individually."""
    done = host.run([_tool(host, family, variant, "save")], timeout=_SAVE_SECONDS, limit=KERNEL_LIMIT)
    return parse(done.stdout, family=family, as_written=as_written, refuse_hidden=refuse_hidden)


def commit(operations: Sequence[Operation], host: Host, *, live: Tables, layout: Layout, variant: str) -> None:
    """Do `operations`, planned from `live`, with one iptables-restore. If it fails, restore what it changed and raise
    rules-iptables-restore."""
    if not operations:
        return
    family = live.family
    try:
        _restore(operations, host, family=family, variant=variant)
    except CommandFailed as failed:
        state = _put_back(host, live=live, layout=layout, variant=variant)
        command = _tool(host, family, variant, "restore")
        raise MESSAGES.error(
            "rules-iptables-restore", found=failed.found, command=command, family=family, state=state
        ) from failed


def remove(operations: Sequence[Operation], host: Host, *, family: int, variant: str) -> None:
    """Do `operations`, which only remove, with one iptables-restore. A failure is not undone; the next run removes the
    rest."""
    try:
        _restore(operations, host, family=family, variant=variant)
    except CommandFailed as failed:
        command = _tool(host, family, variant, "restore")
        state = "what was removed earlier stays removed"
        raise MESSAGES.error(
            "rules-iptables-restore", found=failed.found, command=command, family=family, state=state
        ) from failed


def _put_back(host: Host, *, live: Tables, layout: Layout, variant: str) -> str:
    """Undo what a failed restore did; returns a description of the result."""
    now = read(host, family=live.family, variant=variant)
    back = plan(select_own(live, layout), now, layout)
    if not back:
        return "nothing was changed"
    try:
        _restore(back, host, family=live.family, variant=variant)
    except CommandFailed as failed:
        return f"{len(back)} changed chains could not be restored ({failed.found})"
    return "all changes were undone"


def _restore(operations: Sequence[Operation], host: Host, *, family: int, variant: str) -> None:
    host.run(
        [_tool(host, family, variant, "restore"), "--noflush", "--wait", str(_LOCK_SECONDS)],
        timeout=_RESTORE_SECONDS,
        stdin=restore_text(operations).encode(),
    )


def _tool(host: Host, family: int, variant: str, action: str) -> str:
    """The program of this variant. Some distributions ship it only under the name without the variant."""
    base = "iptables" if family == 4 else "ip6tables"
    named = f"{base}-{variant}-{action}"
    if host.which(named):
        return named
    if variant_in_use(host) == variant:
        return f"{base}-{action}"
    raise Unavailable(named, package="iptables")


def plan_removal(live: Tables, layout: Layout) -> tuple[Operation, ...]:
    """The operations of `state: absent`: the layout's chains and jumps are removed; shared chains and other programs' rules
    stay."""
    return plan(Tables(live.family), live, layout)
