# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._instance.engine import BINARIES, ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._instance.image_store import IMAGE_STORE_KINDS
from tests.unit.cases import apply, plan_of
from tests.unit.instance import given as g
from tests.unit.instance.kernel import DATABASE, Kernel

STORE = f"{g.STATE}/.images"
LATER = "/var/cache/ballast/images/addons.tar"
LATER_IMAGES = {"ballast.local/coredns:1": "sha256:3333"}
BLOB = "io.containerd.content.v1.content/blobs/sha256/11"
SNAPSHOTS = "io.containerd.snapshotter.v1.overlayfs"


def imports(host: Kernel) -> list[str]:
    """Where: "" for the store, else the socket of an instance."""
    argvs = [list(argv) for argv in host.commands if "images import" in " ".join(argv)]
    return ["" if argv[0] == "unshare" else argv[2] for argv in argvs]


def images_of(host: Kernel, name: str) -> Any:
    return json.loads(host.text(f"{g.STATE}/{name}/containerd/{DATABASE}"))


def with_later(count: int) -> Any:
    rows = [{"path": g.ARCHIVE, "images": g.IMAGES}, {"path": LATER, "images": LATER_IMAGES}]
    return g.desired(count, archives=rows)


def test_images_are_imported_once_for_all_instances() -> None:
    host = g.machine()
    apply(ENGINE, g.desired(3), host)
    assert imports(host) == [""]
    assert [images_of(host, f"n{number}") for number in (1, 2, 3)] == [g.IMAGES] * 3
    apply(ENGINE, g.desired(4), host)
    assert imports(host) == [""], "a node that comes later has them too"
    assert images_of(host, "n4") == g.IMAGES


def test_an_archive_that_comes_later_is_imported_by_the_instances_that_run() -> None:
    host = g.machine()
    host.given(LATER, json.dumps(LATER_IMAGES))
    apply(ENGINE, g.desired(2), host)
    apply(ENGINE, with_later(3), host)
    assert imports(host) == ["", "", *(f"/run/ballast/lab/{name}/containerd.sock" for name in ("n1", "n2"))]
    into_the_store = [argv for argv in host.commands if argv[0] == "unshare" and "images import" in " ".join(argv)]
    assert [[word for word in argv if word.endswith(".tar")] for argv in into_the_store] == [[g.ARCHIVE], [LATER]]
    assert [images_of(host, f"n{number}") for number in (1, 2, 3)] == [{**g.IMAGES, **LATER_IMAGES}] * 3
    assert plan_of(ENGINE, with_later(3), host).steps == ()


def test_images_that_an_instance_has_had_before_are_left_alone() -> None:
    """As in a lab of an earlier version, whose instances have no seed in their journal."""
    host = g.machine()
    apply(ENGINE, g.desired(1), host)
    host.given(f"{g.STATE}/n1/containerd/{DATABASE}", json.dumps({**g.IMAGES, "docker.io/library/own:1": "sha256:4"}))
    seed = next(one for one in ENGINE.wanted(Context(g.desired(1), host)) if one.kind == "image-seed")
    journal = host.text(f"{g.STATE}/ledger.jsonl")
    assert seed.target in journal
    host.given(f"{g.STATE}/ledger.jsonl", "".join(f"{row}\n" for row in journal.splitlines() if seed.target not in row))
    assert [step for step in plan_of(ENGINE, g.desired(1), host).steps if step.kind == "image-seed"] == []


def test_another_containerd_makes_the_store_again() -> None:
    host = g.machine()
    apply(ENGINE, g.desired(1), host)
    for name in BINARIES:
        host.given(f"/opt/newer/{name}", mode=0o755)
    apply(ENGINE, g.desired(1, bin_dir="/opt/newer"), host)
    assert imports(host) == ["", ""]


def test_without_archives_there_is_no_store() -> None:
    host = g.machine()
    apply(ENGINE, g.desired(1, archives=[]), host)
    assert host.stat(STORE) is None


def test_a_store_that_was_half_made_is_made_again() -> None:
    host = g.machine()
    apply(ENGINE, g.desired(1), host)
    host.remove_quietly(f"{STORE}/store.json")
    assert [step.kind for step in plan_of(ENGINE, g.desired(1), host).steps] == ["image-store"]
    apply(ENGINE, g.desired(1), host)
    assert imports(host) == ["", ""]


@pytest.mark.parametrize(
    ("file", "text"), [(f"root/{DATABASE}", None), ("store.json", '{"programs": "/o'), ("store.json", "[]")]
)
def test_a_store_that_is_damaged_is_made_again(file: str, text: Optional[str]) -> None:
    host = g.machine()
    apply(ENGINE, g.desired(1), host)
    if text is None:
        host.remove_quietly(f"{STORE}/{file}")
    else:
        host.given(f"{STORE}/{file}", text)
    apply(ENGINE, g.desired(2), host)
    assert imports(host) == ["", ""]
    assert images_of(host, "n2") == g.IMAGES


def test_a_failure_says_what_the_program_said_and_not_its_script() -> None:
    host = g.machine()
    host.on("unshare", answer=lambda call: Completed(call.argv, 1, "", "ctr: no space left on device"))
    with pytest.raises(BallastError) as raised:
        apply(ENGINE, g.desired(1), host)
    assert raised.value.id == "instance-images"
    assert STORE in raised.value.text
    assert "pdeathsig" not in str(raised.value)
    assert raised.value.found == "ctr: no space left on device"


def test_the_store_s_containerd_makes_no_directory_outside_of_it() -> None:
    """By default it makes /opt/containerd."""
    host = g.machine()
    apply(ENGINE, g.desired(1), host)
    text = host.text(f"{STORE}/containerd.toml")
    assert f'[plugins."io.containerd.internal.v1.opt"]\npath = "{STORE}/root/opt"' in text


def is_named(path: Path) -> bool:
    """Whether a process has the path on its command line."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(path).encode() in file.read_bytes().split(b"\0"):
                return True
    return False


IMPORT = """
import sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._instance.image_store import IMAGE_STORE_KINDS
place = sys.argv[2]
value = {"programs": f"{place}/bin", "archives": {f"{place}/images.tar": {}}}
IMAGE_STORE_KINDS["image-store"].write(Context(None, LocalHost()), f"{place}/store {place}/run", value, ABSENT)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace of its own is root's")
def test_an_import_ends_with_the_run_that_was_killed(tmp_path: Path) -> None:
    """Else it would remove the directory of the socket under the next run."""
    programs = {
        "containerd": "#!/bin/sh\nwhile sleep 0.1; do :; done\n",
        "ctr": f'#!/bin/sh\ncase "$*" in *import*) touch {tmp_path}/begun; sleep 3;; esac\n',
    }
    (tmp_path / "bin").mkdir()
    (tmp_path / "store").mkdir()
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    collections = str(Path(g.__file__).parents[3] / ".build" / "collections")
    with subprocess.Popen([sys.executable, "-c", IMPORT, collections, str(tmp_path)]) as run:
        assert within(20, (tmp_path / "begun").exists)
        assert is_named(tmp_path / "store" / "containerd.toml")
        run.kill()
    assert within(2, lambda: not is_named(tmp_path / "store" / "containerd.toml"))


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """As containerd leaves it: layers, unpacked files, and a database of each part."""
    root = tmp_path / "store" / "root"
    for path in (BLOB, f"{SNAPSHOTS}/snapshots/1/fs/bin/busybox", f"{SNAPSHOTS}/metadata.db", DATABASE, "tmpmounts/x"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    return tmp_path / "store"


def seed(place: Path, store: Path) -> None:
    IMAGE_STORE_KINDS["image-seed"].write(Context(None, LocalHost()), f"{place} {store}", {}, None)


def test_an_instance_shares_layers_and_files_and_has_databases_of_its_own(tmp_path: Path, store: Path) -> None:
    place = tmp_path / "n1"
    place.mkdir()
    (place / ".ballast").touch()
    seed(place, store)
    assert sorted(path.name for path in place.iterdir()) == [
        ".ballast",
        "io.containerd.content.v1.content",
        "io.containerd.metadata.v1.bolt",
        SNAPSHOTS,
    ]
    for path in (BLOB, f"{SNAPSHOTS}/snapshots/1/fs/bin/busybox"):
        assert (place / path).samefile(store / "root" / path)
    for path in (f"{SNAPSHOTS}/metadata.db", DATABASE):
        assert (place / path).read_text() == path
        assert not (place / path).samefile(store / "root" / path)


def test_what_a_killed_copy_left_is_replaced(tmp_path: Path, store: Path) -> None:
    place = tmp_path / "n1"
    subprocess.run(["cp", "-a", f"{store}/root", str(place)], check=True)
    (place / DATABASE).unlink()
    (place / SNAPSHOTS / "half").touch()
    (place / ".new").mkdir()
    (place / ".new" / "left").touch()
    seed(place, store)
    assert (place / DATABASE).read_text() == DATABASE
    assert not (place / SNAPSHOTS / "half").exists()
    assert not (place / ".new").exists()
