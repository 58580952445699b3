# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CRI-O, under systemd: found as the one runtime that runs, told its cgroup of pulls."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.model import ImagePullsRequest
from tests.unit import cases
from tests.unit.fakes import Answer, Call, FakeHost
from tests.unit.pulls.node.fake_node import params

FILE = "/etc/crio/crio.conf.d/90-ballast-image-pulls.conf"


class Crio:
    def __init__(self, *running: str) -> None:
        self.host = FakeHost(systemd=True)
        self.running = running or ("crio",)
        self.wins = ""  # what another file sets
        self.cgroup = ""
        self.starts = 0
        self.host.given_directory("/var/lib/ballast")
        for name in ("containerd", "crio"):
            self.host.given_process((f"/usr/bin/{name}",))
        self.host.on("systemctl", "show", answer=self._show, reads=True)
        self.host.on("systemctl", "restart", "crio", answer=self._restart)
        self.host.on("crio", "status", "info", answer="", reads=True)
        self.host.on("crio", "status", "config", answer=self._config, reads=True)

    def _show(self, call: Call) -> Answer:
        name = call.argv[-1]
        pid = 4001 + ("containerd", "crio").index(name) if name in self.running else 0
        return f"LoadState=loaded\nMainPID={pid}\n"

    def _restart(self, _call: Call) -> Answer:
        self.starts += 1
        ours = (self.host.read(FILE) or b"").decode()
        self.cgroup = self.wins or ("pulls.slice" if "separate_pull_cgroup" in ours else "")
        return ""

    def _config(self, _call: Call) -> Answer:
        return f'[crio]\n  [crio.runtime]\n    separate_pull_cgroup = "{self.cgroup}"\n'


def request(**options: Any) -> ImagePullsRequest:
    return ImagePullsRequest.from_params(params(**{"runtime_service": None, **options}))


def steps(crio: Crio, desired: ImagePullsRequest) -> list[str]:
    return [f"{step.verb} {step.title}" for step in cases.apply(ENGINE, desired, crio.host).steps]


SLICE = {"runtime": {"separate_pull_cgroup": "pulls.slice"}}


def test_its_cgroup_of_pulls_is_set_and_taken_back() -> None:
    crio = Crio()
    assert steps(crio, request(**SLICE)) == [f"make CRI-O's drop-in {FILE}"]
    assert (crio.cgroup, crio.starts) == ("pulls.slice", 1)
    assert crio.host.text(FILE) == '# ballast: image pulls\n\n[crio.runtime]\nseparate_pull_cgroup = "pulls.slice"\n'
    assert steps(crio, request(**SLICE)) == []
    report: Any = ENGINE.report(Context(request(), crio.host))
    assert report["runtime"]["settings"] == {"separate_pull_cgroup": {"value": "pulls.slice", "source": FILE}}
    steps(crio, request(state="absent"))
    assert (crio.cgroup, crio.starts, crio.host.stat(FILE)) == ("", 2, None)


def test_what_another_file_sets_is_told_and_undone() -> None:
    crio = Crio()
    crio.wins = "pod"
    with pytest.raises(BallastError) as caught:
        steps(crio, request(**SLICE))
    assert caught.value.id == "pulls-node-not-in-effect"
    assert crio.host.stat(FILE) is None


def test_a_limit_that_it_does_not_have_is_refused() -> None:
    crio = Crio()
    with pytest.raises(BallastError) as caught:
        steps(crio, request(runtime={"max_concurrent_downloads": 4}))
    assert caught.value.id == "pulls-node-runtime-key"
    assert "image_pull_proxy" in caught.value.remedy


@pytest.mark.parametrize(
    ("running", "options", "says"),
    [
        (("crio", "containerd"), {}, "containerd and crio runs"),
        (("none",), {}, "neither containerd nor crio runs"),
        (("none",), {"runtime_service": "crio"}, "crio does not run"),
    ],
)
def test_where_it_cannot_be_told_which_runs_it_is_asked_for(
    running: tuple[str, ...], options: dict[str, Any], says: str
) -> None:
    crio = Crio(*running)
    with pytest.raises(BallastError) as caught:
        steps(crio, request(**SLICE, **options))
    assert caught.value.id == "pulls-node-runtime"
    assert says in caught.value.text


def test_what_is_said_is_believed() -> None:
    crio = Crio("crio", "containerd")
    steps(crio, request(**SLICE, container_runtime="crio"))
    assert crio.cgroup == "pulls.slice"
