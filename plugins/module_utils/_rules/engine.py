# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Service rules of a node: from a snapshot to operations on the kernel.

There is no journal, because the kernel itself shows what was done: the engine reads the live rules and compares, and a
removal follows the backend's layout. The rules of a family are committed together (backend.py says what holds where the
kernel has no transactions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Optional

from .._core.engine.context import Context
from .._core.engine.engine import BaseEngine, Finding
from .._core.host.gc_pause import pause_collection
from .._core.host.host import Host
from .._core.host.names import MARK
from .._core.text.errors import BallastError, Problems
from .backend import KUBE_PROXY_TABLE, Backend, Operation, Settings, count_by_kind
from .backends import backend_named
from .config import ParsedConfig, parse_config
from .messages import MESSAGES
from .model import IPTABLES, IPVS, NFTABLES, WINKERNEL, Duplicate
from .node_addresses import FAMILIES, families, own_addresses, read_links
from .parse import Snapshot, parse_snapshot, parse_snapshot_text
from .record import (
    Record,
    SettingChange,
    add_late_originals,
    change_setting,
    plan_settings,
    read_record,
    read_setting,
    select_originals,
    write_record,
)

if TYPE_CHECKING:
    from .._winkernel.backend import Operation as HnsOperation
    from .._winkernel.hns import HnsState
    from .ipvs.used_addresses import Claim, User

INPUT_SPEC: dict[str, Any] = {
    "snapshot": {"type": "dict"},
    "snapshot_path": {"type": "path"},
    "node_name": {"type": "str"},
    "node_ips": {"type": "list", "elements": "str"},
    "config": {"type": "dict", "default": {}},
}
SPEC: dict[str, Any] = {
    **INPUT_SPEC,
    "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
    "backend": {"type": "str", "required": True, "choices": [NFTABLES, IPTABLES, IPVS, WINKERNEL]},
    "table": {"type": "str", "default": MARK},
    "priority_offset": {"type": "int", "default": 0},
    "hns": {"type": "dict", "default": {}},
}
REQUIRED_IF = [("state", "present", ("node_name",))]
ATOMIC = (NFTABLES, WINKERNEL)  # the kernel applies a commit as a whole, so verify need not read it again
_PRIORITIES = 90  # beyond this, our translation would not be next to kube-proxy's, nor our filter before it


@dataclass(frozen=True)
class ServiceRulesRequest:
    state: str
    backend: str
    table: str
    priority_offset: int
    snapshot: Optional[Snapshot]  # None: remove the rules
    configs: Mapping[int, ParsedConfig]  # by family
    hns: Optional[HnsState]  # None: not given and not needed

    @classmethod
    def from_params(cls, params: Mapping[str, Any], host: Host) -> ServiceRulesRequest:
        """Reads the snapshot from its file, and the node's addresses from the host unless they are given."""
        problems: list[BallastError] = []
        if params["table"] == KUBE_PROXY_TABLE:
            problems.append(MESSAGES.error("rules-table-taken", table=params["table"]))
        if abs(params["priority_offset"]) > _PRIORITIES:
            problems.append(MESSAGES.error("rules-priority", value=params["priority_offset"], most=_PRIORITIES))
        Problems.raise_if(problems)
        present = params["state"] == "present"
        snapshot = snapshot_from(params, host) if present else None
        return cls(
            state=params["state"],
            backend=params["backend"],
            table=params["table"],
            priority_offset=params["priority_offset"],
            snapshot=snapshot,
            configs=configs_from(params["config"], params["backend"], snapshot),
            hns=_hns(params),
        )


def snapshot_from(params: Mapping[str, Any], host: Host) -> Snapshot:
    """The snapshot given by a module's options."""
    if (params["snapshot"] is None) == (params["snapshot_path"] is None):
        raise MESSAGES.error("rules-snapshot-where")
    ips = params["node_ips"]
    node_ips = own_addresses(read_links(host)) if ips is None else ips
    options = {"node_name": params["node_name"], "node_ips": node_ips, "config": params["config"]}
    if params["snapshot"] is not None:
        return parse_snapshot(params["snapshot"], **options)
    data = host.read(params["snapshot_path"])
    if data is None:
        raise MESSAGES.error("rules-snapshot-absent", path=params["snapshot_path"])
    text = data.decode("utf-8", errors="replace")
    return parse_snapshot_text(text, **options)


def configs_from(config: object, backend: str, snapshot: Optional[Snapshot]) -> dict[int, ParsedConfig]:
    """The configuration for this node, by family; empty without a snapshot."""
    if snapshot is None:
        return {}
    views = {family: snapshot.view(family) for family in FAMILIES}
    return {
        family: parse_config(config, backend=backend, family=family, node=view.node) for family, view in views.items()
    }


@dataclass(frozen=True)
class ServiceRulesState:
    """What the kernel has, by family. A family that the kernel does not support has no entry."""

    backend: Optional[Backend]  # None on Windows
    rules: Mapping[int, Any]
    settings: Mapping[str, Optional[str]]
    record: Record
    problems: tuple[BallastError, ...] = ()  # such as a table with our name that belongs to another program
    address_users: tuple[User, ...] = ()  # ipvs: who uses addresses near this node, besides the Nodes


@dataclass(frozen=True)
class Part:
    """The change in one family."""

    family: int
    live: Any  # what the kernel has
    desired: Any  # None: nothing
    operations: tuple[Any, ...]


@dataclass(frozen=True)
class RulesPlan:
    backend: Optional[Backend] = None
    parts: tuple[Part, ...] = ()
    settings: tuple[SettingChange, ...] = ()
    record: Record = Record()  # as it is written afterwards
    policies: tuple[HnsOperation, ...] = ()  # reported only, not applied

    @cached_property  # read many times, and a new table has tens of thousands
    def steps(self) -> Sequence[Operation]:
        return [*chain.from_iterable(part.operations for part in self.parts), *self.settings]


class RulesEngine(BaseEngine[ServiceRulesRequest, ServiceRulesState, RulesPlan]):
    """See _core/engine/engine.py for what each function is."""

    planning = "compile"

    def observe(self, ctx: Context[ServiceRulesRequest]) -> ServiceRulesState:
        desired, host = ctx.desired, ctx.host
        if desired.backend == WINKERNEL:
            return ServiceRulesState(None, {}, {}, Record())
        record = read_record(host, desired.backend)
        backend = backend_of(desired, host, record)
        problems = tuple(chain.from_iterable(_check_owner(backend, host, family) for family in families(host)))
        if problems:
            return ServiceRulesState(backend, {}, {}, record, problems)
        read = backend.read_for_removal if desired.snapshot is None else backend.read
        names = {name for name, _value in _settings(desired, backend)} | set(record.original_settings)
        return ServiceRulesState(
            backend,
            {family: read(host, family) for family in families(host)},
            {name: read_setting(host, name) for name in sorted(names)},
            record,
            address_users=_address_users(desired, host),
        )

    @pause_collection()
    def plan(self, desired: ServiceRulesRequest, state: ServiceRulesState) -> RulesPlan:
        Problems.raise_if(state.problems)
        if state.backend is None:
            return RulesPlan(policies=_policies(desired))
        parts: list[Part] = []
        for family, held in state.rules.items():
            live = _after_first_family(parts[0], held) if parts and desired.backend == IPVS else held
            rules = None
            if desired.snapshot is not None:
                rules = state.backend.compile(desired.snapshot.view(family), desired.configs[family].rules)
            parts.append(Part(family, live, rules, tuple(state.backend.plan(rules, live))))
        Problems.raise_if(_taken_addresses(desired, parts, state.address_users))
        settings = _settings(desired, state.backend)
        changes = plan_settings(settings, state.settings, state.record)
        kept = select_originals(settings, changes, state.record)
        return RulesPlan(state.backend, tuple(parts), tuple(changes), Record(kept, state.record.draining_since))

    def as_result(self, plan: RulesPlan) -> dict[str, object]:
        if plan.backend is None:
            return {"operations": {}, "policies": [_policy(operation) for operation in plan.policies]}
        return {"operations": count_by_kind(plan.steps)}

    def diff(self, plan: RulesPlan) -> list[dict[str, str]]:
        rows = [
            (f"rules of IPv{part.family}", *plan.backend.diff(part.desired, part.live))
            for part in plan.parts
            if plan.backend is not None and part.operations
        ]
        rows += [(f"setting {change.target}", f"{change.before}\n", f"{change.after}\n") for change in plan.settings]
        return [
            {"before_header": title, "after_header": title, "before": before, "after": after}
            for title, before, after in rows
        ]

    def apply(self, plan: RulesPlan, ctx: Context[ServiceRulesRequest]) -> RulesPlan:
        """When rules are created, settings are changed first; when rules are removed, last. If creating rules fails for the
        second family, the first is undone. A removal is not undone; the next run removes the rest."""
        desired, host = ctx.desired, ctx.host
        if plan.backend is None:
            return plan
        record = plan.record
        if desired.snapshot is not None:
            plan.backend.prepare(host)
            record = add_late_originals(record, plan.settings, host)
        write_record(host, desired.backend, _merge_records(read_record(host, desired.backend), record))
        if desired.snapshot is not None:
            _change_settings(plan, host)
        done: list[Part] = []
        for planned in plan.parts:
            part = _plan_again(plan.backend, planned, host) if done and desired.backend == IPVS else planned
            subject = f"rules of IPv{part.family}"
            if part.operations:
                ctx.progress.started(subject, f"{len(part.operations)} operations")
            try:
                plan.backend.commit(part.operations, host, part.live)
            except BallastError:
                ctx.progress.failed(
                    subject, "undoing the completed steps" if desired.snapshot is not None else "the next run continues"
                )
                if desired.snapshot is not None:
                    _undo(plan.backend, done, host)
                raise
            done.append(part)
        if desired.snapshot is None:
            _change_settings(plan, host)
        write_record(host, desired.backend, self._add_draining(plan, record, desired, host))
        # With ipvs, the second part depends on what the first one did.
        return replace(plan, parts=tuple(done)) if desired.backend == IPVS else plan

    def verify(self, ctx: Context[ServiceRulesRequest]) -> list[Finding]:
        desired = ctx.desired
        findings = [_finding(warning) for warning in warnings_of(desired.snapshot, desired.configs, ours=True)]
        findings += [
            _finding(MESSAGES.error("rules-duplicate", **asdict(duplicate))) for duplicate in _duplicates(desired)
        ]
        if desired.backend in ATOMIC:
            return findings
        state = self.observe(ctx)
        findings += [_finding(error) for error in _address_warnings(desired, state)]
        if self.plan(desired, state).steps:
            error = MESSAGES.error("rules-not-held", backend=desired.backend)
            findings.append(Finding(id=error.id, subject=desired.backend, text=error.text, remedy=error.remedy))
        return findings

    def preview(self, ctx: Context[ServiceRulesRequest]) -> dict[str, object]:
        return {"duplicates": [asdict(duplicate) for duplicate in _duplicates(ctx.desired)]}

    def _add_draining(self, plan: RulesPlan, record: Record, desired: ServiceRulesRequest, host: Host) -> Record:
        """`record` plus the real servers that start to drain now."""
        if plan.backend is None or desired.backend != IPVS or desired.snapshot is None:
            return record
        from .ipvs.plan import drain_times, find_draining

        waiting = [
            name for part in plan.parts for name in find_draining(part.desired, plan.backend.read(host, part.family))
        ]
        since = drain_times(waiting, record.draining_since, now=host.now())
        return Record(record.original_settings, since)


ENGINE = RulesEngine()


def _address_users(desired: ServiceRulesRequest, host: Host) -> tuple[User, ...]:
    if desired.backend != IPVS or desired.snapshot is None:
        return ()
    from .ipvs.surrounding_machines import read_routes, read_users

    return read_users(host, read_routes(host))


def _claims(desired: ServiceRulesRequest, family: int, users: tuple[User, ...]) -> Sequence[Claim]:
    if desired.backend != IPVS or desired.snapshot is None:
        return ()
    from .ipvs.used_addresses import find_claims

    return find_claims(desired.snapshot.view(family), users)


def _taken_addresses(
    desired: ServiceRulesRequest, parts: Sequence[Part], users: tuple[User, ...]
) -> list[BallastError]:
    """Addresses that this run would take from another machine. An address that the node has bound already is no reason to
    withhold the other rules: verify warns of it."""
    return [
        claim.as_error()
        for part in parts
        for claim in _claims(desired, part.family, users)
        if claim.is_felt_here and claim.address in part.desired.bound - part.live.bound
    ]


def _address_warnings(desired: ServiceRulesRequest, state: ServiceRulesState) -> list[BallastError]:
    return [
        claim.as_error()
        for family, live in state.rules.items()
        for claim in _claims(desired, family, state.address_users)
        if not claim.is_felt_here or claim.address in live.bound
    ]


def _check_owner(backend: Backend, host: Host, family: int) -> tuple[BallastError, ...]:
    try:
        backend.require_ours(host, family)
    except BallastError as error:
        return (error,)
    return ()


def backend_of(desired: ServiceRulesRequest, host: Host, record: Record) -> Backend:
    """The backend of the request. Mode ipvs takes from `record` which real servers have drained long enough."""
    if desired.backend != IPVS:
        return backend_named(desired.backend, host, table=desired.table, priority_offset=desired.priority_offset)
    from .ipvs.plan import find_overdue

    excluded = {cidr for config in desired.configs.values() for cidr in config.rules.exclude_cidrs}
    late = find_overdue(record.draining_since, now=host.now())
    return backend_named(desired.backend, host, exclude_cidrs=sorted(excluded), overdue=late)


def _settings(desired: ServiceRulesRequest, backend: Backend) -> Settings:
    if desired.snapshot is None:
        return ()
    settings = [
        setting
        for family, config in desired.configs.items()
        for setting in backend.settings(desired.snapshot.view(family), config.rules)
    ]
    return tuple(dict.fromkeys(settings))


def _after_first_family(first: Part, live: Any) -> Any:
    """The families of ipvs share one link: the plan of the second one depends on what the first one did to the link."""
    from .ipvs.plan import after_first_family

    return after_first_family(live, first.desired, first.live)


def _plan_again(backend: Backend, part: Part, host: Host) -> Part:
    """Plan the second family again: with the first one done, the link exists, or can be removed."""
    live = backend.read_for_removal(host, part.family) if part.desired is None else backend.read(host, part.family)
    return Part(part.family, live, part.desired, tuple(backend.plan(part.desired, live)))


def _change_settings(plan: RulesPlan, host: Host) -> None:
    for change in plan.settings:
        change_setting(host, change)


def _undo(backend: Backend, done: Sequence[Part], host: Host) -> None:
    for part in reversed(done):
        now = backend.read(host, part.family)
        backend.commit(backend.plan(backend.select_own(part.live), now), host, now)


def _merge_records(old: Record, new: Record) -> Record:
    """A killed run may have left changes: its original values are kept until this run has ended."""
    return Record({**new.original_settings, **old.original_settings}, old.draining_since)


def _finding(error: BallastError) -> Finding:
    return Finding(id=error.id, subject="snapshot", text=error.text, remedy=error.remedy, blocking=False)


def warnings_of(snapshot: Optional[Snapshot], configs: Mapping[int, ParsedConfig], *, ours: bool) -> list[BallastError]:
    """Warnings about objects, and about the configuration of each family that has Services, without duplicates. `ours`: the
    rules are not kube-proxy's."""
    if snapshot is None:
        return []
    by_text = {warning.text: warning for warning in snapshot.warnings}
    for family, config in configs.items():
        if snapshot.view(family).services:
            warnings = (*config.warnings, *(config.own_warnings if ours else ()))
            by_text.update({warning.text: warning for warning in warnings})
    return list(by_text.values())


def _duplicates(desired: ServiceRulesRequest) -> list[Duplicate]:
    if desired.snapshot is None:
        return []
    return [duplicate for family in FAMILIES for duplicate in desired.snapshot.view(family).duplicates]


def _hns(params: Mapping[str, Any]) -> Optional[HnsState]:
    if params["backend"] != WINKERNEL and not params["hns"]:
        return None
    from .._winkernel.hns import parse_hns

    return parse_hns(params["hns"])


def _policies(desired: ServiceRulesRequest) -> tuple[HnsOperation, ...]:
    from .._winkernel.backend import HnsRules, compile_rules, plan

    if desired.hns is None:
        return ()
    operations: list[HnsOperation] = []
    for family in FAMILIES:
        rules = HnsRules(desired.hns.network.id)
        if desired.snapshot is not None:
            config = desired.configs[family]
            rules = compile_rules(desired.snapshot.view(family), config.winkernel, desired.hns.network)
        operations.extend(plan(rules, desired.hns.rules[family]))
    return tuple(operations)


def _policy(operation: HnsOperation) -> dict[str, Any]:
    return {"operation": operation.kind, "target": operation.target, "value": operation.value.as_hns()}
