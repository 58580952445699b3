# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the records of the load are summed up."""

from __future__ import annotations

import json
from pathlib import Path

from tests.load.figures import Attempt, Records, figures, outage, summary


def attempts(text: str) -> list[Attempt]:
    """A tenth of a second apart, on target "a": `.` succeeded, `x` failed."""
    return [Attempt(number / 10, 0.001, "a", {".": "", "x": "timeout"}[sign]) for number, sign in enumerate(text)]


def test_an_outage_lasts_from_the_first_failure_to_the_next_success() -> None:
    assert outage(attempts("...."), 0.4) == 0
    assert round(outage(attempts(".xx.."), 0.5), 6) == 0.2
    assert round(outage(attempts(".x..xxx."), 0.8), 6) == 0.3
    assert round(outage(attempts("..xx"), 2.0), 6) == 1.8, "one that does not end, up to the end"


def test_success_on_one_target_does_not_end_the_outage_of_another() -> None:
    others = [Attempt(one.begun + 0.05, 0.001, "b") for one in attempts("......")]
    found = figures([*attempts(".xxx.."), *others], 0, 0.6)
    assert (found.attempts, found.failures, found.targets) == (12, 3, {"a": 3})
    assert round(found.outage_seconds, 6) == 0.3


def test_only_what_began_in_the_span_counts() -> None:
    found = figures(attempts("xx..xx.."), 0.2, 0.5)
    assert (found.attempts, found.failures) == (3, 1)
    assert found.first_failure == found.last_failure == 0.4
    assert found.errors == {"timeout": 1}


def test_percentiles_are_of_successes() -> None:
    slow = [Attempt(0, number / 100, "a") for number in range(1, 101)]
    found = figures([*slow, Attempt(0, 9, "a", "timeout")], 0, 1)
    assert (found.p50_seconds, found.p99_seconds) == (0.5, 0.99)
    assert figures([], 0, 1).p99_seconds == 0


def test_records_are_read_while_they_are_written(tmp_path: Path) -> None:
    rows = [
        {"at": 10.0, "flow": "pod tcp", "target": "a", "begun": [-90000, -50000], "took": [400, 800]},
        {"failed": "ECONNREFUSED", "flow": "pod tcp", "target": "a", "begun": 9.97, "ended": 9.98, "port": 7},
        {"at": 10.0, "held": 3, "answers": 20, "slowest": 0.25},
        {"broken": "closed", "at": 10.05, "target": "a", "port": 8, "quiet": 0.1},
        {"at": 10.1, "lag": 0.01},
        {"at": 10.1, "held": 2, "answers": 20, "slowest": 1.5},
        {"answered_by": {"s0:9000": 2}},
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path = tmp_path / "records"
    path.write_text(text[:100], encoding="ascii")
    records = Records(path)
    records.read()
    path.write_text(text, encoding="ascii")
    records.read()
    found = summary([records], 9.0, 10.2)
    assert [found.flows["pod tcp"].attempts, found.total.failures] == [3, 1]
    assert found.total.errors == {"ECONNREFUSED": 1}
    assert (found.held.open, found.held.broken, found.held.silence_seconds, found.held.waiting) == (3, 1, 1.5, True)
    assert (found.lag_seconds, records.answered_by) == (0.01, {"s0:9000": 2})


def test_two_flows_to_a_target_are_two(tmp_path: Path) -> None:
    """What one of them reaches does not end the outage of the other."""
    rows: list[dict[str, object]] = [
        {"failed": "timeout", "flow": "pod tcp", "target": "a", "begun": at, "ended": at + 1, "port": 7}
        for at in (1, 2, 3)
    ]
    rows.append({"at": 2.0, "flow": "pod udp", "target": "a", "begun": [500000], "took": [400]})
    path = tmp_path / "records"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="ascii")
    records = Records(path)
    records.read()
    assert summary([records], 0, 4).total.outage_seconds == 3
