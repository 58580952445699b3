# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent.settings import NodeRow, Settings
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.machine import machine_of
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.vms import VmLimits
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from tests.unit.balloon.qemu import Qemu, served
from tests.unit.fakes import FakeHost

BOOT = "/proc/sys/kernel/random/boot_id"
ONLINE = "/sys/devices/system/cpu/online"
MEMORY = "/proc/meminfo"
ID = "0b5e5a4e-9f0c-4c3b-8f43-2a5b6f0c9d11"
REQUEST = Settings(kubeconfig="/k", vm=True).request


def machine(**files: str) -> FakeHost:
    given = {BOOT: f"{ID}\n", ONLINE: "0-3,8\n", MEMORY: "MemTotal:       16303292 kB\nMemFree: 1 kB\n"}
    return FakeHost(files={**given, **files})


def test_it_has_what_its_kernel_says_and_its_nodes_what_they_were_started_with(tmp_path: Path) -> None:
    with served(tmp_path / "q1", Qemu().serve) as path:
        request = Settings(kubeconfig="/k", vm=True, nodes=(NodeRow("n1", qmp=path),)).request
        found = machine_of(request, machine())
        assert found is not None
        assert (found.name, found.capacity) == (ID, Resources(5000, 16303292 * 1024))
        assert found.nodes == {"n1": VmLimits(machine(), {"n1": path}).most("n1")}


def test_without_virtual_machines_it_is_none_of_ours() -> None:
    assert machine_of(replace(REQUEST, vm=False), FakeHost()) is None


@pytest.mark.parametrize(
    ("path", "content"),
    [(BOOT, "../x"), (BOOT, ""), (ONLINE, ""), (ONLINE, "0-"), (ONLINE, "all"), (MEMORY, "MemTotal: much")],
)
def test_what_it_does_not_say_is_not_guessed(path: str, content: str) -> None:
    with pytest.raises(HostError) as caught:
        machine_of(REQUEST, machine(**{path: content}))
    assert caught.value.id == "balloon-machine-unknown"
    assert path in caught.value.text
