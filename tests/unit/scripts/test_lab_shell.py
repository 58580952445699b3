# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from scripts import lab_shell
from scripts.lab_shell import shell_argv

LAB = {"lab_dir": "/var/lib/ballast/lab", "kubeconfig": "/var/lib/ballast/lab/admin.kubeconfig"}
NODE: dict[str, Any] = {
    "ansible_connection": "local",
    "ballast_lab": LAB,
    "ballast_instance_netns": "/run/netns/ballast-lab-n1",
    "ballast_instance_mountns": "/run/ballast/lab/n1.mnt",
}
SSH = {
    "ansible_connection": "ssh",
    "ansible_host": "10.97.0.201",
    "ansible_user": "root",
    "ansible_ssh_private_key_file": "/var/lib/ballast/lab/vms/ssh_key",
    "ansible_ssh_common_args": "-o UserKnownHostsFile=/var/lib/ballast/lab/vms/known -o StrictHostKeyChecking=yes",
}


def test_a_shell_on_this_host_is_inside_both_namespaces() -> None:
    argv = shell_argv("n1", NODE, [])
    assert argv[:4] == ["nsenter", "--net=/run/netns/ballast-lab-n1", "--mount=/run/ballast/lab/n1.mnt", "--"]
    assert argv[-3:] == ["PS1=n1:\\w# ", "bash", "--norc"]
    assert "PATH=/var/lib/ballast/lab/bin:/usr/sbin:/usr/bin:/sbin:/bin" in argv


def test_a_command_on_a_machine_is_quoted_once() -> None:
    argv = shell_argv("n1", {**NODE, **SSH}, ["sh", "-c", "echo $HOME; ls"])
    assert argv[:3] == ["ssh", "-i", "/var/lib/ballast/lab/vms/ssh_key"]
    assert argv[-2] == "--"
    assert argv[-1].startswith("nsenter --net=/run/netns/ballast-lab-n1 ")
    assert argv[-1].endswith(" sh -c 'echo $HOME; ls'")


def test_a_node_that_is_a_machine_has_no_namespaces_to_enter() -> None:
    machine = {key: value for key, value in {**NODE, **SSH}.items() if not key.startswith("ballast_instance")}
    argv = shell_argv("vm1", machine, [])
    assert argv[:2] == ["ssh", "-t"]
    assert "nsenter" not in argv[-1]


def test_a_node_of_a_stopped_lab_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {key: str(tmp_path / key) for key in NODE if key.startswith("ballast_instance")}
    entered: list[str] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "execvp", lambda program, argv: entered.append(program))
    monkeypatch.setattr(lab_shell, "read_record", lambda path: {})
    monkeypatch.setattr(
        lab_shell, "groups_of", lambda *_args, **_options: {"ballast_nodes": {"n1": {**NODE, **places}}}
    )
    assert lab_shell.main(["/srv/l", "n1", "true"]) == 1
    assert "make lab-start LAB_DIR=/srv/l" in capsys.readouterr().err
    for path in places.values():
        Path(path).touch()
    lab_shell.main(["/srv/l", "n1", "true"])
    assert entered == ["nsenter"]
    monkeypatch.setattr(lab_shell, "groups_of", lambda *_args, **_options: {"k8s_cluster": {"vm1": {**NODE, **SSH}}})
    lab_shell.main(["/srv/l", "vm1", "true"])
    assert entered == ["nsenter", "ssh"]
