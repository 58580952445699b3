# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request of `lab_vm`: options, their checks, and the machines as values."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .._core.engine.events import PROGRESS_LOG
from .._core.host.names import LINK_NAME_MAX, is_name, link_name
from .._core.text.errors import BallastError, Problems
from .engines import ENGINES, UML_KERNELS, Disk, Engine, Machine, engines
from .image import CACHE_DIR
from .messages import MESSAGES
from .probe import AUTO

_SOCKET_PATH_MAX = 107  # sun_path without the closing NUL, linux/un.h
_LEAST_MIB = 128  # systemd does not start with less
_PATH = re.compile(r"/[A-Za-z0-9/._+@-]+", re.ASCII)  # safe in a kernel command line and in an engine's options
_LINK = re.compile(rf"[A-Za-z0-9._-]{{1,{LINK_NAME_MAX}}}", re.ASCII)
_RESERVED = ("lock",)  # our own file in the state directory

_DISK_SPEC: Mapping[str, Mapping[str, Any]] = {
    "path": {"type": "path", "required": True},
    "mount": {"type": "path", "required": True},
}
_MACHINE_SPEC: Mapping[str, Mapping[str, Any]] = {
    "name": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "gateway": {"type": "str"},
    "memory_mib": {"type": "int", "default": 1024},
    "cpus": {"type": "int", "default": 1},
}
SPEC: Mapping[str, Mapping[str, Any]] = {
    "state": {"type": "str", "default": "present", "choices": ["present", "stopped", "absent"]},
    "state_dir": {"type": "path", "required": True},
    **PROGRESS_LOG,
    "engine": {"type": "str", "default": AUTO, "choices": [AUTO, *ENGINES]},
    "uml_kernel": {"type": "str", "default": UML_KERNELS[0], "choices": list(UML_KERNELS)},
    "image": {"type": "path"},
    "bridge": {"type": "str"},
    "disks": {"type": "list", "elements": "dict", "default": [], "options": _DISK_SPEC},
    "vms": {"type": "list", "elements": "dict", "default": [], "options": _MACHINE_SPEC},
    "key_owner": {"type": "int", "default": 0, "no_log": False},
    "cache_dir": {"type": "path", "default": CACHE_DIR},
}
INFO_SPEC: Mapping[str, Mapping[str, Any]] = {"state_dir": {"type": "path", "required": True}}


@dataclass(frozen=True)
class VmRequest:
    """`key_owner` is the uid that owns the ssh key. Empty options are unset."""

    state_dir: str
    state: str = "present"
    engine: str = AUTO
    uml_kernel: str = UML_KERNELS[0]
    image: str = ""
    bridge: str = ""
    machines: tuple[Machine, ...] = ()
    key_owner: int = 0
    cache_dir: str = CACHE_DIR

    @property
    def present(self) -> bool:
        """Whether the machines are to exist, running or not."""
        return self.state != "absent"

    @property
    def engines(self) -> Mapping[str, Engine]:
        """The table of engines by name, in the order in which `auto` tries them."""
        return engines(self.uml_kernel)

    @property
    def running(self) -> bool:
        return self.state == "present"

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> VmRequest:
        """Raises Problems with every input error. For `state: absent` it has only the state directory."""
        state_dir, state = os.path.normpath(params["state_dir"]), params["state"]
        problems: list[BallastError] = []
        for option in ("state_dir", "cache_dir"):
            _check_path(problems, option, params[option])
        if state == "absent":
            Problems.raise_if(problems)
            return cls(state_dir=state_dir, state=state)
        for option in ("image", "bridge"):
            if not params[option]:
                problems.append(MESSAGES.error("vm-required", path=option, when=f"state is {state}"))
        if params["image"]:
            _check_path(problems, "image", params["image"])
        if params["bridge"] and _LINK.fullmatch(params["bridge"]) is None:
            problems.append(MESSAGES.error("vm-bridge-name", value=repr(params["bridge"])))
        if params["key_owner"] < 0:
            problems.append(MESSAGES.error("vm-amount", path="key_owner", value=params["key_owner"], least=0))
        for number, disk in enumerate(params["disks"]):
            for option in ("path", "mount"):
                _check_path(problems, f"disks[{number}].{option}", disk[option])
        disks = tuple(Disk(path=disk["path"], mount=disk["mount"]) for disk in params["disks"])
        _check_twice(problems, "disks[{}].mount", [disk.mount for disk in disks])
        for number, row in enumerate(params["vms"]):
            _check_machine(problems, f"vms[{number}]", row, state_dir)
        _check_twice(problems, "vms[{}].name", [row["name"] for row in params["vms"]])
        _check_twice(problems, "vms[{}].address", [row["address"].split("/")[0] for row in params["vms"]])
        Problems.raise_if(problems)
        image = params["image"]
        machines = tuple(_machine(row, state_dir=state_dir, image=image, disks=disks) for row in params["vms"])
        return cls(
            state_dir=state_dir,
            state=state,
            engine=params["engine"],
            uml_kernel=params["uml_kernel"],
            image=image,
            bridge=params["bridge"],
            machines=machines,
            key_owner=params["key_owner"],
            cache_dir=params["cache_dir"],
        )

    @classmethod
    def to_read(cls, params: Mapping[str, Any]) -> VmRequest:
        """The request of `lab_vm_info`, which reads everything from the state directory."""
        return cls(state_dir=os.path.normpath(params["state_dir"]))


def _machine(row: Mapping[str, Any], *, state_dir: str, image: str, disks: tuple[Disk, ...]) -> Machine:
    return Machine(
        name=row["name"],
        directory=os.path.join(state_dir, row["name"]),
        # Two labs on one host may have machines with the same name; their directories differ.
        tap=link_name("vm", os.path.join(state_dir, row["name"])),
        address=row["address"],
        gateway=row["gateway"] or "",
        memory_mib=row["memory_mib"],
        cpus=row["cpus"],
        image=image,
        disks=disks,
    )


def _check_machine(problems: list[BallastError], path: str, row: Mapping[str, Any], state_dir: str) -> None:
    name = row["name"]
    if not is_name(name) or name in _RESERVED:
        problems.append(MESSAGES.error("vm-name", path=f"{path}.name", value=repr(name)))
    socket = os.path.join(state_dir, name, "uml", name, "mconsole")
    if is_name(name) and len(socket) > _SOCKET_PATH_MAX:
        problems.append(MESSAGES.error("vm-path-long", value=state_dir, length=len(socket)))
    interface = _parse_interface(row["address"])
    if interface is None or interface.network.prefixlen > 30:
        form = "an IPv4 address with prefix length, such as 10.97.0.101/24"
        problems.append(MESSAGES.error("vm-address", path=f"{path}.address", value=repr(row["address"]), expected=form))
    elif row["gateway"]:
        gateway = _parse_interface(row["gateway"])
        if gateway is None or "/" in row["gateway"] or gateway.ip not in interface.network:
            form = f"an address in {interface.network}"
            problems.append(
                MESSAGES.error("vm-address", path=f"{path}.gateway", value=repr(row["gateway"]), expected=form)
            )
    for option, least in (("memory_mib", _LEAST_MIB), ("cpus", 1)):
        if row[option] < least:
            problems.append(MESSAGES.error("vm-amount", path=f"{path}.{option}", value=row[option], least=least))


def _parse_interface(text: str) -> Optional[ipaddress.IPv4Interface]:
    try:
        return ipaddress.IPv4Interface(text)
    except ValueError:
        return None


def _check_path(problems: list[BallastError], option: str, value: str) -> None:
    if _PATH.fullmatch(value) is None or ".." in value.split("/"):
        problems.append(MESSAGES.error("vm-path", path=option, value=repr(value)))


def _check_twice(problems: list[BallastError], path: str, values: list[str]) -> None:
    for number, value in enumerate(values):
        if value in values[:number]:
            problems.append(MESSAGES.error("vm-name-twice", path=path.format(number), value=repr(value)))
