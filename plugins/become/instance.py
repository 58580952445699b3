# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: instance
short_description: Run tasks inside a node instance
version_added: 1.0.0
author:
  - ballast.kube contributors (@ballast-kube)
description:
  - A node instance shares its host with others and has its own network namespace and mount namespace. This plugin runs a task on the
    instance's host, over any connection, inside these two namespaces, with C(nsenter).
  - The inventory plugin P(ballast.kube.lab#inventory) sets all options for the instances of a lab.
  - Ansible copies modules to the host before they run inside. This works if the instance has the host's remote temporary directory, as
    those of a lab do if it exists before the instance starts. Pipelining needs no copy.
options:
  instance_netns:
    description:
      - Path of the instance's network namespace, on its host.
      - At least one of O(instance_netns) and O(instance_mountns) is needed.
    type: str
    ini:
      - section: instance_become_plugin
        key: netns
    vars:
      - name: ballast_instance_netns
    env:
      - name: BALLAST_INSTANCE_NETNS
  instance_mountns:
    description: Path of the file to which the instance's mount namespace is bound, on its host.
    type: str
    ini:
      - section: instance_become_plugin
        key: mountns
    vars:
      - name: ballast_instance_mountns
    env:
      - name: BALLAST_INSTANCE_MOUNTNS
  instance_sudo:
    description:
      - Whether to become root with C(sudo) first. Needed when the user of the connection is not root, because only root can enter namespaces.
    type: bool
    default: false
    ini:
      - section: instance_become_plugin
        key: sudo
    vars:
      - name: ballast_instance_sudo
    env:
      - name: BALLAST_INSTANCE_SUDO
  become_user:
    description: User to become. Only V(root) is supported, because everything in an instance runs as root.
    type: str
    default: root
    keyword:
      - name: become_user
    ini:
      - section: privilege_escalation
        key: become_user
      - section: instance_become_plugin
        key: user
    vars:
      - name: ansible_become_user
    env:
      - name: ANSIBLE_BECOME_USER
  become_exe:
    description: The C(nsenter) executable.
    type: str
    default: nsenter
    keyword:
      - name: become_exe
    ini:
      - section: instance_become_plugin
        key: executable
    vars:
      - name: ballast_instance_nsenter
    env:
      - name: BALLAST_INSTANCE_NSENTER
  become_flags:
    description: Further options of C(nsenter), for example V(--uts=/run/ballast/lab/n1.uts).
    type: str
    default: ''
    keyword:
      - name: become_flags
    ini:
      - section: instance_become_plugin
        key: flags
    vars:
      - name: ballast_instance_flags
    env:
      - name: BALLAST_INSTANCE_FLAGS
  become_pass:
    description: Password for C(sudo), when O(instance_sudo=true) and it asks for one.
    type: str
    vars:
      - name: ansible_become_password
      - name: ansible_become_pass
    env:
      - name: ANSIBLE_BECOME_PASS
    ini:
      - section: instance_become_plugin
        key: password
notes:
  - C(nsenter) of util-linux 2.23 or later is needed on the host that carries the instance.
  - Process ids, users, the host name and the clock are the host's.
seealso:
  - plugin: ballast.kube.lab
    plugin_type: inventory
"""

EXAMPLES = r"""
# An inventory written by hand; ballast.kube.lab makes the same from a running lab.
all:
  children:
    ballast_nodes:
      vars:
        ansible_become: true
        ansible_become_method: ballast.kube.instance
      hosts:
        n1:
          ansible_connection: ssh
          ansible_host: worker7.example
          ballast_instance_netns: /run/netns/ballast-lab-n1
          ballast_instance_mountns: /run/ballast/lab/n1.mnt
"""

import shlex

from ansible.errors import AnsibleError
from ansible.plugins.become import BecomeBase


class BecomeModule(BecomeBase):
    name = "ballast.kube.instance"

    # What sudo prints when the password is wrong or missing.
    fail = ("Sorry, try again.",)
    missing = ("Sorry, a password is required to run sudo", "sudo: a password is required")

    def get_option(self, option: str, hostvars: object = None, playcontext: object = None) -> object:
        value = super().get_option(option, hostvars=hostvars, playcontext=playcontext)
        if option != "become_user":
            return value
        if value and value != "root":
            raise AnsibleError(
                f"become_user: {value} is not possible inside a node instance; everything in it runs as root\n"
                "  do:    remove become_user, or run the command as that user from the task itself\n"
                "  id:    instance-become-user   (docs/inventory-and-become.md#instance-become-user)"
            )
        # Not "root": Ansible skips a become plugin whose user equals the connection's user, and the task would then run on the host
        # (_low_level_execute_command in plugins/action/__init__.py).
        return None

    def build_become_command(self, cmd: str, shell: object) -> str:
        super().build_become_command(cmd, shell)
        if not cmd:
            return cmd
        return " ".join([*self._sudo(), *self._nsenter(), self._build_success_command(cmd, shell)])

    def _sudo(self) -> list[str]:
        if not self.get_option("instance_sudo"):
            return []
        if not self.get_option("become_pass"):
            return ["sudo", "-H", "-S", "-n"]
        self.prompt = f"[sudo for a node instance, key={self._id}] password:"
        return ["sudo", "-H", "-S", "-p", shlex.quote(self.prompt)]

    def _nsenter(self) -> list[str]:
        namespaces = [
            f"--{kind}={path}"
            for kind, path in (
                ("net", self.get_option("instance_netns")),
                ("mount", self.get_option("instance_mountns")),
            )
            if path
        ]
        if not namespaces:
            raise AnsibleError(
                "ballast_instance_netns, ballast_instance_mountns: neither is set, so that there is nothing to enter\n"
                "  do:    use the inventory plugin ballast.kube.lab, or set at least one of them for this host\n"
                "  id:    instance-no-namespace   (docs/inventory-and-become.md#instance-no-namespace)"
            )
        # nsenter opens every path before it enters any namespace, so both paths are on the host.
        flags = shlex.split(str(self.get_option("become_flags") or ""))
        return [shlex.quote(word) for word in (str(self.get_option("become_exe")), *namespaces, *flags, "--")]
