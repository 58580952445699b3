# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with the limits of nodes, in one table."""

from __future__ import annotations

from ..._core.text.errors import Bug, HostError, Message, Messages, PeerError
from ..sizing.resources import Resources

_PAGE_BYTES = 4096

MESSAGES = Messages(
    "docs/reference/errors-balloons.md",
    [
        Message(
            id="balloon-limit-pages",
            error=Bug,
            text="{node}: a limit of {memory} bytes is not a multiple of the page size, {page} bytes, so the kernel would round it",
            remedy="report it with the options of the run",
        ),
        Message(
            id="balloon-slice-missing",
            error=HostError,
            text="{node}: slice {slice} is missing or incomplete on this machine",
            remedy="create it with its node through ballast.kube.node_instances, and use that slice name",
        ),
        Message(
            id="balloon-slice-in-use",
            error=HostError,
            text="{node}: slice {slice} cannot be limited to {limit}: more of its memory is in use, and the kernel would kill processes",
            remedy="find pods that use more than they request (kubectl top pods), remove or limit some, then run the same command again",
        ),
        Message(
            id="balloon-slice-quota",
            error=HostError,
            text="{node}: slice {slice} cannot be limited to {limit}: its child cgroups have higher CPU limits, which cgroup v1 rejects",
            remedy="lower the CPU limits of these pods, or boot this machine with cgroup v2, which allows this",
        ),
        Message(
            id="balloon-slice-not-in-force",
            error=HostError,
            text="{node}: the limits of slice {slice} were set but not in effect {seconds} seconds later",
            remedy="check `systemctl status {slice}.slice` and systemd's log for the reason",
        ),
        Message(
            id="balloon-qmp-absent",
            error=PeerError,
            text="{node}: no virtual machine listens at {path}",
            remedy="start QEMU with -qmp unix:{path},server=on,wait=off, and run this as a user that may write to the socket",
        ),
        Message(
            id="balloon-qmp-silent",
            error=PeerError,
            text="{node}: QEMU did not respond at {path} within {seconds} seconds",
            remedy="check whether another program is connected: QEMU serves one client per socket, so add a second -qmp socket for this",
        ),
        Message(
            id="balloon-qmp-answer",
            error=PeerError,
            text="{node}: the program that listens at {path} does not speak QMP",
            remedy="use the socket of QEMU's option -qmp, not that of -monitor or a guest agent",
        ),
        Message(
            id="balloon-qmp-refused",
            error=PeerError,
            text="{node}: QEMU refused the command {command}",
            remedy="fix what QEMU reports",
        ),
        Message(
            id="balloon-vm-no-device",
            error=PeerError,
            text="{node}: the virtual machine has no memory balloon",
            remedy="start QEMU with -device virtio-balloon-pci",
        ),
        Message(
            id="balloon-vm-above",
            error=PeerError,
            text="{node}: {limit} of memory is more than the virtual machine was started with",
            remedy="lower the target, or start the virtual machine with more memory (-m)",
        ),
        Message(
            id="balloon-vm-mute",
            error=PeerError,
            text="{node}: the virtual machine does not report its free memory, so taking memory could crash it",
            remedy="load the driver in the guest: modprobe virtio_balloon",
        ),
        Message(
            id="balloon-vm-in-use",
            error=PeerError,
            text="{node}: the virtual machine cannot shrink to {limit} of memory: it uses more",
            remedy="find pods that use more than they request (kubectl top pods), remove or limit some, then run the same command again",
        ),
        Message(
            id="balloon-vm-stalled",
            error=PeerError,
            text="{node}: the virtual machine did not reach {limit} of memory; its previous size was restored",
            remedy="read the guest's log for its driver virtio_balloon, then run the same command again",
        ),
        Message(
            id="balloon-machine-unknown",
            error=HostError,
            text="vm: this machine's identity or capacity cannot be read from {path}",
            remedy="run it on the machine that hosts the virtual machines, with its real /proc and /sys",
        ),
    ],
)


def check_pages(node: str, limit: Resources) -> None:
    """Require whole pages: a kernel rounds limits to pages, and the plan would then not know the limit in force."""
    if limit.memory % _PAGE_BYTES:
        raise MESSAGES.error("balloon-limit-pages", node=node, memory=limit.memory, page=_PAGE_BYTES)
