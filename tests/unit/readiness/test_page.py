# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the page shows of a report: plots, and nothing of a host that a browser would run or that is secret."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import NO
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness import info
from tests.unit.fakes import FakeHost
from tests.unit.readiness.judged import FEATURES, both, judged
from tests.unit.readings import answer, away, figure, histogram, host, reading


@pytest.fixture(autouse=True)
def _features(monkeypatch):
    monkeypatch.setattr(info, "parse_features", lambda documents: FEATURES)


class TestPlots:
    def test_a_histogram_is_the_sum_of_the_hosts(self):
        plot = judged(host("n1", *both()), host("n2", *both()))["features"][0]["plots"][0]
        assert (plot["kind"], plot["title"]) == ("distribution", "sync_seconds")
        assert [(one["label"], one["value"]) for one in plot["bars"]] == [
            ("≤ 10 ms", 10),
            ("≤ 100 ms", 70),
            ("≤ 1 s", 4),
        ]
        assert plot["notes"] == [
            "84 observations on 2 hosts.",
            "Half of them: at most 100 ms.",
            "99 in 100 of them: at most 1 s.",
        ]

    def test_histograms_with_other_bounds_stand_apart(self):
        old = reading("kube_proxy", healthy=answer(figures=[histogram("sync_seconds", {0.5: 1})]))
        plots = judged(host("n1", *both()), host("n2", old))["features"][0]["plots"]
        assert [plot["title"] for plot in plots if plot["kind"] == "distribution"] == [
            "sync_seconds: n1",
            "sync_seconds: n2",
        ]

    def test_a_histogram_of_nothing_is_no_plot(self):
        empty = answer(figures=[histogram("sync_seconds", {0.5: 0})])
        assert [plot["kind"] for plot in judged(host("n1", *both(healthy=empty)))["features"][0]["plots"]] == ["limits"]

    def test_the_hosts_nearest_to_a_limit_come_first(self):
        hosts = [
            host(f"n{number:02}", reading("kube_proxy", scale=answer(figures=[figure("in_flight", number, limit=50)])))
            for number in range(40)
        ]
        plot = judged(*hosts)["features"][0]["plots"][1]
        assert [one["label"] for one in plot["bars"]] == [f"n{number:02}" for number in range(39, 9, -1)]
        assert plot["notes"] == ["10 more are further from their limit."]

    def test_limits_of_one_host_share_a_plot(self):
        scale = answer(figures=[figure("memory", 2, "B", limit=4), figure("threads", 3, limit=4), figure("free", 1)])
        used = answer(figures=[figure("memory", 2, "B")])  # the same figure, which says less here
        plots = judged(host("n1", reading("kube_proxy", scale=scale, in_use=used)))["features"][0]["plots"]
        assert [
            (plot["title"], [one["label"] for one in plot["bars"]]) for plot in plots if plot["kind"] == "limits"
        ] == [("Limits of n1", ["threads", "memory"])]

    def test_beyond_the_last_bound_no_number_is_invented(self):
        beyond = {"le": None, "count": 9}
        slow = answer(figures=[figure("sync_seconds", None, "s", buckets=[{"le": 1, "count": 1}, beyond])])
        plot = judged(host("n1", *both(healthy=slow)))["features"][0]["plots"][0]
        assert [one["label"] for one in plot["bars"]] == ["≤ 1 s", "> 1 s"]
        assert plot["notes"][1] == "Half of them: more than 1 s."


def test_every_text_of_the_page_is_escaped_and_those_of_the_report_are_not():
    """Ansible's template action escapes nothing: what the page is made of has to be safe by itself."""
    evil = "<b>\"'&"
    told = reading(
        "kube_proxy", healthy=answer(NO, evil, how=evil, remedy=evil, lines=[evil], figures=[figure(evil, 1, evil)])
    )
    told["versions"] = {evil: evil}
    hosts = [host("n1", told), away(evil, evil), {**host("n2"), "features": {evil: {}}}]
    params = {"hosts": hosts, "required_hosts": [evil], "previous": None, "exercises": [], "documents": []}
    done = info.read_readiness(FakeHost(), params)
    assert "<" not in json.dumps(done["page"])
    assert "&lt;b&gt;&quot;&#x27;&amp;" in json.dumps(done["page"])
    assert "&lt;" not in json.dumps(done["report"])


def test_the_page_lets_a_browser_run_nothing_and_fetch_nothing():
    """The hash is that of its own style, and there is nothing else in it that a policy has to allow."""
    template = (Path(__file__).resolve().parents[3] / "roles/readiness/templates/report.html.j2").read_text(
        encoding="utf-8"
    )
    style = template.partition("<style>")[2].partition("</style>")[0]
    assert re.search(r"{[{%#]", style) is None
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in template
    assert template.index("Content-Security-Policy") < template.index("<style>")
    assert re.findall(r"<script|\sstyle=|\son[a-z]+=|javascript:", template) == []


def test_a_secret_that_a_host_told_is_neither_in_the_report_s_page_nor_hidden_by_its_escapes():
    secret = "c4n4ry-Xy7"
    texts = [f'{{"token": "{secret}"}}', f"password='{secret}'", f"GET http://u:{secret}@h/?sig={secret}"]
    told = [reading("kube_proxy", healthy=answer(NO, text, how=text, remedy=text, lines=[text])) for text in texts]
    hosts = [host(f"n{number}", one) for number, one in enumerate(told)] + [away("n9", texts[0])]
    params = {"hosts": hosts, "required_hosts": [], "previous": None, "exercises": [], "documents": []}
    assert secret not in json.dumps(info.read_readiness(FakeHost(), params)["page"])
