# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the process that is this node's kubelet, for all features.

user, cgroup  root's, in no pod, under systemd in a unit of its own (`_core/host/processes.py`)
node          in our own network and PID namespaces, with our own root directory, and in no container's cgroup: the kubelet of a
              kind cluster on this host belongs to another node
program       `kubelet`, or the program of a distribution that embeds it: k3s, RKE2, MicroK8s, MicroShift. A script named kubelet
              runs as its shell, and does not count

The kubelet of a service is identified by the service, whatever its namespaces: node instances have their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

from .._core.host.host import Host, Process
from .._core.host.processes import is_in_unit, is_of_root, list_processes, pod_uid, program, read_command
from .._core.service.daemon import daemon_files, daemon_of, daemon_process, flag_value
from .._core.text.document import parse_document
from .._core.text.errors import BallastError
from .._core.text.json_text import mapping_in
from .distributions import Distribution, find_distribution

_PROGRAM, _ALL_IN_ONE = "kubelet", "hyperkube"
# Programs that embed the kubelet, and the subcommands with which they do; () means always.
_EMBEDS: dict[str, tuple[str, ...]] = {
    "k3s": ("server", "agent"),
    "k3s-server": (),
    "k3s-agent": (),
    "rke2": ("server", "agent"),
    "kubelite": (),
    "microshift": ("run",),
}
_PROGRAMS = (_PROGRAM, _ALL_IN_ONE, *_EMBEDS)
_WITHOUT_AGENT = "--disable-agent"
_ARGUMENT = "kubelet-arg"
_TITLE_WORDS = 2
_INIT = "/init.scope"
# A container's part of a cgroup path: /docker/ID, docker-ID.scope, libpod-ID.scope, machine-NAME.scope, lxc.payload.NAME.
_CONTAINER = re.compile(
    r"docker|libpod_parent|lxc(?:\..*)?|(?:[\w.-]+-)?[0-9a-f]{64}(?:\.scope)?"
    r"|(?:docker|libpod|crio|cri-containerd|nerdctl|machine)-.+\.scope"
)


@dataclass(frozen=True)
class Kubelet:
    """A node's kubelet, running or not."""

    service: str  # "" if it runs in no service
    argv: tuple[str, ...]  # its command; for an embedded kubelet its flags; empty if it does not run
    pid: Optional[int]
    distribution: Optional[Distribution] = None  # the distribution that runs and configures it


def list_kubelets(host: Host) -> list[Kubelet]:
    """This node's kubelets. Several share a network only if somebody has set them up that way."""
    candidates = [process for process in list_processes(host, _PROGRAMS) if is_of_root(process)]
    if not candidates:
        return []
    machine = _own_cgroups(host)
    kubelets = [
        (process, kubelet)
        for process in candidates
        if _is_of_node(host, process, machine) and (kubelet := kubelet_of(host, process)) is not None
    ]
    parents = {process.parent for process, _kubelet in kubelets}  # a supervisor that has started a kubelet embeds none
    return [kubelet for process, kubelet in kubelets if process.pid not in parents]


def kubelet_of(host: Host, process: Process) -> Optional[Kubelet]:
    """The kubelet that this process of root is; None if it is no kubelet."""
    name = program(process)
    words = _words(host, process) if name in _PROGRAMS else []
    if name == _ALL_IN_ONE and words[1:2] == [_PROGRAM]:
        words, name = words[1:], _PROGRAM
    if not words or (name != _PROGRAM and not _embeds(name, words)):
        return None
    distribution = find_distribution(host, process, words)
    if name != _PROGRAM:
        words = [name, *_embedded_flags(host, [*words, *_unit_words(host, process, words)], distribution)]
    return Kubelet(daemon_of(host, process), tuple(words), process.pid, distribution)


def kubelet_of_service(host: Host, service: str) -> Optional[Kubelet]:
    """The kubelet that this service runs: its main process, or the one that a script of the service has started. None if there is
    none."""
    main = daemon_process(host, service)
    if main is None:
        return None
    for process in (main, *_descendants(host, main)):
        kubelet = kubelet_of(host, process) if is_of_root(process) else None
        if kubelet is not None:
            return Kubelet(service, kubelet.argv, kubelet.pid, kubelet.distribution)
    return None


def absolute_path(host: Host, kubelet: Kubelet, path: str) -> str:
    """A relative path starts at the kubelet's working directory."""
    if not path or path.startswith("/"):
        return path
    return os.path.join(host.readlink(f"/proc/{kubelet.pid}/cwd") or "/", path)


def _is_of_node(host: Host, process: Process, machine: Sequence[str]) -> bool:
    return (
        process.own_network
        and process.own_pids
        and process.own_root
        and pod_uid(process) is None
        and not any(_is_contained(path, machine) for path in process.cgroups)
        and (not host.is_systemd() or is_in_unit(process))
    )


def _own_cgroups(host: Host) -> list[str]:
    """The cgroups of the machine itself, longest first: more than the root if the machine is a container."""
    init = host.process(1)
    paths = [] if init is None else [path[: -len(_INIT)] if path.endswith(_INIT) else path for path in init.cgroups]
    return sorted({path.rstrip("/") for path in paths}, key=len, reverse=True)


def _is_contained(path: str, machine: Sequence[str]) -> bool:
    own = next((above for above in machine if path.startswith(f"{above}/")), "")
    return any(_CONTAINER.fullmatch(part) for part in path[len(own) :].split("/"))


def _words(host: Host, process: Process) -> list[str]:
    """k3s and RKE2 replace their command by a title such as `/usr/local/bin/k3s server`, which is one word followed by zeros."""
    words = [word for word in read_command(host, process.id) if word]
    return words[0].split() if len(words) == 1 else words


def _unit_words(host: Host, process: Process, words: Sequence[str]) -> list[str]:
    """The command in the files of its unit, if its own command is a title of two words."""
    service = daemon_of(host, process) if len(words) == _TITLE_WORDS and host.is_systemd() else ""
    texts = [
        (host.read(path) or b"").decode(errors="replace") for path in (daemon_files(host, service) if service else ())
    ]
    lines = [line for text in texts for line in text.replace("\\\n", " ").splitlines()]
    return [word.strip("'\"") for line in lines if line.startswith("ExecStart=") for word in line.split()]


def _embeds(name: str, words: Sequence[str]) -> bool:
    roles = _EMBEDS.get(name)
    if roles is None:
        return False
    role = next((word for word in words[1:] if not word.startswith("-")), "")
    return (not roles or role in roles) and _WITHOUT_AGENT not in words


def _embedded_flags(host: Host, words: Sequence[str], distribution: Optional[Distribution]) -> Iterator[str]:
    """The flags of an embedded kubelet: from the distribution, its configuration, and its own command."""
    given = [*_configured_arguments(host, distribution), *_arguments(words)]
    flags = [f"--{value.lstrip('-')}" for value in given]
    directory = "" if distribution is None else distribution.agent_directory
    if directory and flag_value(flags, "--kubeconfig") is None:
        yield f"--kubeconfig={directory}/kubelet.kubeconfig"
    if directory and host.stat(f"{directory}/etc/kubelet.conf.d") is not None:
        # The distribution copies what is given as --config or --config-dir there, and drops the flag itself.
        flags = [flag for flag in flags if flag.partition("=")[0] not in ("--config", "--config-dir")]
        yield f"--config-dir={directory}/etc/kubelet.conf.d"
    elif directory and distribution is not None:
        yield f"--container-runtime-endpoint={distribution.endpoint}"
    yield from flags


def _arguments(words: Sequence[str]) -> Iterator[str]:
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.lstrip("-") == _ARGUMENT and name.startswith("-"):
            yield value if equals else "".join(words[at + 1 : at + 2])


def _configured_arguments(host: Host, distribution: Optional[Distribution]) -> list[str]:
    """`kubelet-arg` of its file and of the files beside it; a later value replaces an earlier one, or with `+` adds to it. Empty if a file
    cannot be read: the result is for reports."""
    if distribution is None or not distribution.config:
        return []
    directory = f"{distribution.config}.d"
    names = [name for name in sorted(host.listdir(directory)) if name.endswith((".yaml", ".yml"))]
    values: list[str] = []
    for path in (distribution.config, *(f"{directory}/{name}" for name in names)):
        try:
            settings = mapping_in(parse_document((host.read(path) or b"{}").decode(errors="replace"), name=path))
        except BallastError:
            return []
        if _ARGUMENT in settings:
            values = _as_list(settings[_ARGUMENT])
        values = values + _as_list(settings.get(f"{_ARGUMENT}+"))
    return values


def _as_list(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [value] if isinstance(value, str) else []


def _descendants(host: Host, main: Process) -> Iterator[Process]:
    above = {main.pid}
    for process in sorted(list_processes(host), key=lambda process: process.id.started):
        if process.parent in above:
            above.add(process.pid)
            yield process
