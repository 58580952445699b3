# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the kubelet reads and where it answers. The base file is read first, then the drop-ins as filepath.WalkDir visits them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.kubelet import (
    check_health,
    find_kubelet,
    read_config_files,
)
from tests.unit.pulls.node.fake_node import BASE, CONFIG_DIR, HEAD, Node

IN_ORDER = [
    BASE,
    f"{CONFIG_DIR}/10-a.conf",
    f"{CONFIG_DIR}/20-dir/00-z.conf",
    f"{CONFIG_DIR}/20-dir/deeper/99.conf",
    f"{CONFIG_DIR}/20-dir.conf",
    f"{CONFIG_DIR}/9-late.conf",
    f"{CONFIG_DIR}/B.conf",
    f"{CONFIG_DIR}/a.conf",
]
_NOT_READ = [f"{CONFIG_DIR}/99-note.yaml", f"{CONFIG_DIR}/99.conf.bak", f"{CONFIG_DIR}/99-conf"]


def node_with(files: list[str]) -> Node:
    """Each file sets registryBurst to its place in `files`, from 100 on."""
    node = Node()
    for number, path in enumerate(files, start=100):
        text = json.dumps({"kind": "KubeletConfiguration", "registryBurst": number})
        node.host.given(path, text if path == BASE else f"{HEAD}registryBurst: {number}\n")
    return node


def burst(node: Node) -> Any:
    report: Any = ENGINE.report(Context(node.request(kubeconfig=None), node.host))
    return report["kubelet"]["settings"]["registryBurst"]


def test_the_files_are_read_in_the_kubelets_order() -> None:
    node = node_with([*reversed(IN_ORDER), *_NOT_READ])
    kubelet = find_kubelet(node.host, node.request().layout)
    assert [file.path for file in read_config_files(node.host, kubelet)] == IN_ORDER


@pytest.mark.parametrize(("first", "second"), list(zip(IN_ORDER, IN_ORDER[1:])))
def test_of_two_files_the_later_one_wins(first: str, second: str) -> None:
    assert burst(node_with([first, second])) == {"value": 101, "source": second}
    assert burst(node_with([second, first])) == {"value": 100, "source": second}


def test_what_only_the_base_file_sets_stays() -> None:
    node = node_with([BASE])
    node.host.given(f"{CONFIG_DIR}/10-a.conf", f"{HEAD}registryPullQPS: 7\n")
    assert burst(node) == {"value": 100, "source": BASE}


@pytest.mark.parametrize(
    ("config", "flags", "url"),
    [
        ({}, (), "http://127.0.0.1:10248/healthz"),
        ({"healthzPort": 10300, "healthzBindAddress": "192.0.2.7"}, (), "http://192.0.2.7:10300/healthz"),
        ({"healthzPort": 10300}, ("--healthz-port=10400",), "http://127.0.0.1:10400/healthz"),
        ({"healthzBindAddress": "192.0.2.7"}, ("--healthz-bind-address=::1",), "http://[::1]:10248/healthz"),
        ({"healthzBindAddress": "0.0.0.0"}, (), "http://127.0.0.1:10248/healthz"),  # any address is no destination
        ({"healthzBindAddress": "::"}, (), "http://[::1]:10248/healthz"),
        ({"healthzPort": 0}, (), ""),  # switched off: the Node says how it is
        ({}, ("--healthz-port=0",), ""),
    ],
)
def test_its_health_is_asked_where_it_listens(config: dict[str, Any], flags: tuple[str, ...], url: str) -> None:
    node = Node()
    node.host.given(BASE, json.dumps({"kind": "KubeletConfiguration", **config}))
    kubelet = find_kubelet(node.host, node.request().layout)
    kubelet = replace(kubelet, argv=(*kubelet.argv, *flags))
    node.host.requests.clear()
    for status, problem in ((200, ""), (500, "it returns 500 on /healthz"), (204, "it returns 204 on /healthz")):
        if url:
            node.host.answer(url, Response(status=status, body=b""))
        assert check_health(node.host, kubelet) == (problem if url else "")
    assert {asked for _method, asked, _body in node.host.requests} == ({url} if url else set())
