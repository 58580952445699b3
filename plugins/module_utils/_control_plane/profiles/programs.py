# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The features of a binary, read from its --help, and which flags of a composition it lacks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..._core.text.errors import BallastError
from .messages import MESSAGES
from .profile_options import GIVEN_GATES, Flag

_LONGEST = 1 << 20  # characters; the longest --help of 1.37 has 68,000
_OPTION = re.compile(r"^ +(?:-\w, )?--([a-z0-9][-a-z0-9]*)(?: |$)", re.ASCII | re.MULTILINE)
# Each list is one line in the description of an option.
_PLUGINS = re.compile(
    r"^ +--enable-admission-plugins .*Comma-delimited list of admission plugins: ([A-Za-z0-9, ]+)\.", re.M
)
# The formats of kube-controller-manager and of hyper-mini.
_CONTROLLERS = re.compile(
    r"^.*\b(?:All controllers|Known): ([a-z0-9][-a-z0-9, ]*?)(?: \(default [^()\n]*\))?$", re.MULTILINE
)
_GATE = re.compile(r"\b(?:kube:)?([A-Za-z][A-Za-z0-9]*)=true\|false \(([A-Z]+) - default=(?:true|false)\)", re.ASCII)


@dataclass(frozen=True)
class Program:
    """The features of a binary. A list is empty when the binary has no option for it."""

    options: frozenset[str]
    admission_plugins: frozenset[str]
    controllers: frozenset[str]
    feature_gates: frozenset[str]  # the gates that can be set


def parse_help(text: str, *, program: str, version: str) -> Program:
    """The features in the text of `program --help`; an error when the list of an option cannot be read."""
    options = frozenset(_OPTION.findall(text[:_LONGEST]))
    plugins = _list(_PLUGINS, text) if "enable-admission-plugins" in options else frozenset()
    controllers = _list(_CONTROLLERS, text) if "controllers" in options else frozenset()
    gates = frozenset(name for name, _stage in _GATE.findall(text[:_LONGEST]))
    unread = [
        option
        for option, names in [
            ("enable-admission-plugins", plugins),
            ("controllers", controllers),
            ("feature-gates", gates),
        ]
        if option in options and not names
    ]
    if not options or unread or len(text) > _LONGEST:
        reason = f"no list in --{unread[0]}" if unread else f"{len(options)} options in {len(text)} characters"
        raise MESSAGES.error("plane-help-unreadable", program=program, version=version, found=reason)
    return Program(options, plugins, controllers, gates)


def find_missing_features(
    flags_by_process: Mapping[str, Sequence[Flag]], version: str, programs: Mapping[str, Program]
) -> list[BallastError]:
    """What the flags need and the binaries lack. Binaries that `programs` does not have are skipped."""
    return [
        MESSAGES.error("plane-program-lacks", program=process, version=version, what=what, value=value, why=flag.why)
        for process, flags in flags_by_process.items()
        if process in programs
        for flag in flags
        for what, value in _missing(flag, programs[process])
    ]


def _list(pattern: re.Pattern[str], text: str) -> frozenset[str]:
    match = pattern.search(text[:_LONGEST])
    return frozenset(word.strip() for word in match[1].split(",")) if match else frozenset()


def _missing(flag: Flag, program: Program) -> Iterator[tuple[str, str]]:
    if flag.name not in program.options:
        yield "option", f"--{flag.name}"
        return
    words = flag.value.split(",") if flag.value else []
    if flag.name in ("enable-admission-plugins", "disable-admission-plugins"):
        yield from (("admission plugin", word) for word in words if word not in program.admission_plugins)
    elif flag.name == "controllers":
        names = [word.lstrip("-") for word in words]
        yield from (("controller", name) for name in names if name != "*" and name not in program.controllers)
    elif flag.name == "feature-gates" and flag.why != GIVEN_GATES:  # a stable gate is not in --help, but can be given
        gates = [word.partition("=")[0] for word in words]
        yield from (("feature gate", gate) for gate in gates if gate not in program.feature_gates)
