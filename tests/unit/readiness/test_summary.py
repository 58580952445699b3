# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person sees first of the report: a grid of hosts and features, on a terminal and on the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2
import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import NO, UNKNOWN
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness import info
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.judge import AMBER, GREEN, GREY, RED
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.page import make_page
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.summary import status, summary_lines
from tests.unit.readiness.judged import FEATURES, judged
from tests.unit.readings import answer, away, exercise, host, reading, reading_off

TEMPLATE = Path(__file__).resolve().parents[3] / "roles/readiness/templates/report.html.j2"


@pytest.fixture(autouse=True)
def _features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info, "parse_features", lambda documents: FEATURES)


@pytest.mark.parametrize(
    ("light", "fails", "wanted"),
    [
        (GREEN, False, "PASS"),
        (AMBER, False, "WARN"),
        (AMBER, True, "FAIL"),
        (RED, True, "FAIL"),
        (GREY, False, "OFF"),
    ],
)
def test_one_word_says_what_a_light_means_for_the_run(light: str, fails: bool, wanted: str) -> None:
    assert status(light, fails=fails) == wanted


def mixed() -> dict[str, Any]:
    done = [exercise("kube_proxy", "n1", kind) for kind in ("enable", "setting")]
    return judged(
        host("n1", reading("kube_proxy"), reading_off("balloons")),
        host("n2", reading("kube_proxy"), reading_off("balloons")),
        host("n3", reading("kube_proxy", healthy=answer(NO, "It is not.", remedy="fix it"))),
        host("n4", reading("kube_proxy", in_use=answer(UNKNOWN, "Nobody knows.")), reading("balloons")),
        away("n5"),
        exercises=done,
    )


def test_the_grid_has_a_row_for_hosts_that_are_alike_and_one_for_drills() -> None:
    assert summary_lines(mixed())[:10] == [
        "production readiness: FAIL",
        "4 of 5 hosts answered",
        "",
        "  HOST    kube_proxy  balloons",
        "  n1, n2  PASS        OFF",
        "  n3      FAIL        -",
        "  n4      WARN        PASS",
        "  n5      FAIL        FAIL",
        "  drills  PASS        WARN",
        "",
    ]


def test_many_hosts_that_are_alike_are_named_by_the_first_and_the_last() -> None:
    hosts = [host(f"n{number:03}", reading("kube_proxy"), reading("balloons")) for number in range(1, 501)]
    lines = summary_lines(judged(*hosts))
    assert "  n001 ... n500 (500 hosts)  PASS        PASS" in lines
    assert max(map(len, lines)) <= 120


def test_without_a_host_there_is_no_grid() -> None:
    assert summary_lines(judged()) == ["production readiness: FAIL", "0 of 0 hosts answered"]


def page_of(report: dict[str, Any]) -> str:
    environment = jinja2.Environment(trim_blocks=True, autoescape=False)  # as Ansible renders it
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(readiness_page=make_page(report))


def test_the_page_has_the_same_grid_and_reads_without_colour() -> None:
    page = page_of(mixed())
    rows = re.findall(r"<tr><th scope=\"row\">(\w+).*?</th>\s*(.*?)</tr>", page, flags=re.DOTALL)
    words = {name: re.findall(r"(PASS|WARN|FAIL|OFF|not asked)<", cells) for name, cells in rows}
    assert words == {
        "n1": ["PASS", "OFF"],
        "n2": ["PASS", "OFF"],
        "n3": ["FAIL", "not asked"],
        "n4": ["WARN", "PASS"],
        "n5": ["FAIL", "FAIL"],
        "Drills": ["PASS", "WARN"],
    }


def test_the_questionnaire_of_each_feature_is_closed_and_names_no_tests() -> None:
    page = page_of(mixed())
    assert page.count('<details class="questionnaire">\n<summary>') == page.count('<section class="feature"') > 0
    assert "tests/" not in page
