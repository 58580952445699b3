# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent.settings import (
    NodeRow,
    Reserve,
    Retry,
    Settings,
    parse_settings,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems, UserError

FILE = "/etc/ballast/balloons.kubeconfig"


def parsed(**keys: Any) -> Settings:
    return parse_settings(yaml.safe_dump({"kubeconfig": FILE, **keys}), name="f.yml")


def faults(text: str) -> list[tuple[str, str]]:
    """Id and path of each, as they are told."""
    with pytest.raises(UserError) as told:
        parse_settings(text, name="f.yml")
    errors = told.value.problems if isinstance(told.value, Problems) else (told.value,)
    return [(error.id.removeprefix("balloon-agent-"), _path(error)) for error in errors]


def _path(error: BallastError) -> str:
    return error.text.removeprefix("f.yml: ").split(" ")[0].rstrip(":")


def test_what_is_left_out_has_a_default() -> None:
    assert parsed() == Settings(kubeconfig=FILE)


def test_everything_is_read() -> None:
    assert parsed(
        namespace="balloons",
        nodes=[{"name": "n2", "slice": "ballast-n2"}, {"name": "n1.example.com", "slice": "ballast-n1"}],
        reserve={"cpu": 2, "memory": "1.5Gi"},
        slices=True,
        interval="2m",
        grow_timeout="1m30s",
        retry={"first": "5s", "most": "1h"},
        metrics="127.0.0.1:9456",
    ) == Settings(
        kubeconfig=FILE,
        namespace="balloons",
        nodes=(NodeRow("n1.example.com", "ballast-n1"), NodeRow("n2", "ballast-n2")),
        reserve=Reserve(2000, 3 * 2**29),
        slices=True,
        interval=120.0,
        grow_timeout=90.0,
        retry=Retry(5.0, 3600.0),
        metrics=("127.0.0.1", 9456),
    )


N1 = {"name": "n1"}


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ({"kubeconfig": None}, [("missing", "kubeconfig")]),
        ({"kubeconfig": "relative"}, [("value", "kubeconfig")]),
        ({"kubeconfig": 7}, [("value", "kubeconfig")]),
        ({"kubeconfg": FILE}, [("key", "unknown")]),
        ({"namespace": "Kube"}, [("value", "namespace")]),
        ({"nodes": []}, [("value", "nodes")]),
        ({"nodes": ["n1"]}, [("value", "nodes[0]")]),
        ({"nodes": [{}]}, [("missing", "nodes[0].name")]),
        ({"nodes": [{"name": "N1"}]}, [("value", "nodes[0].name")]),
        ({"nodes": [N1, dict(N1)]}, [("node-twice", "nodes[1].name")]),
        ({"nodes": [{"name": "n1", "target": {}}]}, [("key", "nodes[0]")]),
        ({"nodes": [N1], "slices": True}, [("missing", "nodes[0].slice")]),
        ({"nodes": [N1], "vm": True}, [("missing", "nodes[0].qmp")]),
        ({"nodes": [{**N1, "slice": "x"}]}, [("limit-unused", "nodes[0].slice")]),
        ({"nodes": [{**N1, "slice": "../x"}], "slices": True}, [("value", "nodes[0].slice")]),
        ({"nodes": [{**N1, "qmp": "x"}], "vm": True}, [("value", "nodes[0].qmp")]),
        ({"slices": True}, [("limits-of-all", "slices")]),
        ({"nodes": [{**N1, "qmp": "/q", "slice": "s"}], "slices": True, "vm": True}, [("two-limits", "vm")]),
        ({"slices": "yes"}, [("value", "slices")]),
        ({"reserve": {"cpu": "1"}}, [("missing", "reserve.memory")]),
        ({"reserve": {"cpu": "-1", "memory": "1Gi"}}, [("quantity", "reserve.cpu")]),
        ({"reserve": {"cpu": 0.5, "memory": True}}, [("quantity", "reserve.cpu"), ("quantity", "reserve.memory")]),
        ({"interval": "0s"}, [("value", "interval")]),
        ({"interval": 60}, [("duration", "interval")]),
        ({"grow_timeout": "2h"}, [("value", "grow_timeout")]),
        ({"retry": {"first": "0s"}}, [("value", "retry.first")]),
        ({"retry": {"firt": "1s"}}, [("key", "retry")]),
        ({"metrics": "0.0.0.0:9456"}, [("metrics", "metrics")]),
        (
            {"namespace": "_", "interval": "x", "metrics": 1},
            [("value", "namespace"), ("duration", "interval"), ("metrics", "metrics")],
        ),
    ],
)
def test_each_fault_has_its_id_and_path(keys: dict[str, Any], found: list[tuple[str, str]]) -> None:
    document = {"kubeconfig": FILE, **keys}
    assert faults(yaml.safe_dump(document)) == found
    assert faults(json.dumps(document)) == found


@pytest.mark.parametrize("text", ["", "text", "[]", "7"])
def test_no_mapping_is_no_settings(text: str) -> None:
    assert faults(text)[0][0] == "shape"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(
    ["kubeconfig", "namespace", "nodes", "reserve", "slices", "vm", "interval", "grow_timeout", "retry", "metrics", "x"]
)


@given(st.dictionaries(_KEYS, _JSON, max_size=6))
def test_nonsense_is_refused_in_words(document: dict[str, Any]) -> None:
    with contextlib.suppress(UserError):
        parse_settings(json.dumps(document), name="f.yml")
