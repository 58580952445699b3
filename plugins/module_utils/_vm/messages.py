# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every error of the virtual machines, in one table."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-virtual-machines.md",
    [
        # Input
        Message(
            id="vm-name",
            error=UserError,
            text="{path}: {value} is not a name; use up to 40 lower-case letters, digits and hyphens, a letter or digit at both ends",
            remedy="choose another name",
        ),
        Message(
            id="vm-name-twice",
            error=UserError,
            text="{path}: {value} is used twice",
            remedy="give each machine its own name and address",
        ),
        Message(
            id="vm-address",
            error=UserError,
            text="{path}: {value} is not {expected}",
            remedy="correct the address",
        ),
        Message(
            id="vm-amount",
            error=UserError,
            text="{path}: {value} is not allowed; use {least} or more",
            remedy="set a larger number",
        ),
        Message(
            id="vm-path",
            error=UserError,
            text="{path}: {value} is not an absolute path of plain characters",
            remedy="use a path that begins with / and has no blank, comma or colon",
        ),
        Message(
            id="vm-path-long",
            error=UserError,
            text="state_dir: {value} is too long: a socket below it would have {length} characters, the kernel allows 107",
            remedy="use a shorter state_dir or shorter names",
        ),
        Message(
            id="vm-bridge-name",
            error=UserError,
            text="bridge: {value} is not a link name; it has 1 to 15 characters",
            remedy="name the bridge for the machines",
        ),
        Message(
            id="vm-required",
            error=UserError,
            text="{path} is required when {when}",
            remedy="set it",
        ),
        Message(
            id="image-package-name",
            error=UserError,
            text="packages: {value} is not the name of a Debian package",
            remedy="correct the name",
        ),
        # This machine
        Message(
            id="vm-tool-missing",
            error=HostError,
            text="these programs are not on this machine: {tools}",
            remedy="install them: apt-get install --no-install-recommends {packages}",
        ),
        Message(
            id="vm-no-tun",
            error=HostError,
            text="this kernel offers no tap devices: /dev/net/tun is missing",
            remedy="load the module: modprobe tun; in a container, hand in the device /dev/net/tun",
        ),
        Message(
            id="vm-no-bridge",
            error=HostError,
            text="bridge: there is no bridge {bridge} on this machine",
            remedy="make it first: ip link add {bridge} type bridge",
        ),
        Message(
            id="vm-memory",
            error=HostError,
            text="the machines to start need {needed} MiB of memory; {free} MiB are available",
            remedy="lower memory_mib, or use fewer machines",
        ),
        Message(
            id="vm-disk",
            error=HostError,
            text="{path} needs {needed} MiB of free disk; it has {free} MiB",
            remedy="free space there, or use another directory",
        ),
        Message(
            id="vm-engine-missing",
            error=HostError,
            text="no engine for virtual machines works on this machine",
            remedy="install one: apt-get install --no-install-recommends user-mode-linux, or qemu-system-x86 qemu-utils",
        ),
        Message(
            id="vm-engine-changed",
            error=HostError,
            text="the machines in {path} were made with engine {before}; the requested engine {after} cannot read their disks",
            remedy="keep the engine, or remove the machines first (state: absent)",
        ),
        Message(
            id="vm-image-changed",
            error=HostError,
            text="the disk of {name} is based on image {before}, not on the requested {after}",
            remedy="keep the image, or remove the machine first (state: absent); its data goes with it",
        ),
        Message(
            id="vm-image-missing",
            error=HostError,
            text="image: {path} is not an image that lab_image made",
            remedy="build it with lab_image, and hand in the path that it returns",
        ),
        Message(
            id="vm-image-corrupt",
            error=HostError,
            text="image: {path} is not what was built: its digest differs",
            remedy="remove it and build it again: lab_image with state absent, then present",
        ),
        Message(
            id="image-source",
            error=HostError,
            text="source: {path} is not a directory with files",
            remedy="name a directory with files for the image",
        ),
        Message(
            id="image-kernel-missing",
            error=HostError,
            text="no modules for kernel {version} in {path}",
            remedy="install the kernel with its modules: apt-get install --reinstall user-mode-linux",
        ),
        Message(
            id="image-kernel-source",
            error=HostError,
            text="{package} of {suite} brought no source of a kernel, or more than one",
            remedy="report it with what `apt-cache depends {package}` says; meanwhile set uml_kernel to debian",
        ),
        Message(
            id="image-kernel-options",
            error=HostError,
            text="the kernel of {package} does not take these options: {options}",
            remedy="report it with the version of the package; meanwhile set uml_kernel to debian",
        ),
        # The machines
        Message(
            id="vm-died",
            error=PeerError,
            text="virtual machine {name} ended while it was waited for",
            remedy="see the whole console: {console}",
        ),
        Message(
            id="vm-not-ready",
            error=PeerError,
            text="virtual machine {name} did not answer ssh within {seconds} seconds",
            remedy="see its console: {console}; on a slow machine run the same again, it goes on waiting",
        ),
        Message(
            id="vm-one-cpu",
            error=HostError,
            text="has {most} processor instead of {cpus}: engine {engine} gives no more",
            remedy="set cpus to 1, or use engine kvm or tcg",
        ),
    ],
)
