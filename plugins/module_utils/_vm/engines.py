# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engines that run virtual machines, as a table of their differences, and the command that starts a machine. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from .confine import FIRST_FD, own_uid
from .guest import MODULES_MOUNT, PROBE

KEY_PLACEHOLDER = "@ssh-key@"  # the plan does not know the key, which an earlier step makes


@dataclass(frozen=True)
class Kernel:
    """Paths of what a machine boots, besides its root disk."""

    modules: str  # image of the kernel's modules
    vmlinuz: str = ""  # empty if the engine's program is the kernel; the program itself for our own User Mode Linux
    initrd: str = ""


@dataclass(frozen=True)
class Disk:
    """A read-only disk of the user's: the image `path`, which the guest mounts at `mount`."""

    path: str
    mount: str


@dataclass(frozen=True)
class Machine:
    """The properties of a virtual machine that its command needs."""

    name: str
    directory: str  # of its files; identifies its process
    tap: str
    address: str  # with prefix length: 10.97.0.101/24
    gateway: str
    memory_mib: int
    cpus: int
    image: str
    disks: tuple[Disk, ...] = ()

    @property
    def disk(self) -> str:
        """The path of the root disk."""
        return f"{self.directory}/disk"

    @property
    def uid(self) -> int:
        """The host's user as which the machine runs."""
        return machine_uid(self.directory)

    @property
    def console(self) -> str:
        """The path of the console's output."""
        return f"{self.directory}/console.log"

    @property
    def seed(self) -> str:
        """A disk with the machine's secrets: its ssh host key."""
        return f"{self.directory}/seed"

    @property
    def mac(self) -> str:
        """A locally administered MAC address, unique on every bridge: derived from the directory, which no two machines share."""
        tail = hashlib.sha256(self.directory.encode()).digest()[:5]
        return ":".join(f"{byte:02x}" for byte in (0x02, *tail))

    @property
    def machine_id(self) -> str:
        """machine-id(5), the same at every start of this machine."""
        return hashlib.sha256(f"ballast machine-id {self.directory}".encode()).hexdigest()[:32]


def machine_uid(directory: str) -> int:
    """The uid of the machine with this directory."""
    return own_uid(f"virtual machine {directory}")


@dataclass(frozen=True)
class Engine:
    """How one engine runs machines. `command` makes the command line; its last argument is the guest's kernel command
    line."""

    name: str
    program: str
    kernel: str  # name of its kernel's recipe
    disk_prefix: str  # name of its disks in the guest, without the letter that follows
    tools: tuple[tuple[str, str], ...]  # programs, with the Debian package of each
    modules: tuple[str, ...]  # kernel modules that the guest needs for its network
    memory_in_shm: bool  # whether the guest's memory is in a tmpfs that is mounted for this machine only
    data: tuple[str, ...]  # files and directories of the host that it reads besides its program, if they exist
    devices: tuple[str, ...]
    max_cpus: int
    # Time limits: a probe's boot, a machine's first answer over ssh, one login, a power off.
    probe_seconds: int
    ready_seconds: int
    login_seconds: int
    stop_seconds: int
    command: Callable[[Engine, Machine, Kernel, str], list[str]]


_TAP_FD, _QMP_FD = FIRST_FD, FIRST_FD + 1  # file descriptors that a machine inherits


def uml_mark(directory: str) -> str:
    """The word in its command that identifies a User Mode Linux machine."""
    return f"uml_dir={directory}/uml"


def qemu_mark(directory: str) -> str:
    """The word in its command that identifies a QEMU machine."""
    return f"if=virtio,file={directory}/disk,format=qcow2"


_LETTERS = "bcdefgh"  # of the disks after the root disk


def command(engine: Engine, machine: Machine, kernel: Kernel) -> list[str]:
    """The program and arguments that start the machine, before they are confined."""
    return engine.command(engine, machine, kernel, _kernel_line(engine, machine))


def files_of(machine: Machine, kernel: Kernel) -> tuple[str, ...]:
    """The files that the machine reads, besides those of its program; only root may write them."""
    return tuple(
        path
        for path in (
            machine.image,
            kernel.vmlinuz,
            kernel.initrd,
            *_disks(machine, kernel),
        )
        if path
    )


def probe_command(engine: Engine, machine: Machine, kernel: Kernel) -> list[str]:
    """The command of a machine that only reports that it booted, and ends."""
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
        *(f"ballast.disk={engine.disk_prefix}{letter}:{mount}" for letter, mount in zip(_LETTERS, disks)),
        *([f"ballast.seed={engine.disk_prefix}{_LETTERS[len(disks)]}"] if machine.tap else []),
        *(f"ballast.module={module}" for module in engine.modules),
        "root=/dev/ubda" if engine.name == "uml" else "console=ttyS0",
    ]
    return " ".join(words)


def _disks(machine: Machine, kernel: Kernel) -> list[str]:
    """The disks after the root disk, the seed last. A probe has no seed."""
    return [kernel.modules, *(disk.path for disk in machine.disks), *([machine.seed] if machine.tap else [])]


def _uml(engine: Engine, machine: Machine, kernel: Kernel, line: str) -> list[str]:
    # Sources: linux.uml --help; Documentation/virt/uml/user_mode_linux_howto_v2.rst of Linux.
    disks = _disks(machine, kernel)
    # `c`: several machines read one image at once, which the driver's lock would prevent.
    root = f"ubd0={machine.disk},{machine.image}" if machine.tap else f"ubd0rc={machine.image}"
    # vec=0: a tap is no socket, so several packets cannot be read at once.
    network = [f"vec0:transport=fd,fd={_TAP_FD},mac={machine.mac},depth=128,vec=0"] if machine.tap else []
    return [
        kernel.vmlinuz or engine.program,
        f"mem={machine.memory_mib}M",
        f"umid={machine.name}",
        uml_mark(machine.directory),
        root,
        *(f"ubd{number}rc={path}" for number, path in enumerate(disks, start=1)),
        *network,
        "con=null",
        "con0=null,fd:1",
        "ssl=null",
        # Only our own kernel knows this option; Debian's would pass it to init as a variable.
        *(["seccomp=auto"] if kernel.vmlinuz else []),
        *line.split(" "),
    ]


# No machine writes the image, but User Mode Linux locks it, and QEMU would then refuse to start.
_IMAGE = "format=raw,readonly=on,file.locking=off"


def _qemu(engine: Engine, machine: Machine, kernel: Kernel, line: str) -> list[str]:
    # Source: qemu-system-x86_64(1).
    accelerator, processor = ("kvm", "host") if engine.name == "kvm" else ("tcg,thread=multi", "max,cx16=off")
    root = qemu_mark(machine.directory) if machine.tap else f"if=virtio,{_IMAGE},file={machine.image}"
    disks = _disks(machine, kernel)
    network = [
        *("-netdev", f"tap,id=net0,fd={_TAP_FD}"),
        *("-device", f"virtio-net-pci,netdev=net0,mac={machine.mac},romfile="),
    ]
    monitor = ["-chardev", f"socket,id=qmp,fd={_QMP_FD},server=on,wait=off", "-mon", "chardev=qmp,mode=control"]
    return [
        engine.program,
        *("-name", machine.name),
        *("-machine", "pc", "-accel", accelerator, "-cpu", processor),
        *("-smp", str(machine.cpus), "-m", str(machine.memory_mib)),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
        *("-serial", "stdio", *(monitor if machine.tap else [])),
        *("-kernel", kernel.vmlinuz, "-initrd", kernel.initrd, "-append", line),
        *("-drive", root),
        *(word for path in disks for word in ("-drive", f"if=virtio,{_IMAGE},file={path}")),
        *("-device", "virtio-rng-pci"),
        *(network if machine.tap else ("-nic", "none")),
    ]


_COMMON_TOOLS = (("ip", "iproute2"), ("ssh", "openssh-client"), ("ssh-keygen", "openssh-client"))
_UML_TOOLS = (("taskset", "util-linux"), *_COMMON_TOOLS)
_QEMU = "qemu-system-x86_64"
_QEMU_TOOLS = ((_QEMU, "qemu-system-x86"), ("qemu-img", "qemu-utils"), *_COMMON_TOOLS)
# QEMU's modules, including engine tcg, and firmware.
_QEMU_DATA = ("/usr/lib/x86_64-linux-gnu/qemu", "/usr/share/qemu", "/usr/share/seabios")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")

# In order of preference.
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
            data=_QEMU_DATA,
            devices=(*_DEVICES, "/dev/kvm"),
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
            data=("/proc/cpuinfo",),
            devices=_DEVICES,
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
            data=_QEMU_DATA,
            devices=_DEVICES,
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
    """The table with the requested User Mode Linux kernel: Debian's, or our own build."""
    if uml_kernel == "debian":
        return ENGINES
    uml = replace(ENGINES["uml"], kernel="kernel-uml-built", tools=_UML_TOOLS)
    return {**ENGINES, "uml": uml}
