# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The images that `lab_image` builds, as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from .._core.engine.kinds import digest
from .._images.debian import KEYRING
from . import guest, uml_kernel

EPOCH = 1735689600  # every time stamp in an image: 2025-01-01T00:00:00Z
FORMAT = 1  # raised when the build code changes the images
SUITE = "trixie"  # Debian 13
DISK_MIB = 8192  # a machine's root disk; its empty part uses no space on the host
UML_MODULES = "/usr/lib/uml/modules"


@dataclass(frozen=True)
class Recipe:
    name: str
    build: str  # key of build.BUILDERS
    file: str  # name of the image in the cache directory of one build
    packages: tuple[str, ...] = ()  # Debian packages in it, besides the essential ones
    tools: tuple[tuple[str, str], ...] = ()  # programs for the build, with the Debian package of each

    def key(self, *, packages: tuple[str, ...], content: str) -> str:
        """The key of an image: equal keys mean equal images. `content` stands for inputs read from this machine."""
        tables: Mapping[str, object] = {
            "root": [
                [asdict(file) for file in guest.FILES],
                [asdict(link) for link in guest.LINKS],
                guest.REMOVED,
                guest.EMPTIED,
            ],
            "uml-kernel": [uml_kernel.SUITE, uml_kernel.ENABLED, uml_kernel.DISABLED],
        }
        text = json.dumps(
            [FORMAT, asdict(self), sorted(packages), SUITE, DISK_MIB, EPOCH, content, tables.get(self.build)]
        )
        return digest(text)


# What a build does, for people, by Recipe.build. Kept apart from the recipes, which are part of the keys of existing images.
WORK: Mapping[str, str] = {
    "root": "install Debian into the disk of the machines",
    "directory": "put a directory on a disk",
    "uml-modules": "put the modules of User Mode Linux on a disk",
    "uml-kernel": "compile a kernel of User Mode Linux",
    "cloud-kernel": "unpack Debian's kernel for virtual machines",
}

_IMAGE_TOOLS = (("mke2fs", "e2fsprogs"), ("debugfs", "e2fsprogs"))
_DEBIAN_TOOLS = (("mmdebstrap", "mmdebstrap"), (KEYRING, "debian-archive-keyring"))

_ROWS = (
    Recipe(
        name="debian-13",
        build="root",
        file="root.img",
        packages=(
            "busybox-static",
            "ca-certificates",
            "catatonit",
            "conntrack",
            "containerd",
            "dbus",
            "iproute2",
            "ipset",
            "iptables",
            "iputils-ping",
            "ipvsadm",
            "kmod",
            "nftables",
            "openssh-server",
            "procps",
            "python3",
            "python3-cryptography",
            "python3-grpcio",
            "python3-hpack",
            "python3-prometheus-client",
            "python3-yaml",
            "runc",
            "socat",
            "systemd",
            "systemd-sysv",
            "udev",
        ),
        tools=_DEBIAN_TOOLS + _IMAGE_TOOLS,
    ),
    Recipe(name="directory", build="directory", file="disk.img", tools=_IMAGE_TOOLS),
    # The kernel of User Mode Linux is a program of this machine's own distribution; its modules are put into the guests.
    Recipe(
        name="kernel-uml",
        build="uml-modules",
        file="modules.img",
        tools=(("linux.uml", "user-mode-linux"), *_IMAGE_TOOLS),
    ),
    Recipe(
        name="kernel-uml-built",
        build="uml-kernel",
        file="modules.img",
        packages=(uml_kernel.SOURCE_PACKAGE,),
        tools=(
            *_DEBIAN_TOOLS,
            *_IMAGE_TOOLS,
            ("bc", "bc"),
            ("bison", "bison"),
            ("depmod", "kmod"),
            ("flex", "flex"),
            ("gcc", "gcc"),
            ("make", "make"),
            ("strip", "binutils"),
            ("/usr/include/stdio.h", "libc6-dev"),
        ),
    ),
    Recipe(
        name="kernel-cloud",
        build="cloud-kernel",
        file="modules.img",
        packages=("busybox-static", "linux-image-cloud-amd64"),
        tools=(*_DEBIAN_TOOLS, *_IMAGE_TOOLS, ("depmod", "kmod")),
    ),
)
RECIPES: Mapping[str, Recipe] = {row.name: row for row in _ROWS}
