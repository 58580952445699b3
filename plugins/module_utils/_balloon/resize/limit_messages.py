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
            text="{node}: a limit of {memory} bytes is not whole pages of {page} bytes, which a kernel would round",
            remedy="please report it, with the options of the run",
        ),
        Message(
            id="balloon-slice-missing",
            error=HostError,
            text="{node}: this machine has no whole slice {slice}",
            remedy="see ballast.kube.node_instances, which makes it with its node; name the slice as that does",
        ),
        Message(
            id="balloon-slice-in-use",
            error=HostError,
            text="{node}: slice {slice} cannot be limited to {limit}: more of its memory is in use, and processes would be ended",
            remedy="see which pods use more than they request (kubectl top pods), end some or limit them, then run it again",
        ),
        Message(
            id="balloon-slice-quota",
            error=HostError,
            text="{node}: slice {slice} cannot be limited to {limit}: cgroups in it may use more cpu, which cgroup v1 does not allow",
            remedy="lower the cpu limits of these pods, or run this machine with cgroup v2, which has no such rule",
        ),
        Message(
            id="balloon-slice-not-in-force",
            error=HostError,
            text="{node}: slice {slice} was given its limits, and {seconds} seconds later they are not in force",
            remedy="see `systemctl status {slice}.slice` and the log of systemd for why",
        ),
        Message(
            id="balloon-qmp-absent",
            error=PeerError,
            text="{node}: no virtual machine listens at {path}",
            remedy="start QEMU with -qmp unix:{path},server=on,wait=off, and run this as a user who may write to the socket",
        ),
        Message(
            id="balloon-qmp-silent",
            error=PeerError,
            text="{node}: QEMU did not answer at {path} within {seconds} seconds",
            remedy="see whether another program is connected: QEMU serves one at a time, so give it a -qmp socket of its own for this",
        ),
        Message(
            id="balloon-qmp-answer",
            error=PeerError,
            text="{node}: what listens at {path} does not speak QMP",
            remedy="name the socket of QEMU's option -qmp, not that of its -monitor or of a guest agent",
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
            text="{node}: the virtual machine does not say how much of its memory is free, and might not survive to lose some",
            remedy="load the driver in it: modprobe virtio_balloon",
        ),
        Message(
            id="balloon-vm-in-use",
            error=PeerError,
            text="{node}: the virtual machine cannot be left {limit} of memory, since it uses more",
            remedy="see which pods use more than they request (kubectl top pods), end some or limit them, then run it again",
        ),
        Message(
            id="balloon-vm-stalled",
            error=PeerError,
            text="{node}: the virtual machine was to have {limit} of memory and did not come to that; it was put back",
            remedy="see the virtual machine's own log for its driver virtio_balloon, then run it again",
        ),
        Message(
            id="balloon-machine-unknown",
            error=HostError,
            text="vm: this machine does not say in {path} what it is or has",
            remedy="run it on the machine whose kernel runs the virtual machines, with /proc and /sys as that has them",
        ),
    ],
)


def check_pages(node: str, limit: Resources) -> None:
    """A kernel rounds a limit to pages, and the plan would not know the limit in force."""
    if limit.memory % _PAGE_BYTES:
        raise MESSAGES.error("balloon-limit-pages", node=node, memory=limit.memory, page=_PAGE_BYTES)
