# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits of real containerds by the engine of image_pulls: Debian's 1.6, whose own file is edited, and the project's 2.3."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import PATH
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.service.cgroup import CgroupKind, Limits
from ansible_collections.ballast.kube.plugins.module_utils._core.service.runit import SupervisorKind
from ansible_collections.ballast.kube.plugins.module_utils._core.service.service import Service
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import ServiceKind, service_pid
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.containerd_tables import CRI_IMAGES, CRI_V2
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.model import SPEC, ImagePullsRequest
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.toml import parse_tables
from tests.integration import journal
from tests.integration.containerds import _CONFIG, NEW, OLD, bin_dir
from tests.integration.debian import unpacked
from tests.integration.kube_proxy import eventually
from tests.integration.wire import namespace

_CGROUP = "ballast-test-containerd"
TRANSFER = 'version = 3\n[plugins."io.containerd.transfer.v1.local"]\n  max_concurrent_downloads = 6\n'

IMPORTS: list[dict[str, Any]] = json.loads(
    (journal.ROOT / "tests/unit/pulls/node/cases/imports.json").read_text("utf-8")
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run containerd")


@dataclass(frozen=True)
class Containerd:
    place: Path

    @property
    def config(self) -> Path:
        return self.place / "config.toml"

    @property
    def service(self) -> str:
        return str(self.place / "sv/containerd")

    @property
    def pid(self) -> int:
        found = service_pid(LocalHost(), self.service)
        assert found is not None, f"containerd does not run: {self.place}/containerd.log"
        return found

    def asked(self, **options: Any) -> ImagePullsRequest:
        params = {
            **{name: row.get("default") for name, row in SPEC.items()},
            "runtime_service": self.service,
            "state_dir": str(self.place / "pulls"),
            "ready_seconds": 60,
        }
        return ImagePullsRequest.from_params({**params, **options})

    def set(self, **options: Any) -> list[str]:
        wanted, host = self.asked(**options), LocalHost()
        plan = ENGINE.plan(wanted, ENGINE.observe(Context(wanted, host)))
        ENGINE.apply(plan, Context(wanted, host, Progress(NullSink(), feature="test")))
        return [f"{step.verb} {step.kind}" for step in plan.steps]

    def runtime(self) -> dict[str, Any]:
        found: Any = ENGINE.report(Context(self.asked(), LocalHost()))["runtime"]
        return dict(found)


@contextmanager
def containerd(version: str, place: Path, *, head: str = "") -> Iterator[Containerd]:
    made = Containerd(place)
    programs = bin_dir() if version == NEW else unpacked("containerd") / "usr/bin"
    host, sv_dir = LocalHost(), os.path.dirname(made.service)
    with journal.directory(str(place)), namespace(f"pulls-{version.replace('.', '')}") as inside:
        text = _CONFIG[version].format(place=place, pause="pause:1", local="false")
        made.config.write_text(text.replace("\n", f"\n{head}", 1), encoding="utf-8")
        (place / "cni").mkdir()
        wanted = Service(
            name="containerd",
            argv=(f"{programs}/containerd", "--config", str(made.config)),
            log=str(place / "containerd.log"),
            cgroup=f"{_CGROUP}/containerd",
            env=(("PATH", f"{programs}:{PATH}"),),
            netns=f"/run/netns/{inside.namespace}",
        )
        try:
            CgroupKind().write(Context(None, host), _CGROUP, asdict(Limits()), ABSENT)
            ServiceKind().write(Context(None, host), made.service, wanted.as_value(), ABSENT)
            SupervisorKind().write(Context(None, host), sv_dir, {"running": True}, ABSENT)
            assert eventually((place / "containerd.sock").exists, seconds=60), f"see {place}/containerd.log"
            yield made
        finally:
            SupervisorKind().remove(Context(None, host), sv_dir, {"running": True})
            CgroupKind().remove(Context(None, host), _CGROUP, ABSENT)


def test_the_number_of_1_6_is_set_in_its_own_file_and_goes_back_to_the_byte(tmp_path: Path) -> None:
    with containerd(OLD, tmp_path / "old") as made:
        before, pid = made.config.read_text(encoding="utf-8"), made.pid
        options = {"runtime": {"max_concurrent_downloads": 7}}
        assert made.set(**options) == ["make containerd-number"]
        assert made.pid != pid
        found = made.runtime()
        assert (found["version"], found["scope"]) == ("1.6", "layers of each image")
        assert found["settings"]["max_concurrent_downloads"] == {"value": 7, "source": str(made.config)}
        assert made.set(**options) == []
        assert made.set(state="absent") == ["remove containerd-number"]
        assert made.config.read_text(encoding="utf-8") == before
        assert made.runtime()["settings"]["max_concurrent_downloads"] == {"value": 3, "source": "default"}


def test_a_file_of_1_6_with_a_password_keeps_owner_and_mode_behind_a_link(tmp_path: Path) -> None:
    """It became a file that everybody may write."""
    with containerd(OLD, tmp_path / "old") as made:
        real = made.config.parent / "real" / "config.toml"
        real.parent.mkdir()
        made.config.rename(real)
        made.config.symlink_to("real/config.toml")
        os.chown(real, 1234, 1235)
        real.chmod(0o600)
        before = real.read_bytes()
        for options in ({"runtime": {"max_concurrent_downloads": 7}}, {"state": "absent"}):
            assert made.set(**options) != []
            found = real.stat()
            assert (found.st_uid, found.st_gid, oct(found.st_mode & 0o7777)) == (1234, 1235, "0o600")
            assert os.readlink(made.config) == "real/config.toml"
        assert real.read_bytes() == before


def test_an_import_of_1_6_that_has_the_table_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    place = tmp_path / "old"
    with containerd(OLD, place, head=f'imports = ["{place}/conf.d/*.toml"]\n') as made:
        (place / "conf.d").mkdir()
        other = '[plugins."io.containerd.grpc.v1.cri"]\n  restrict_oom_score_adj = true\n'
        (place / "conf.d/10.toml").write_text(f"version = 2\n{other}", encoding="utf-8")
        before, pid = made.config.read_text(encoding="utf-8"), made.pid
        with pytest.raises(BallastError) as caught:
            made.set(runtime={"max_concurrent_downloads": 7})
        assert caught.value.id == "pulls-node-import"
        assert caught.value.text.startswith(f"{place}/conf.d/10.toml, which {made.config} imports")
        assert (made.config.read_text(encoding="utf-8"), made.pid) == (before, pid)


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_containerd_whose_cri_plugin_is_disabled_is_refused_and_goes_on(tmp_path: Path, version: str) -> None:
    with containerd(version, tmp_path / "it") as made:
        lines = made.config.read_text(encoding="utf-8").splitlines(keepends=True)
        lines = [line for line in lines if not line.startswith("disabled_plugins")]
        lines.insert(1, 'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        made.config.write_text("".join(lines), encoding="utf-8")
        pid = made.pid
        with pytest.raises(BallastError) as caught:
            made.set(runtime={"max_concurrent_downloads": 7})
        assert (caught.value.id, made.pid) == ("pulls-node-cri-disabled", pid)


@pytest.mark.parametrize("case", [case for case in IMPORTS if case["version"] != [1, 7]], ids=lambda case: case["name"])
def test_the_files_that_decide_are_those_of_a_real_containerd(tmp_path: Path, case: dict[str, Any]) -> None:
    programs = bin_dir() if case["version"] == [2, 0] else unpacked("containerd") / "usr/bin"
    files = {path: text.replace('"/etc/', f'"{tmp_path}/etc/') for path, text in case["files"].items()}
    for path, text in files.items():
        Path(f"{tmp_path}{path}").parent.mkdir(parents=True, exist_ok=True)
        Path(f"{tmp_path}{path}").write_text(text, encoding="utf-8")
    argv = [f"{programs}/containerd", "--config", f"{tmp_path}/etc/containerd/config.toml", "config", "dump"]
    dump = parse_tables(LocalHost().run(argv, timeout=30).stdout)
    table = CRI_IMAGES if case["version"] == [2, 0] else CRI_V2
    expected = parse_tables(files[case["sets"]])[CRI_V2] if case["sets"] else {"max_concurrent_downloads": 3}
    assert dump[table]["max_concurrent_downloads"] == expected["max_concurrent_downloads"]


def test_what_keeps_2_3_from_its_transfer_service_chooses_the_table(tmp_path: Path) -> None:
    place = tmp_path / "new"
    with containerd(NEW, place, head=f'imports = ["{place}/conf.d/*.toml"]\n') as made:
        assert made.set(runtime={"max_concurrent_downloads": 7}) == ["make containerd-drop-in"]
        assert made.runtime()["table"] == "io.containerd.transfer.v1.local"
        local = 'version = 3\n[plugins."io.containerd.cri.v1.images".registry.mirrors."docker.io"]\n  endpoint = ["http://x"]\n'
        (place / "conf.d/10.toml").write_text(local, encoding="utf-8")
        assert made.runtime()["local_pull"] == "registry.mirrors is set"
        assert made.set(runtime={"max_concurrent_downloads": 7}) == ["change containerd-drop-in"]
        found = made.runtime()
        assert found["table"] == "io.containerd.cri.v1.images"
        assert found["settings"]["max_concurrent_downloads"]["value"] == 7
        assert made.set(state="absent") == ["remove containerd-drop-in"]
        assert os.listdir(place / "conf.d") == ["10.toml"]


def test_a_later_import_that_wins_is_seen_before_the_restart(tmp_path: Path) -> None:
    place = tmp_path / "new"
    with containerd(NEW, place, head=f'imports = ["{place}/conf.d/*.toml"]\n') as made:
        (place / "conf.d").mkdir()
        (place / "conf.d/99.toml").write_text(TRANSFER, encoding="utf-8")
        with pytest.raises(BallastError) as caught:
            made.set(runtime={"max_concurrent_downloads": 7})
        assert caught.value.id == "pulls-node-not-in-effect"
        assert "max_concurrent_downloads = 6" in caught.value.found
        assert os.listdir(place / "conf.d") == ["99.toml"]
