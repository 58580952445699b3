# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A shell inside a node of a lab, or one command: `python3 -m scripts.lab_shell LAB_DIR NODE [COMMAND...]`.

The inventory plugin says how a node is reached, so that a shell and a task of a playbook are in the same place.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleParserError

from ansible_collections.ballast.kube.plugins.inventory.lab import groups_of, read_record
from ansible_collections.ballast.kube.plugins.module_utils._lab.resolve import MACHINE_BIN_DIR

# Without a configuration file, crictl reports at each call that it has looked for one.
_CRICTL = ("CONTAINER_RUNTIME_ENDPOINT=unix:///run/containerd/containerd.sock", "CRI_CONFIG_FILE=/dev/null")
_NODE_GROUPS = ("ballast_nodes", "k8s_cluster")


def main(arguments: Sequence[str]) -> int:
    lab_dir, name, *command = arguments
    if os.geteuid() != 0:
        path = f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}"
        os.execvp("sudo", ["sudo", "--", "env", path, sys.executable, "-m", "scripts.lab_shell", *arguments])
    try:
        groups = groups_of(
            read_record(os.path.join(lab_dir, "lab.json")),
            python=sys.executable,
            uid=0,
            is_systemd=os.path.isdir("/run/systemd/system"),
        )
    except AnsibleParserError as error:
        print(error.message, file=sys.stderr)
        return 1
    nodes = {node: facts for group in _NODE_GROUPS for node, facts in groups.get(group, {}).items()}
    if name not in nodes:
        given = f"{name} is not a node of the lab in {lab_dir}" if name else "no node is named"
        print(
            f"{given}\n  do:    name one of {', '.join(nodes)}: make lab-shell NODE={next(iter(nodes))}",
            file=sys.stderr,
        )
        return 2
    if not can_be_entered(nodes[name]):
        print(f"node {name} does not run\n  do:    start the lab: make lab-start LAB_DIR={lab_dir}", file=sys.stderr)
        return 1
    argv = shell_argv(name, nodes[name], command)
    return os.execvp(argv[0], argv)


def can_be_entered(node: Mapping[str, Any]) -> bool:
    """Whether the node's namespaces exist, if this host has them. Only a node's machine knows its namespaces."""
    places = [node[key] for key in ("ballast_instance_netns", "ballast_instance_mountns") if key in node]
    return node["ansible_connection"] != "local" or all(map(os.path.exists, places))


def shell_argv(name: str, node: Mapping[str, Any], command: Sequence[str]) -> list[str]:
    """`node` are its inventory variables. Without a command it is a shell, with the node's name as the prompt."""
    is_local = node["ansible_connection"] == "local"
    programs = os.path.join(node["ballast_lab"]["lab_dir"], "bin") if is_local else MACHINE_BIN_DIR
    settings = [f"PATH={programs}:/usr/sbin:/usr/bin:/sbin:/bin", *_CRICTL]
    if is_local:
        settings.append(f"KUBECONFIG={node['ballast_lab']['kubeconfig']}")
    shell = [f"PS1={name}:\\w# ", "bash", "--norc"]
    inside = ["env", *settings, *(command or shell)]
    if "ballast_instance_netns" in node:
        inside = [
            "nsenter",
            f"--net={node['ballast_instance_netns']}",
            f"--mount={node['ballast_instance_mountns']}",
            "--",
            *inside,
        ]
    return inside if is_local else [*_ssh(node, terminal=not command), shlex.join(inside)]


def _ssh(node: Mapping[str, Any], *, terminal: bool) -> list[str]:
    return [
        "ssh",
        *(["-t"] if terminal else []),
        *("-i", node["ansible_ssh_private_key_file"], "-o", "IdentitiesOnly=yes"),
        *shlex.split(node.get("ansible_ssh_common_args", "")),
        f"{node['ansible_user']}@{node['ansible_host']}",
        "--",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
