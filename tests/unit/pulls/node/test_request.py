# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked for, and the kubelet's part of it as the kubelet would read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._kubelet.config import ConfigFile
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.kubelet import (
    DEFAULTS,
    check_ready,
    drop_in_settings,
    drop_in_text,
)
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.model import (
    HOST_SPEC,
    INFO_SPEC,
    RUNTIME_SPEC,
    SPEC,
    ImagePullsRequest,
)
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.report import from_files
from tests.unit.pulls.node.fake_node import params

ROOT = Path(__file__).resolve().parents[4]
VALUE = "pulls-node-value"


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({"max_parallel_image_pulls": 0}, [VALUE]),
        ({"max_parallel_image_pulls": 2**31}, [VALUE]),
        ({"registry_pull_qps": -1, "registry_burst": 0}, [VALUE, VALUE]),
        ({"max_parallel_image_pulls": 2, "serialize_image_pulls": True}, ["pulls-node-serial"]),
        ({"runtime": {"max_concurrent_downloads": 0, "separate_pull_cgroup": "a b"}}, [VALUE, VALUE]),
        ({"ready_seconds": 0}, [VALUE]),
    ],
)
def test_all_that_is_wrong_is_told_at_once(options: dict[str, Any], ids: list[str]) -> None:
    with pytest.raises(BallastError) as caught:
        ImagePullsRequest.from_params(params(**options))
    error = caught.value
    problems = list(error.problems) if isinstance(error, Problems) else [error]
    assert [problem.id for problem in problems] == ids
    assert all(problem.remedy for problem in problems)


@pytest.mark.parametrize(
    ("most", "serial", "settings"),
    [
        (None, None, {}),
        (5, None, {"maxParallelImagePulls": 5, "serializeImagePulls": False}),
        (5, False, {"maxParallelImagePulls": 5, "serializeImagePulls": False}),
        (1, True, {"maxParallelImagePulls": 1, "serializeImagePulls": True}),
        (None, True, {"maxParallelImagePulls": None, "serializeImagePulls": True}),
        (None, False, {"maxParallelImagePulls": None, "serializeImagePulls": False}),
    ],
)
def test_both_keys_or_none(most: Optional[int], serial: Optional[bool], settings: dict[str, Any]) -> None:
    request = ImagePullsRequest.from_params(params(max_parallel_image_pulls=most, serialize_image_pulls=serial))
    assert request.kubelet == settings


def test_absent_wants_nothing_whatever_else_is_said() -> None:
    options = {"runtime": {"max_concurrent_downloads": 4}, "host": {"max_in_flight": 1}, "registry_burst": 3}
    request = ImagePullsRequest.from_params(params(state="absent", **options))
    assert (request.kubelet, request.runtime, request.host) == ({}, {}, {})


def test_options_that_are_not_given_are_not_set() -> None:
    host = {**dict.fromkeys(HOST_SPEC), "on_full": "retry", "retry": {"attempts": 2, "interval": None}}
    runtime = {**dict.fromkeys(RUNTIME_SPEC), "max_concurrent_downloads": 4}
    request = ImagePullsRequest.from_params(params(host=host, runtime=runtime))
    assert request.host == {"on_full": "retry", "retry": {"attempts": 2}}
    assert request.runtime == {"max_concurrent_downloads": 4}


def test_the_reading_module_asks_with_fewer_options() -> None:
    given_options = {name: row.get("default") for name, row in INFO_SPEC.items()}
    assert ImagePullsRequest.to_read(given_options) == ImagePullsRequest.from_params(
        {name: row.get("default") for name, row in SPEC.items()}
    )


_NUMBERS = st.one_of(st.none(), st.integers(0, 2**31 - 1))


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "maxParallelImagePulls": _NUMBERS,
            "serializeImagePulls": st.booleans(),
            "registryPullQPS": _NUMBERS,
            "registryBurst": _NUMBERS,
        },
    )
)
def test_a_drop_in_says_what_it_was_made_of(settings: dict[str, Any]) -> None:
    text = drop_in_text(settings)
    assert drop_in_settings(text) == settings
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    assert yaml.safe_load(text) == {**head, **settings}


@pytest.mark.parametrize(
    ("files", "key", "expected"),
    [
        ([], "registryBurst", (10, "default")),
        ([("/base", {"registryBurst": 1}), ("/later", {"registryBurst": 2})], "registryBurst", (2, "/later")),
        ([("/base", {"maxParallelImagePulls": 4})], "serializeImagePulls", (False, "default")),
        ([("/base", {}), ("/later", {"maxParallelImagePulls": 4})], "serializeImagePulls", (True, "default")),
        ([("/x", {"maxParallelImagePulls": 4}), ("/y", {})], "serializeImagePulls", (True, "default")),
        (
            [("/base", {"maxParallelImagePulls": 4}), ("/x", {"maxParallelImagePulls": None})],
            "maxParallelImagePulls",
            (None, "/x"),
        ),
    ],
)
def test_the_last_file_that_sets_a_key_wins(files: list[Any], key: str, expected: tuple[Any, str]) -> None:
    read = [ConfigFile(path, settings, is_base=path == "/base") for path, settings in files]
    assert from_files(key, read) == expected


def test_a_node_says_ready_since_a_moment() -> None:
    def node(**changes: Any) -> dict[str, Any]:
        row = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-21T12:00:00Z", **changes}
        return {"status": {"conditions": [{"type": "DiskPressure"}, row]}}

    at = 1795262400.0
    assert check_ready(node(), since=at + 0.9) == ""
    assert "before its start" in check_ready(node(), since=at + 1)
    assert "before its start" in check_ready(node(lastHeartbeatTime=None), since=at)
    assert check_ready(node(status="False", message="no network"), since=0) == "condition Ready: no network"
    for nonsense in ({}, {"status": []}, {"status": {"conditions": {}}}, {"status": {"conditions": [1]}}):
        assert check_ready(nonsense, since=0) == "its Node has no condition Ready"


def _documented(name: str, *path: str) -> dict[str, Any]:
    text = (ROOT / f"plugins/modules/{name}.py").read_text(encoding="utf-8")
    documentation = yaml.safe_load(text.split('DOCUMENTATION = r"""')[1].split('"""')[0])
    options: dict[str, Any] = dict(documentation.get("options") or {})
    for fragment in documentation["extends_documentation_fragment"]:
        shared = (ROOT / f"plugins/doc_fragments/{fragment.split('.')[2]}.py").read_text(encoding="utf-8")
        options.update(yaml.safe_load(shared.split('DOCUMENTATION = r"""')[1].split('"""')[0])["options"])
    for part in path:
        options = options[part]["suboptions"]
    return options


@pytest.mark.parametrize(
    ("name", "path", "spec"),
    [
        ("image_pulls", (), SPEC),
        ("image_pulls", ("runtime",), RUNTIME_SPEC),
        ("image_pulls", ("host",), HOST_SPEC),
        ("image_pulls", ("host", "retry"), HOST_SPEC["retry"]["options"]),
        ("image_pulls_info", (), INFO_SPEC),
    ],
)
def test_options_are_documented_as_they_are(name: str, path: tuple[str, ...], spec: dict[str, Any]) -> None:
    facts = ("type", "default", "choices")
    documented = {
        option: {fact: row[fact] for fact in facts if fact in row} for option, row in _documented(name, *path).items()
    }
    assert documented == {option: {fact: row[fact] for fact in facts if fact in row} for option, row in spec.items()}


def test_every_key_that_can_be_asked_for_is_read_back() -> None:
    every = {"max_parallel_image_pulls": 1, "registry_pull_qps": 1, "registry_burst": 1, "image_service_endpoint": "/a"}
    assert set(json.loads(json.dumps(ImagePullsRequest.from_params(params(**every)).kubelet))) == set(DEFAULTS)
