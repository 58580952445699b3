# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of the become plugin, read back as a shell would."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible.plugins.shell.sh import ShellModule

from ansible_collections.ballast.kube.plugins.become.instance import DOCUMENTATION, BecomeModule

NETNS = "/run/netns/ballast-lab-n1"
MOUNTNS = "/run/ballast/lab/n1.mnt"


DEFAULTS = {name: option.get("default") for name, option in yaml.safe_load(DOCUMENTATION)["options"].items()}


def command(cmd: str = "/bin/sh -c 'id -u'", **options: Any) -> list[str]:
    return shlex.split(plain_command(cmd, **options)[0])


def plain_command(cmd: str, **options: Any) -> tuple[str, Any]:
    plugin = BecomeModule()
    # As the loader does, less the configuration: every option has a value.
    plugin._options = {**DEFAULTS, "instance_netns": NETNS, "instance_mountns": MOUNTNS, **options}
    shell = ShellModule()
    shell.executable = "/bin/sh"
    return plugin.build_become_command(cmd, shell), plugin


def test_it_enters_both_namespaces() -> None:
    words = command()
    assert words[:-3] == ["nsenter", f"--net={NETNS}", f"--mount={MOUNTNS}", "--"]
    assert words[-3:-1] == ["/bin/sh", "-c"]


def test_the_command_follows_the_mark_of_success() -> None:
    text, plugin = plain_command("/bin/sh -c 'id -u'")
    assert shlex.split(text)[-1] == f"echo {plugin.success} ; /bin/sh -c 'id -u'"


def test_one_namespace_alone_will_do() -> None:
    assert command(instance_mountns=None)[:3] == ["nsenter", f"--net={NETNS}", "--"]
    assert command(instance_netns=None)[:3] == ["nsenter", f"--mount={MOUNTNS}", "--"]


def test_a_user_who_is_not_root_goes_through_sudo() -> None:
    assert command(instance_sudo=True)[:5] == ["sudo", "-H", "-S", "-n", "nsenter"]


def test_sudo_is_given_the_password_that_it_asks_for() -> None:
    text, plugin = plain_command("true", instance_sudo=True, become_pass="secret")
    words = shlex.split(text)
    assert words[:5] == ["sudo", "-H", "-S", "-p", plugin.prompt]
    assert plugin.expect_prompt()
    assert "secret" not in text


def test_no_prompt_is_awaited_without_sudo() -> None:
    _text, plugin = plain_command("true", become_pass="secret")
    assert not plugin.expect_prompt()


def test_executable_and_flags() -> None:
    words = command(become_exe="/opt/bin/nsenter", become_flags="--uts='/run/a b'")
    assert words[:5] == ["/opt/bin/nsenter", f"--net={NETNS}", f"--mount={MOUNTNS}", "--uts=/run/a b", "--"]


@pytest.mark.parametrize("hostile", ["/run/$(touch x)", "/run/a b", "/run/'; id; '", "/run/`id`", "-x"])
def test_paths_stay_one_word(hostile: str) -> None:
    assert f"--net={hostile}" in command(instance_netns=hostile)


def test_a_shell_runs_the_command_as_it_was_written() -> None:
    cmd = "/bin/sh -c 'printf \"%s|\" \"a b\" '\"'\"'$HOME'\"'\"''"
    text, plugin = plain_command(cmd, become_exe="env", instance_netns=None, instance_mountns="x")
    # `env -- CMD` stands in for nsenter: this is about quoting.
    text = text.replace("--mount=x ", "")
    done = subprocess.run(["/bin/sh", "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == f"{plugin.success}\na b|$HOME|"


def test_nothing_to_run_is_nothing_to_wrap() -> None:
    assert plain_command("")[0] == ""


@pytest.mark.parametrize("user", [None, "", "root"])
def test_it_is_used_also_when_the_connection_is_roots(user: object) -> None:
    # Ansible compares this with the user of the connection, and leaves become out when they are the same.
    _text, plugin = plain_command("true", become_user=user)
    assert plugin.get_option("become_user") is None


def test_another_user_than_root_is_refused() -> None:
    with pytest.raises(AnsibleError, match="instance-become-user"):
        plain_command("true", become_user="nobody")[1].get_option("become_user")


def test_a_host_without_namespaces_is_refused() -> None:
    with pytest.raises(AnsibleError, match="instance-no-namespace"):
        command(instance_netns=None, instance_mountns=None)
