# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Service rules of a node: from a snapshot to operations on the kernel.

The kernel is the record of what was done, so there is no ledger: what is there is read back and compared, and a removal
goes by the backend's layout. The rules of a family are committed in one piece (backends.py says what holds where the
kernel has no transaction).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Optional

from .._core.collector import collection_paused
from .._core.engine import Finding
from .._core.errors import BallastError, Problems
from .._core.events import Progress
from .._core.host import Host, LocalHost
from .._core.names import MARK
from .backends import KUBE_PROXY_TABLE, Backend, Operation, Settings, backend_named, counted
from .config import ParsedConfig, parse_config
from .messages import MESSAGES
from .model import IPTABLES, IPVS, NFTABLES, WINKERNEL, Duplicate
from .parse import Snapshot, parse_snapshot, parse_snapshot_text
from .record import (
    Record,
    SettingChange,
    change_setting,
    originals,
    read_record,
    read_setting,
    setting_changes,
    with_late_originals,
    write_record,
)
from .surroundings import FAMILIES, families, own_addresses, read_links

if TYPE_CHECKING:
    from .hns import HnsState
    from .winkernel import Operation as HnsOperation

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
ATOMIC = (NFTABLES, WINKERNEL)  # the kernel takes a commit as a whole, so that nothing need be asked again
_PRIORITIES = 90  # further off, our translation would not be next to kube-proxy's, nor our filter before it


@dataclass(frozen=True)
class Desired:
    state: str
    backend: str
    table: str
    priority_offset: int
    snapshot: Optional[Snapshot]  # None: nothing is wanted
    configs: Mapping[int, ParsedConfig]  # by family
    hns: Optional[HnsState]  # None: not given, and not needed

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Desired:
        problems: list[BallastError] = []
        if params["table"] == KUBE_PROXY_TABLE:
            problems.append(MESSAGES.error("rules-table-taken", table=params["table"]))
        if abs(params["priority_offset"]) > _PRIORITIES:
            problems.append(MESSAGES.error("rules-priority", value=params["priority_offset"], most=_PRIORITIES))
        Problems.raise_if(problems)
        present = params["state"] == "present"
        snapshot = snapshot_from(params, LocalHost()) if present else None
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
    """The snapshot that a module's options name."""
    if (params["snapshot"] is None) == (params["snapshot_path"] is None):
        raise MESSAGES.error("rules-snapshot-where")
    ips = params["node_ips"]
    node_ips = own_addresses(read_links(host)) if ips is None else ips
    if params["snapshot"] is not None:
        return parse_snapshot(params["snapshot"], node_name=params["node_name"], node_ips=node_ips)
    data = host.read(params["snapshot_path"])
    if data is None:
        raise MESSAGES.error("rules-snapshot-absent", path=params["snapshot_path"])
    text = data.decode("utf-8", errors="replace")
    return parse_snapshot_text(text, node_name=params["node_name"], node_ips=node_ips)


def configs_from(config: object, backend: str, snapshot: Optional[Snapshot]) -> dict[int, ParsedConfig]:
    if snapshot is None:
        return {}
    views = {family: snapshot.view(family) for family in FAMILIES}
    return {
        family: parse_config(config, backend=backend, family=family, node=view.node) for family, view in views.items()
    }


@dataclass(frozen=True)
class State:
    """What the kernel holds, by family; of a family that it does not have there is nothing."""

    backend: Optional[Backend]  # None: of Windows
    rules: Mapping[int, Any]
    settings: Mapping[str, Optional[str]]
    record: Record


@dataclass(frozen=True)
class Part:
    """The change of one family."""

    family: int
    found: Any
    wanted: Any  # None: nothing
    operations: tuple[Any, ...]


@dataclass(frozen=True)
class RulesPlan:
    backend: Optional[Backend] = None
    parts: tuple[Part, ...] = ()
    settings: tuple[SettingChange, ...] = ()
    record: Record = Record()  # as it is to be afterwards
    policies: tuple[HnsOperation, ...] = ()  # returned, not done

    @cached_property  # asked for again and again, and of a new table there are tens of thousands
    def steps(self) -> Sequence[Operation]:
        return [*chain.from_iterable(part.operations for part in self.parts), *self.settings]


class RulesEngine:
    """See _core/engine.py for what each function is."""

    planning = "compile"

    def observe(self, desired: Desired, host: Host) -> State:
        if desired.backend == WINKERNEL:
            return State(None, {}, {}, Record())
        record = read_record(host, desired.backend)
        backend = backend_of(desired, host, record)
        read = backend.left if desired.snapshot is None else backend.read
        names = {name for name, _value in _settings(desired, backend)} | set(record.original_settings)
        return State(
            backend,
            {family: read(host, family) for family in families(host)},
            {name: read_setting(host, name) for name in sorted(names)},
            record,
        )

    def plan(self, desired: Desired, state: State) -> RulesPlan:
        with collection_paused():
            return self._planned(desired, state)

    def _planned(self, desired: Desired, state: State) -> RulesPlan:
        if state.backend is None:
            return RulesPlan(policies=_policies(desired))
        parts = []
        for family, found in state.rules.items():
            wanted = None
            if desired.snapshot is not None:
                wanted = state.backend.compile(desired.snapshot.view(family), desired.configs[family].rules)
            parts.append(Part(family, found, wanted, tuple(state.backend.plan(wanted, found))))
        settings = _settings(desired, state.backend)
        changes = setting_changes(settings, state.settings, state.record)
        kept = originals(settings, changes, state.record)
        return RulesPlan(state.backend, tuple(parts), tuple(changes), Record(kept, state.record.draining_since))

    def told(self, plan: RulesPlan) -> dict[str, object]:
        if plan.backend is None:
            return {"operations": {}, "policies": [_policy(operation) for operation in plan.policies]}
        return {"operations": counted(plan.steps)}

    def difference(self, plan: RulesPlan) -> list[dict[str, str]]:
        rows = [
            (f"rules of IPv{part.family}", _shown(plan.backend, part.found), _shown(plan.backend, part.wanted))
            for part in plan.parts
            if plan.backend is not None and part.operations
        ]
        rows += [(f"setting {one.target}", f"{one.before}\n", f"{one.after}\n") for one in plan.settings]
        return [
            {"before_header": title, "after_header": title, "before": before, "after": after}
            for title, before, after in rows
        ]

    def require(self, desired: Desired, host: Host) -> None:
        """A tool that is missing is told of by whoever runs it."""

    def apply(self, plan: RulesPlan, desired: Desired, host: Host, progress: Progress) -> None:
        """Settings first where rules are made, last where they are removed. Of families, the later one's failure undoes
        the earlier one where rules are made; what was removed was to go, and the next run goes on with the rest."""
        if plan.backend is None:
            return
        record = plan.record
        if desired.snapshot is not None:
            plan.backend.prepare(host)
            record = with_late_originals(record, plan.settings, host)
        write_record(host, desired.backend, _merged(read_record(host, desired.backend), record))
        if desired.snapshot is not None:
            _change_settings(plan, host)
        done: list[Part] = []
        for planned in plan.parts:
            part = _seen_anew(plan.backend, planned, host) if done and desired.backend == IPVS else planned
            subject = f"rules of IPv{part.family}"
            if part.operations:
                progress.started(subject, f"{len(part.operations)} operations")
            try:
                plan.backend.commit(part.operations, host, part.found)
            except BallastError:
                progress.failed(
                    subject, "undoing what was done" if desired.snapshot is not None else "the next run goes on"
                )
                if desired.snapshot is not None:
                    _undo(plan.backend, done, host)
                raise
            done.append(part)
        if desired.snapshot is None:
            _change_settings(plan, host)
        write_record(host, desired.backend, self._record_after(plan, record, desired, host))

    def verify(self, desired: Desired, host: Host, progress: Progress) -> list[Finding]:
        findings = [_finding(one) for one in _warnings(desired)]
        findings += [_finding(MESSAGES.error("rules-duplicate", **asdict(one))) for one in _duplicates(desired)]
        if desired.backend not in ATOMIC and self.plan(desired, self.observe(desired, host)).steps:
            error = MESSAGES.error("rules-not-held", backend=desired.backend)
            findings.append(Finding(id=error.id, subject=desired.backend, text=error.text, remedy=error.remedy))
        return findings

    def preview(self, desired: Desired) -> dict[str, object]:
        return {"duplicates": [asdict(one) for one in _duplicates(desired)]}

    def report(self, desired: Desired, host: Host) -> dict[str, object]:
        return self.preview(desired)

    def _record_after(self, plan: RulesPlan, record: Record, desired: Desired, host: Host) -> Record:
        """With the real servers that drain from now on."""
        if plan.backend is None or desired.backend != IPVS or desired.snapshot is None:
            return record
        from .ipvs.plan import drain_times, draining

        waiting = [name for part in plan.parts for name in draining(part.wanted, plan.backend.read(host, part.family))]
        since = drain_times(waiting, record.draining_since, now=host.now())
        return Record(record.original_settings, since)


ENGINE = RulesEngine()


def backend_of(desired: Desired, host: Host, record: Record) -> Backend:
    if desired.backend != IPVS:
        return backend_named(desired.backend, host, table=desired.table, priority_offset=desired.priority_offset)
    from .ipvs.plan import overdue

    excluded = {cidr for config in desired.configs.values() for cidr in config.rules.exclude_cidrs}
    late = overdue(record.draining_since, now=host.now())
    return backend_named(desired.backend, host, exclude_cidrs=sorted(excluded), overdue=late)


def _settings(desired: Desired, backend: Backend) -> Settings:
    if desired.snapshot is None:
        return ()
    found = [
        setting
        for family, config in desired.configs.items()
        for setting in backend.settings(desired.snapshot.view(family), config.rules)
    ]
    return tuple(dict.fromkeys(found))


def _seen_anew(backend: Backend, part: Part, host: Host) -> Part:
    """The families of ipvs share one link, which is there, or free to go, when the first of them is done."""
    found = backend.left(host, part.family) if part.wanted is None else backend.read(host, part.family)
    return Part(part.family, found, part.wanted, tuple(backend.plan(part.wanted, found)))


def _change_settings(plan: RulesPlan, host: Host) -> None:
    for change in plan.settings:
        change_setting(host, change)


def _undo(backend: Backend, done: Sequence[Part], host: Host) -> None:
    for part in reversed(done):
        now = backend.read(host, part.family)
        backend.commit(backend.plan(backend.own(part.found), now), host, now)


def _merged(old: Record, new: Record) -> Record:
    """What a killed run could not know to be over stays until this one has ended."""
    return Record({**new.original_settings, **old.original_settings}, old.draining_since)


def _shown(backend: Optional[Backend], rules: Any) -> str:
    return "" if backend is None or rules is None else backend.shown(rules)


def _finding(error: BallastError) -> Finding:
    return Finding(id=error.id, subject="snapshot", text=error.text, remedy=error.remedy, blocking=False)


def _warnings(desired: Desired) -> list[BallastError]:
    """Of the families that the snapshot has Services in, each once."""
    found = {}
    for family, config in desired.configs.items():
        if desired.snapshot is not None and desired.snapshot.view(family).services:
            found.update({warning.text: warning for warning in config.warnings})
    return list(found.values())


def _duplicates(desired: Desired) -> list[Duplicate]:
    if desired.snapshot is None:
        return []
    return [one for family in FAMILIES for one in desired.snapshot.view(family).duplicates]


def _hns(params: Mapping[str, Any]) -> Optional[HnsState]:
    if params["backend"] != WINKERNEL and not params["hns"]:
        return None
    from .hns import parse_hns

    return parse_hns(params["hns"])


def _policies(desired: Desired) -> tuple[HnsOperation, ...]:
    from .winkernel import HnsRules, compile_rules, plan

    if desired.hns is None:
        return ()
    found: list[HnsOperation] = []
    for family in FAMILIES:
        wanted = HnsRules(desired.hns.network.id)
        if desired.snapshot is not None:
            config = desired.configs[family]
            wanted = compile_rules(desired.snapshot.view(family), config.winkernel, desired.hns.network)
        found.extend(plan(wanted, desired.hns.rules[family]))
    return tuple(found)


def _policy(operation: HnsOperation) -> dict[str, Any]:
    return {"operation": operation.kind, "target": operation.target, "value": operation.value.as_hns()}
