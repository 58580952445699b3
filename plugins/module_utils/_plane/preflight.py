# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What this host must have before anything is changed. Everything that is wrong is said at once."""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Sequence
from typing import Optional

from .._core.cgroup import processes
from .._core.cgroup_paths import cgroup_hierarchies
from .._core.errors import BallastError, HostError, PeerError, Problems
from .._core.host import Host
from .._core.plan import Recorded
from .._core.service import service_pid
from .._core.sockets import LISTENING, parse_sockets
from .aggregation.objects import authority_problems
from .components import binary_path
from .desired import ControlPlane
from .messages import MESSAGES
from .options import ETCD_PATHS, ExistingEtcd
from .options_messages import MESSAGES as OPTIONS_MESSAGES
from .pki import require_cryptography
from .programs import Program, lacking, parse_help

_ETCD_SECONDS = 5
_LOOK_AGAIN_SECONDS = 1.0
_KUBERNETES_VERSION = re.compile(r"Kubernetes v(\d+\.\d+\.\d+)")


def check_conflicts(plane: ControlPlane, host: Host, *, starting: Sequence[str], recorded: Sequence[Recorded]) -> None:
    """Problems, when something is there that the control plane cannot live with: what holds also in check mode.

    `starting` names the components that will be started: only these are asked what they are, since each answer costs the
    start of a process. What is `recorded` may hold our ports, under whatever name it was made.
    """
    other_version = _version_problems(plane, host, starting)
    unfit = [] if other_version else _help_problems(plane, host, starting)
    Problems.raise_if([*other_version, *unfit, *_port_problems(plane, host, recorded)])


def check_parts(plane: ControlPlane, host: Host) -> None:
    """Problems, when something is missing that the control plane is made of. Not for check mode, in which what earlier
    tasks of a play would bring (packages, binaries, the bridge with the address) is missing rightly."""
    found: list[BallastError] = []
    if not host.is_systemd() and host.which("runsvdir") is None:
        found.append(MESSAGES.error("plane-no-supervisor"))
    missing = [
        component for component in plane.composition.processes if host.stat(binary_path(plane, component)) is None
    ]
    if missing:
        found.append(MESSAGES.error("plane-binary-missing", names=", ".join(missing), path=plane.bin_dir))
    found += _address_problems(plane, host)
    found += _etcd_problems(plane, host)
    found += authority_problems(host, plane.api_services)
    parent = os.path.dirname(plane.kubeconfig)
    if parent != plane.state_dir and host.stat(parent) is None:
        found.append(MESSAGES.error("plane-kubeconfig-directory", path=plane.kubeconfig, parent=parent))
    try:
        require_cryptography()
    except HostError as error:
        found.append(error)
    Problems.raise_if(found)


def _etcd_problems(plane: ControlPlane, host: Host) -> list[BallastError]:
    existing = plane.existing_etcd
    if existing is None:
        return []
    given = zip(ETCD_PATHS, (existing.ca, existing.certificate, existing.key))
    found: list[BallastError] = [
        OPTIONS_MESSAGES.error("plane-etcd-file", option=option, path=path)
        for option, path in given
        if path and host.stat(path) is None
    ]
    answers = [] if found else [_etcd_answer(existing, url, host) for url in existing.endpoints]
    if answers and "" not in answers:
        found.append(OPTIONS_MESSAGES.error("plane-etcd-no-answer", found="\n".join(answers)))
    return found


def _etcd_answer(existing: ExistingEtcd, url: str, host: Host) -> str:
    """Why a member is not well; empty when it is. Without one that is, the API server would wait and end for ever."""
    try:
        answer = host.request(
            f"{url}/health",
            ca=existing.ca or None,
            cert=existing.certificate or None,
            key=existing.key or None,
            timeout=_ETCD_SECONDS,
        )
    except PeerError as error:
        return error.in_one_line
    return "" if answer.status == 200 else f"{url}: status {answer.status}"


def _address_problems(plane: ControlPlane, host: Host) -> list[BallastError]:
    links = json.loads(host.run(["ip", "-json", "-4", "address", "show"], timeout=10).stdout or "[]")
    there = {str(row["local"]): str(link["ifname"]) for link in links for row in link.get("addr_info", [])}
    if plane.address in there or ipaddress.IPv4Address(plane.address).is_loopback:
        return []  # all of 127.0.0.0/8 is here
    shown = ", ".join(f"{address} ({link})" for address, link in sorted(there.items()))
    return [MESSAGES.error("plane-address-absent", address=plane.address, found=shown)]


def _version_problems(plane: ControlPlane, host: Host, starting: Sequence[str]) -> list[BallastError]:
    found: list[BallastError] = []
    for path in (binary_path(plane, component) for component in starting):
        if host.stat(path) is None:
            continue
        answer = host.run([path, "--version"], timeout=30).stdout.strip()
        match = _KUBERNETES_VERSION.match(answer)  # etcd says another word: it has versions of its own
        if match is not None and match[1] != plane.kubernetes_version:
            found.append(
                MESSAGES.error("plane-binary-version", path=path, version=plane.kubernetes_version, found=answer)
            )
    return found


def _help_problems(plane: ControlPlane, host: Host, starting: Sequence[str]) -> list[BallastError]:
    """What the profile asks of a program that the program, by its --help, does not know: it would end at its start."""
    found: list[BallastError] = []
    known: dict[str, Program] = {}
    version = plane.kubernetes_version
    for component in starting:
        path = binary_path(plane, component)
        if not plane.composition.flags[component] or host.stat(path) is None:
            continue
        text = host.run([path, "--help"], timeout=30).stdout
        try:
            known[component] = parse_help(text, program=component, version=version)
        except BallastError as error:
            found.append(error)
    return [*found, *lacking(plane.composition, version, known)]


def _port_problems(plane: ControlPlane, host: Host, recorded: Sequence[Recorded]) -> list[BallastError]:
    if not _ports_taken(plane, host, recorded):
        return []
    # Listeners are read before processes: a program of ours that ended or started anew in between is nobody's in the first
    # look, and is known in a second one.
    host.sleep(_LOOK_AGAIN_SECONDS)
    return _ports_taken(plane, host, recorded)


def _ports_taken(plane: ControlPlane, host: Host, recorded: Sequence[Recorded]) -> list[BallastError]:
    everywhere = str(ipaddress.IPv4Address(0))
    listening = [
        (port, inode) for address, port, inode in _listeners(host) if address in (plane.address, everywhere, "::")
    ]
    if not listening:
        return []
    ours = {inode for pid in _our_pids(host, recorded) for inode in _sockets(host, pid)}
    found: list[BallastError] = []
    for option in plane.listens:
        taken = [inode for port, inode in listening if port == plane.port(option) and inode not in ours]
        if taken:
            error = MESSAGES.error(
                "plane-port-taken",
                option=option,
                port=plane.port(option),
                address=plane.address,
                found=_owner(host, taken[0]),
            )
            found.append(error)
    return found


def _listeners(host: Host) -> list[tuple[str, int, str]]:
    """Address, port and socket inode of everything that listens on TCP."""
    texts = [(host.read(path) or b"").decode(errors="replace") for path in ("/proc/net/tcp", "/proc/net/tcp6")]
    found = [one for text in texts for one in parse_sockets(text)]
    return [(one.address, one.port, one.inode) for one in found if one.state == LISTENING]


def _our_pids(host: Host, recorded: Sequence[Recorded]) -> set[int]:
    if host.is_systemd():
        pids = [service_pid(host, old.target) for old in recorded if old.kind == "service"]
        return {pid for pid in pids if pid is not None}
    # Also what a killed supervisor left behind: it is in our cgroup.
    cgroups = [old.target for old in recorded if old.kind == "cgroup"]
    return {
        pid
        for root in cgroup_hierarchies(host)[:1]
        for cgroup in cgroups
        for pid in processes(host, os.path.join(root, cgroup))
    }


def _sockets(host: Host, pid: int) -> set[str]:
    """Inodes of the sockets that a process holds."""
    links = [host.readlink(f"/proc/{pid}/fd/{name}") or "" for name in host.listdir(f"/proc/{pid}/fd")]
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}


def _owner(host: Host, inode: str) -> str:
    """Who holds a socket, as far as we may see it."""
    pids = [int(name) for name in host.listdir("/proc") if name.isdigit()]
    owner: Optional[int] = next((pid for pid in sorted(pids) if inode in _sockets(host, pid)), None)
    if owner is None:
        return "a process that cannot be seen from here"
    name = (host.read(f"/proc/{owner}/comm") or b"").decode(errors="replace").strip()
    return f"process {owner} ({name})"
