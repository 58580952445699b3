# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a module does without root: one that needs it says so, and concludes nothing from the little that it can see."""

from __future__ import annotations

import importlib
import inspect
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._ansible import run as loop
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._node.features import FEATURES
from ansible_collections.ballast.kube.plugins.module_utils._node.kept import MAIN
from ansible_collections.ballast.kube.plugins.modules import kube_proxy_info
from tests.unit.ansible.toy import SPEC, Ran, feature

ROOT = Path(__file__).resolve().parents[3]
# A page whose work an action plugin does has no program that runs on a node.
MODULES = sorted(path.stem for path in (ROOT / "plugins/modules").glob("*.py") if "\ndef main(" in path.read_text())
# On files of their user, or through an API server. docs/reference/errors-core.md#core-not-root names them.
WITHOUT_ROOT = {
    "balloon",
    "balloon_info",
    "fleet_run",
    "image_archive",
    "image_archive_info",
    "image_pull_priority",
    "kube_proxy_daemonset",
    "kubernetes_binaries",
    "kubernetes_binaries_info",
    "lab_info",
    "lab_kubeconfig",
    "node_credentials_info",
    "readiness_info",
    "service_proxy_daemonset",
    "service_rules_info",  # of a dump or a compiler
}


@contextmanager
def without_root() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.mark.parametrize("name", MODULES)
def test_each_module_says_whether_it_needs_root(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the one place where the run loop looks."""
    module: Any = importlib.import_module(f"ansible_collections.ballast.kube.plugins.modules.{name}")
    found: list[object] = []

    def started(*arguments: Any, **options: Any) -> None:
        if isinstance(arguments[0], Feature):
            found.append(arguments[0].needs_root)
        elif arguments == (MAIN,):
            found.extend(one.needs_root for one in FEATURES.values())
        else:
            found.append(options.get("needs_root", True))

    for start in ("run", "run_info", "run_task", "run_kept"):
        if hasattr(module, start):
            monkeypatch.setattr(module, start, started)
    module.main()
    needs_root = [one(_asked()) if callable(one) else one for one in found]
    assert needs_root
    assert set(needs_root) == {name not in WITHOUT_ROOT}
    page = (ROOT / "docs/reference/errors-core.md").read_text().partition("### core-not-root")[2].partition("###")[0]
    assert (f"`{name}`" in page) is (name in WITHOUT_ROOT)


def _asked(**changes: object) -> dict[str, object]:
    return {"against": "kernel", "ruleset_path": "/some/dump", **changes}


def test_rules_of_the_kernel_need_root_and_those_of_a_dump_or_a_compiler_do_not() -> None:
    from ansible_collections.ballast.kube.plugins.module_utils._audit.info import asks_kernel

    assert asks_kernel(_asked(ruleset_path=None))
    assert not asks_kernel(_asked())
    assert not asks_kernel(_asked(against="compiled", ruleset_path=None))


STARTS: dict[str, Callable[[], None]] = {
    "run": lambda: loop.run(feature()),
    "run_info": lambda: loop.run_info(SPEC, lambda _host, _params: {}),
    "run_task": lambda: loop.run_task(SPEC, lambda _host, _params: {}),
}


@pytest.mark.parametrize("check", [True, False], ids=["check", "do"])
@pytest.mark.parametrize("start", STARTS)
def test_one_that_needs_it_looks_at_nothing(
    started: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str, check: bool
) -> None:
    monkeypatch.setattr(LocalHost, "is_root", lambda _self: False)
    found = started(STARTS[start], state_dir=str(tmp_path / "state"), _ansible_check_mode=check)
    assert (found.status, found.result["id"]) == (1, "core-not-root")
    assert "--become" in found.message
    assert list(tmp_path.iterdir()) == []


def test_of_several_features_the_one_that_needs_it_is_named(
    started: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalHost, "is_root", lambda _self: False)
    asked = {"state_dir": str(tmp_path / "state")}
    found = started(lambda: loop.run_features({"one": feature()}), one=asked)
    assert found.result["id"] == "core-not-root"
    assert found.message.startswith("one: ")


def test_an_option_that_is_wrong_is_reported_first(
    started: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalHost, "is_root", lambda _self: False)
    found = started(STARTS["run"], state_dir=str(tmp_path / "state"), mood="wrong")
    assert found.result["id"] == "problems"


def test_a_node_whose_processes_cannot_be_seen_is_no_node_without_kube_proxy(
    started: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    with without_root():
        found = started(kube_proxy_info.main)
    assert (found.status, found.result["id"]) == (1, "core-not-root")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what another user may not read")
def test_what_the_kernel_refuses_is_an_error_and_not_absent() -> None:
    with tempfile.TemporaryDirectory() as directory:  # those of pytest are root's alone
        os.chmod(directory, 0o711)
        _refused_without_root(Path(directory))


def _refused_without_root(tmp_path: Path) -> None:
    host, closed = LocalHost(), tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").write_text("x")
    (closed / "link").symlink_to("file")
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(0o600)
    refused: list[Callable[[], object]] = [
        lambda: host.read(str(tmp_path / "file")),
        lambda: host.read_end(str(tmp_path / "file"), 1),
        lambda: host.reading(str(tmp_path / "file")).__enter__(),
        lambda: host.read(str(closed / "file")),
        lambda: host.stat(str(closed / "file")),
        lambda: host.readlink(str(closed / "link")),
        lambda: host.readlink("/proc/1/exe"),
        lambda: host.listdir(str(closed)),
        lambda: host.listdir("/proc/1/fd"),
        lambda: host.write(str(closed / "file"), b""),
        lambda: host.remove(str(closed / "file")),
        lambda: host.run(["true"], timeout=5, cwd=str(closed)),
    ]
    with without_root():
        for act in refused:
            with pytest.raises(BallastError) as caught:
                act()
            assert caught.value.id == "core-not-root", inspect.getsource(act)
