# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engines that run virtual machines, as a table of what differs, and the command that starts a machine. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from .guest import MODULES_MOUNT, PROBE

KEY_PLACEHOLDER = "@ssh-key@"  # the key is made by an earlier step; a command in the plan cannot know it


@dataclass(frozen=True)
class Kernel:
    modules: str  # image of the kernel's modules
    vmlinuz: str = (
        ""  # empty where the engine's program is itself the kernel; for a kernel of User Mode Linux, the program
    )
    initrd: str = ""


@dataclass(frozen=True)
class Disk:
    path: str
    mount: str


@dataclass(frozen=True)
class Machine:
    """One virtual machine, as far as its command needs to know."""

    name: str
    directory: str  # of its files; the mark by which its process is known
    tap: str
    address: str  # with the length of the network: 10.97.0.101/24
    gateway: str
    memory_mib: int
    cpus: int
    image: str
    disks: tuple[Disk, ...] = ()

    @property
    def disk(self) -> str:
        return f"{self.directory}/disk"

    @property
    def console(self) -> str:
        return f"{self.directory}/console.log"

    @property
    def mac(self) -> str:
        """Its own on every bridge: locally administered, from the directory, which no two machines share."""
        tail = hashlib.sha256(self.directory.encode()).digest()[:5]
        return ":".join(f"{byte:02x}" for byte in (0x02, *tail))

    @property
    def machine_id(self) -> str:
        """machine-id(5), the same in every life of this machine."""
        return hashlib.sha256(f"ballast machine-id {self.directory}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Engine:
    name: str
    program: str
    kernel: str  # recipe of its kernel
    disk_prefix: str  # of its disks in the guest; a letter follows
    tools: tuple[tuple[str, str], ...]  # program and the Debian package that has it
    modules: tuple[str, ...]  # kernel modules that the guest needs for its network
    memory_in_shm: bool
    max_cpus: int
    probe_seconds: int  # within which it must have booted to be chosen
    ready_seconds: int  # within which a machine must answer ssh
    login_seconds: int  # within which one login must be through
    stop_seconds: int  # within which a machine that was asked to power off must have ended
    command: Callable[[Engine, Machine, Kernel, str], list[str]]


def command(engine: Engine, machine: Machine, kernel: Kernel) -> list[str]:
    return engine.command(engine, machine, kernel, _kernel_line(engine, machine))


def probe_command(engine: Engine, machine: Machine, kernel: Kernel) -> list[str]:
    """The same machine, but it only says that it booted and ends."""
    line = f"ro init={PROBE} quiet panic=-1 {'root=/dev/ubda' if engine.name == 'uml' else 'console=ttyS0'}"
    return engine.command(engine, machine, kernel, line)


def _kernel_line(engine: Engine, machine: Machine) -> str:
    disks = [MODULES_MOUNT, *(disk.mount for disk in machine.disks)]
    words = [
        "rw",
        "quiet",
        "panic=-1",  # ends the machine instead of leaving it hanging
        "selinux=0",
        "net.ifnames=0",
        "dummy.numdummies=0",
        "systemd.show_status=0",
        "systemd.unified_cgroup_hierarchy=1",
        f"systemd.hostname={machine.name}",
        f"systemd.machine_id={machine.machine_id}",
        f"ballast.address={machine.address}",
        f"ballast.gateway={machine.gateway}",
        f"ballast.ssh_key={KEY_PLACEHOLDER}",
        *(f"ballast.disk={engine.disk_prefix}{letter}:{mount}" for letter, mount in zip("bcdefgh", disks)),
        *(f"ballast.module={module}" for module in engine.modules),
        "root=/dev/ubda" if engine.name == "uml" else "console=ttyS0",
    ]
    return " ".join(words)


def _uml(engine: Engine, machine: Machine, kernel: Kernel, line: str) -> list[str]:
    # Sources: linux.uml --help; Documentation/virt/uml/user_mode_linux_howto_v2.rst of Linux.
    disks = [kernel.modules, *(disk.path for disk in machine.disks)]
    # `c`: several machines read one image at a time, which the lock of the driver would refuse.
    root = f"ubd0={machine.disk},{machine.image}" if machine.tap else f"ubd0rc={machine.image}"
    network = [f"vec0:transport=tap,ifname={machine.tap},mac={machine.mac},depth=128,gro=1"] if machine.tap else []
    return [
        kernel.vmlinuz or engine.program,
        f"mem={machine.memory_mib}M",
        f"umid={machine.name}",
        f"uml_dir={machine.directory}/uml",
        root,
        *(f"ubd{number}rc={path}" for number, path in enumerate(disks, start=1)),
        *network,
        "con=null",
        "con0=null,fd:1",
        "ssl=null",
        # The one that we build can; with Debian's it would become a variable of init.
        *(["seccomp=auto"] if kernel.vmlinuz else []),
        *line.split(" "),
    ]


# Nobody writes it, but a machine of User Mode Linux locks the one under its disk, before which QEMU would not start.
_IMAGE = "format=raw,readonly=on,file.locking=off"


def _qemu(engine: Engine, machine: Machine, kernel: Kernel, line: str) -> list[str]:
    # Source: qemu-system-x86_64(1).
    accelerator, processor = ("kvm", "host") if engine.name == "kvm" else ("tcg,thread=multi", "max,cx16=off")
    root = f"file={machine.disk},format=qcow2" if machine.tap else f"{_IMAGE},file={machine.image}"
    disks = [kernel.modules, *(disk.path for disk in machine.disks)]
    network = [
        *("-netdev", f"tap,id=net0,ifname={machine.tap},script=no,downscript=no"),
        *("-device", f"virtio-net-pci,netdev=net0,mac={machine.mac},romfile="),
    ]
    return [
        engine.program,
        *("-name", machine.name),
        *("-machine", "pc", "-accel", accelerator, "-cpu", processor),
        *("-smp", str(machine.cpus), "-m", str(machine.memory_mib)),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-serial", "stdio", "-qmp", f"unix:{machine.directory}/qmp.sock,server=on,wait=off"),
        *("-kernel", kernel.vmlinuz, "-initrd", kernel.initrd, "-append", line),
        *("-drive", f"if=virtio,{root}"),
        *(word for path in disks for word in ("-drive", f"if=virtio,{_IMAGE},file={path}")),
        *("-device", "virtio-rng-pci"),
        *(network if machine.tap else ("-nic", "none")),
    ]


_COMMON_TOOLS = (("ip", "iproute2"), ("ssh", "openssh-client"), ("ssh-keygen", "openssh-client"))
_UML_TOOLS = (("taskset", "util-linux"), *_COMMON_TOOLS)
_QEMU = "qemu-system-x86_64"
_QEMU_TOOLS = ((_QEMU, "qemu-system-x86"), ("qemu-img", "qemu-utils"), *_COMMON_TOOLS)

# In the order of preference.
ENGINES: Mapping[str, Engine] = {
    row.name: row
    for row in (
        Engine(
            name="kvm",
            program=_QEMU,
            kernel="kernel-cloud",
            disk_prefix="/dev/vd",
            tools=_QEMU_TOOLS,
            modules=("virtio_net",),
            memory_in_shm=False,
            max_cpus=64,
            probe_seconds=20,
            ready_seconds=120,
            login_seconds=5,
            stop_seconds=60,
            command=_qemu,
        ),
        Engine(
            name="uml",
            program="linux.uml",
            kernel="kernel-uml",
            disk_prefix="/dev/ubd",
            tools=(("linux.uml", "user-mode-linux"), *_UML_TOOLS),
            modules=(),
            memory_in_shm=True,
            max_cpus=1,
            probe_seconds=20,
            ready_seconds=240,
            login_seconds=10,
            stop_seconds=60,
            command=_uml,
        ),
        Engine(
            name="tcg",
            program=_QEMU,
            kernel="kernel-cloud",
            disk_prefix="/dev/vd",
            tools=_QEMU_TOOLS,
            modules=("virtio_net",),
            memory_in_shm=False,
            max_cpus=64,
            probe_seconds=60,
            ready_seconds=600,
            login_seconds=60,
            stop_seconds=180,
            command=_qemu,
        ),
    )
}

UML_KERNELS = ("debian", "built")


def engines(uml_kernel: str) -> Mapping[str, Engine]:
    """The table, with the kernel of User Mode Linux that is asked for: Debian's, or one that we build."""
    if uml_kernel == "debian":
        return ENGINES
    uml = replace(ENGINES["uml"], kernel="kernel-uml-built", tools=_UML_TOOLS)
    return {**ENGINES, "uml": uml}
