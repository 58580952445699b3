# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tasks through the become plugin really run in the namespaces of an instance: here of two made for the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration import journal

NETNS = "ballast-btest"
ANSIBLE = Path(sys.executable).with_name("ansible")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make namespaces")


@dataclass(frozen=True)
class Instance:
    netns: str
    mountns: str
    inventory: str


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    place = tmp_path / "namespaces"
    mountns = place / "mnt"
    with ExitStack() as undo:
        undo.enter_context(journal.network_namespace(NETNS))
        place.mkdir()
        # A mount namespace can be bound only below a private mount (mount_namespaces(7), unshare(1)).
        undo.enter_context(journal.mount(str(place), "mount", "--bind", str(place), str(place)))
        run("mount", "--make-private", str(place))
        mountns.touch()
        inside = ["mount", "-t", "tmpfs", "ballast-btest", "/mnt"]
        undo.enter_context(journal.mount(str(mountns), "unshare", f"--mount={mountns}", *inside))
        hosts = {
            "all": {
                "hosts": {
                    "btest": {
                        "ansible_connection": "local",
                        "ansible_python_interpreter": sys.executable,
                        "ansible_become": True,
                        "ansible_become_method": "ballast.kube.instance",
                        "ballast_instance_netns": f"/run/netns/{NETNS}",
                        "ballast_instance_mountns": str(mountns),
                    }
                }
            }
        }
        inventory = tmp_path / "hosts.json"
        inventory.write_text(json.dumps(hosts))
        yield Instance(netns=f"/run/netns/{NETNS}", mountns=str(mountns), inventory=str(inventory))


def ansible(instance: Instance, module: str, arguments: str, **environment: str) -> str:
    argv = [str(ANSIBLE), "btest", "-i", instance.inventory, "-m", module, "-a", arguments, "--one-line"]
    env = {**os.environ, "ANSIBLE_NOCOLOR": "1", **environment}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("pipelining", ["true", "false"])
def test_a_task_runs_in_the_network_namespace(instance: Instance, pipelining: str) -> None:
    wanted = os.stat(instance.netns).st_ino
    assert wanted != os.stat("/proc/self/ns/net").st_ino
    said = ansible(instance, "command", "readlink /proc/self/ns/net", ANSIBLE_PIPELINING=pipelining)
    assert f"net:[{wanted}]" in said


def test_a_task_runs_in_the_mount_namespace(instance: Instance) -> None:
    wanted = os.stat(instance.mountns).st_ino
    assert f"mnt:[{wanted}]" in ansible(instance, "command", "readlink /proc/self/ns/mnt")
    assert "ballast-btest" in ansible(instance, "command", "findmnt -n -o SOURCE /mnt")


def test_words_reach_the_command_as_they_were_written(instance: Instance) -> None:
    said = ansible(instance, "command", json.dumps({"argv": ["printf", "%s|", "a b", "$(id) `id`", "it's"]}))
    assert "a b|$(id) `id`|it's|" in said


def test_an_instance_that_is_gone_is_an_error(instance: Instance) -> None:
    argv = [str(ANSIBLE), "btest", "-i", instance.inventory, "-m", "command", "-a", "true"]
    extra = ["-e", "ballast_instance_netns=/run/netns/ballast-btest-gone"]
    done = subprocess.run([*argv, *extra], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "ballast-btest-gone" in done.stdout + done.stderr
