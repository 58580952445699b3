# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Arguments and feature gates of the user's, beside those of the control plane."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.processes.components import (
    checked_flags,
    command_flags,
    services,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.programs import (
    Program,
    find_missing_features,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.unit.control_plane.given import BIN_DIR, Machine, desired


def arguments(**rows: dict[str, Any]) -> dict[str, Any]:
    return {"api_server": None, "controller_manager": None, "scheduler": None, **rows}


def ids(**changes: Any) -> list[str]:
    with pytest.raises(BallastError) as refused:
        command_flags(desired(**changes))
    error = refused.value
    return [problem.id for problem in (error.problems if isinstance(error, Problems) else [error])]


def test_each_program_gets_its_own_and_gates_go_to_all() -> None:
    given = arguments(
        api_server={"event-ttl": "3h", "goaway-chance": 0.001},
        scheduler={"v": 4},
        controller_manager={"concurrent-gc-syncs": 5},
    )
    request = desired(arguments=given, feature_gates={"B": False, "A": True})
    commands = {service.name: service.argv for service in services(request)}
    assert {"--event-ttl=3h", "--goaway-chance=0.001"} < set(commands["ballast-lab-kube-apiserver"])
    assert "--v=4" in commands["ballast-lab-kube-scheduler"]
    gates = "--feature-gates=A=true,B=false"
    assert {name: gates in argv for name, argv in commands.items()} == {
        "ballast-lab-etcd": False,
        "ballast-lab-kube-apiserver": True,
        "ballast-lab-kube-controller-manager": True,
        "ballast-lab-kube-scheduler": True,
    }


@pytest.mark.parametrize("profile", ["generic", "minimal", "hyper-mini"])
def test_the_api_server_of_every_profile_takes_them(profile: str) -> None:
    request = desired(profile=profile, arguments=arguments(api_server={"event-ttl": "3h"}))
    assert [flag.value for flags in command_flags(request).values() for flag in flags if flag.name == "event-ttl"] == [
        "3h"
    ]


@pytest.mark.parametrize(
    ("changes", "id"),
    [
        ({"arguments": arguments(api_server={"--event-ttl": "3h"})}, "plane-argument-name"),
        ({"arguments": arguments(api_server={"event ttl": "3h"})}, "plane-argument-name"),
        ({"arguments": arguments(api_server={"event-ttl": ["3h"]})}, "plane-argument-value"),
        ({"arguments": arguments(api_server={"event-ttl": "3h\n--x"})}, "plane-argument-value"),
        ({"arguments": arguments(api_server={"event-ttl": None})}, "plane-argument-value"),
        ({"arguments": arguments(scheduler={"feature-gates": "A=true"})}, "plane-argument-gates"),
        ({"feature_gates": {"A": "yes"}}, "plane-gate"),
        ({"feature_gates": {"a=true,b": True}}, "plane-gate"),
        ({"arguments": arguments(api_server={"secure-port": 1})}, "plane-argument-own"),
        ({"arguments": arguments(api_server={"service-cluster-ip-range": "10.0.0.0/16"})}, "plane-argument-own"),
        ({"profile": "generic", "arguments": arguments(scheduler={"v": 1})}, "plane-argument-program"),
    ],
)
def test_what_cannot_be_given_is_refused(changes: dict[str, Any], id: str) -> None:
    assert ids(**changes) == [id]


def test_a_refusal_says_why_the_argument_is_there() -> None:
    with pytest.raises(BallastError, match="a kubelet may see and change what is its own"):
        command_flags(desired(arguments=arguments(api_server={"authorization-mode": "AlwaysAllow"})))


def test_what_a_program_lacks_is_found_before_it_starts() -> None:
    request = desired(arguments=arguments(scheduler={"no-such-argument": 1}), feature_gates={"NoSuchGate": True})
    program = Program(frozenset({"feature-gates"}), frozenset(), frozenset(), frozenset({"AllAlpha"}))
    missing = find_missing_features(checked_flags(request), "1.37.1", {"kube-scheduler": program})
    texts = [error.text for error in missing]
    assert any("--no-such-argument" in text for text in texts)
    # --help has no stable gates, which can be given nevertheless: the program itself is asked.
    assert not any("NoSuchGate" in text for text in texts)


def test_what_a_program_does_not_take_is_found_before_it_is_stopped() -> None:
    machine = Machine()
    machine.run()
    gate, level = "--feature-gates=NoSuchGate=true", "--v=many"
    refusal = Completed(
        (), 1, "", 'E1129 10:00:00.0 run.go:72] "command failed" err="unrecognized feature gate: NoSuchGate"\n'
    )
    usage = Completed(
        (), 1, "", 'Error: invalid argument "many" for "-v, --v" flag\nUsage:\n  kube-scheduler [flags]\n'
    )
    for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        machine.host.on(f"{BIN_DIR}/{program}", gate, "--version", answer=refusal, reads=True)
    machine.host.on(f"{BIN_DIR}/kube-scheduler", level, gate, "--version", answer=usage, reads=True)
    done = len(machine.host.effects)
    with pytest.raises(Problems) as caught:
        machine.run(arguments=arguments(scheduler={"v": "many"}), feature_gates={"NoSuchGate": True})
    assert machine.host.effects[done:] == []
    found = {error.text.split(" ")[0]: error.found for error in caught.value.problems}
    assert {error.id for error in caught.value.problems} == {"plane-argument-refused"}
    assert found["kube-apiserver"].endswith('err="unrecognized feature gate: NoSuchGate"')
    assert found["kube-scheduler"] == 'Error: invalid argument "many" for "-v, --v" flag'


def test_a_stable_gate_that_help_does_not_list_can_be_given() -> None:
    machine = Machine()
    machine.run(feature_gates={"InPlacePodVerticalScaling": True})
    assert machine.run(feature_gates={"InPlacePodVerticalScaling": True}) == []
