# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The change of a node's limits: its plan in each case, and that it ends well wherever it is killed."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.model import ImagePullsRequest
from tests.unit import cases
from tests.unit.pulls.node.fake_node import (
    CONFIG_DIR,
    CONTAINERD_FILE,
    HEAD,
    KUBELET,
    KUBELET_FILE,
    MAIN,
    MAIN_V2,
    MAIN_V3,
    Node,
)

LIMITS: dict[str, Any] = {"max_parallel_image_pulls": 5, "runtime": {"max_concurrent_downloads": 8}}
TRANSFER = "plugins.io.containerd.transfer.v1.local"
CRI_V2 = "plugins.io.containerd.grpc.v1.cri"
MAKE = [f"make containerd's drop-in {CONTAINERD_FILE}", f"make the kubelet's drop-in {KUBELET_FILE}"]


def plan(node: Node, request: ImagePullsRequest) -> list[str]:
    """The plan, which is made without an effect."""
    before = len(node.host.effects)
    titles = [f"{step.verb} {step.title}" for step in cases.plan_of(ENGINE, request, node.host).steps]
    assert node.host.effects[before:] == []
    return titles


def apply(node: Node, request: ImagePullsRequest) -> list[str]:
    return [f"{step.verb} {step.title}" for step in cases.apply(ENGINE, request, node.host).steps]


def refusal(node: Node, request: ImagePullsRequest) -> BallastError:
    """It is, before anything is changed."""
    before = len(node.host.effects)
    with pytest.raises(BallastError) as caught:
        apply(node, request)
    assert node.host.effects[before:] == []
    return caught.value


def findings(node: Node, request: ImagePullsRequest) -> list[tuple[str, bool]]:
    reported = ENGINE.verify(Context(request, node.host, Progress(NullSink(), feature="test")))
    return [(finding.id, finding.blocking) for finding in reported]


def in_effect(node: Node) -> bool:
    return (
        node.effective["maxParallelImagePulls"] == 5 and node.containerd_has[TRANSFER]["max_concurrent_downloads"] == 8
    )


def at_rest(node: Node) -> bool:
    """Both run, with what their files say, and no file is marked."""
    files = [node.host.text(path) for path in (*node.host.paths(CONFIG_DIR)[1:], MAIN)]
    files += [node.host.text(path) for path in (CONTAINERD_FILE,) if node.host.stat(path)]
    return (
        bool(node.kubelet_pid() and node.containerd_pid())
        and node.effective == node._kubelet_reads()
        and node.containerd_has == node.containerd_reads()
        and not any("not in effect yet" in text for text in files)
    )


# Plans and their effect


def test_both_levels_are_set_and_a_second_run_changes_nothing() -> None:
    node = Node()
    assert plan(node, node.request(**LIMITS)) == MAKE
    apply(node, node.request(**LIMITS))
    assert in_effect(node)
    assert at_rest(node)
    assert node.effective["serializeImagePulls"] is False
    assert plan(node, node.request(**LIMITS)) == []
    assert findings(node, node.request(**LIMITS)) == []


def test_only_what_changed_is_started_anew() -> None:
    node = Node()
    apply(node, node.request(**LIMITS))
    containerd, kubelet = node.containerd_pid(), node.kubelet_pid()
    assert apply(node, node.request(**{**LIMITS, "max_parallel_image_pulls": 6})) == [
        f"change the kubelet's drop-in {KUBELET_FILE}"
    ]
    assert (node.containerd_pid(), node.effective["maxParallelImagePulls"]) == (containerd, 6)
    assert node.kubelet_pid() != kubelet


BEHIND: dict[str, Any] = {"serialize_image_pulls": False, "registry_pull_qps": 0}


@pytest.mark.parametrize("endpoint", ["/run/ballast-pull-proxy/n1.sock", "unix:///run/ballast-pull-proxy/n1.sock"])
def test_a_kubelet_is_put_behind_the_proxy_and_back(endpoint: str) -> None:
    node = Node()
    given = node.effective
    request = node.request(image_service_endpoint=endpoint, **BEHIND)
    assert apply(node, request) == [f"make the kubelet's drop-in {KUBELET_FILE}"]
    assert node.effective == {
        "imageServiceEndpoint": "unix:///run/ballast-pull-proxy/n1.sock",
        "serializeImagePulls": False,
        "maxParallelImagePulls": None,
        "registryPullQPS": 0,
        "registryBurst": 10,
    }
    assert plan(node, request) == []
    assert findings(node, request) == []
    apply(node, node.request(state="absent"))
    assert node.effective == given


@pytest.mark.parametrize(
    "endpoint", ["", "run/x.sock", "tcp://127.0.0.1:1", "unix://x", '/run/"x', "/run//x", "/run/x\n"]
)
def test_an_endpoint_that_is_no_socket_is_refused(endpoint: str) -> None:
    node = Node()
    with pytest.raises(BallastError) as caught:
        node.request(image_service_endpoint=endpoint)
    assert caught.value.id == "pulls-node-value"


def test_what_is_asked_for_no_more_is_taken_back() -> None:
    node = Node()
    given = node.host.snapshot()
    apply(node, node.request(**LIMITS))
    assert apply(node, node.request(max_parallel_image_pulls=5)) == [f"remove containerd's drop-in {CONTAINERD_FILE}"]
    apply(node, node.request(state="absent", max_parallel_image_pulls=5))
    assert at_rest(node)
    assert node.effective["maxParallelImagePulls"] is None
    after = node.host.snapshot()
    assert {path for path in given if given[path] != after.get(path)} <= {
        "/etc/sv/kubelet/supervise/pid",
        "/etc/sv/containerd/supervise/pid",
    }
    assert set(given) == set(after)


@pytest.mark.parametrize(("given", "kept"), [(0o600, 0o600), (0o662, 0o640)], ids=["private", "others may write"])
def test_containerds_own_file_keeps_owner_and_mode_behind_a_link_too(given: int, kept: int) -> None:
    """It may hold the password of a registry."""
    node, real = Node(version="1.7.27"), "/etc/containerd/real/config.toml"
    node.host.given_behind_link(MAIN, real, 65, 66, mode=given)
    apply(node, node.request(runtime={"max_concurrent_downloads": 8}))
    assert node.containerd_has[CRI_V2] == {"max_concurrent_downloads": 8, "sandbox_image": "pause"}
    assert node.host.owner(real) == (65, 66, kept)
    apply(node, node.request(state="absent"))
    assert node.host.owner(real) == (65, 66, kept)
    assert (node.host.text(real), node.host.readlink(MAIN)) == (MAIN_V2, real)


def test_before_containerd_2_the_number_is_set_in_its_own_file_and_the_rest_stays() -> None:
    node = Node(version="1.7.27")
    request = node.request(runtime={"max_concurrent_downloads": 8})
    assert plan(node, request) == [f"make max_concurrent_downloads of {MAIN}"]
    apply(node, request)
    assert node.containerd_has[CRI_V2] == {"max_concurrent_downloads": 8, "sandbox_image": "pause"}
    assert node.host.text(MAIN) == MAIN_V2.replace("# ours\n", "# ours\n    max_concurrent_downloads = 8\n")
    assert node.host.mode(MAIN) == 0o640
    assert plan(node, request) == []
    apply(node, node.request(state="absent"))
    assert node.host.text(MAIN) == MAIN_V2
    assert at_rest(node)


def test_a_number_that_was_there_comes_back() -> None:
    main = MAIN_V2.replace('sandbox_image = "pause"', "max_concurrent_downloads=4   # four")
    node = Node(version="1.6.20", main=main)
    apply(node, node.request(runtime={"max_concurrent_downloads": 8}))
    assert "max_concurrent_downloads=8   # four\n" in node.host.text(MAIN)
    apply(node, node.request(state="absent"))
    assert node.host.text(MAIN) == main


@pytest.mark.parametrize(
    ("version", "file_version", "table", "header"),
    [
        ("2.0.5", 3, "plugins.io.containerd.cri.v1.images", "io.containerd.cri.v1.images"),
        ("2.0.5", 2, "plugins.io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri"),
        ("2.1.4", 3, TRANSFER, "io.containerd.transfer.v1.local"),
        ("2.2.1", 2, TRANSFER, "io.containerd.transfer.v1.local"),
        ("2.3.7", 4, TRANSFER, "io.containerd.transfer.v1.local"),
    ],
)
def test_the_version_chooses_the_table(version: str, file_version: int, table: str, header: str) -> None:
    """A drop-in is of its main file's version, which it may not be above."""
    node = Node(version=version, main=MAIN_V3.replace("version = 3", f"version = {file_version}"))
    apply(node, node.request(runtime={"max_concurrent_downloads": 8}))
    assert node.containerd_has[table]["max_concurrent_downloads"] == 8
    text = node.host.text(CONTAINERD_FILE)
    assert f'version = {file_version}\n\n[plugins."{header}"]\n' in text


def test_where_it_pulls_without_the_transfer_service_the_other_table_counts() -> None:
    main = MAIN_V3 + '[plugins."io.containerd.cri.v1.images"]\n  discard_unpacked_layers = true\n'
    node = Node(main=main)
    apply(node, node.request(runtime={"max_concurrent_downloads": 8}))
    assert node.containerd_has["plugins.io.containerd.cri.v1.images"]["max_concurrent_downloads"] == 8
    assert node.containerd_has[TRANSFER]["max_concurrent_downloads"] == 3
    assert plan(node, node.request(runtime={"max_concurrent_downloads": 8})) == []
    error = refusal(node, node.request(runtime={"max_concurrent_unpacks": 2}))
    assert error.id == "pulls-node-runtime-key"
    assert "discard_unpacked_layers = true" in str(error)


# Refusals


def test_flags_that_would_win_are_named_with_their_places() -> None:
    node = Node()
    node.flags = (*node.flags, "--serialize_image_pulls=false", "--registry-qps", "3")
    node.host.given(f"{KUBELET}/run", "#!/bin/sh\n# --registry-qps=4\nexec kubelet --registry-qps=3\n", mode=0o755)
    pid = node.kubelet_pid()
    node.host.processes[pid].argv = node.argv("kubelet")
    error = refusal(node, node.request(max_parallel_image_pulls=5, registry_pull_qps=1))
    assert isinstance(error, Problems)
    assert [(problem.id, problem.found) for problem in error.problems] == [
        ("pulls-node-flag", f"process {pid}, {KUBELET}/run:3"),
        ("pulls-node-flag", f"process {pid}"),
    ]
    assert plan(node, node.request(registry_burst=1)) == [MAKE[1]]


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"registry_burst": 3, "kubelet_service": "/etc/sv/nothing"}, "kubelet_service"),
        ({"runtime": {"max_concurrent_downloads": 3}, "container_runtime": "containerd"}, "runtime_service"),
        ({"runtime": {"max_concurrent_downloads": 3}, "container_runtime": "crio"}, "runtime_service"),
    ],
)
def test_a_service_that_is_not_there_is_named(options: dict[str, Any], option: str) -> None:
    node = Node()
    error = refusal(node, node.request(**{"runtime_service": "/etc/sv/nothing", **options}))
    assert error.id == "pulls-node-service"
    assert error.text.startswith(f"{option}: service /etc/sv/nothing does not exist")


def test_errors_of_all_levels_are_told_at_once() -> None:
    node = Node(main="version = 3\n")
    node.flags = ()
    node.host.processes[node.kubelet_pid()].argv = node.argv("kubelet")
    error = refusal(node, node.request(**LIMITS, host={"max_in_flight": 4}))
    assert isinstance(error, Problems)
    ids = ["pulls-node-runtime-config", "pulls-node-config-dir", "pulls-node-no-proxy"]
    assert [problem.id for problem in error.problems] == ids
    assert 'imports = ["/etc/containerd/conf.d/*.toml"]' in str(error)


@pytest.mark.parametrize(
    ("main", "says"),
    [
        ('version = 3\nimports = ["/x/only.toml"]\n', 'imports = ["/x/only.toml", "/etc/containerd/conf.d/*.toml"]'),
        ("version = 3\nimports = some\n", "its imports cannot be read"),
        ("", "it has version 1"),
    ],
)
def test_a_main_file_that_cannot_be_used_is_refused(main: str, says: str) -> None:
    node = Node(main=main)
    error = refusal(node, node.request(runtime={"max_concurrent_downloads": 8}))
    assert error.id == "pulls-node-runtime-config"
    assert says in str(error)


@pytest.mark.parametrize("main", ["version = 2\n", MAIN_V2 + MAIN_V2.partition("\n")[2]])
def test_a_table_that_is_not_there_once_is_refused(main: str) -> None:
    node = Node(version="1.6.20", main=main)
    error = refusal(node, node.request(runtime={"max_concurrent_downloads": 8}))
    assert error.id == "pulls-node-runtime-config"


@pytest.mark.parametrize(
    ("version", "key"),
    [
        ("2.0.5", "max_concurrent_unpacks"),
        ("2.1.4", "max_concurrent_unpacks"),
        ("1.7.27", "concurrent_layer_fetch_buffer"),
    ],
)
def test_a_key_that_the_version_does_not_have_is_refused(version: str, key: str) -> None:
    node = Node(version=version)
    assert refusal(node, node.request(runtime={key: 2})).id == "pulls-node-runtime-key"


@pytest.mark.parametrize("version", ["1.5.18", "3.0.0"])
def test_a_version_that_is_not_known_is_refused(version: str) -> None:
    node = Node(version=version)
    assert refusal(node, node.request(runtime={"max_concurrent_downloads": 2})).id == "pulls-node-runtime-version"


def test_the_number_that_flips_the_way_of_pulling_is_refused() -> None:
    main = MAIN_V3 + '[plugins."io.containerd.cri.v1.images"]\n  max_concurrent_downloads = 5\n'
    node = Node(main=main)
    error = refusal(node, node.request(runtime={"max_concurrent_downloads": 8}))
    assert error.id == "pulls-node-local-pull"


# What fails is undone


def test_a_kubelet_that_does_not_come_back_gets_its_file_back_and_so_does_containerd() -> None:
    node = Node()
    node.host.given(f"{CONFIG_DIR}/99-other.conf", f"{HEAD}serializeImagePulls: true\n")
    with pytest.raises(BallastError) as caught:
        apply(node, node.request(**LIMITS))
    assert caught.value.id == "pulls-node-kubelet-failed"
    assert "undone: 2 of 2 steps; left: nothing" in caught.value.text
    assert at_rest(node)
    assert not in_effect(node)
    assert node.host.stat(KUBELET_FILE) is None
    assert node.host.stat(CONTAINERD_FILE) is None


def test_a_file_that_wins_over_ours_is_told() -> None:
    node = Node()
    node.host.given(f"{CONFIG_DIR}/99-other.conf", f"{HEAD}registryBurst: 77\n")
    with pytest.raises(BallastError) as caught:
        apply(node, node.request(registry_burst=20))
    assert (caught.value.id, caught.value.found) == ("pulls-node-not-in-effect", "registryBurst: 77 in /configz")
    assert at_rest(node)
    assert node.host.stat(KUBELET_FILE) is None


def test_what_goes_back_need_but_be_healthy() -> None:
    """What was there is against another file's word as well; that has been told for what was to come."""
    node = Node()
    apply(node, node.request(max_parallel_image_pulls=1))
    node.host.given(f"{CONFIG_DIR}/99-other.conf", f"{HEAD}serializeImagePulls: true\n")
    with pytest.raises(BallastError) as caught:
        apply(node, node.request(max_parallel_image_pulls=5))
    assert caught.value.id == "pulls-node-kubelet-failed"
    assert "left: nothing" in caught.value.text
    assert at_rest(node)
    assert node.effective["maxParallelImagePulls"] == 1
    assert findings(node, node.request(max_parallel_image_pulls=1)) == [("pulls-node-not-in-effect", True)]


def test_a_containerd_without_its_cri_plugin_is_not_healthy() -> None:
    node = Node()
    node.broken_cri = True
    with pytest.raises(BallastError) as caught:
        apply(node, node.request(runtime={"max_concurrent_downloads": 8}))
    assert caught.value.id == "pulls-node-runtime-failed"
    assert "io.containerd.grpc.v1.cri: error" in caught.value.found


def test_an_import_that_replaces_the_table_is_named_before_anything_is_changed() -> None:
    """An import of a containerd before 2.0 that has the table, too: it wins over the main file."""
    node = Node(version="1.6.20", main='imports = ["/etc/containerd/conf.d/*.toml"]\n' + MAIN_V2)
    node.host.given(
        "/etc/containerd/conf.d/10-cri.toml", f'version = 2\n[plugins."{CRI_V2[8:]}"]\n  sandbox_image = "x"\n'
    )
    error = refusal(node, node.request(runtime={"max_concurrent_downloads": 8}))
    assert error.id == "pulls-node-import"
    assert error.text.startswith(f"/etc/containerd/conf.d/10-cri.toml, which {MAIN} imports, replaces")


@pytest.mark.parametrize("version", ["2.3.7", "1.7.27"])
@pytest.mark.parametrize(
    ("effects", "named"),
    [
        ({"grpc": {"address": "/run/other.sock"}}, "grpc.address"),
        ({"grpc": {"gid": 7}}, "grpc.gid"),  # a key that was not there
        ({"grpc": {"address": None}}, "grpc.address"),  # one that is gone
        ({"debug": {"level": "trace"}}, "debug.level"),
    ],
)
def test_nothing_else_may_change_with_the_limit(version: str, effects: dict[str, dict[str, Any]], named: str) -> None:
    node = Node(version=version)
    before, seen = node.containerd_reads(), []
    node.side_effects = effects
    real = node.started
    node.started = lambda name, pid: (real(name, pid), seen.append(node.containerd_has))  # type: ignore[method-assign,func-returns-value,assignment]
    with pytest.raises(BallastError) as caught:
        apply(node, node.request(runtime={"max_concurrent_downloads": 8}))
    assert caught.value.id == "pulls-node-runtime-config"
    assert f"containerd would change {named}" in caught.value.text + caught.value.found
    assert node.containerd_reads() == before
    assert all(has == before for has in seen), "it is never started with that file"


@pytest.mark.parametrize("version", ["2.3.7", "1.7.27"])
def test_what_was_otherwise_before_is_no_change(version: str) -> None:
    node = Node(version=version)
    settings = {"max_concurrent_downloads": 8}
    apply(node, node.request(runtime=settings))
    node.side_effects = {"grpc": {"address": "/run/other.sock"}}
    apply(node, node.request(runtime={"max_concurrent_downloads": 9}))
    assert node.containerd_has["grpc"] == {"address": "/run/other.sock"}


def test_a_kubelet_that_cannot_be_read_back_is_a_finding() -> None:
    node = Node()
    node.deaf = True
    apply(node, node.request(**LIMITS))
    assert in_effect(node)
    assert findings(node, node.request(**LIMITS)) == [("pulls-node-not-read-back", False)]
    assert findings(node, node.request(**LIMITS, kubeconfig=None)) == [("pulls-node-not-read-back", False)]


def test_a_kubelet_that_was_started_with_something_else_is_a_blocking_finding() -> None:
    node = Node()
    apply(node, node.request(**LIMITS))
    node.effective["maxParallelImagePulls"] = None
    assert findings(node, node.request(**LIMITS)) == [("pulls-node-not-in-effect", True)]


# Kills


@pytest.mark.parametrize("version", ["2.3.7", "1.7.27"])
def test_killed_at_any_effect_the_next_run_brings_it_to_its_end(version: str) -> None:
    node = Node(version=version)
    made: list[Node] = []

    def machine() -> Any:
        made.append(Node(version=version))
        return _Settled(made[-1])

    def holds(_host: Any) -> bool:
        table = CRI_V2 if version.startswith("1.") else TRANSFER
        last = made[-1]
        downloads = last.containerd_has[table]["max_concurrent_downloads"]
        return at_rest(last) and (last.effective["maxParallelImagePulls"], downloads) == (5, 8)

    want, nothing = node.request(**LIMITS), node.request(state="absent")
    kills = cases.check_kills(ENGINE, machine, want, nothing, holds)
    assert kills > 40
    assert all(at_rest(node) for node in made)


class _Settled:
    """The machine of a node, whose snapshot leaves out what differs with each start of a service."""

    def __init__(self, node: Node) -> None:
        self._host = node.host

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def snapshot(self) -> dict[str, object]:
        snapshot = self._host.snapshot()
        return {path: value for path, value in snapshot.items() if not path.endswith("/supervise/pid")}


# What is in effect, and where it comes from


def test_each_value_has_its_source() -> None:
    node = Node()
    node.host.given(f"{CONFIG_DIR}/10-other.conf", f"{HEAD}registryBurst: 30\n")
    node.host.given(f"{KUBELET}/run", "#!/bin/sh\nexec kubelet --registry-qps=3\n", mode=0o755)
    apply(node, node.request(max_parallel_image_pulls=5, runtime={"max_concurrent_downloads": 8}))
    report: Any = ENGINE.report(Context(node.request(), node.host))
    settings = report["kubelet"]["settings"]
    assert settings["maxParallelImagePulls"]["value"] == 5
    assert settings["registryBurst"] == {"value": 30, "source": f"{CONFIG_DIR}/10-other.conf"}
    assert settings["registryPullQPS"]["source"] == f"--registry-qps of {KUBELET}/run:2"
    runtime = report["runtime"]
    assert (runtime["name"], runtime["version"], runtime["scope"]) == ("containerd", "2.3", "layers of all images")
    assert runtime["settings"]["max_concurrent_downloads"] == {"value": 8, "source": CONTAINERD_FILE}
    assert runtime["settings"]["max_concurrent_unpacks"] == {"value": 1, "source": "default"}
    assert report["host"] == {
        "config_path": "/etc/ballast/pull-proxy.json",
        "installed": False,
        "running": False,
        "settings": {},
        "unread": "",
    }


def test_without_access_the_files_are_read() -> None:
    node = Node()
    apply(node, node.request(max_parallel_image_pulls=5))
    report: Any = ENGINE.report(Context(node.request(kubeconfig=None), node.host))
    assert report["kubelet"]["read_back"] is False
    assert "no kubeconfig is named" in report["kubelet"]["unread"]
    assert report["kubelet"]["settings"]["maxParallelImagePulls"] == {"value": 5, "source": KUBELET_FILE}
    assert report["kubelet"]["settings"]["serializeImagePulls"] == {"value": False, "source": KUBELET_FILE}
    assert report["kubelet"]["settings"]["registryBurst"] == {"value": 10, "source": "default"}
