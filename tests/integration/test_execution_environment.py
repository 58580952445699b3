# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The image of `make ee`, unpacked and run as a container's user; and what ansible-builder makes of the collection. docs/awx.md"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._images.archive import image_references
from scripts.build import build
from scripts.execution_environment import NAME, debian_packages, lay_out_collection
from tests.integration import journal

CACHE = Path("/var/cache/ballast/execution-environment")  # by content: what is pinned is fetched once
USER = "4321:0"  # neither root nor the image's own, as OpenShift chooses one; its group is root
# Root of a mount namespace of its own, from which the image's first process is started as a runtime does it.
_ENTER = """
mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" || exit 125
user=$1; shift
exec chroot --userspec="$user" --groups= "$0" "$@"
"""


@dataclass(frozen=True)
class Image:
    """One that is unpacked."""

    root: Path
    config: dict[str, object]

    def run(self, *argv: str, fails: bool = False) -> str:
        """What a command prints in a container of the image."""
        entered = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTER, str(self.root), USER]
        environment = dict(str(variable).split("=", 1) for variable in self._list("Env"))
        start = ["/usr/bin/env", f"--chdir={self.config['WorkingDir']}", *self._list("Entrypoint"), *argv]
        done = subprocess.run(
            [*entered, *start], env=environment, check=False, capture_output=True, text=True, timeout=300
        )
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stdout

    def _list(self, key: str) -> Sequence[str]:
        value = self.config[key]
        assert isinstance(value, list)
        return value


def make(path: Path, cache: Path) -> Path:
    argv = [sys.executable, "-m", "scripts.execution_environment", "--path", str(path), "--cache-dir", str(cache)]
    done = subprocess.run(argv, cwd=journal.ROOT, check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return path


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("ee") / "image/ee.tar", CACHE)


@pytest.fixture(scope="module")
def image(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Image:
    root = tmp_path_factory.mktemp("root")
    with tarfile.open(archive) as tar:

        def member(name: str) -> bytes:
            file = tar.extractfile(name)
            assert file is not None
            return file.read()

        (entry,) = json.loads(member("manifest.json"))
        config = json.loads(member(entry["Config"]))["config"]
        layer = root.with_suffix(".tar")
        layer.write_bytes(member(entry["Layers"][0]))
    with tarfile.open(layer) as tar:
        tar.extractall(root, filter="fully_trusted")
    layer.unlink()
    root.chmod(0o755)  # pytest lets nobody in
    for name in ("dev", "proc"):  # which a runtime makes
        (root / name).mkdir()
    return Image(root, config)


def test_two_builds_give_one_digest(archive: Path, tmp_path: Path) -> None:
    """The second lays out every package from its wheel again."""
    other = make(tmp_path / "image/ee.tar", tmp_path / "cache")
    assert image_references(str(other)) == image_references(str(archive))
    assert [reference.name for reference in image_references(str(archive))] == [NAME]


def test_any_user_has_a_name_and_the_home_of_the_runner(image: Image) -> None:
    """ssh refuses a user that has none."""
    for _start in range(2):
        said = image.run(
            "sh",
            "-c",
            "id -un; echo $HOME; python3 -c 'import os.path; print(os.path.expanduser(\"~4321\"))' ; pwd; touch made",
        )
        assert said.split()[:2] == ["runner-4321", "/runner"]
        assert said.split()[-1] == "/runner"
    users = (image.root / "var/lib/extrausers/passwd").read_text(encoding="utf-8")
    assert users == "runner-4321:x:4321:0::/runner:/bin/bash\n", "once"
    assert (image.root / "runner/made").stat().st_uid == 4321
    assert "OpenSSH" in image.run("sh", "-c", "ssh -V 2>&1; ssh -G n1 | grep -i x || true")


def test_a_line_that_a_user_adds_makes_nobody_root(image: Image) -> None:
    assert (
        image.run("sh", "-c", "echo evil:x:0:0::/:/bin/sh >> /var/lib/extrausers/passwd; getent passwd evil || true")
        == ""
    )
    assert [path for path in image.root.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o6000] == []


def test_the_collection_is_there_with_its_documentation(image: Image) -> None:
    assert "ballast.kube" in image.run("ansible-galaxy", "collection", "list", "ballast.kube")
    assert "KUBE_PROXY" in image.run("ansible-doc", "ballast.kube.kube_proxy").upper()
    ours = image.root / "usr/share/ansible/collections/ansible_collections/ballast/kube"
    assert not {"tests", "scripts", "requirements", ".git"} & {path.name for path in ours.iterdir()}


def test_authorities_are_known(image: Image) -> None:
    counted = image.run("python3", "-c", "import ssl; print(len(ssl.create_default_context().get_ca_certs()))")
    assert int(counted) > 100


def test_a_worker_runs_a_playbook_and_returns_its_report(image: Image) -> None:
    """As AWX does it: what is to be run comes by standard input, and artifacts go back the same way. The readiness of a host that has nothing."""
    data = image.root / "runner/data"
    for name in ("project", "inventory", "env"):
        (data / name).mkdir(parents=True)
    host = {"ansible_connection": "local", "ansible_become": False}
    (data / "project/site.yml").write_text("- import_playbook: ballast.kube.readiness\n", encoding="utf-8")
    (data / "inventory/hosts.json").write_text(json.dumps({"all": {"hosts": {"n1": host}}}), encoding="utf-8")
    place = "{{ lookup('ansible.builtin.env', 'AWX_ISOLATED_DATA_DIR') }}/readiness"
    (data / "env/extravars").write_text(
        # One feature, as each is a module to pack and compile.
        yaml.safe_dump({"readiness_hosts": "all", "readiness_features": ["kube_proxy"], "readiness_dir": place}),
        encoding="utf-8",
    )
    for path in (data, *data.rglob("*")):
        path.chmod(0o775 if path.is_dir() else 0o664)
    assert image.run("ansible-runner", "--version").startswith("2.")
    line = "ansible-runner transmit data -p site.yml --ident one | ansible-runner worker --private-data-dir=work | ansible-runner process back --ident one"
    said = image.run("sh", "-c", line)
    assert "1 of 1 hosts answered" in said
    report = json.loads((image.root / "runner/back/artifacts/one/readiness/readiness.json").read_text(encoding="utf-8"))
    assert report


_WORKER = """
import os, signal, sys, threading
from pathlib import Path
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run import worker
for name, text in (("project/site.yml", sys.argv[1]), ("inventory/hosts", "n1 ansible_connection=local")):
    path = Path(worker.WORK, name)
    path.parent.mkdir(parents=True)
    path.write_text(text)
signal.signal(signal.SIGTERM, lambda *_given: print("is to end"))
threading.Timer(3, os.kill, (1, signal.SIGTERM)).start()
worker._run(worker.Settings("", True, 1, {}, {}))
"""


def test_a_worker_that_is_to_end_does_not_end_its_playbook(image: Image) -> None:
    """A pod that is evicted finishes its batch. ansible-runner takes the signal for its own, unless it is told not to."""
    tasks = [{"ansible.builtin.command": "sleep 8"}, {"ansible.builtin.debug": {"msg": "the batch is finished"}}]
    playbook = json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}])
    said = image.run("env", "PYTHONPATH=/usr/share/ansible/collections", "python3", "-c", _WORKER, playbook)
    assert "is to end" in said
    assert "the batch is finished" in said


def test_ansible_builder_finds_what_the_collection_needs(tmp_path: Path) -> None:
    """`create` takes the collection into the context; its own program for the build then reads the requirements of the collection."""
    archive = build(tmp_path)
    definition = {
        "version": 3,
        "images": {"base_image": {"name": "registry.example/base:1"}},
        "dependencies": {"galaxy": {"collections": [{"name": f"/build/collections/{archive.name}", "type": "file"}]}},
        "additional_build_files": [{"src": archive.name, "dest": "collections"}],
    }
    (tmp_path / "execution-environment.yml").write_text(yaml.safe_dump(definition), encoding="utf-8")
    argv = [sys.executable, "-m", "ansible_builder", "create", "--output-filename", "Containerfile"]
    done = subprocess.run(argv, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    context = tmp_path / "context/_build"
    assert (context / "collections" / archive.name).read_bytes() == archive.read_bytes()
    assert "introspect" in (tmp_path / "context/Containerfile").read_text(encoding="utf-8")

    lay_out_collection(archive, tmp_path / "collections")
    python, system = tmp_path / "python.txt", tmp_path / "bindep.txt"
    argv = [sys.executable, str(context / "scripts/introspect.py"), "introspect", str(tmp_path / "collections")]
    done = subprocess.run(
        [*argv, "--write-pip", str(python), "--write-bindep", str(system)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[0] for line in python.read_text(encoding="utf-8").splitlines()] == ["kubernetes"]
    listed = system.read_text(encoding="utf-8")
    assert [name for name in debian_packages() if f"{name} [platform:dpkg]" not in listed] == []
