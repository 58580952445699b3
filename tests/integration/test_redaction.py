# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A secret in every place of a lab and of its host that anybody could think of, and in nothing that the project writes for others."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration import adhoc, journal
from tests.integration.hostile import attacker
from tests.integration.lab import Lab, lab_named

pytestmark = [pytest.mark.alone, pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a lab")]

CANARY = "c4n4ry-Xy7-never-shown"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "planted", "annotations": {"example.org/note": CANARY}},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "c",
                "image": "ballast.local/busybox:1",
                "imagePullPolicy": "Never",
                "env": [{"name": "PLAIN", "value": CANARY}],
                "command": ["sh", "-c"],
                "args": [
                    f"echo 'Authorization: Bearer {CANARY}'; echo 'GET http://u:{CANARY}@h/?token={CANARY}'; echo planted; sleep 600"
                ],
            }
        ],
    },
}
OBJECTS = [
    POD,
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "planted"}, "stringData": {"a": CANARY}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "planted"}, "data": {"a": CANARY}},
]
THEIRS = ("theirs.log", "theirs.jsonl", "nodes/theirs.log")
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": CANARY}}],
}


PLAY = """
- hosts: localhost
  gather_facts: false
  vars:
    lab_become: false
    lab_pause_image: ballast.local/pause:1
    lab_progress_log: /nonexistent/events
    lab_balloons: {nodes: [{name: n1, share: {cpu: 100m, memory: 64Mi}}], reserve: {}}
    lab_host: {name: vm1, connection: ssh, state_dir: "PLACE/machine"}
    lab_dir: PLACE/lab
  tasks:
    - ansible.builtin.include_tasks: TASKS
"""


def test_the_credentials_leave_a_machine_when_the_task_there_fails(tmp_path: Path) -> None:
    """On this machine in place of a virtual one; the API server that the kubeconfig names does not answer."""
    (tmp_path / "lab").mkdir()
    machine = tmp_path / "machine"
    machine.mkdir()
    (tmp_path / "lab/admin.kubeconfig").write_text(json.dumps(KUBECONFIG), encoding="utf-8")
    text = PLAY.replace("PLACE", str(tmp_path)).replace("TASKS", str(journal.ROOT / "playbooks/tasks/balloons.yml"))
    (tmp_path / "play.yml").write_text(text, encoding="utf-8")
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    argv = [program, "-i", "localhost,", "-c", "local", "-vvv", "--diff", str(tmp_path / "play.yml")]
    given = {"ansible_python_interpreter": sys.executable, "ansible_remote_tmp": str(tmp_path / "remote")}
    done = subprocess.run(
        [*argv, "-e", json.dumps(given)],
        env={**os.environ, **journal.COLLECTION},
        cwd=journal.ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode != 0, done.stdout
    assert "Size the nodes" in done.stdout
    assert "fatal: " in done.stdout
    assert list(machine.rglob("*")) == []
    assert CANARY not in done.stdout + done.stderr


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with ExitStack() as undo:
        made = undo.enter_context(lab_named("canary"))
        run = made.up(lab_nodes=1)
        assert run.status == 0, run.output
        mallory = undo.enter_context(attacker())
        mallory.start(["kubelet", "300", f"--token={CANARY}"], executable="/bin/sleep")
        planted = undo.enter_context(
            subprocess.Popen(["sh", "-c", "read -r line", "sh", "--password", CANARY], stdin=subprocess.PIPE)
        )
        undo.callback(planted.kill)
        yield made
        for name in THEIRS:  # else the lab's directory stays, since they are not the lab's
            Path(made.directory, name).unlink(missing_ok=True)


def plant(lab: Lab) -> None:
    home = Path(lab.directory)
    argv = [f"{lab.directory}/bin/kubectl", "--kubeconfig", f"{lab.directory}/admin.kubeconfig", "apply", "-f", "-"]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS})
    subprocess.run(argv, input=text, check=True, capture_output=True, text=True, timeout=60)
    for name in THEIRS:
        (home / name).write_text(CANARY, encoding="utf-8")
    with (home / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"text": f"proxy http://u:{CANARY}@h:3128 refused"}) + "\n")
    with next(home.glob("nodes/*/log/kubelet.log")).open("a", encoding="utf-8") as file:
        file.write(f"password={CANARY} x=1\n-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----\n")
    for config in home.glob("nodes/*/etc/containerd.toml"):
        with config.open("a", encoding="utf-8") as file:
            file.write(f'\n[plugins."planted".registry.configs."r.test".auth]\n  password = "{CANARY}"\n')
    deadline = time.monotonic() + 120
    while "planted" not in "".join(
        path.read_text("utf-8") for path in home.glob("nodes/*/log/pods/default_planted_*/c/0.log")
    ):
        assert time.monotonic() < deadline, "the planted pod has said nothing"
        time.sleep(0.2)


def test_a_planted_secret_is_in_nothing_that_is_shown(lab: Lab, tmp_path: Path) -> None:
    plant(lab)
    said = {
        "difference": lab.playbook(
            "lab_up", "--check", "--diff", lab_name=lab.name, lab_addons=lab.addons, lab_nodes=1
        ).output,
        "status": lab.playbook("lab_status", lab_output="json").output,
        "logs": lab.playbook("lab_logs").output,
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG), encoding="utf-8")
    failed = adhoc.module("balloon_info", fails=True, kubeconfig=str(tmp_path / "kubeconfig"), nodes=[])
    said["error"] = str(failed)
    assert '[plugins."planted"' in said["difference"], "the change of the file is shown, less its password"
    assert [name for name, text in said.items() if CANARY in text] == []
    (path,) = Path(lab.directory, "logs").glob("lab-*.tar.gz")
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as archive:
        found = {one.name.partition("/")[2]: (archive.extractfile(one) or io.BytesIO()).read() for one in archive}
    assert [name for name, data in found.items() if CANARY.encode() in data] == []
    assert b'"planted"' in found["api/pods.json"]
    assert b"planted" in b"".join(data for name, data in found.items() if "/log/pods/default_planted_" in name)
    rows = found["host/processes.txt"].decode().splitlines()[1:]
    programs = sorted(os.path.basename(row.split()[4]) for row in rows)
    wanted = [
        "containerd",
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubelet",
    ]
    assert sorted(set(programs) - {"containerd-shim-runc-v2"}) == wanted
    assert not [name for name in found if "theirs" in name]
