# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the distribution, if any, that runs a node's kubelet and writes its configuration.

Signs are what the kernel knows of the process (program, unit, parent's program), the paths in its flags, and files that the
distribution installs on each node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from .._core.host.host import Host, Process
from .._core.host.processes import program
from .._core.service.daemon import daemon_of, flag_value

_OS_RELEASE = "/etc/os-release"


@dataclass(frozen=True)
class Distribution:
    name: str
    programs: tuple[str, ...] = ()  # programs that embed the kubelet, or start it as a child
    units: tuple[str, ...] = ()  # how the names of its units begin, up to a dash, a dot or an @
    directories: tuple[str, ...] = ()  # directories of its programs and of the files that its kubelet's flags name
    files: tuple[str, ...] = ()  # files that exist on each of its nodes, and on no others
    systems: tuple[str, ...] = ()  # ID in os-release
    provider: str = ""  # how --provider-id of its nodes begins
    # Has kubelet.kubeconfig, and kubelet.conf.d in etc; for distributions that pass no such flags.
    agent_directory: str = ""
    endpoint: str = ""  # of its container runtime, unless files in agent_directory name another
    config: str = ""  # its own configuration file; a directory of drop-ins is beside it


def _rancher(name: str) -> Distribution:
    data = f"/var/lib/rancher/{name}"
    return Distribution(
        name,
        programs=(name, f"{name}-server", f"{name}-agent"),
        units=(name,),
        directories=(data,),
        agent_directory=f"{data}/agent",
        endpoint="unix:///run/k3s/containerd/containerd.sock",
        config=f"/etc/rancher/{name}/config.yaml",
    )


K3S, RKE2 = _rancher("k3s"), _rancher("rke2")
DISTRIBUTIONS = (
    K3S,
    RKE2,
    Distribution("k0s", programs=("k0s",), units=("k0sworker", "k0scontroller"), directories=("/var/lib/k0s",)),
    Distribution(
        "microk8s",
        programs=("kubelite",),
        units=("snap.microk8s",),
        directories=("/snap/microk8s", "/var/snap/microk8s"),
    ),
    Distribution("k8s-snap", units=("snap.k8s",), directories=("/snap/k8s", "/var/snap/k8s")),
    Distribution("microshift", programs=("microshift",), units=("microshift",), directories=("/var/lib/microshift",)),
    Distribution("openshift", files=("/etc/machine-config-daemon/currentconfig",), systems=("rhcos", "scos")),
    Distribution("minikube", directories=("/var/lib/minikube/binaries",)),
    Distribution("kind", files=("/kind/version",), provider="kind://"),
    Distribution("bottlerocket", systems=("bottlerocket",)),
    Distribution("talos", systems=("talos",)),
)


def find_distribution(host: Host, process: Process, argv: Sequence[str]) -> Optional[Distribution]:
    """The distribution of a kubelet with these flags; None if a person configures the kubelet, as with kubeadm."""
    parent = host.process(process.parent)
    programs = {program(process), *([] if parent is None else [program(parent)])}
    unit = daemon_of(host, process) if host.is_systemd() else ""
    paths = [process.exe, *(word.partition("=")[2] or word for word in argv)]
    system, provider = _system(host), flag_value(argv, "--provider-id") or ""
    for each in DISTRIBUTIONS:
        if (
            programs & set(each.programs)
            or any(unit == name or unit.startswith((f"{name}-", f"{name}.", f"{name}@")) for name in each.units)
            or any(path.startswith(f"{directory}/") for path in paths for directory in each.directories)
            or system in each.systems
            or (each.provider and provider.startswith(each.provider))
            or any(host.stat(path) is not None for path in each.files)
        ):
            return each
    return None


def _system(host: Host) -> str:
    for line in (host.read(_OS_RELEASE) or b"").decode(errors="replace").splitlines():
        key, _equals, value = line.partition("=")
        if key == "ID":
            return value.strip().strip("\"'")
    return ""
