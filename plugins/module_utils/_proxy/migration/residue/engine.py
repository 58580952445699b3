# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What modes of kube-proxy that are not in use have left on a node, and its removal.

Upstream leaves much of it (reference of kube-proxy 2.4). What becomes of each thing is decided where it is looked at, each with its
reason:

    rules of iptables, tables of nftables   leftovers.py, rules.py
    virtual servers, the link, sets         addresses.py
    counters, modules                       other.py
    kernel settings                         settings.py
    UDP connections                         connections.py

Order: jumps of every variant and family, so that no packet meets what is half removed; chains; virtual servers; the link; sets,
which no rule uses any more; tables; counters; settings; connections. What went stays gone when a later part fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from ...._core.collector import collection_paused
from ...._core.engine import Finding
from ...._core.errors import BallastError, CommandFailed, Problems
from ...._core.events import Progress
from ...._core.host import Host, LocalHost
from ...._core.ledger import ledger_path
from ...backends import Tracer
from ...iptables import restore
from ...ipvs import apply as ipvs
from ...ipvs.plan import IPSET
from ...ipvs.plan import Operation as BatchOperation
from ...leftovers import Leftovers, leftovers
from ...nftables import transaction
from ...record import SettingChange, change_setting
from ..health import MODES, read_mode
from . import other, settings
from .addresses import foreign_servers, left_of_ipvs, users_of_sets
from .artefact import REMOVED, Artefact, DeleteCounter, Forget, Found, ResiduePlan, Stage
from .connections import forget_command, left_in_conntrack
from .messages import MESSAGES
from .rules import BRIDGE, left_in_iptables, left_in_nftables
from .state import State, carried, observe

METRICS = "127.0.0.1:10249"
MIGRATION_DIR = "/var/lib/ballast/kube-proxy"
SPEC: dict[str, Any] = {
    "mode": {"type": "str", "choices": list(MODES)},
    "metrics_address": {"type": "str", "default": METRICS},
    "migration_dir": {"type": "path", "default": MIGRATION_DIR},
}
_SECONDS = 60
_ATTEMPTS = 50


@dataclass(frozen=True)
class Desired:
    mode: str = ""  # "": the one that kube-proxy says
    metrics_address: str = METRICS
    bridge_in_use: bool = False  # whether a change of the mode is at work
    originals: Mapping[str, str] = field(default_factory=dict)  # settings before kube-proxy, where a record has them

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Desired:
        problems: list[BallastError] = []
        host, _colon, port = params["metrics_address"].rpartition(":")
        if (
            not host
            or set(host) & set("/@?# ")
            or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536)
        ):
            problems.append(MESSAGES.error("residue-address", value=params["metrics_address"]))
        Problems.raise_if(problems)
        in_use = is_bridge_in_use(LocalHost(), params["migration_dir"])
        return cls(params["mode"] or "", params["metrics_address"], in_use)


def is_bridge_in_use(host: Host, state_dir: str) -> bool:
    """Whether the journal of a change of the mode names the bridge."""
    return BRIDGE.encode() in (host.read(ledger_path(state_dir)) or b"")


def read_residue(
    host: Host, mode: str, bridge_in_use: bool, *, originals: Mapping[str, str] = settings.NO_RECORD
) -> list[Artefact]:
    """What is left over beside `mode`, and what a clean-up would make of each."""
    desired = Desired(mode, bridge_in_use=bridge_in_use, originals=originals)
    return list(ENGINE.plan(desired, observe(host, mode, originals=originals)).artefacts)


class ResidueEngine:
    """See _core/engine.py for what each function is."""

    planning = "plan"

    def observe(self, desired: Desired, host: Host) -> State:
        return observe(host, _mode(desired, host), originals=desired.originals)

    def plan(self, desired: Desired, state: State) -> ResiduePlan:
        with collection_paused():
            parts = _parts(state, bridge_in_use=desired.bridge_in_use)
            artefacts = [one for part in parts for one in part.artefacts]
            stages = [one for part in parts for one in part.stages]
            return ResiduePlan(state.mode, (*artefacts, *state.reading.unseen), tuple(stages), carried(state))

    def told(self, plan: ResiduePlan) -> dict[str, object]:
        return {"mode": plan.mode, "artefacts": [asdict(one) for one in plan.artefacts]}

    def difference(self, plan: ResiduePlan) -> list[dict[str, str]]:
        changes = [one for stage in plan.stages for one in stage.operations if isinstance(one, SettingChange)]
        gone = [one.line for one in plan.artefacts if one.fate == REMOVED and one.kind != "setting"]
        rows = [("left over", "".join(gone), "")] if gone else []
        rows += [(f"setting {one.target}", f"{one.before}\n", f"{one.after}\n") for one in changes]
        return [
            {"before_header": title, "after_header": title, "before": before, "after": after}
            for title, before, after in rows
        ]

    def require(self, desired: Desired, host: Host) -> None:
        """What it needs is in the plan, which knows the rules in use: see apply."""

    def apply(self, plan: ResiduePlan, desired: Desired, host: Host, progress: Progress) -> None:
        if plan.stages and not plan.carried:
            raise MESSAGES.error("residue-nothing-in-use", mode=plan.mode)
        for number, stage in enumerate(plan.stages, start=1):
            progress.started(stage.title, f"{len(stage.operations)} operations")
            try:
                _do(stage, host)
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

    def verify(self, desired: Desired, host: Host, progress: Progress) -> list[Finding]:
        found = []
        for one in self.plan(desired, self.observe(desired, host)).artefacts:
            if one.fate == REMOVED:
                error = MESSAGES.error("residue-came-back", artefact=f"{one.kind} {one.target}")
                found.append(Finding(id=error.id, subject=one.kind, text=error.text, remedy=error.remedy))
        return found

    def preview(self, desired: Desired) -> dict[str, object]:
        return {}

    def report(self, desired: Desired, host: Host) -> dict[str, object]:
        """All of it is told with the plan: what was removed is not there any more."""
        return {}


ENGINE = ResidueEngine()


def _mode(desired: Desired, host: Host) -> str:
    said = read_mode(host, {"metricsBindAddress": desired.metrics_address})
    if not desired.mode and not said:
        raise MESSAGES.error("residue-mode-unknown", address=desired.metrics_address)
    if desired.mode and said and desired.mode != said:
        raise MESSAGES.error("residue-mode-other", mode=desired.mode, said=said)
    return desired.mode or said


def _parts(state: State, *, bridge_in_use: bool) -> list[Found]:
    """In the order of removal."""
    reading, mode = state.reading, state.mode
    left = {
        key: Leftovers() if reading.undecided else leftovers(tables, mode, in_use=key[0] == reading.variant)
        for key, tables in reading.tables.items()
    }
    users = users_of_sets((reading.tables[key], one) for key, one in left.items())
    of_ipvs = left_of_ipvs(reading.ipvs, mode, users)
    counters = other.counters_left(reading.tables, state.counters, mode)
    return [
        left_in_iptables(left, mode, undecided=reading.undecided),
        of_ipvs,
        left_in_nftables(reading.nft_tables, mode, bridge_in_use=bridge_in_use),
        counters,
        other.modules_left(reading.modules, mode),
        settings.left(_known(state, has_ipvs=bool(of_ipvs.stages)), mode),
        _connections(state),
    ]


def _known(state: State, *, has_ipvs: bool) -> settings.Known:
    stay = foreign_servers(state.reading.ipvs)
    if state.reading.ipvs.unlisted:
        stay = [f"{state.reading.ipvs.unlisted} in /proc/net/ip_vs"]
    loopback = (settings.leads_to_loopback(tables) for tables in state.reading.tables.values())
    return settings.Known(
        state.values,
        state.recorded,
        state.configured,
        was_ipvs=has_ipvs or state.values.get("net.ipv4.vs.conntrack") is not None,
        servers_stay=stay[0] if stay else "",
        loopback_rule=next((one for one in loopback if one), ""),
    )


def _connections(state: State) -> Found:
    @cache
    def tracer(family: int) -> Tracer:
        rules = state.rules[family]
        if isinstance(rules, BallastError) or state.backend is None:
            raise rules
        return state.backend.tracer(rules, state.surroundings)

    return left_in_conntrack(state.connections, tracer, state.surroundings, has_tool=state.has_conntrack)


def _do(stage: Stage, host: Host) -> None:
    """All operations of a stage are of one type."""
    rules = [one for one in stage.operations if isinstance(one, restore.Operation)]
    if rules:
        restore.remove(rules, host, family=stage.family, variant=stage.variant)
    batch = [one for one in stage.operations if isinstance(one, BatchOperation)]
    if batch and batch[0].tool != IPSET:
        ipvs.run_batch(batch[0].tool, [one.line for one in batch], host)
    for destroyed in (one for one in batch if one.tool == IPSET):
        _destroy_set(destroyed.target, host)
    transaction.commit([one for one in stage.operations if isinstance(one, transaction.Operation)], host)
    for one in stage.operations:
        if isinstance(one, SettingChange):
            change_setting(host, one)
        elif isinstance(one, DeleteCounter):
            host.run(["nfacct", "delete", one.target], timeout=_SECONDS)
        elif isinstance(one, Forget):
            _forget(one, host)


def _destroy_set(name: str, host: Host) -> None:
    """nf_tables gives the matches of deleted rules up a moment after it has said that they are deleted."""
    for _attempt in range(_ATTEMPTS):
        done = host.run(["ipset", "destroy", name], timeout=_SECONDS, check=False)
        if not done.status or "in use" not in done.stderr:
            break
        host.sleep(0.1)
    if done.status:
        raise CommandFailed(done.argv, status=done.status, output=done.stderr)


def _forget(one: Forget, host: Host) -> None:
    argv = forget_command(one)
    done = host.run(argv, timeout=_SECONDS, check=False)
    if done.status and "flow entries have been deleted" not in done.stderr:  # 1 too where the last has just ended
        raise CommandFailed(argv, status=done.status, output=done.stderr)
