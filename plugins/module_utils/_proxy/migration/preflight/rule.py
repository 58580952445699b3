# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a row of the table of checks is made of, and what a check can find. The table is rules.py, its texts messages.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...._core.errors import Message
from ...model import IPTABLES, IPVS, NFTABLES
from .facts import DEPLOYMENTS, Facts
from .messages import MESSAGES
from .versions import Versions

HARD, SOFT = "hard", "soft"
MODES = (IPTABLES, IPVS, NFTABLES)
ALWAYS = Versions()


@dataclass(frozen=True)
class Transition:
    """Which changes of mode a check is asked for. Where the mode stays (another configuration, a newer kube-proxy) only
    those with `unchanged` are: what else they ask has held already."""

    leaving: tuple[str, ...] = MODES
    entering: tuple[str, ...] = MODES
    unchanged: bool = False

    def __post_init__(self) -> None:
        if not {*self.leaving, *self.entering} <= set(MODES):
            raise ValueError(f"no modes: {self}")

    def covers(self, from_mode: str, to_mode: str) -> bool:
        """`from_mode` is "" where kube-proxy has not run yet: then nothing is left."""
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
    """One check. `condition` answers with what it found, nothing where nothing is wrong; it is asked only where transition,
    version and deployment are the rule's. Of a kube-proxy whose version is not known, no rule of some versions is asked."""

    id: str
    severity: str
    reads: str  # what of the node it goes by, for people
    condition: Callable[[Facts], Sequence[str]]
    source: str
    applies: Transition = ANY
    versions: Versions = ALWAYS
    deployments: tuple[str, ...] = DEPLOYMENTS
    believed: bool = False  # by what others report; not tried, and not read in code

    def __post_init__(self) -> None:
        if self.severity not in (HARD, SOFT) or not self.source or not self.reads:
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

    def is_asked(self, facts: Facts) -> bool:
        asked, version = facts.asked, facts.version
        if not self.applies.covers(asked.from_mode, asked.to_mode) or asked.deployment not in self.deployments:
            return False
        return not self.versions.limited or (version is not None and version in self.versions)


@dataclass(frozen=True)
class PreflightFinding:
    id: str
    severity: str  # HARD or SOFT
    found: tuple[str, ...]  # each thing that was found
    text: str
    remedy: str
    acknowledged: bool  # never of a hard one

    @property
    def is_blocking(self) -> bool:
        return not self.acknowledged
