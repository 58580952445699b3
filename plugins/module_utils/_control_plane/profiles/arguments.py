# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Arguments and feature gates that the user gives to programs of the control plane. Pure.

An argument that the control plane sets itself is refused with its reason. The preflight finds arguments that a program lacks,
by the output of its --help.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._core.text.errors import BallastError, Problems
from .options_messages import MESSAGES
from .profile_options import GIVEN_GATES
from .profiles import API_SERVER, CONTROLLER_MANAGER, GENERIC_API_SERVER, HYPER_MINI, SCHEDULER, Flag

# The programs that a suboption is for: a control plane has at most one of them.
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "api_server": (API_SERVER, GENERIC_API_SERVER, HYPER_MINI),
    "controller_manager": (CONTROLLER_MANAGER,),
    "scheduler": (SCHEDULER,),
}
GATES = "feature-gates"
ARGUMENTS = "arguments."  # begins the path of an argument in messages of the module
_NAME = re.compile(r"[a-z][a-z0-9-]*", re.ASCII)
_GATE = re.compile(r"[A-Z][A-Za-z0-9]*", re.ASCII)


@dataclass(frozen=True)
class Arguments:
    rows: tuple[tuple[str, str, str], ...] = ()  # suboption, name without dashes, value
    gates: tuple[tuple[str, bool], ...] = ()


def parse_arguments(params: Mapping[str, Any]) -> Arguments:
    """Requires that `find_argument_problems` has found none."""
    arguments = params["arguments"] or {}
    rows = [
        (option, name, _text(value))
        for option in PROGRAMS
        for name, value in sorted((arguments.get(option) or {}).items())
    ]
    return Arguments(tuple(rows), tuple(sorted((params["feature_gates"] or {}).items())))


def find_argument_problems(
    arguments: Mapping[str, Any], gates: Mapping[str, Any], *, prefix: str = ARGUMENTS
) -> list[BallastError]:
    """Names and values of the wrong form. `prefix` begins each path in messages."""
    problems = []
    for option in PROGRAMS:
        for name, value in sorted((arguments.get(option) or {}).items()):
            where = f"{prefix}{option}.{name}"
            if not _NAME.fullmatch(name):
                problems.append(MESSAGES.error("plane-argument-name", option=where, name=name))
            elif name == GATES:
                problems.append(MESSAGES.error("plane-argument-gates", option=where))
            elif not isinstance(value, (str, int, float)) or not _text(value).isprintable():
                problems.append(MESSAGES.error("plane-argument-value", option=where, value=value))
    for gate, value in sorted(gates.items()):
        if not _GATE.fullmatch(gate) or not isinstance(value, bool):
            problems.append(MESSAGES.error("plane-gate", option=f"feature_gates.{gate}", value=value))
    return problems


def given_flags(
    arguments: Arguments, own: Mapping[str, Sequence[Flag]], *, prefix: str = ARGUMENTS
) -> dict[str, tuple[Flag, ...]]:
    """By process. `own` are the flags that each has anyway. Raises Problems for what is given to a program that the control plane
    does not have, or set by it. `prefix` is that of the path in messages."""
    problems: list[BallastError] = []
    given: dict[str, list[Flag]] = {process: [] for process in own}
    for option, name, value in arguments.rows:
        process = next((program for program in PROGRAMS[option] if program in own), "")
        where = f"{prefix}{option}.{name}"
        taken = next((flag for flag in own.get(process, ()) if flag.name == name), None)
        if not process:
            problems.append(MESSAGES.error("plane-argument-program", option=where, programs=", ".join(own)))
        elif taken is not None:
            problems.append(MESSAGES.error("plane-argument-own", option=where, process=process, why=taken.why))
        else:
            given[process].append(Flag(name, value, f"arguments.{option}"))
    gates = ",".join(f"{gate}={_text(value)}" for gate, value in arguments.gates)
    for process in sum(PROGRAMS.values(), ()) if gates else ():
        if process in own:
            given[process].append(Flag(GATES, gates, GIVEN_GATES))
    Problems.raise_if(problems)
    return {process: tuple(flags) for process, flags in given.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
