# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of the service proxy counts, and what it writes of that."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Optional

import pytest

from tests.bench import service_proxy_report
from tests.bench.service_proxy_asking import LONGEST, SHORTEST, Question, answered, pause
from tests.bench.service_proxy_load import Changes, load
from tests.bench.service_proxy_plot import plot
from tests.bench.service_proxy_programs import OURS, PEER, parse_usage
from tests.bench.service_proxy_report import table, write_report

MIB = 2**20
TICKS = os.sysconf("SC_CLK_TCK")


def measured(*packet: float, lost: int = 0, **more: Any) -> dict[str, Any]:
    times = {"api": [0.004, 0.006, 0.005], "packet": list(packet), "lost": lost, "seconds": 10.0, "changes": 1000}
    return {**times, "processor": 2.5, "resident": 110 * MIB, "most_resident": 140 * MIB, **more}


def contender(*starts: float, **more: Any) -> dict[str, Any]:
    of = {"processor": 1.0, "resident": 100 * MIB, "most_resident": 120 * MIB}
    return {"starts": [{"seconds": start, **of} for start in starts], **more}


def found(**more: Any) -> dict[str, Any]:
    loads = {"calm": measured(0.010, 0.012, 0.040), "busy": measured(0.020, 0.022, 0.180)}
    theirs = {"calm": measured(2.0, 3.0, lost=1), "busy": measured(lost=7)}
    return {
        "machine": {"cpus": 2, "cpu": "one", "memory_mib": 4096, "kernel": "6.1", "python": "3.11", "load_before": 0.2},
        "tools": {"nft": "nftables v1.0.6"},
        "kubernetes": "1.37.2",
        "sizes": {"services": 10000, "large": 50000, "starts": 3, "busy_seconds": 300, "flush_seconds": 60},
        "main": {
            OURS: contender(2.0, 2.4, 2.2, **loads, flush={"seconds": 0.81}),
            PEER: contender(12.0, 13.0, 12.5, **theirs, flush={"seconds": None}),
        },
        **more,
    }


def rows(text: str) -> dict[str, list[str]]:
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {title: cells for title, *cells in lines}


def test_the_table_has_both_beside_each_other() -> None:
    cells = rows(table(found()))
    assert cells["work"] == ["ours", "kube-proxy, nftables"]
    assert cells["10,000 Services x 4 endpoints: start to all rules in force"] == [
        "2.20 s (2.00 to 2.40)",
        "12.5 s (12.0 to 13.0)",
    ]
    assert cells["endpoint change to packet, p50 / p99, 1 change/s"] == ["12 / 40 ms", "2,000 / 3,000 ms, 1 of 3 not"]
    assert cells["the same at 100 changes/s for 5 minutes"] == ["22 / 180 ms", "none of 7 in force"]
    assert cells["changes/s that the API server took meanwhile"] == ["100", "100"]
    assert cells["processor time of those"] == ["2.5 s", "2.5 s"]
    assert cells["memory: after the start / after the changes / most"] == ["100 / 110 / 140 MiB"] * 2
    assert cells["`nft flush ruleset` to repaired"] == ["0.81 s", "not within 60 s"]
    assert not any(title.startswith("50,000") for title in cells)


def test_a_contender_that_was_left_out_has_an_empty_cell() -> None:
    large = {OURS: contender(9.0, calm=measured(0.05))}
    cells = rows(table(found(large=large)))
    assert cells["50,000 x 4: start to all rules in force"] == ["9.00 s", ""]
    assert cells["50,000 x 4: endpoint change to packet, p50 / p99, 1 change/s"] == ["50 / 50 ms", ""]


def soak() -> dict[str, Any]:
    """Grows at its start, and by 6 MiB an hour after that."""
    samples = [
        {"at": 60.0 * minute, "processor": 0.0, "resident": round((90 + min(minute, 10) + minute / 10) * MIB)}
        for minute in range(31)
    ]
    return {**measured(0.02, seconds=1800.0, changes=180000), "samples": samples, "differences": 0}


def test_the_soak_tells_how_memory_grows_after_the_start() -> None:
    text = table(found(soak=soak()))
    assert "30 minutes at 100 changes/s (180,000 changes" in text
    assert "Memory 90 MiB at its beginning, 102 MiB in the middle, 103 MiB at its end: +6.0 MiB an hour" in text
    assert "by 0 operations" in text


@pytest.mark.parametrize("more", [{}, {"soak": soak()}], ids=["short", "soak"])
def test_the_page_gets_the_table_and_the_plot_is_a_picture(
    more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, picture = tmp_path / "page.md", tmp_path / "plot.svg"
    page.write_text("<!-- bench:service-proxy begin -->\nFORMER\n<!-- bench:service-proxy end -->\n", encoding="utf-8")
    monkeypatch.setattr(service_proxy_report, "PAGE", page)
    monkeypatch.setattr(service_proxy_report, "PLOT", picture)
    write_report(found(**more), tmp_path / "results/service_proxy.json")
    assert "FORMER" not in page.read_text()
    assert "2.20 s" in page.read_text()
    assert f"({picture.name})" in page.read_text()
    lines = ElementTree.fromstring(picture.read_text()).findall("{*}polyline")
    assert len(lines) == 4 + 3 + len(more)  # the legend, three loads with packets, the soak


def test_the_plot_has_room_for_changes_that_no_packet_met() -> None:
    nothing = {"calm": measured(lost=1), "busy": measured(lost=1), "flush": {"seconds": None}}
    ElementTree.fromstring(plot(found(main={OURS: contender(1.0, **nothing)})))


def test_usage_holds_the_children_that_have_ended() -> None:
    stat = "7 (a) b) R 1 7 7 0 -1 4194304 1 2 3 4 100 50 25 5 20 0 4 0 99 1000 200"
    status = "Name:\ta) b\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\nThreads:\t4\n"
    assert parse_usage(stat, status) == (180 / TICKS, MIB, 2 * MIB)


def test_a_question_is_repeated_after_a_part_of_its_wait() -> None:
    assert pause(0.0) == pause(0.01) == SHORTEST
    assert pause(1.0) == pytest.approx(0.02)
    assert pause(60.0) == LONGEST


def test_an_empty_list_of_endpoints_is_any() -> None:
    question = Question(0.0, 1, "10.96.0.1", 80, ["10.1.0.5"], 0.0, 1.0)
    assert answered(question, "10.1.0.5")
    assert not answered(question, "10.1.0.6")
    assert not answered(question, "")
    assert answered(question._replace(expected=[]), "10.1.0.6")
    assert not answered(question._replace(expected=[]), "")


def test_a_service_that_is_waited_for_is_not_changed_again() -> None:
    changes = Changes(20)
    first, second, third = (changes.draw(asks=True) for _number in range(3))
    assert [each.is_asked for each in (first, second, third)] == [True, True, False]
    others = [changes.draw(asks=False) for _number in range(50)] + [third]
    assert not {first.service, second.service} & {each.service for each in others}
    changes.release(first)
    assert changes.draw(asks=True).service == first.service


def test_each_change_brings_endpoints_that_were_never_there() -> None:
    changes = Changes(20, counts=(1, 2, 6))
    drawn = [changes.draw(asks=False) for _number in range(40)]
    every = [address for change in drawn for address in change.addresses]
    assert len(set(every)) == len(every)
    assert {len(change.addresses) for change in drawn} == {1, 2, 6}
    for change in drawn:
        assert [each["addresses"] for each in change.slice["endpoints"]] == [[address] for address in change.addresses]


class FakeLoader:
    def __init__(self) -> None:
        self.replaced: list[str] = []

    def replace(self, item: dict[str, Any]) -> None:
        self.replaced.append(item["metadata"]["name"])


class FakePackets:
    """Every other change is met, after 20 ms."""

    def __init__(self) -> None:
        self.asked = 0

    def ask(self, service: int, expected: Any, begun: float) -> Future[Optional[float]]:
        self.asked += 1
        answer: Future[Optional[float]] = Future()
        answer.set_result(0.02 if self.asked % 2 else None)
        return answer


def test_a_load_counts_what_packets_met_and_what_none_did() -> None:
    loader, packets, changes = FakeLoader(), FakePackets(), Changes(20)
    done = load(loader, changes, packets, rate=1000, seconds=0.02, ask_every=5)  # type: ignore[arg-type]
    assert done.changes == len(loader.replaced) == len(done.api) == 20
    assert done.packet == [0.02, 0.02]
    assert done.lost == 2
    assert done.seconds >= 0.019
