# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which of containerd's files decides, by its version: cases/imports.json. And a containerd that no kubelet pulls through."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.containerd import (
    check_health,
    dump,
    find_containerd,
)
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.containerd_files import (
    read_files,
    replacing_import,
    source_of,
)
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.containerd_tables import CRI_IMAGES, CRI_V2
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.engine import ENGINE
from tests.unit import cases
from tests.unit.fakes import Answer, Call, FakeHost
from tests.unit.pulls.node.fake_node import CONTAINERD, MAIN, Node

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("cases").joinpath("imports.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_file_that_decides(case: dict[str, Any]) -> None:
    version = (case["version"][0], case["version"][1])
    files = read_files(FakeHost(files=case["files"]), "/etc/containerd/config.toml", version)
    assert len({path for path, _text in files}) == len(files)
    table = CRI_V2 if version < (2, 0) else CRI_IMAGES
    assert source_of(files, table, "max_concurrent_downloads", version) == case["sets"]
    if version < (2, 0):
        assert replacing_import(files) == case["replacing"]


@pytest.mark.parametrize(
    "disabled", ["['cri']", '["x", "io.containerd.grpc.v1.cri"]', "['io.containerd.cri.v1.images']"], ids=str
)
@pytest.mark.parametrize("version", ["1.7.27", "2.3.7"])
def test_a_containerd_whose_cri_plugin_is_disabled_is_refused_before_a_change(disabled: str, version: str) -> None:
    node = Node(version=version, main="disabled_plugins = ['cri']\n")
    read_config = node._containerd

    def answer(call: Call) -> Answer:
        text = read_config(call)
        return f"disabled_plugins = {disabled}\n{text}" if call.argv[-1] == "dump" else text

    node.host.on(f"/proc/{node.containerd_pid()}/exe", answer=answer, reads=True)
    with pytest.raises(BallastError) as caught:
        cases.plan_of(ENGINE, node.request(runtime={"max_concurrent_downloads": 8}), node.host)
    assert caught.value.id == "pulls-node-cri-disabled"
    assert MAIN in caught.value.text


@pytest.mark.parametrize("flag", [("-a", "/run/k.sock"), ("--address=/run/k.sock",), ()], ids=str)
def test_its_plugins_are_asked_for_where_it_listens(flag: tuple[str, ...]) -> None:
    node = Node()
    node.host.processes[node.containerd_pid()].argv = ("/usr/bin/containerd", *flag)
    containerd = find_containerd(node.host, CONTAINERD, "")
    check_health(node.host, containerd, dump(node.host, containerd))
    assert node.host.commands[-1][:3] == ("/usr/bin/ctr", "--address", "/run/k.sock" if flag else "/run/c.sock")


def test_a_later_import_with_the_same_key_is_named() -> None:
    node = Node()
    other = "/etc/containerd/conf.d/99-other.toml"
    node.host.given(other, 'version = 3\n[plugins."io.containerd.transfer.v1.local"]\n  max_concurrent_downloads = 2\n')
    with pytest.raises(BallastError) as caught:
        cases.apply(ENGINE, node.request(runtime={"max_concurrent_downloads": 8}), node.host)
    assert caught.value.id == "pulls-node-not-in-effect"
    assert other in caught.value.remedy
