# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removes what kube-proxy's modes that are not in use have left on a node.

kube-proxy leaves much of it (cleanup.go of its modes). These files decide, with a reason, what is removed:

    iptables rules, nftables tables         _audit/stale_chains.py, rules.py
    virtual servers, the link, sets         addresses.py
    counters, modules                       other.py
    kernel settings                         settings.py
    UDP connections                         connections.py

Order: first the jumps of every variant and family, so that no packet meets half-removed rules; chains; virtual servers; the
link; sets, once no rule uses them; tables; counters; settings; connections. A failure does not undo earlier parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from ..._audit.stale_chains import StaleChains, find_stale_chains
from ..._audit.stale_connections import forget_command
from ..._audit.tracing.packet_path import Tracer
from ..._core.engine.context import Context
from ..._core.engine.engine import BaseEngine, Finding
from ..._core.engine.former_names import formerly
from ..._core.engine.journal import journal_path
from ..._core.engine.wait import wait_until
from ..._core.host.gc_pause import pause_collection
from ..._core.host.host import Host
from ..._core.text.errors import BallastError, CommandFailed, Problems
from ..._rules.backend import TAKEOVER_TABLE
from ..._rules.iptables import restore
from ..._rules.ipvs import apply as ipvs
from ..._rules.ipvs.objects import VirtualServer
from ..._rules.ipvs.plan import IPSET
from ..._rules.ipvs.plan import Operation as BatchOperation
from ..._rules.nftables import transaction
from ..._rules.node_rules import rules_of_one
from ..._rules.packet import UNKNOWN, Answer, Packet
from ..._rules.record import SettingChange, change_setting
from ..drain_record import read_draining, write_draining
from ..health import read_mode
from ..hold import is_held
from ..modes import BALLAST, MODES
from ..own_proxy import read_held
from . import other, settings
from .addresses import foreign_servers, left_of_ipvs, plan_connections, staying_servers, users_of_sets
from .artefact import REMOVED, Artefact, CleanupPart, CleanupPlan, DeleteCounter, Forget, Stage
from .connections import left_in_conntrack
from .messages import MESSAGES
from .rules import left_in_iptables, left_in_nftables
from .state import CleanupState, is_carried, observe

METRICS = "127.0.0.1:10249"
MIGRATION_DIR = "/var/lib/ballast/kube-proxy"
SPEC: dict[str, Any] = {
    "mode": {"type": "str", "choices": list(MODES)},
    "metrics_address": {"type": "str", "default": METRICS},
    "state_dir": {
        "type": "path",
        "default": MIGRATION_DIR,
        **formerly("migration_dir"),
    },
    "cut_connections": {"type": "bool", "default": False},
}
_SECONDS = 60
_ATTEMPTS = 50
_STARTING_SECONDS = 30
_OF_DRAINING = ("virtual server", "address", "link", "setting")


@dataclass(frozen=True)
class CleanupRequest:
    mode: str = ""  # "": as reported by kube-proxy
    metrics_address: str = METRICS
    change_under_way: bool = False  # whether a change of the mode is running
    cut_connections: bool = False  # remove virtual servers with open connections even before their deadline
    originals: Mapping[str, str] = field(default_factory=dict)  # settings from before kube-proxy, if recorded
    is_ours: bool = False  # whether our service proxy replaces kube-proxy

    @classmethod
    def from_params(cls, params: Mapping[str, Any], host: Host) -> CleanupRequest:
        """Reads below `state_dir` whether a change of mode is running and whether our service proxy is in place of
        kube-proxy."""
        problems: list[BallastError] = []
        address, _colon, port = params["metrics_address"].rpartition(":")
        if (
            not address
            or set(address) & set("/@?# ")
            or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536)
        ):
            problems.append(MESSAGES.error("residue-address", value=params["metrics_address"]))
        Problems.raise_if(problems)
        in_use = is_change_under_way(host, params["state_dir"])
        held = read_held(host, params["state_dir"])
        return cls(
            mode=params["mode"] or "",
            metrics_address=params["metrics_address"],
            change_under_way=in_use,
            cut_connections=params["cut_connections"],
            is_ours=held is not None and is_held(host, held.service),
        )


def is_change_under_way(host: Host, state_dir: str) -> bool:
    """Whether the journal of a change of mode mentions the takeover table."""
    return TAKEOVER_TABLE.encode() in (host.read(journal_path(state_dir)) or b"")


def read_stale_rules(host: Host, mode: str, change_under_way: bool) -> list[Artefact]:
    """What other modes than `mode` have left, and what a clean-up would do with it."""
    desired = CleanupRequest(mode, change_under_way=change_under_way)
    return list(ENGINE.plan(desired, observe(host, mode, originals={})).artefacts)


class CleanupEngine(BaseEngine[CleanupRequest, CleanupState, CleanupPlan]):
    def observe(self, ctx: Context[CleanupRequest]) -> CleanupState:
        return observe(ctx.host, _mode(ctx.desired, ctx.host), originals=ctx.desired.originals)

    def plan(self, desired: CleanupRequest, state: CleanupState) -> CleanupPlan:
        with pause_collection():
            staying = _staying(desired, state)
            parts = _parts(state, staying, change_under_way=desired.change_under_way)
            artefacts = [artefact for part in parts for artefact in part.artefacts]
            stages = [stage for part in parts for stage in part.stages]
            artefacts += state.reading.unseen
            connections = plan_connections(state.reading.ipvs, staying)
            return CleanupPlan(state.mode, tuple(artefacts), tuple(stages), is_carried(state), connections)

    def as_result(self, plan: CleanupPlan) -> dict[str, object]:
        connections = plan.connections
        return {
            "mode": plan.mode,
            "artefacts": [asdict(artefact) for artefact in plan.artefacts],
            "connections": {"cut": connections.cut, "kept": connections.kept, "until": connections.until},
        }

    def diff(self, plan: CleanupPlan) -> list[dict[str, str]]:
        changes = [
            operation for stage in plan.stages for operation in stage.operations if isinstance(operation, SettingChange)
        ]
        gone = [artefact.line for artefact in plan.artefacts if artefact.fate == REMOVED and artefact.kind != "setting"]
        rows = [("left over", "".join(gone), "")] if gone else []
        rows += [(f"setting {change.target}", f"{change.before}\n", f"{change.after}\n") for change in changes]
        return [
            {"before_header": title, "after_header": title, "before": before, "after": after}
            for title, before, after in rows
        ]

    def apply(self, plan: CleanupPlan, ctx: Context[CleanupRequest]) -> CleanupPlan:
        progress = ctx.progress
        if plan.stages and not plan.carried:
            raise MESSAGES.error("residue-nothing-in-use", mode=plan.mode)
        for number, stage in enumerate(plan.stages, start=1):
            progress.started(stage.title, f"{len(stage.operations)} operations")
            try:
                _do(stage, ctx.host)
            except BallastError as error:
                progress.failed(stage.title, error.text)
                raise MESSAGES.error(
                    "residue-stopped",
                    stage=stage.title,
                    number=number,
                    count=len(plan.stages),
                    problem=error.text,
                    found=error.found,
                ) from error
            progress.done(stage.title)
        if plan.stages or plan.connections.record is None:
            write_draining(ctx.host, plan.connections.record)
        return plan

    def verify(self, ctx: Context[CleanupRequest]) -> list[Finding]:
        findings = []
        draining = read_draining(ctx.host) is not None
        for artefact in self.plan(ctx.desired, self.observe(ctx)).artefacts:
            ended = draining and artefact.kind in _OF_DRAINING  # its last connection has ended meanwhile
            if artefact.fate == REMOVED and not ended:
                error = MESSAGES.error("residue-came-back", artefact=f"{artefact.kind} {artefact.target}")
                findings.append(Finding(id=error.id, subject=artefact.kind, text=error.text, remedy=error.remedy))
        return findings


ENGINE = CleanupEngine()


def _mode(desired: CleanupRequest, host: Host) -> str:
    config = {"metricsBindAddress": desired.metrics_address}
    # A kube-proxy that has just been started, as at the end of a migration, gets some time to respond.
    seconds = 0 if desired.mode else _STARTING_SECONDS
    reported = wait_until(host, lambda: read_mode(host, config), seconds=seconds, interval=0.5)
    # Our proxy reports nftables, because its rules are.
    reported = BALLAST if reported and desired.is_ours else reported
    if not desired.mode and not reported:
        raise MESSAGES.error("residue-mode-unknown", address=desired.metrics_address)
    if desired.mode and reported and desired.mode != reported:
        raise MESSAGES.error("residue-mode-other", mode=desired.mode, said=reported)
    return desired.mode or reported


def _staying(desired: CleanupRequest, state: CleanupState) -> tuple[VirtualServer, ...]:
    """The virtual servers that are kept for their connections."""
    reading = state.reading.ipvs
    over = reading.draining is not None and reading.draining.is_over(reading.now)
    return staying_servers(reading, cut=desired.cut_connections or over)


def _parts(state: CleanupState, staying: tuple[VirtualServer, ...], *, change_under_way: bool) -> list[CleanupPart]:
    """The parts of the plan, in order of removal."""
    reading, mode = state.reading, state.mode
    left = {
        key: StaleChains() if reading.undecided else find_stale_chains(tables, mode, in_use=key[0] == reading.variant)
        for key, tables in reading.tables.items()
    }
    users = users_of_sets((reading.tables[key], stale) for key, stale in left.items())
    of_ipvs = left_of_ipvs(reading.ipvs, mode, users, staying)
    counters = other.counters_left(reading.tables, state.counters, mode)
    return [
        left_in_iptables(left, mode, undecided=reading.undecided),
        of_ipvs,
        left_in_nftables(reading.nft_tables, mode, change_under_way=change_under_way),
        counters,
        other.modules_left(reading.modules, mode),
        settings.plan_settings(_known_settings(state, staying, has_ipvs=bool(of_ipvs.stages)), mode),
        _connections(state),
    ]


def _known_settings(state: CleanupState, staying: tuple[VirtualServer, ...], *, has_ipvs: bool) -> settings.Known:
    stay = [*foreign_servers(state.reading.ipvs), *(server.text for server in staying)]
    if state.reading.ipvs.unlisted:
        stay = [f"{state.reading.ipvs.unlisted} in /proc/net/ip_vs"]
    loopback = (settings.leads_to_loopback(tables) for tables in state.reading.tables.values())
    return settings.Known(
        state.values,
        state.recorded,
        state.configured,
        was_ipvs=has_ipvs or state.values.get("net.ipv4.vs.conntrack") is not None,
        servers_stay=stay[0] if stay else "",
        loopback_rule=next((rule for rule in loopback if rule), ""),
    )


def _connections(state: CleanupState) -> CleanupPart:
    @cache
    def tracer(family: int) -> Tracer:
        return Tracer(rules_of_one(state.rules[family], variant=restore.NFT), state.surroundings)

    def trace(packet: Packet) -> Answer:
        rules = state.rules[packet.family]
        if isinstance(rules, BallastError):
            return Answer(UNKNOWN, problem=rules)
        return tracer(packet.family).answer(packet)

    return left_in_conntrack(state.connections, trace, state.former, state.surroundings, has_tool=state.has_conntrack)


def _do(stage: Stage, host: Host) -> None:
    """Execute a stage. All its operations have one type."""
    rules = [operation for operation in stage.operations if isinstance(operation, restore.Operation)]
    if rules:
        restore.remove(rules, host, family=stage.family, variant=stage.variant)
    batch = [operation for operation in stage.operations if isinstance(operation, BatchOperation)]
    if batch and batch[0].tool != IPSET:
        ipvs.run_batch(batch[0].tool, [operation.line for operation in batch], host)
    for destroyed in (operation for operation in batch if operation.tool == IPSET):
        _destroy_set(destroyed.target, host)
    transaction.commit(
        [operation for operation in stage.operations if isinstance(operation, transaction.Operation)], host
    )
    for operation in stage.operations:
        if isinstance(operation, SettingChange):
            change_setting(host, operation)
        elif isinstance(operation, DeleteCounter):
            host.run(["nfacct", "delete", operation.target], timeout=_SECONDS)
        elif isinstance(operation, Forget):
            _forget(operation, host)


def _destroy_set(name: str, host: Host) -> None:
    """Destroy an ipset, retrying while it is in use: nf_tables releases the matches of deleted rules a moment later."""
    for _attempt in range(_ATTEMPTS):
        done = host.run(["ipset", "destroy", name], timeout=_SECONDS, check=False)
        if not done.status or "in use" not in done.stderr:
            break
        host.sleep(0.1)
    if done.status:
        raise CommandFailed(done.argv, status=done.status, output=done.stderr)


def _forget(operation: Forget, host: Host) -> None:
    argv = forget_command(operation.connections)
    done = host.run(argv, timeout=_SECONDS, check=False)
    if (
        done.status and "flow entries have been deleted" not in done.stderr
    ):  # status 1 also if the last one has just ended
        raise CommandFailed(argv, status=done.status, output=done.stderr)
