# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One report of all slices, from what the API holds: cut off, forged, or of nobody. And what of it becomes a path."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.objects import namespace_path
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.record import Record, SliceRecord
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.report import merge_reports
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.state import read_run
from tests.unit.fake_api import FakeApi
from tests.unit.fleet_run.test_run import REQUEST, request

HOSTS = ["n0", "n1"]
MADE = request(slices=1, request={**REQUEST, "hosts": HOSTS, "canaries": ["n0"]})
PREVIEW = request(slices=1, request={**REQUEST, "hosts": HOSTS, "canaries": [], "acts": False})
CANARY_DONE = {"rows": {"n0": ["confirmed", ""]}, "not_done": []}
ANYTHING: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["n1", "confirmed"]),
    lambda parts: (
        st.lists(parts, max_size=3) | st.dictionaries(st.sampled_from(["n1", "rows", "x"]), parts, max_size=3)
    ),
    max_leaves=8,
)


def merged(**report: Any) -> Any:
    """With that of slice-0, which has n1."""
    return merge_reports(MADE, Record(2), {"canary-0": CANARY_DONE, "slice-0": report})


@pytest.mark.parametrize("word", ["not begun", "went back", "failed", "done", ""])
def test_a_node_is_done_by_its_outcome_and_not_because_no_list_names_it(word: str) -> None:
    report = merged(rows={"n1": [word, ""]}, not_done=[])
    assert report.failure.startswith("1 of 2 nodes are not done")


@pytest.mark.parametrize("word", ["confirmed", "unchanged"])
def test_a_report_of_a_node_that_failed_in_the_record_does_not_count_it_as_done(word: str) -> None:
    record = Record(2, {"slice-0": SliceRecord(failed=("n1",))})
    report = merge_reports(MADE, record, {"canary-0": CANARY_DONE, "slice-0": {"rows": {"n1": [word, ""]}}})
    assert report.failure.startswith("1 of 2 nodes are not done")


@given(st.dictionaries(st.sampled_from(["rows", "not_done", "lines", "failure"]), ANYTHING))
def test_a_report_of_any_form_ends_in_one_of_all_nodes(report: dict[str, Any]) -> None:
    made = merged(**report)
    assert list(made.nodes) == HOSTS
    assert made.failure or made.nodes["n1"] in ("confirmed", "unchanged")
    assert merge_reports(PREVIEW, Record(2), {"slice-0": report}).nodes == {}


def test_no_terminal_obeys_a_report() -> None:
    sign = "\x1b[2J\r\n"
    report = merged(rows={"n1": [f"a{sign}b", f"c{sign}d"]}, failure=f"e{sign}f")
    assert all(line.isprintable() for line in report.lines)
    preview = merge_reports(PREVIEW, Record(2), {"slice-0": {"lines": [f"g{sign}h"], "failure": f"e{sign}f"}})
    assert all(line.isprintable() for line in [*preview.lines, *preview.failure.splitlines()])


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("../../../etc/cron.d/x", "ballast-fleet-run-slice"),
        ("p1", "../../x"),
        ("", "x"),
        ("p1", "ballast-fleet-run-none"),
    ],
)
def test_a_name_of_the_api_is_no_path(name: str, job: str) -> None:
    """Logs are written to a file of the pod's name, and asked for at its path."""
    api = FakeApi()
    api.add(namespace_path("fleet"), {"metadata": {"name": "fleet"}})
    labels = {"batch.kubernetes.io/job-name": job, "batch.kubernetes.io/job-completion-index": "0"}
    api.add(f"{namespace_path('fleet')}/pods/p", {"metadata": {"name": name, "labels": labels}, "status": {}})
    for pod in read_run(request(), api.api).pods:
        assert (pod.name, pod.slice_name) == ("p1", "")
