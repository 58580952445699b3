# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory of a real guest of QEMU goes and comes back by its memory balloon.

The guest is the kernel of the lab's virtual machines with a first root of a few files, which loads the driver and tells each
second how much memory it has. QEMU emulates its processor, so that no KVM is needed: it boots in a few seconds. The tests
share it, and are run in order.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.qmp import Qmp
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.vms import VmLimits
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import PeerError
from ansible_collections.ballast.kube.plugins.module_utils._vm import cpio
from tests.integration.kube_proxy import eventually
from tests.integration.test_vm import ansible

MIB = 2**20
QEMU = "qemu-system-x86_64"
MEMORY = 256  # MiB
SECONDS = 120
DRIVER = "kernel/drivers/virtio/virtio_balloon.ko.xz"

# A line on its console is an order: `use 100` keeps 100 MiB, `leave` unloads the driver.
INIT = """\
#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t tmpfs -o size=90% ram /ram
busybox insmod /virtio_balloon.ko
while true; do
  order= amount=
  read -t 1 order amount
  case $order in
    use) busybox dd if=/dev/zero of=/ram/used bs=1M count="$amount" 2>/dev/null ;;
    leave) busybox rmmod virtio_balloon ;;
  esac
  total= used=
  while read -r name size _unit; do
    [ "$name" = MemTotal: ] && total=$size
    [ "$name" = Shmem: ] && used=$size
  done </proc/meminfo
  echo "told total $total used $used"
done
"""

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which(QEMU) is None, reason="root builds the kernel's image, QEMU runs it"
    ),
]


class Guest:
    """Its console is the standard streams of QEMU."""

    def __init__(self, process: subprocess.Popen[str], socket: str) -> None:
        self.process = process
        self.socket = socket
        self.limits = VmLimits(LocalHost(), {"n1": socket})
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    def tell(self, order: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()

    def says(self, name: str) -> int:
        """Bytes, as it tells from now on."""
        known = len(self.lines)
        words = eventually(
            lambda: [line.split() for line in self.lines[known:] if line.startswith("told ")], seconds=SECONDS
        )
        assert words, "".join(self.lines[-30:])
        return int(words[-1][words[-1].index(name) + 1]) * 1024


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    place = tmp_path_factory.mktemp("qemu")
    kernel = Path(ansible("lab_image", recipe="kernel-cloud")["path"])
    initrd = place / "initrd"
    initrd.write_bytes(first_root(kernel, place))
    argv = [QEMU, "-machine", "pc", "-accel", "tcg", "-cpu", "max,cx16=off", "-m", str(MEMORY), "-nodefaults"]
    argv += ["-no-user-config", "-display", "none", "-no-reboot", "-nic", "none", "-serial", "stdio"]
    argv += ["-device", "virtio-balloon-pci", "-qmp", f"unix:{place}/qmp,server=on,wait=off"]
    argv += [
        "-kernel",
        str(kernel.with_name("vmlinuz")),
        "-initrd",
        str(initrd),
        "-append",
        "console=ttyS0 quiet panic=-1",
    ]
    with qemu(argv) as process:
        made = Guest(process, f"{place}/qmp")
        made.says("total")
        yield made


@contextlib.contextmanager
def qemu(argv: list[str]) -> Iterator[subprocess.Popen[str]]:
    """It ends with the block, and with this process where that is killed."""
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def first_root(image: Path, place: Path) -> bytes:
    """`image` is that of the kernel's modules."""
    names = [row.split("/")[5] for row in debugfs(image, "ls -p /").splitlines() if row]
    version = next(name for name in names if name[0].isdigit())
    debugfs(image, f"dump /{version}/{DRIVER} {place}/driver")
    driver = lzma.decompress((place / "driver").read_bytes())
    busybox = Path(shutil.which("busybox") or "/usr/bin/busybox").read_bytes()
    return cpio.archive(
        [
            *(cpio.Entry(path=name) for name in ("bin", "dev", "proc", "ram")),
            cpio.Entry(path="dev/console", mode=0o600, device=(5, 1)),
            cpio.Entry(path="dev/zero", mode=0o600, device=(1, 5)),
            cpio.Entry(path="bin/busybox", data=busybox),
            cpio.Entry(path="virtio_balloon.ko", mode=0o644, data=driver),
            cpio.Entry(path="init", data=INIT.encode()),
        ]
    )


def debugfs(image: Path, order: str) -> str:
    argv = ["debugfs", "-R", order, str(image)]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout


def refused(guest: Guest, limit: Resources) -> PeerError:
    before = guest.limits.read("n1")
    with pytest.raises(PeerError) as caught:
        guest.limits.write("n1", limit)
    assert guest.limits.read("n1") == before
    return caught.value


def test_it_has_what_it_was_started_with(guest: Guest) -> None:
    assert guest.limits.most("n1") == Resources(1000, MEMORY * MIB)
    assert guest.limits.read("n1") == Resources(0, MEMORY * MIB), "a limit of memory alone"
    assert refused(guest, Resources(0, (MEMORY + 1) * MIB)).id == "balloon-vm-above"


def test_memory_goes_and_comes_back_as_the_guest_sees(guest: Guest) -> None:
    whole = guest.says("total")
    for size in (160, 128, MEMORY):
        limit = Resources(0, size * MIB)
        guest.limits.write("n1", limit)
        assert guest.limits.read("n1") == limit
        assert guest.says("total") == whole - (MEMORY - size) * MIB


def test_a_machine_that_serves_another_client_says_nothing(guest: Guest) -> None:
    with Qmp(guest.socket, node="n1"), pytest.raises(PeerError) as caught, Qmp(guest.socket, node="n1", seconds=1):
        pass
    assert caught.value.id == "balloon-qmp-silent"
    guest.limits.read("n1")


def test_memory_that_the_guest_uses_is_not_taken(guest: Guest) -> None:
    guest.tell("use 100")
    assert eventually(lambda: guest.says("used") >= 100 * MIB, seconds=SECONDS)
    error = refused(guest, Resources(0, 96 * MIB))
    assert error.id == "balloon-vm-in-use"
    guest.limits.write("n1", Resources(0, 224 * MIB))
    guest.limits.write("n1", Resources(0, MEMORY * MIB))
    assert guest.says("used") >= 100 * MIB


def test_a_guest_without_the_driver_is_found_out(guest: Guest) -> None:
    guest.tell("leave")
    for _second in range(2):  # until what it told last is older than a second, in which QEMU counts
        guest.says("total")
    assert refused(guest, Resources(0, 200 * MIB)).id == "balloon-vm-mute"


def test_a_machine_that_is_gone_is_told(guest: Guest) -> None:
    guest.process.send_signal(signal.SIGKILL)
    guest.process.wait(timeout=SECONDS)
    with pytest.raises(PeerError) as caught:
        guest.limits.read("n1")
    assert caught.value.id == "balloon-qmp-absent"


def test_a_machine_without_a_balloon_is_told(tmp_path: Path) -> None:
    path = tmp_path / "qmp"
    with qemu([QEMU, "-machine", "none", "-nodefaults", "-display", "none", "-qmp", f"unix:{path},server=on,wait=off"]):
        assert eventually(path.exists, seconds=SECONDS)
        with pytest.raises(PeerError) as caught:
            VmLimits(LocalHost(), {"n1": str(path)}).read("n1")
    assert caught.value.id == "balloon-vm-no-device"
