# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of nodes' sizes: read exactly, and all that is wrong with it told at once."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import INFO_SPEC, BalloonsRequest
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.unit.balloon.sized import ids, params, problems, request

VALUE, QUANTITY = "balloon-value", "core-quantity"


def test_a_row_is_read_exactly():
    row = {"name": "n1", "target": {"cpu": "1.5", "memory": "7Gi"}, "share": "1/3", "weight": 2}
    found = request(row, reserve={"cpu": "250m", "memory": "1e9"})
    assert found.nodes[0].target == {"cpu": 1500, "memory": 7 * 2**30}
    assert (found.nodes[0].share, found.nodes[0].weight) == (Fraction(1, 3), 2)
    assert found.reserve == Resources(250, 10**9)


def test_what_is_left_out_is_not_there():
    found = request({"name": "n1"}, {"name": "n2", "target": {"cpu": "0", "memory": None}})
    assert [node.target for node in found.nodes] == [{}, {"cpu": 0}]
    assert (found.nodes[0].share, found.nodes[0].weight, found.reserve) == (None, None, None)
    assert (found.state, found.namespace, found.grow_timeout) == ("present", "", 30.0)


@pytest.mark.parametrize(
    ("text", "share"), [("1/3", Fraction(1, 3)), ("0.25", Fraction(1, 4)), ("1", Fraction(1)), ("2/4", Fraction(1, 2))]
)
def test_a_share_is_exact(text: str, share: Fraction):
    assert request({"name": "n1", "share": text}).nodes[0].share == share


@pytest.mark.parametrize("text", ["0", "4/3", "1/0", "-1/3", "1.5", "a", "", "1/3 ", "1e-1", "50%", "0/5", "٣/4"])
def test_what_is_no_share_is_refused(text: str):
    found = problems(lambda: request({"name": "n1", "share": text}))
    assert [problem.id for problem in found] == [VALUE]
    assert "nodes[0].share" in found[0].text


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ({"name": ""}, [VALUE]),
        ({"weight": 0}, [VALUE]),
        ({"weight": -1}, [VALUE]),
        ({"target": {"cpu": "-1"}}, [VALUE]),
        ({"target": {"cpu": "1 core", "memory": "7GB"}}, [QUANTITY, QUANTITY]),
        ({"target": {"cpu": "9" * 5000}}, [QUANTITY]),
        ({"slice": "ballast-lab-n1"}, ["balloon-limit-unused"]),
        ({"qmp": "/run/n1.qmp"}, ["balloon-limit-unused"]),
    ],
)
def test_a_row_that_is_wrong_is_refused(row: dict[str, Any], wrong: list[str]):
    assert ids(lambda: request({"name": "n1", **row})) == wrong


@pytest.mark.parametrize("name", ["", "A", "a/b", "-a", "a.b", "system-x", "n" * 41])
def test_a_name_fits_whatever_is_called_so(name: str):
    assert ids(lambda: request({"name": "n1"}, name=name)) == [VALUE]


@pytest.mark.parametrize("option", [{"slices": True}, {"vm": True}, {"priority": "node-critical"}])
def test_what_belongs_to_a_nodes_size_goes_with_the_balloons_that_size_it(option: dict[str, Any]):
    row = {"name": "n1", **({"slice": "s"} if "slices" in option else {"qmp": "/q"} if "vm" in option else {})}
    request(row, **option)
    assert ids(lambda: request(row, name="trial", **option)) == [VALUE]


@pytest.mark.parametrize("name", ["../n1", "a/b", "ballast-lab-n1.slice", "-n1", "a b", "n" * 129])
def test_a_slice_is_one_name(name: str):
    assert ids(lambda: request({"name": "n1", "slice": name}, slices=True)) == [VALUE]


@pytest.mark.parametrize("path", ["n1.qmp", "/", "/a b", "/" + "x" * 107, "/a\n"])
def test_a_socket_is_an_absolute_path_that_the_kernel_takes(path: str):
    assert ids(lambda: request({"name": "n1", "qmp": path}, vm=True)) == [VALUE]


def test_each_node_has_its_limit_where_limits_move():
    assert request({"name": "n1", "slice": "ballast-lab-n1"}, slices=True).nodes[0].slice == "ballast-lab-n1"
    assert request({"name": "n1", "qmp": "/run/n1.qmp"}, vm=True).nodes[0].qmp == "/run/n1.qmp"
    assert ids(lambda: request({"name": "n1"}, slices=True)) == ["balloon-limit-missing"]
    assert ids(lambda: request({"name": "n1", "slice": "s"}, vm=True)) == [
        "balloon-limit-unused",
        "balloon-limit-missing",
    ]


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"kubeconfig": "/nowhere/admin.conf"}, ["balloon-kubeconfig"]),
        ({"namespace": "kube/system"}, [VALUE]),
        ({"namespace": "Balloons"}, [VALUE]),
        ({"image": ""}, [VALUE]),
        ({"image": "pause\n3"}, [VALUE]),
        ({"grow_timeout": 0.0}, [VALUE]),
        ({"grow_timeout": -1.0}, [VALUE]),
        ({"grow_timeout": float("nan")}, [VALUE]),
        ({"grow_timeout": float("inf")}, [VALUE]),
        ({"reserve": {"cpu": "-1", "memory": "x"}}, [VALUE, QUANTITY]),
        ({"slices": True, "vm": True, "nodes": []}, ["balloon-no-nodes", "balloon-two-limits"]),
        ({"nodes": []}, ["balloon-no-nodes"]),
        ({"nodes": None}, ["balloon-no-nodes"]),
    ],
)
def test_options_that_are_wrong_are_refused(changes: dict[str, Any], wrong: list[str]):
    assert ids(lambda: BalloonsRequest.from_params(params([{"name": "n1"}], **changes))) == wrong


def test_a_node_twice_is_refused_with_both_places():
    found = problems(lambda: request({"name": "n1"}, {"name": "n2"}, {"name": "n1"}, {"name": "n1"}))
    assert [problem.id for problem in found] == ["balloon-node-twice"] * 2
    assert found[0].text == "nodes[2].name: n1 is already listed in nodes[0]"


def test_all_that_is_wrong_is_told_at_once():
    rows = [{"name": "n1", "share": "2"}, {"name": "n1", "weight": 0, "target": {"cpu": "-1"}}]
    found = problems(lambda: request(*rows, grow_timeout=0.0, reserve={"cpu": "x", "memory": "1"}))
    assert sorted(problem.id for problem in found) == ["balloon-node-twice", *[VALUE] * 4, QUANTITY]
    assert all(problem.remedy for problem in found)


def test_the_reading_module_takes_no_nodes_and_fewer_options():
    given = {name: row.get("default") for name, row in INFO_SPEC.items()}
    assert BalloonsRequest.to_read({**given, "kubeconfig": __file__}).nodes == ()
    rows = [{"name": "n1", "share": "1/3"}, {"name": "n1"}]
    assert ids(lambda: BalloonsRequest.to_read({**given, "kubeconfig": __file__, "nodes": rows})) == [
        "balloon-node-twice"
    ]


@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12), st.integers(), st.floats())
def test_any_texts_are_read_or_refused(name: str, share: str, cpu: str, weight: int, timeout: float):
    with suppress(BallastError):
        request({"name": name, "share": share, "weight": weight, "target": {"cpu": cpu}}, grow_timeout=timeout)
