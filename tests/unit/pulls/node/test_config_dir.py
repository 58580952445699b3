# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kubelet of kubeadm gets --config-dir where its unit expects it, and loses it again with the limits."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._kubelet.extra_args import (
    add_flag,
    find_flag_value,
    remove_flag,
)
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.engine import ENGINE
from tests.unit import cases
from tests.unit.pulls.node.fake_node import CONFIG_DIR, KUBELET_FILE
from tests.unit.pulls.node.kubeadm_node import DEFAULT_FILE, FLAGS_FILE, SYSCONFIG_FILE, KubeadmNode

FLAG = f"--config-dir={CONFIG_DIR}"
LIMIT = {"max_parallel_image_pulls": 5}
OTHERS = '# ours\nKUBELET_EXTRA_ARGS="--node-ip=192.0.2.7 --v=2"\nHTTP_PROXY=http://192.0.2.1:3128'


def titles(node: KubeadmNode, **options: Any) -> list[str]:
    return [f"{step.verb} {step.title}" for step in cases.apply(ENGINE, node.request(**options), node.host).steps]


@pytest.mark.parametrize("file", [DEFAULT_FILE, SYSCONFIG_FILE])
@pytest.mark.parametrize("text", [None, "", "KUBELET_EXTRA_ARGS=\n", OTHERS])
def test_the_flag_is_added_with_one_restart_and_removed_to_the_byte(file: str, text: Optional[str]) -> None:
    node = KubeadmNode(file=file, text=text)
    before, flags = node.host.snapshot(), node.host.text(FLAGS_FILE)
    assert titles(node, **LIMIT) == [
        f"make directory {CONFIG_DIR}",
        f"make the kubelet's drop-in {KUBELET_FILE}",
        f"make --config-dir in KUBELET_EXTRA_ARGS of {file}",
    ]
    assert node.extra() == [FLAG, *(["--node-ip=192.0.2.7", "--v=2"] if text == OTHERS else [])]
    assert (node.starts, node.effective["maxParallelImagePulls"]) == (1, 5)
    assert "not in effect yet" not in node.host.text(KUBELET_FILE)
    assert node.host.text(FLAGS_FILE) == flags
    assert titles(node, **LIMIT) == []
    assert titles(node, max_parallel_image_pulls=6) == [f"change the kubelet's drop-in {KUBELET_FILE}"]
    assert (node.starts, node.effective["maxParallelImagePulls"]) == (2, 6)
    titles(node, state="absent")
    assert node.host.snapshot() == before
    assert (node.starts, node.effective["maxParallelImagePulls"]) == (3, None)


@pytest.mark.parametrize("text", [None, OTHERS])
def test_a_run_killed_anywhere_is_finished_or_undone_by_the_next(text: Optional[str]) -> None:
    nodes: list[KubeadmNode] = []

    def machine() -> Any:
        nodes.append(KubeadmNode(text=text))
        return nodes[-1].host

    want, nothing = KubeadmNode().request(**LIMIT), KubeadmNode().request(state="absent")
    kills = cases.check_kills(
        ENGINE, machine, want, nothing, lambda _host: nodes[-1].effective["maxParallelImagePulls"] == 5
    )
    assert kills > 20


def test_what_the_administrator_adds_later_stays() -> None:
    node = KubeadmNode(text=OTHERS)
    titles(node, **LIMIT)
    node.host.given(DEFAULT_FILE, node.host.text(DEFAULT_FILE).replace("--v=2", "--v=4"))
    node.host.given(f"{CONFIG_DIR}/notes", "theirs\n")
    titles(node, state="absent")
    assert node.host.text(DEFAULT_FILE) == OTHERS.replace("--v=2", "--v=4")
    assert node.host.paths(CONFIG_DIR)[1:] == [f"{CONFIG_DIR}/notes"]


def test_the_flag_stays_while_the_kubelet_reads_drop_ins_of_others() -> None:
    node = KubeadmNode(text=OTHERS)
    titles(node, **LIMIT)
    theirs = f"{CONFIG_DIR}/20-theirs.conf"
    node.host.given(theirs, "kind: KubeletConfiguration\nregistryBurst: 7\n")
    titles(node, state="absent")
    assert node.extra()[0] == FLAG
    assert node.host.paths(CONFIG_DIR)[1:] == [theirs]
    assert (node.effective["registryBurst"], node.effective["maxParallelImagePulls"]) == (7, None)
    assert titles(node, state="absent") == []


def test_a_flag_that_was_there_before_us_is_used_and_stays() -> None:
    node = KubeadmNode(text=f"KUBELET_EXTRA_ARGS={FLAG}\n")
    node.host.given_directory(CONFIG_DIR)
    before = node.host.snapshot()
    assert titles(node, **LIMIT) == [f"make the kubelet's drop-in {KUBELET_FILE}"]
    titles(node, state="absent")
    assert node.host.snapshot() == before
    assert node.extra() == [FLAG]


def test_a_kubelet_that_does_not_start_with_the_flag_goes_back() -> None:
    node = KubeadmNode(text=OTHERS)
    before = node.host.snapshot()
    node.can_start = lambda _name: not any(flag == FLAG for flag in node.flags)  # type: ignore[method-assign]
    with pytest.raises(BallastError) as caught:
        titles(node, **LIMIT)
    assert caught.value.id == "pulls-node-kubelet-failed"
    assert node.host.snapshot() == before
    assert node.kubelet_pid()


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (KubeadmNode(arguments="--v=2"), "pulls-node-config-dir"),
        (KubeadmNode(environment="/etc/kubernetes/kubelet.env"), "pulls-node-config-dir"),
        (KubeadmNode(kubelet="v1.29.15"), "pulls-node-kubelet-version"),
    ],
    ids=["the unit takes no extra arguments", "kubespray", "too old"],
)
def test_where_the_flag_has_no_place_nothing_is_changed(node: KubeadmNode, expected: str) -> None:
    with pytest.raises(BallastError) as caught:
        titles(node, **LIMIT)
    error = caught.value
    assert [each.id for each in error.problems] if isinstance(error, Problems) else [error.id] == [expected]
    assert node.host.effects == []


def test_a_flag_that_waits_for_a_restart_is_not_added_again() -> None:
    node = KubeadmNode()
    node.host.given(DEFAULT_FILE, "KUBELET_EXTRA_ARGS=--config-dir /etc/theirs\n")
    with pytest.raises(BallastError) as caught:
        titles(node, **LIMIT)
    error = caught.value
    assert [each.id for each in getattr(error, "problems", [error])] == ["pulls-node-config-dir-later"]


WORDS = st.sampled_from(["--v=2", "--node-ip=192.0.2.7", "--config=/x", "--feature-gates=A=true"])
VALUES = st.builds(
    lambda words, quote: f"{quote}{' '.join(words)}{quote}", st.lists(WORDS), st.sampled_from(["", '"', "'"])
)
LINES = st.one_of(
    st.sampled_from(["", "# KUBELET_EXTRA_ARGS=--old", "A=b", 'B="KUBELET_EXTRA_ARGS=x"']),
    st.builds(lambda space, value: f"KUBELET_EXTRA_ARGS={space}{value}", st.sampled_from(["", " "]), VALUES),
)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, st.lists(LINES, max_size=4), st.sampled_from(["", "\n"]))


@given(TEXTS)
def test_whatever_the_file_has_the_flag_is_found_and_removed_to_the_byte(text: str) -> None:
    added = add_flag(text, FLAG)
    assert find_flag_value(added, "config-dir") == CONFIG_DIR
    assert remove_flag(added, FLAG) == text
    assert find_flag_value(text, "config-dir") == ""
