# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an unprivileged user of a node tries with objects of its own at our names and paths: nothing of another is replaced or removed."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration import adhoc, journal
from tests.integration.hostile import Attacker

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


PROJECT = (
    "api/main.py",
    "logs/app.log",
    "archives/2024.tar",
    "check/test.py",
    "kube-proxy/x",
    "summary.json",
    "bin/tool",
)
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
}
FIREWALL = """
table ip filter {
  chain input { type filter hook input priority 0; policy drop; tcp dport 22 accept; }
}
table ip ballast-bridge {
  chain services { accept; }
}
"""


def tree(path: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below a directory: inode, mode and content."""
    found = {}
    for one in sorted([path, *path.rglob("*")]):
        seen = one.lstat()
        data = one.read_bytes() if stat.S_ISREG(seen.st_mode) else b""
        found[str(one)] = (seen.st_ino, seen.st_mode, data)
    return found


@pytest.fixture
def project() -> Iterator[Path]:
    """Of a user who names it by mistake. Its path is short, as that of a lab has to be."""
    directory = tempfile.mkdtemp(prefix="ballast-h-")
    with journal.directory(directory):
        place = Path(directory, "p")
        for name in PROJECT:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text("precious")
        yield place


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lab_record", {"lab_dir": "{}"}),
        ("control_plane_record", {"plane_dir": "{}"}),
        ("control_plane", {"state_dir": "{}"}),
        ("kubelet_instance", {"state_dir": "{}"}),
        ("instance_network", {"state_dir": "{}"}),
        ("lab_vm", {"state_dir": "{}"}),
        ("image_pull_proxy", {"state_dir": "{}"}),
        ("balloon_reconciler", {"state_dir": "{}"}),
        ("kubernetes_binaries", {"cache_dir": "{}"}),
    ],
)
def test_no_module_removes_anything_of_a_project(project: Path, name: str, options: dict[str, str]) -> None:
    before = tree(project)
    asked = {option: value.format(project) for option, value in options.items()}
    failed = adhoc.module(name, fails=True, state="absent", **asked)
    assert failed["id"] in ("core-not-ours", "lab-directory")
    assert tree(project) == before


def test_a_project_that_carries_a_lab_s_files_is_not_touched(project: Path) -> None:
    """As when somebody copied a lab into it, with its mark, record and journal."""
    for name, text in {
        ".ballast": '{"owner": "lab", "path": "/var/lib/ballast/lab", "made": true}',
        "ledger.jsonl": '{"op": "recorded", "kind": "file", "target": "/var/lib/ballast/lab/lab.json"}',
        "lab.json": '{"version": 1, "name": "lab", "nodes": []}',
    }.items():
        (project / name).write_text(text)
        (project / name).chmod(0o600)
        before = tree(project)
        assert adhoc.module("lab_record", fails=True, state="absent", lab_dir=str(project))["id"] == "lab-directory"
        assert adhoc.module("lab_record", fails=True, lab_dir=str(project))["id"] == "lab-directory"
        assert tree(project) == before
    (project / ".ballast").unlink()
    before = tree(project)
    failed = adhoc.module("lab_record", fails=True, state="absent", lab_dir=str(project))
    assert failed["id"] == "lab-directory"
    assert tree(project) == before


def test_lab_down_says_what_it_did(project: Path) -> None:
    def down(path: Path) -> subprocess.CompletedProcess[str]:
        argv = [str(Path(sys.executable).with_name("ansible-playbook")), "ballast.kube.lab_down"]
        return subprocess.run(
            [*argv, "-e", json.dumps({"lab_dir": str(path)})],
            env={**os.environ, **journal.COLLECTION},
            capture_output=True,
            text=True,
            timeout=300,
        )

    before = tree(project)
    done = down(project)
    assert done.returncode != 0
    assert "lab-directory" in done.stdout + done.stderr
    assert tree(project) == before
    empty, absent = project.parent / "empty", project.parent / "absent"
    empty.mkdir()
    for path in (empty, absent):
        done = down(path)
        assert done.returncode == 0, done.stdout
        assert "is removed" not in done.stdout
    assert list(empty.iterdir()) == []
    assert not absent.exists()


def test_a_state_directory_that_the_attacker_made_is_refused(mallory: Attacker) -> None:
    mark = json.dumps({"owner": "lab", "path": str(mallory.home / "lab"), "made": True})
    mallory.write({"lab/.ballast": mark, "lab/lab.json": "{}", "empty/.keep": ""})
    (mallory.home / "empty/.keep").unlink()
    for name in ("lab", "empty"):
        failed = adhoc.module("control_plane", fails=True, state="absent", state_dir=str(mallory.home / name))
        assert failed["id"].startswith(("core-not-ours", "core-place-"))
    assert sorted(os.listdir(mallory.home / "lab")) == [".ballast", "lab.json"]


@contextmanager
def firewall() -> Iterator[str]:
    name = f"ballast-test-hostile-{os.getpid()}"
    with journal.network_namespace(name):
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        subprocess.run(["ip", "netns", "exec", name, "nft", "-f", "-"], input=FIREWALL, text=True, check=True)
        yield name


def rules_of(name: str) -> str:
    argv = ["ip", "netns", "exec", name, "nft", "list", "ruleset"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is needed")
def test_the_firewall_s_table_is_neither_replaced_nor_removed() -> None:
    snapshot = {"apiVersion": "v1", "kind": "List", "items": [NODE]}
    with firewall() as name:
        before, inside = rules_of(name), ("ip", "netns", "exec", name)
        for table in ("filter", "ballast-bridge"):
            asked = {"backend": "nftables", "table": table}
            present = {**asked, "node_name": "n1", "node_ips": ["192.0.2.1"], "snapshot": snapshot}
            assert adhoc.module("service_rules", fails=True, inside=inside, **present)["id"] == "rules-nft-others"
            assert (
                adhoc.module("service_rules", "--check", fails=True, inside=inside, **present)["id"]
                == "rules-nft-others"
            )
            failed = adhoc.module("service_rules", fails=True, inside=inside, state="absent", **asked)
            assert failed["id"] == "rules-nft-others"
            assert rules_of(name) == before
        ours = {"backend": "nftables", "table": "ours"}
        made = {**ours, "node_name": "n1", "node_ips": ["192.0.2.1"], "snapshot": snapshot}
        assert adhoc.module("service_rules", inside=inside, **made)["changed"]
        assert not adhoc.module("service_rules", inside=inside, **made)["changed"]
        assert adhoc.module("service_rules", inside=inside, state="absent", **ours)["changed"]
        assert rules_of(name) == before


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_file_at_the_path_of_an_image_archive_stays(tmp_path: Path, mallory: Attacker, state: str) -> None:
    theirs = tmp_path / "thesis.tar"
    theirs.write_text("precious")
    (tmp_path / "link.tar").symlink_to(theirs)
    os.mkfifo(tmp_path / "pipe.tar")
    mallory.write({"theirs.tar": "bait"})
    for path in (theirs, tmp_path / "link.tar", tmp_path / "pipe.tar", mallory.home / "theirs.tar"):
        failed = adhoc.module("image_archive", fails=True, state=state, path=str(path), seconds=60)
        assert failed["id"] in ("image-archive-others", "core-place-owner")
        assert os.path.lexists(path)
    assert theirs.read_text() == "precious"


def test_a_kernel_object_with_a_name_of_ours_is_not_taken(tmp_path: Path) -> None:
    """A link that another program made, under the name that our bridge would have."""
    name = f"ballast-h{os.getpid() % 10000}"
    with journal.network_namespace(name):
        inside = ("ip", "netns", "exec", name)
        subprocess.run(["ip", "-n", name, "link", "add", name, "type", "bridge"], check=True)
        asked = {"state_dir": str(tmp_path / "state"), "lab": "x", "bridge": name, "address": "10.97.9.1/24"}
        failed = adhoc.module("instance_network", fails=True, inside=inside, **asked)
        assert failed["id"] == "core-taken"
        assert not (tmp_path / "state").exists()
