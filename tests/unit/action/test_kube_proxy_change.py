# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action makes the calls of the course: what it hands on, and what it makes of a connection that fails."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Optional

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.ballast.kube.plugins.action.kube_proxy_change import ActionModule
from ansible_collections.ballast.kube.plugins.plugin_utils import kube_proxy_change as course
from tests.bench.rollout_node import ConnectionLost, Faults, SimulatedNode


class TaskTimeout(BaseException):
    """As Ansible's own: no Exception."""


class Connection:
    transport = "ssh"

    def __init__(self, node: SimulatedNode) -> None:
        self.node = node
        self.log: list[str] = []
        self.options: dict[str, Any] = {"ssh_extra_args": "-o ServerAliveInterval=3"}
        self.raises: dict[int, BaseException] = {}
        self.sleeps: dict[int, float] = {}
        self.check_mode = False

    def get_option(self, name: str) -> Any:
        return self.options[name]

    def set_option(self, name: str, value: Any) -> None:
        self.options[name] = value

    def reset(self) -> None:
        self.log.append("reset")

    def run(self, module_name: str, module_args: dict[str, Any], task_vars: object) -> object:
        number = sum(line != "reset" for line in self.log)
        self.log.append(f"{module_name.rpartition('.')[2]} {module_args.get('state', '')}".strip())
        if number in self.raises:
            raise self.raises[number]
        time.sleep(self.sleeps.get(number, 0.0))
        try:
            module = module_name.removeprefix("ballast.kube.")
            return self.node.run(module, module_args, begun=1.0, now=2.0, check=self.check_mode)
        except ConnectionLost as error:
            raise AnsibleConnectionFailure(str(error)) from error


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Connection:
    found = Connection(SimulatedNode("n1"))
    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda self, tmp=None, task_vars=None: {})
    monkeypatch.setattr(ActionModule, "_execute_module", lambda self, **given: found.run(**given))
    monkeypatch.setattr(course, "_PAUSE_SECONDS", 0.0)
    return found


def action_of(connection: Connection, options: Optional[dict[str, Any]] = None, *, check: bool = False) -> ActionModule:
    action = ActionModule.__new__(ActionModule)
    connection.check_mode = check
    action._task = SimpleNamespace(args=options or {"mode": "nftables"}, check_mode=check, async_val=0)
    action._connection = connection
    return action


def run(connection: Connection, **options: Any) -> dict[str, Any]:
    check = options.pop("check", False)
    found: dict[str, Any] = action_of(connection, options or None, check=check).run(task_vars={})
    return found


CALLS = ["reset", "kube_proxy_info", "kube_proxy present", "reset", "kube_proxy confirmed", "kube_proxy_info"]


def test_one_task_changes_reconnects_confirms_and_judges(connection: Connection) -> None:
    before = time.time()
    result = run(connection)
    assert connection.log == CALLS
    assert "failed" not in result
    assert abs(result.pop("began") - before) < 30
    assert 0 <= result.pop("seconds") < 30
    assert result == {
        "changed": True,
        "mode": "nftables",
        "previous_mode": "iptables",
        "node_name": "n1",
        "outcome": "confirmed",
        "reasons": [],
        "confirmed": True,
        "in_order": True,
        "differences": [],
        "steps": [
            {"kind": "kube-proxy", "verb": "change", "title": "kube-proxy in mode nftables", "target": "config.conf"}
        ],
        "findings": [],
    }


def test_a_machine_that_is_gone_is_noticed_and_the_users_own_setting_counts(connection: Connection) -> None:
    run(connection)
    assert connection.options["ssh_extra_args"].startswith("-o ServerAliveInterval=3 -o ServerAliveInterval=15")
    connection.transport, connection.options, connection.log = "local", {}, []
    run(connection)
    assert connection.log[0] == "kube_proxy_info"


def test_check_mode_changes_nothing(connection: Connection) -> None:
    result = run(connection, mode="nftables", check=True)
    assert (result["changed"], result["outcome"], result["mode"], connection.node.mode) == (
        True,
        "unchanged",
        "iptables",
        "iptables",
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mode": "winkernel"}, "value of mode must be one of"),
        ({"state": "present"}, "mode"),
        ({"mode": "ipvs", "state": "confirmed"}, "value of state"),
        ({"mode": "ipvs", "confirm_within": 0}, "confirm_within: 0 is not at least 1"),
        ({"mode": "ipvs", "moed": 1}, "moed"),
    ],
)
def test_options_are_refused_before_any_call(connection: Connection, options: dict[str, Any], text: str) -> None:
    result = run(connection, **options)
    assert (result["failed"], result["id"], connection.log) == (True, "migrate-change-option", [])
    assert text in result["msg"]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(
    "error", [AnsibleConnectionFailure("broken pipe"), OSError("no ssh"), RuntimeError("?")], ids=repr
)
def test_whatever_a_connection_raises_is_an_answer(connection: Connection, error: BaseException, number: int) -> None:
    connection.raises = {number: error}
    result = run(connection)
    assert result["outcome"] in ("confirmed", "went_back")
    assert result["mode"] == connection.node.mode
    assert not connection.node.is_armed


@pytest.mark.parametrize("number", range(4))
def test_the_timeout_of_the_task_ends_it_with_a_result(connection: Connection, number: int) -> None:
    connection.raises = {number: TaskTimeout("Timed out after 5 second(s).")}
    result = run(connection)
    assert (result["failed"], result["outcome"]) == (True, "failed")
    assert "Timed out after 5" in result["msg"]


def test_an_interrupt_is_no_answer(connection: Connection) -> None:
    connection.raises = {1: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        run(connection)


@pytest.fixture
def free_timer() -> Iterator[None]:
    """The process's timer, which the limit of a test may have."""
    seconds, handler = signal.setitimer(signal.ITIMER_REAL, 0), signal.signal(signal.SIGALRM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, *seconds)


@pytest.mark.usefixtures("free_timer")
def test_a_call_that_never_ends_is_ended(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    connection.sleeps = {1: 30.0}
    monkeypatch.setattr(course, "_MARGIN_SECONDS", 0.2)
    result = run(connection, mode="nftables", drain_seconds=0, verify_seconds=1)
    assert "no answer within" in result["reasons"][0]
    assert (result["outcome"], signal.getsignal(signal.SIGALRM)) == ("went_back", signal.SIG_DFL)


def test_a_failed_node_says_what_why_and_what_to_do(connection: Connection) -> None:
    connection.node = replace(connection.node, faults=Faults(bad_audits=9))
    result = run(connection)
    assert (result["failed"], result["id"], result["outcome"]) == (True, "migrate-judgement", "went_back")
    assert "no endpoint is reached" in result["msg"]
    assert "do:    read kube-proxy's log" in result["msg"]


def test_what_ansible_found_of_the_node_is_handed_on(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"discovered_interpreter_python": "/usr/bin/python3"}
    inner = connection.run
    monkeypatch.setattr(connection, "run", lambda **given: {**inner(**given), "ansible_facts": facts})  # type: ignore[dict-item]
    assert run(connection)["ansible_facts"] == facts


def test_a_node_that_cannot_be_tidied_keeps_its_result(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_self: object, force: bool = False) -> None:
        raise AnsibleConnectionFailure("gone")

    monkeypatch.setattr("ansible.plugins.action.ActionBase.cleanup", fail)
    action_of(connection).cleanup()
