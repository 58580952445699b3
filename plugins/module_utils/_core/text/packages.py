# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which Linux distribution a machine runs, and how it names packages. Code uses Debian's package names; docs/support.md says
which translations were tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

OS_RELEASE = "/etc/os-release"
DEBIAN, RED_HAT, SUSE = "Debian", "Red Hat", "SUSE"


@dataclass(frozen=True)
class Distribution:
    """Fields of os-release(5); "" where unknown."""

    id: str = ""
    name: str = ""  # for people: "Red Hat Enterprise Linux 8.10 (Ootpa)"
    family: str = ""


UNKNOWN = Distribution()
# Values of ID and ID_LIKE in os-release(5).
_FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(("debian", "ubuntu"), DEBIAN),
    **dict.fromkeys(("rhel", "centos", "fedora", "rocky", "almalinux", "ol", "amzn"), RED_HAT),
    **dict.fromkeys(("suse", "sles", "sle-micro", "opensuse", "opensuse-leap", "opensuse-tumbleweed"), SUSE),
}
_COMMANDS: Mapping[str, str] = {DEBIAN: "apt-get install", RED_HAT: "dnf install", SUSE: "zypper install"}
# Tools that come in a Debian package of another name.
_TOOLS: Mapping[str, str] = {
    "ctr": "containerd", "ip": "iproute2", "mkfs.ext4": "e2fsprogs", "modprobe": "kmod", "nft": "nftables", "sysctl": "procps",
    **dict.fromkeys(("ip6tables", "ip6tables-restore", "ip6tables-save", "iptables-restore", "iptables-save"), "iptables"),
    **dict.fromkeys(("losetup", "umount"), "mount"), **dict.fromkeys(("nsenter", "unshare"), "util-linux"),
    **dict.fromkeys(("runsvdir", "sv"), "runit"), **dict.fromkeys(("ssh", "ssh-keygen"), "openssh-client"),
}  # fmt: skip
# Debian's package name to the names that other distributions use, where they differ.
NAMES: Mapping[str, Mapping[str, str]] = {
    "conntrack": {RED_HAT: "conntrack-tools", SUSE: "conntrack-tools"},
    "iproute2": {RED_HAT: "iproute"},
    "iptables": {RED_HAT: "iptables-nft"},
    "mount": {RED_HAT: "util-linux", SUSE: "util-linux"},
    "openssh-client": {RED_HAT: "openssh-clients", SUSE: "openssh-clients"},
    "procps": {RED_HAT: "procps-ng"},
    "python3-grpcio": {SUSE: "python311-grpcio"},
    "python3-hpack": {SUSE: "python311-hpack"},
    "python3-kubernetes": {SUSE: "python311-kubernetes"},
    "python3-prometheus-client": {RED_HAT: "python3-prometheus_client", SUSE: "python311-prometheus-client"},
    "python3-socks": {RED_HAT: "python3-pysocks", SUSE: "python311-PySocks"},
    "python3-yaml": {RED_HAT: "python3-pyyaml", SUSE: "python311-PyYAML"},
}


def parse_distribution(text: str) -> Distribution:
    """Parse the content of os-release: lines `NAME=value` or `NAME="value"`."""
    rows = (line.partition("=") for line in text.splitlines())
    values = {name.strip(): value.strip().strip("\"'") for name, equals, value in rows if equals}
    ids = [values.get("ID", "").lower(), *values.get("ID_LIKE", "").lower().split()]
    family = next((_FAMILIES[each] for each in ids if each in _FAMILIES), "")
    return Distribution(values.get("ID", ""), values.get("PRETTY_NAME", ""), family)


def read_distribution(host: Any) -> Distribution:
    """The distribution of the machine behind a `Host`; an empty value where it has no os-release."""
    return parse_distribution((host.read(OS_RELEASE) or b"").decode(errors="replace"))


def package_of(tool: str) -> str:
    """The Debian package that contains a program."""
    return _TOOLS.get(tool, tool)


def package_names(distribution: Distribution, packages: Iterable[str]) -> list[str]:
    """What `distribution` calls these Debian packages, without duplicates."""
    return list(dict.fromkeys(NAMES.get(package, {}).get(distribution.family, package) for package in packages))


def names_everywhere(package: str) -> str:
    """What each distribution calls a Debian package, for a message that does not know which machine it is about."""
    names = NAMES.get(package, {})
    return ", ".join(f"{family}: {names.get(family, package)}" for family in (DEBIAN, RED_HAT, SUSE))


def install_command(distribution: Distribution, packages: Iterable[str]) -> str:
    """The command that installs these Debian packages on `distribution`; Debian's command if it is unknown."""
    command = _COMMANDS.get(distribution.family, _COMMANDS[DEBIAN])
    return f"{command} {' '.join(package_names(distribution, packages))}"
