# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host must have before a lab is made. All problems are raised together, before anything changes.

Kernel features are tested in a temporary network namespace, not looked up in lists: a feature may be a module, built in, or
forbidden in this container.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._core.host.host import Host
from .._core.host.tables import read_meminfo
from .._core.text.errors import BallastError, Problems
from .._instance.model import BALLAST
from .._instance.node_mounts import NodeMount, find_problems
from .._instance.service_proxy import find_missing_packages
from .ip_family import IPV4, IPV6
from .messages import MESSAGES
from .packets import Paths, find_dropped
from .place import find_namespace_problems, find_place_problems
from .trial import Trial

_MIB = 2**20
_NFT_ERROR = "Error: "  # how nft begins an error, followed by the rule
_PLANE_BYTES = 700 * _MIB  # control plane of a lab, measured about 470 MiB
_MEMBER_BYTES = 450 * _MIB  # each further member
_NODE_BYTES = 200 * _MIB  # instance with a pod, measured 140 to 170 MiB
_NODE_DISK_BYTES = 150 * _MIB  # unpacked images, and logs of a day
_MACHINE_DISK_BYTES = 3 * 2**30

# tool: Debian package
_TOOLS = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "nft": "nftables",
    "sysctl": "procps",
    "runc": "runc",
    "dpkg-deb": "dpkg",
}
_RUNIT = {"runsvdir": "runit", "sv": "runit"}
_BACKEND_TOOLS = {
    "iptables": {"iptables": "iptables"},
    "ipvs": {"ipvsadm": "ipvsadm", "ipset": "ipset"},
    "nftables": {},
    BALLAST: {},
}
_RUNTIME_TOOLS: dict[str, dict[str, str]] = {"runc": {}, "crun": {"crun": "crun"}}


_TRIALS = (
    Trial(
        feature="network namespaces with veth pairs",
        argv=("ip", "link", "add", "p0", "type", "veth", "peer", "name", "p1"),
        hint="load the module veth, and in a container allow CAP_NET_ADMIN and CAP_SYS_ADMIN",
    ),
    Trial(
        feature="bridges",
        argv=("ip", "link", "add", "p0", "type", "bridge"),
        hint="load the module bridge",
    ),
)


def _nat_trial(family: str, suffix: str) -> Trial:
    made = f"add table {family} p; add chain {family} p c {{ type nat hook postrouting priority 100; }}"
    return Trial(
        feature=f"nftables with masquerading{suffix}",
        argv=("nft", f"{made}; add rule {family} p c masquerade"),
        hint="load the modules nf_tables and nft_masq",
    )


def _backend_trials(tool: str, address: str, suffix: str) -> dict[str, tuple[Trial, ...]]:
    return {
        "nftables": (),
        BALLAST: (),
        "iptables": (
            Trial(
                feature=f"{tool} with its nat table",
                argv=(
                    tool,
                    *["-w", "-t", "nat", "-A", "POSTROUTING", "-m", "mark", "--mark", "0x4000", "-j", "MASQUERADE"],
                ),
                hint=f"load the module {tool.removesuffix('s')}_nat, or choose another proxy_backend",
            ),
        ),
        "ipvs": (
            Trial(
                feature=f"ipvs{suffix}",
                argv=("ipvsadm", "-A", "-t", f"{address}:80", "-s", "rr"),
                hint="load the modules ip_vs and ip_vs_rr, or choose another proxy_backend",
            ),
        ),
    }


_NAT_TRIALS = {IPV4: (_nat_trial("ip", ""),), IPV6: (_nat_trial("ip6", " for IPv6"),)}
_BACKEND_TRIALS = {
    IPV4: _backend_trials("iptables", "192.0.2.1", ""),
    IPV6: _backend_trials("ip6tables", "[2001:db8::1]", " for IPv6"),
}


def preflight(
    host: Host,
    *,
    lab_dir: str,
    paths: Sequence[Paths],
    target: str,
    members: int,
    new_nodes: int,
    backends: Sequence[str],
    runtimes: Sequence[str],
    needs: Sequence[Trial] = (),
    others: Sequence[BallastError] = (),
) -> None:
    """Raise everything that is missing for `new_nodes` more nodes, together with the problems `others`. `paths` has one item per IP
    family, `needs` are the features that add-ons need. Changes nothing."""
    problems = [*_check_tools(host, target, backends, runtimes), *others]
    if target == "host" and BALLAST in backends:
        problems += find_missing_packages(host)
    families = [family for family in (IPV4, IPV6) if any(way.is_ipv6 == (family == IPV6) for way in paths)]
    if IPV6 in families:
        problems += _check_ipv6(host)
    if not problems:
        problems += [*_try_features(host, target, backends, families), *try_features(host, needs)]
    if not problems and target == "host" and new_nodes > 0:
        problems += [*find_namespace_problems(host), *find_place_problems(host, lab_dir)]
    if not problems and new_nodes > 0:
        problems += [problem for way in paths for problem in find_dropped(host, way)]
    problems += _check_load_balancer(host, members)
    problems += _check_space(host, lab_dir, target, new_nodes, members)
    Problems.raise_if(problems)


def find_missing_mounts(host: Host, nodes: Sequence[Mapping[str, Any]]) -> list[BallastError]:
    """A problem for each path of this host that a node mounts and that does not exist."""
    return [
        problem
        for node in nodes
        for problem in find_problems(
            [NodeMount(**row) for row in node.get("mounts", [])], host, f"nodes.{node['name']}.mounts"
        )
    ]


def _check_tools(host: Host, target: str, backends: Sequence[str], runtimes: Sequence[str]) -> list[BallastError]:
    tools = dict(_TOOLS)
    if not host.is_systemd():
        tools.update(_RUNIT)
    if target == "host":
        for backend in backends:
            tools.update(_BACKEND_TOOLS[backend])
        for runtime in runtimes:
            tools.update(_RUNTIME_TOOLS[runtime])
    missing = sorted(tool for tool in tools if host.which(tool) is None)
    if not missing:
        return []
    packages = " ".join(sorted({tools[tool] for tool in missing}))
    return [MESSAGES.error("lab-tools", tools=", ".join(missing), packages=packages)]


def _check_ipv6(host: Host) -> list[BallastError]:
    setting = host.read("/proc/sys/net/ipv6/conf/all/disable_ipv6")
    if setting is None:
        return [
            MESSAGES.error(
                "lab-ip-family", found="the kernel was booted with ipv6.disable=1, or was built without IPv6"
            )
        ]
    if setting.strip() != b"0":
        return [MESSAGES.error("lab-ip-family", found="net.ipv6.conf.all.disable_ipv6 is set")]
    return []


def _try_features(host: Host, target: str, backends: Sequence[str], families: Sequence[str]) -> list[BallastError]:
    trials = list(_TRIALS)
    for family in families:
        trials += _NAT_TRIALS[family]
        if target == "host":
            trials += [trial for backend in sorted(set(backends)) for trial in _BACKEND_TRIALS[family][backend]]
    problems = try_features(host, trials)
    if b"overlay" not in (host.read("/proc/filesystems") or b""):
        loadable = host.run(["modprobe", "-n", "overlay"], timeout=30, check=False) if host.which("modprobe") else None
        if loadable is None or loadable.status != 0:
            problems.append(MESSAGES.error("lab-kernel", feature="overlay filesystems", hint="load the module overlay"))
    return problems


def try_features(host: Host, trials: Sequence[Trial]) -> list[BallastError]:
    """A problem for each feature that this kernel lacks."""
    problems = []
    for trial in trials:
        done = host.run(["unshare", "--net", "--", *trial.argv], timeout=30, check=False)
        if done.status != 0:
            lines = done.stderr.strip().splitlines() or ["no message"]
            cause = next((line for line in lines if line.startswith(_NFT_ERROR)), lines[-1])
            problems.append(MESSAGES.error("lab-kernel", feature=trial.feature, hint=trial.hint, found=cause))
    return problems


def _check_load_balancer(host: Host, members: int) -> list[BallastError]:
    if members == 1 or host.which("haproxy") is not None:
        return []
    return [MESSAGES.error("lab-tools", tools="haproxy", packages="haproxy")]


def _check_space(host: Host, lab_dir: str, target: str, new_nodes: int, members: int) -> list[BallastError]:
    if new_nodes <= 0:
        return []
    problems = []
    available = read_meminfo(host)["MemAvailable"]
    memory = new_nodes * _NODE_BYTES + _PLANE_BYTES + (members - 1) * _MEMBER_BYTES
    if memory > available:
        shown = {"needed": _mib(memory), "available": _mib(available)}
        problems.append(MESSAGES.error("lab-memory", nodes=new_nodes, **shown))
    disk = new_nodes * (_NODE_DISK_BYTES if target == "host" else _MACHINE_DISK_BYTES)
    free = host.free_bytes(lab_dir)
    if disk > free:
        shown = {"needed": _mib(disk), "available": _mib(free)}
        problems.append(MESSAGES.error("lab-disk", directory=lab_dir, nodes=new_nodes, **shown))
    return problems


def _mib(size: int) -> str:
    return f"{size // _MIB} MiB"
