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
            text="{path}: {value} is too small; the minimum is {least}",
            remedy="set a larger number",
        ),
        Message(
            id="vm-path",
            error=UserError,
            text="{path}: {value} is not an absolute path of plain characters",
            remedy="use a path that begins with / and has no space, comma or colon",
        ),
        Message(
            id="vm-path-long",
            error=UserError,
            text="state_dir: {value} is too long: a socket path below it would have {length} characters; the kernel allows 107",
            remedy="use a shorter state_dir or shorter names",
        ),
        Message(
            id="vm-bridge-name",
            error=UserError,
            text="bridge: {value} is not an interface name; use 1 to 15 characters",
            remedy="set bridge to the name of the machines' bridge",
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
            text="packages: {value} is not a Debian package name",
            remedy="correct the name",
        ),
        # This machine
        Message(
            id="vm-tool-missing",
            error=HostError,
            text="this machine lacks these programs: {tools}",
            remedy="install them: apt-get install --no-install-recommends {packages}",
        ),
        Message(
            id="vm-no-tun",
            error=HostError,
            text="this kernel does not provide tap devices: /dev/net/tun is missing",
            remedy="load the module: modprobe tun; in a container, pass in the device /dev/net/tun",
        ),
        Message(
            id="vm-no-bridge",
            error=HostError,
            text="bridge: the bridge {bridge} does not exist on this machine",
            remedy="create it first: ip link add {bridge} type bridge",
        ),
        Message(
            id="vm-memory",
            error=HostError,
            text="the machines to start need {needed} MiB of memory; {free} MiB is available",
            remedy="lower memory_mib, or use fewer machines",
        ),
        Message(
            id="vm-disk",
            error=HostError,
            text="{path} needs {needed} MiB of free disk space; it has {free} MiB",
            remedy="free space there, or use another directory",
        ),
        Message(
            id="vm-engine-missing",
            error=HostError,
            text="no virtual machine engine works on this machine",
            remedy="install one: apt-get install --no-install-recommends user-mode-linux, or qemu-system-x86 qemu-utils",
        ),
        Message(
            id="vm-engine-changed",
            error=HostError,
            text="the machines in {path} were created with engine {before}; the requested engine {after} cannot read their disks",
            remedy="keep the engine, or remove the machines first (state: absent)",
        ),
        Message(
            id="vm-image-changed",
            error=HostError,
            text="the disk of {name} is based on image {before}, not on the requested {after}",
            remedy="keep the image, or remove the machine first (state: absent), which deletes its data",
        ),
        Message(
            id="vm-image-missing",
            error=HostError,
            text="image: {path} is not an image that lab_image built",
            remedy="build it with lab_image, and use the path that it returns",
        ),
        Message(
            id="vm-image-corrupt",
            error=HostError,
            text="image: {path} changed after it was built: its digest differs",
            remedy="remove it and build it again: lab_image with state: absent, then with state: present",
        ),
        Message(
            id="image-source",
            error=HostError,
            text="source: {path} is not a directory that contains files",
            remedy="use a directory that contains the image's files",
        ),
        Message(
            id="image-kernel-missing",
            error=HostError,
            text="{path} contains no modules for kernel {version}",
            remedy="install the kernel with its modules: apt-get install --reinstall user-mode-linux",
        ),
        Message(
            id="image-kernel-source",
            error=HostError,
            text="{package} of {suite} did not provide exactly one kernel source",
            remedy="report it with the output of `apt-cache depends {package}`; meanwhile set uml_kernel: debian",
        ),
        Message(
            id="image-kernel-options",
            error=HostError,
            text="the kernel of {package} does not support these options: {options}",
            remedy="report it with the version of the package; meanwhile set uml_kernel: debian",
        ),
        # The machines
        Message(
            id="vm-died",
            error=PeerError,
            text="virtual machine {name} ended before it was ready",
            remedy="read its full console: {console}",
        ),
        Message(
            id="vm-not-ready",
            error=PeerError,
            text="virtual machine {name} did not respond to ssh within {seconds} seconds",
            remedy="read its console: {console}; on a slow machine, run the same command again to continue waiting",
        ),
        Message(
            id="vm-one-cpu",
            error=HostError,
            text="has {most} processor instead of {cpus}: engine {engine} supports no more",
            remedy="set cpus to 1, or use engine kvm or tcg",
        ),
    ],
)
