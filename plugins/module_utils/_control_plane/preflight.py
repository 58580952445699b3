# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What this host must have before anything is changed. All problems are reported at once."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from typing import Optional

from .._core.engine.plan import Recorded
from .._core.host.cgroup_paths import cgroup_hierarchies
from .._core.host.host import Host
from .._core.host.sockets import read_listeners
from .._core.service.cgroup import list_processes
from .._core.service.services import service_pid
from .._core.text.errors import BallastError, HostError, PeerError, Problems, last_lines
from .._core.text.json_text import parse_json
from .aggregation.objects import find_authority_problems
from .messages import MESSAGES
from .pki.pki import require_cryptography
from .processes.components import binary_path, checked_flags, given_arguments
from .profiles.options import ETCD_PATHS, ExistingEtcd
from .profiles.options_messages import MESSAGES as OPTIONS_MESSAGES
from .profiles.programs import Program, find_missing_features, parse_help
from .record import LOAD_BALANCER_PATH, Etcd
from .request import ControlPlaneRequest

_ETCD_SECONDS = 5
_LOOK_AGAIN_SECONDS = 1.0
_KUBERNETES_VERSION = re.compile(r"Kubernetes v(\d+\.\d+\.\d+)")


def find_conflicts(
    request: ControlPlaneRequest, host: Host, *, starting: Sequence[str], recorded: Sequence[Recorded]
) -> list[BallastError]:
    """What on this host keeps the control plane from running. Also for check mode.

    `starting` names the components to be started: only their binaries are run, since each run starts a process. Recorded
    services may hold our ports, under any name.
    """
    other_version = _find_version_problems(request, host, starting)
    unfit = [] if other_version else _find_help_problems(request, host, starting)
    refused = [] if other_version or unfit else _find_refused_arguments(request, host, starting)
    return [*other_version, *unfit, *refused, *_find_port_problems(request, host, recorded)]


def check_parts(request: ControlPlaneRequest, host: Host) -> None:
    """Raises Problems when a part of the control plane is missing. Not for check mode, where the parts that earlier tasks of
    a play would install (packages, binaries, the bridge with the address) are still missing."""
    problems: list[BallastError] = []
    if not host.is_systemd() and host.which("runsvdir") is None:
        problems.append(MESSAGES.error("plane-no-supervisor"))
    missing = [
        component for component in request.composition.processes if host.stat(binary_path(request, component)) is None
    ]
    if missing:
        problems.append(MESSAGES.error("plane-binary-missing", names=", ".join(missing), path=request.bin_dir))
    if request.is_balanced and host.stat(LOAD_BALANCER_PATH) is None:
        problems.append(MESSAGES.error("plane-load-balancer-missing", members=request.members, path=LOAD_BALANCER_PATH))
    problems += _find_address_problems(request, host)
    problems += _find_etcd_problems(request, host)
    problems += find_authority_problems(host, request.api_services)
    parent = os.path.dirname(request.kubeconfig)
    if parent != request.state_dir and host.stat(parent) is None:
        problems.append(MESSAGES.error("plane-kubeconfig-directory", path=request.kubeconfig, parent=parent))
    try:
        require_cryptography()
    except HostError as error:
        problems.append(error)
    Problems.raise_if(problems)


def _find_etcd_problems(request: ControlPlaneRequest, host: Host) -> list[BallastError]:
    existing = request.existing_etcd
    if existing is None:
        return []
    given = zip(ETCD_PATHS, (existing.ca, existing.certificate, existing.key))
    problems: list[BallastError] = [
        OPTIONS_MESSAGES.error("plane-etcd-file", option=option, path=path)
        for option, path in given
        if path and host.stat(path) is None
    ]
    answers = [] if problems else [_etcd_fault(existing, url, host) for url in existing.endpoints]
    if answers and "" not in answers:
        problems.append(OPTIONS_MESSAGES.error("plane-etcd-no-answer", found="\n".join(answers)))
    return problems


def _etcd_fault(existing: ExistingEtcd, url: str, host: Host) -> str:
    """Why a member is not healthy; empty when it is. With no healthy member the API server would exit again and again."""
    try:
        etcd = Etcd((url,), existing.ca, existing.certificate, existing.key, existing.prefix)
        answer = etcd.ask(host, "/health", timeout=_ETCD_SECONDS)
    except PeerError as error:
        return error.in_one_line
    return "" if answer.status == 200 else f"{url}: status {answer.status}"


def _find_address_problems(request: ControlPlaneRequest, host: Host) -> list[BallastError]:
    links = parse_json(host.run(["ip", "-json", "address", "show"], timeout=10).stdout or "[]")
    there = {str(row["local"]): str(link["ifname"]) for link in links for row in link.get("addr_info", [])}
    if request.address in there or ipaddress.ip_address(request.address).is_loopback:
        return []  # every host has all of 127.0.0.0/8
    shown = ", ".join(f"{address} ({link})" for address, link in sorted(there.items()))
    return [MESSAGES.error("plane-address-absent", address=request.address, found=shown)]


def _find_version_problems(request: ControlPlaneRequest, host: Host, starting: Sequence[str]) -> list[BallastError]:
    problems: list[BallastError] = []
    for path in (binary_path(request, component) for component in starting):
        if host.stat(path) is None:
            continue
        answer = host.run([path, "--version"], timeout=30).stdout.strip()
        match = _KUBERNETES_VERSION.match(answer)  # not etcd, which has versions of its own
        if match is not None and match[1] != request.kubernetes_version:
            problems.append(
                MESSAGES.error("plane-binary-version", path=path, version=request.kubernetes_version, found=answer)
            )
    return problems


def _find_help_problems(request: ControlPlaneRequest, host: Host, starting: Sequence[str]) -> list[BallastError]:
    """What the profile needs and a binary lacks by its --help: such a process would exit at its start."""
    problems: list[BallastError] = []
    known: dict[str, Program] = {}
    version, checked = request.kubernetes_version, checked_flags(request)
    for component in starting:
        path = binary_path(request, component)
        if not checked[component] or host.stat(path) is None:
            continue
        text = host.run([path, "--help"], timeout=30).stdout
        try:
            known[component] = parse_help(text, program=component, version=version)
        except BallastError as error:
            problems.append(error)
    return [*problems, *find_missing_features(checked, version, known)]


def _find_refused_arguments(request: ControlPlaneRequest, host: Host, starting: Sequence[str]) -> list[BallastError]:
    """Arguments and feature gates of the user that a program does not take: a running one would be stopped for one that ends. With
    --version a program reads its command line, and starts nothing."""
    problems: list[BallastError] = []
    given = given_arguments(request)
    for component in starting:
        path = binary_path(request, component)
        if not given[component] or host.stat(path) is None:
            continue
        words = [f"--{flag.name}={flag.value}" for flag in given[component]]
        done = host.run([path, *words, "--version"], timeout=30, check=False)
        if done.status != 0:
            shown = {"process": component, "version": request.kubernetes_version, "arguments": " ".join(words)}
            why = _why_refused(done.stderr or done.stdout)
            problems.append(OPTIONS_MESSAGES.error("plane-argument-refused", found=why, **shown))
    return problems


def _why_refused(output: str) -> str:
    """The program's own words, without its usage."""
    lines = output.strip().splitlines()
    return next((line for line in lines if line.startswith("Error: ") or " err=" in line), last_lines(output, limit=1))


def _find_port_problems(request: ControlPlaneRequest, host: Host, recorded: Sequence[Recorded]) -> list[BallastError]:
    if not _find_taken_ports(request, host, recorded):
        return []
    # Sockets are read before processes. If one of our processes ended or restarted in between, its socket has no owner in the
    # first reading; the second one recognizes it.
    host.sleep(_LOOK_AGAIN_SECONDS)
    return _find_taken_ports(request, host, recorded)


def _find_taken_ports(request: ControlPlaneRequest, host: Host, recorded: Sequence[Recorded]) -> list[BallastError]:
    places = [(member.listen_address, option) for member in request.each_member for option in request.listens]
    if request.is_balanced:
        places.append((request.address, "secure_port"))
    listeners = {address: read_listeners(host, address) for address in dict.fromkeys(place for place, _port in places)}
    if not any(listeners.values()):
        return []
    ours = {inode for pid in _read_our_pids(host, recorded) for inode in _read_socket_inodes(host, pid)}
    problems: list[BallastError] = []
    for address, option in places:
        port = request.port(option)
        taken = [socket.inode for socket in listeners[address] if socket.port == port and socket.inode not in ours]
        if taken:
            owner = _describe_owner(host, taken[0])
            problems.append(MESSAGES.error("plane-port-taken", option=option, port=port, address=address, found=owner))
    return problems


def _read_our_pids(host: Host, recorded: Sequence[Recorded]) -> set[int]:
    if host.is_systemd():
        pids = [service_pid(host, old.target) for old in recorded if old.kind == "service"]
        return {pid for pid in pids if pid is not None}
    # The cgroup also holds what a killed supervisor left behind.
    cgroups = [old.target for old in recorded if old.kind == "cgroup"]
    return {
        pid
        for root in cgroup_hierarchies(host)[:1]
        for cgroup in cgroups
        for pid in list_processes(host, os.path.join(root, cgroup))
    }


def _read_socket_inodes(host: Host, pid: int) -> set[str]:
    """Inodes of the sockets that a process holds; empty where the kernel hides it, as a container may hide process 1."""
    try:
        links = [host.readlink(f"/proc/{pid}/fd/{name}") or "" for name in host.listdir(f"/proc/{pid}/fd")]
    except HostError:
        return set()
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}


def _describe_owner(host: Host, inode: str) -> str:
    """The process that holds a socket, where it is visible."""
    pids = [int(name) for name in host.listdir("/proc") if name.isdigit()]
    owner: Optional[int] = next((pid for pid in sorted(pids) if inode in _read_socket_inodes(host, pid)), None)
    if owner is None:
        return "a process that cannot be seen from here"
    name = (host.read(f"/proc/{owner}/comm") or b"").decode(errors="replace").strip()
    return f"process {owner} ({name})"
