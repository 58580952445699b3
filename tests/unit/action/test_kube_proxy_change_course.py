# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The course of a node's change against a node in memory, whose connection fails wherever it can."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._ansible.typed import read_typed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import UserError
from ansible_collections.ballast.kube.plugins.plugin_utils.kube_proxy_change import (
    BACK,
    CHANGE,
    CONFIRM,
    JUDGE,
    LOOK,
    SPEC,
    Answer,
    Call,
    Request,
    Verdict,
    arguments,
    read_answer,
)
from tests.bench.rollout_node import (
    BREAKS,
    FINE,
    GARBAGE,
    HANGS,
    LOST_AFTER,
    LOST_BEFORE,
    LOST_DURING,
    REFUSES,
    Faults,
    SimulatedNode,
)
from tests.unit.action.course import FAR, FAULTS, WITHIN, Run, end_of


def a_run(*fates: str, **faults: Any) -> Run:
    return Run(SimulatedNode("n1", faults=Faults(fates=fates, **faults)))


def test_a_change_is_confirmed_over_a_new_connection_and_judged() -> None:
    run = a_run()
    verdict = run()
    assert (verdict.outcome, verdict.confirmed, verdict.changed, verdict.in_order) == ("confirmed", True, True, True)
    assert (verdict.mode, verdict.previous_mode, verdict.node_name) == ("nftables", "iptables", "n1")
    assert run.kinds == [LOOK, CHANGE, CONFIRM, JUDGE]
    assert [call.kind for call in run.calls if call.reconnect] == [CONFIRM]
    assert (run.confirmed_after, verdict.plan["steps"][0]["title"]) == (1.0, "kube-proxy in mode nftables")
    assert end_of(run) == ("nftables", False)


def test_a_node_that_is_so_is_unchanged() -> None:
    run = a_run()
    run.node.mode = "nftables"
    verdict = run()
    assert (verdict.outcome, verdict.changed, verdict.confirmed, verdict.reasons) == ("unchanged", False, True, [])
    assert run.kinds == [LOOK, CHANGE, JUDGE]
    assert not any(call.reconnect for call in run.calls)


def test_a_change_of_an_earlier_task_that_still_waits_is_confirmed() -> None:
    run = a_run()
    run.node.mode, run.node.previous_mode, run.node.armed_at, run.node.confirm_within = (
        "nftables",
        "iptables",
        999.0,
        60,
    )
    assert run().outcome == "confirmed"
    assert end_of(run) == ("nftables", False)


def test_check_mode_returns_the_plan_alone() -> None:
    run = a_run()
    verdict = run(check=True)
    assert (verdict.outcome, verdict.changed, verdict.mode) == ("unchanged", True, "iptables")
    assert (run.kinds, len(verdict.plan["steps"])) == ([LOOK, CHANGE], 1)
    assert end_of(run) == ("iptables", False)


def test_a_node_that_does_not_pass_is_taken_back() -> None:
    run = a_run(bad_audits=3)
    verdict = run()
    assert (verdict.outcome, verdict.mode, verdict.confirmed) == ("went_back", "iptables", False)
    assert run.kinds[-4:] == [JUDGE, JUDGE, JUDGE, BACK]
    assert "rolled back to iptables" in verdict.reasons[-1].line
    assert end_of(run) == ("iptables", False)


def test_rules_that_follow_the_services_a_moment_later_pass() -> None:
    run = a_run(bad_audits=2)
    assert run().outcome == "confirmed"


def test_a_node_that_was_unchanged_and_does_not_pass_is_left_alone() -> None:
    run = a_run(bad_audits=9)
    run.node.mode, run.node.was_changed = "nftables", True
    verdict = run()
    assert (verdict.outcome, verdict.reasons[0].id) == ("failed", "migrate-judgement")
    assert BACK not in run.kinds


@pytest.mark.parametrize(
    ("fate", "outcome", "mode"),
    [
        (LOST_BEFORE, "went_back", "iptables"),
        (LOST_DURING, "went_back", "iptables"),
        (LOST_AFTER, "confirmed", "nftables"),
        (GARBAGE, "confirmed", "nftables"),
        (HANGS, "went_back", "iptables"),
        (REFUSES, "failed", "iptables"),
        (BREAKS, "went_back", "iptables"),
    ],
)
def test_a_change_whose_answer_is_lost_is_settled(fate: str, outcome: str, mode: str) -> None:
    run = a_run(FINE, fate)
    verdict = run()
    assert (verdict.outcome, verdict.mode) == (outcome, mode)
    assert end_of(run) == (mode, False)


def test_a_node_that_is_gone_after_the_change_goes_back_and_the_result_says_when() -> None:
    run = a_run(gone=(1098.0, FAR))
    verdict = run()
    assert (verdict.outcome, verdict.confirmed) == ("failed", False)
    assert f"rolls it back, {WITHIN} seconds after the change" in verdict.reasons[-1].line
    assert "restore the connection" in verdict.reasons[-1].text
    assert end_of(run) == ("iptables", False)
    assert run.now < 1100 + WITHIN + 90


def test_a_node_that_comes_back_too_late_has_gone_back_and_the_result_says_so() -> None:
    run = a_run(gone=(1098.0, 1098 + WITHIN + 20))
    verdict = run()
    assert (verdict.outcome, verdict.mode) == ("went_back", "iptables")
    assert f"not confirmed within {WITHIN} seconds" in verdict.reasons[-1].line


def test_a_node_that_is_never_reached_is_not_changed() -> None:
    run = a_run(gone=(0.0, FAR))
    verdict = run()
    assert (verdict.outcome, run.kinds) == ("failed", [LOOK] * 3)
    assert "the module changed nothing" in verdict.reasons[-1].line


def test_a_lost_change_of_the_configuration_alone_is_not_called_done() -> None:
    run = a_run(FINE, LOST_BEFORE)
    run.node.mode = "nftables"
    verdict = run()
    assert (verdict.outcome, verdict.reasons[-1].id) == ("failed", "migrate-config-unknown")


def test_previous_is_run_again_where_its_answer_was_lost() -> None:
    run = a_run(FINE, LOST_AFTER)
    run.node.mode, run.node.previous_mode = "nftables", "iptables"
    verdict = run(state="previous")
    assert (verdict.outcome, verdict.mode, verdict.changed) == ("confirmed", "iptables", True)
    assert run.kinds == [LOOK, CHANGE, CHANGE, JUDGE]


def test_an_option_that_leaves_no_time_is_refused() -> None:
    with pytest.raises(UserError, match="confirm_within: 0"):
        a_run()(mode="nftables", confirm_within=0)


def test_modules_get_the_options_that_they_have() -> None:
    typed, _problems = read_typed(SPEC, {"mode": "ipvs"})
    options = {"mode": "ipvs", "service": "kp", "verify_seconds": 9, "state_dir": "/s", "config": {"a": 1}}
    request = Request.from_options(options, typed, check_mode=False)
    where = {"service": "kp", "state_dir": "/s", "config": {"a": 1}}
    told = {kind: arguments(Call(kind, 1.0), request) for kind in (LOOK, CHANGE, CONFIRM, JUDGE, BACK)}
    assert told == {
        LOOK: ("ballast.kube.kube_proxy_info", {**where, "audit_rules": False}),
        CHANGE: ("ballast.kube.kube_proxy", {**options, "state": "present", "confirm_within": WITHIN}),
        CONFIRM: ("ballast.kube.kube_proxy", {**where, "state": "confirmed"}),
        JUDGE: ("ballast.kube.kube_proxy_info", {**where, "audit_rules": True}),
        BACK: ("ballast.kube.kube_proxy", {**where, "verify_seconds": 9, "state": "previous"}),
    }


@pytest.mark.parametrize(
    "returned",
    [None, "text", [], {}, {"unreachable": True}, {"mode": 1, "node_name": "n", "armed": True}],
    ids=repr,
)
def test_what_is_no_result_is_a_loss(returned: object) -> None:
    answer = read_answer(Call(LOOK, 1.0), returned, at=1.0, check_mode=False)
    assert answer.loss
    assert not answer.is_result


def test_a_refusal_without_an_id_is_a_refusal_unless_the_module_ended_without_a_word() -> None:
    def refused(more: dict[str, Any]) -> Answer:
        returned = {"failed": True, "msg": "mode is missing", **more}
        return read_answer(Call(CHANGE, 1.0), returned, at=1.0, check_mode=False)

    assert refused({}).why == "mode is missing"
    assert refused({"module_stdout": "Killed\n"}).loss == "mode is missing Killed"


def check(run: Run, verdict: Verdict, before: str, wanted: str) -> None:
    """What holds of every result, whatever went wrong."""
    result = verdict.as_result(began=1.0, seconds=2.0)
    mode, armed = run.node.mode, run.node.is_armed
    assert (result.get("failed", False), bool(result["reasons"])) == (verdict.outcome in ("failed", "went_back"),) * 2
    if verdict.outcome in ("confirmed", "unchanged"):
        assert (mode, armed, verdict.confirmed, verdict.mode) == (wanted, False, True, wanted)
    if verdict.outcome == "went_back":
        assert (mode, armed, verdict.confirmed, verdict.mode) == (before, False, False, before)
    end, _armed = end_of(run)
    assert end in (before, wanted)
    if verdict.outcome == "failed":
        line = verdict.reasons[-1].line
        is_open = any(text in line for text in ("is unknown", "if it received the confirmation"))
        assert is_open or end == (verdict.mode or before), line


@given(FAULTS)
def test_no_failure_leaves_an_outcome_unsaid_or_untrue(faults: Faults) -> None:
    run = Run(SimulatedNode("n1", faults=faults))
    check(run, run(), "iptables", "nftables")
    assert len(run.calls) < 80


@given(FAULTS)
def test_nor_on_the_way_back(faults: Faults) -> None:
    run = Run(SimulatedNode("n1", "nftables", previous_mode="iptables", faults=faults))
    verdict = run(state="previous")
    assert verdict.outcome in ("confirmed", "failed", "unchanged")
    if verdict.outcome != "failed":
        assert (run.node.mode, verdict.confirmed) == ("iptables", True)
    else:
        assert verdict.reasons


@given(FAULTS, st.integers(0, 6))
def test_nor_a_timeout_of_the_task(faults: Faults, number: int) -> None:
    run = Run(SimulatedNode("n1", faults=faults))
    verdict = run(stop_at=number)
    if run.was_stopped:
        assert (verdict.outcome, "timed out" in verdict.reasons[-1].line) == ("failed", True)
    check(run, verdict, "iptables", "nftables")


@given(FAULTS)
def test_a_confirmation_never_comes_later_than_the_watchdog_allows(faults: Faults) -> None:
    run = Run(SimulatedNode("n1", faults=faults))
    if run().outcome == "confirmed" and run.confirmed_after is not None and FINE in faults.fates[1:2]:
        assert run.confirmed_after <= WITHIN + 90
