# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A row in the table of preflight checks, and what a check may find. rules.py has the table, messages.py the texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..._core.text.errors import Message
from ..._rules.model import IPTABLES, IPVS, NFTABLES
from .facts import DEPLOYMENTS, Facts
from .messages import MESSAGES
from .versions import Versions

BLOCKER, WARNING = "hard", "soft"
MODES = (IPTABLES, IPVS, NFTABLES)
ALWAYS = Versions()


@dataclass(frozen=True)
class Transition:
    """The changes of mode that a check applies to. If the mode stays the same (another configuration, a newer kube-proxy),
    only checks with `unchanged` run: the others passed before."""

    leaving: tuple[str, ...] = MODES
    entering: tuple[str, ...] = MODES
    unchanged: bool = False

    def __post_init__(self) -> None:
        if not {*self.leaving, *self.entering} <= set(MODES):
            raise ValueError(f"no modes: {self}")

    def covers(self, from_mode: str, to_mode: str) -> bool:
        """`from_mode` is "" if kube-proxy has not run yet, so that there is no old mode."""
        left = from_mode in self.leaving or (not from_mode and self.leaving == MODES)
        return left and to_mode in self.entering and (self.unchanged or from_mode != to_mode)

    def __str__(self) -> str:
        if self.leaving == self.entering == MODES:
            return "any"
        return f"{_modes(self.leaving)} to {_modes(self.entering)}"


def _modes(modes: tuple[str, ...]) -> str:
    return "any" if modes == MODES else " or ".join(modes)


ANY = Transition()
TO_NFTABLES = Transition(entering=(NFTABLES,))


@dataclass(frozen=True)
class Rule:
    """One check. `condition` returns what is wrong, empty if nothing is; it runs only if transition, version and deployment
    match. A check for certain versions does not run if kube-proxy's version is unknown."""

    id: str
    severity: str
    reads: str  # what it reads on the node, for people
    condition: Callable[[Facts], Sequence[str]]
    source: str
    applies: Transition = ANY
    versions: Versions = ALWAYS
    deployments: tuple[str, ...] = DEPLOYMENTS
    believed: bool = False  # reported by others, but neither tested nor read in code

    def __post_init__(self) -> None:
        if self.severity not in (BLOCKER, WARNING) or not self.source or not self.reads:
            raise ValueError(f"rule {self.id} has no severity, source or reading")
        if self.id not in MESSAGES.rows:
            raise ValueError(f"rule {self.id} has no text in messages.py")

    @property
    def message(self) -> Message:
        return MESSAGES.rows[self.id]

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def remedy(self) -> str:
        return self.message.remedy

    def covers(self, facts: Facts) -> bool:
        change, version = facts.change, facts.version
        if not self.applies.covers(change.from_mode, change.to_mode) or change.deployment not in self.deployments:
            return False
        if not self.versions.limited:
            return True
        # Bugs of kube-proxy's versions do not affect our service proxy.
        return version is not None and version in self.versions and not change.is_ours


@dataclass(frozen=True)
class PreflightFinding:
    id: str
    severity: str  # BLOCKER or WARNING
    found: tuple[str, ...]  # one line per problem
    text: str
    remedy: str
    acknowledged: bool  # never for a blocker

    @property
    def line(self) -> str:
        return f"{self.id} ({self.severity}): {self.text}: {'; '.join(self.found)}"

    @property
    def is_blocking(self) -> bool:
        """Whether it blocks the change: a blocker always does, a warning until it is acknowledged."""
        return not self.acknowledged
