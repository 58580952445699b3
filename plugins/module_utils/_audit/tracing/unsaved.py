# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which answers are unknown because a dump lacks a part or a tool could not print a rule. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..._rules.messages import MESSAGES
from ..._rules.node_rules import ARRIVALS, REFUSALS, Missing
from ..._rules.packet import PASS, UNKNOWN, Answer, Packet, Surroundings
from ..undecoded import is_undecoded


def limit_answer(answer: Answer, packet: Packet, missing: Sequence[Missing], surroundings: Surroundings) -> Answer:
    """UNKNOWN if a missing part decides; otherwise the answer of the parts that were saved."""
    for part in missing:
        if _decides(part, answer, packet, surroundings):
            problem = MESSAGES.error("rules-dump-part", part=part.part, remedy=part.remedy)
            return Answer(UNKNOWN, problem=problem, why=answer.why)
    if answer.problem is not None and is_undecoded(answer.problem.text):
        return Answer(UNKNOWN, problem=MESSAGES.error("rules-undecoded", problem=answer.problem.text), why=answer.why)
    return answer


def _decides(part: Missing, answer: Answer, packet: Packet, surroundings: Surroundings) -> bool:
    if part.decides == REFUSALS:
        return PASS in [answer.verdict, *(way.verdict for way in answer.ways)]
    if part.decides == ARRIVALS:
        return not packet.node_local and not surroundings.is_local(packet.destination)
    return True
