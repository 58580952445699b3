# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel of User Mode Linux that we build: where its source comes from, what stops it, how machines start it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._vm import uml_kernel
from ansible_collections.ballast.kube.plugins.module_utils._vm.build import Order, build
from ansible_collections.ballast.kube.plugins.module_utils._vm.engines import Kernel, Machine, command, engines
from ansible_collections.ballast.kube.plugins.module_utils._vm.recipes import RECIPES
from tests.unit.fakes import Call, FakeHost

WORK, OUT = "/cache/.work", "/cache/.new"
RECIPE = RECIPES["kernel-uml-built"]


class Builder:
    """A machine whose mirror has a source, and whose tools do what is asked of them."""

    def __init__(self, *, sources: Sequence[str] = ("linux-source-9.9",), refused: str = "") -> None:
        self.host = host = FakeHost(files={"/etc/apt/sources.list": "deb http://mirror.test/debian x main\n"})
        self.sources, self.refused = sources, refused
        self.bootstraps: list[Call] = []
        host.given_directory(WORK)
        host.given_directory(OUT)
        host.on("apt-config", answer="", reads=True)
        host.on("nproc", answer="2\n", reads=True)
        host.on("mmdebstrap", answer=self._bootstrap)
        host.on("tar", answer=self._unpack)
        host.on("make", answer=self._make)
        host.on("du", answer="1\n", reads=True)
        host.on("find", answer="18\n", reads=True)
        host.on(f"{WORK}/linux-source-9.9/scripts/config")
        for tool in ("strip", "mke2fs", "debugfs", "e2fsck", "touch", "fallocate"):
            host.on(tool)

    def build(self) -> tuple[str, ...]:
        order = Order(recipe=RECIPE, key="0123456789abcdef", packages=RECIPE.packages)
        return build(self.host, order, work=WORK, out=OUT)

    def _bootstrap(self, call: Call) -> str:
        self.bootstraps.append(call)
        self.host.given_directory(f"{WORK}/root/usr/src")
        for name in self.sources:
            self.host.given(f"{WORK}/root/usr/src/{name}.tar.xz", "")
        return ""

    def _unpack(self, _call: Call) -> str:
        taken = [f"CONFIG_{name}=y" for name in uml_kernel.ENABLED if name != self.refused]
        self.host.given(f"{WORK}/linux-source-9.9/.config", "\n".join(taken))
        return ""

    def _make(self, call: Call) -> str:
        self.host.given_directory(f"{WORK}/root/lib/modules/9.9.1")
        return "9.9.1\n" if "kernelrelease" in call.argv else ""


def test_the_newest_source_is_taken_from_backports_of_the_machines_own_mirror():
    builder = Builder()
    assert builder.build() == ("linux-source-9.9 9.9.1",)
    (call,) = builder.bootstraps
    argv = call.argv
    assert "--include=linux-source" in argv
    assert '--aptopt=Apt::Default-Release "trixie-backports"' in argv
    assert argv[-3:] == ("trixie", f"{WORK}/root", "-")
    assert call.stdin.decode().splitlines() == [
        "deb http://mirror.test/debian trixie main",
        "deb http://mirror.test/debian trixie-backports main",
    ]


@pytest.mark.parametrize("sources", [(), ("linux-source-9.8", "linux-source-9.9")])
def test_none_or_two_sources_are_told(sources):
    with pytest.raises(BallastError) as caught:
        Builder(sources=sources).build()
    assert caught.value.id == "image-kernel-source"


def test_an_option_that_the_source_does_not_know_any_more_is_named():
    with pytest.raises(BallastError) as caught:
        Builder(refused="IP_VS").build()
    assert caught.value.id == "image-kernel-options"
    assert "IP_VS" in caught.value.text
    assert "linux-source-9.9" in caught.value.text


@pytest.mark.parametrize(("kernel", "by"), [("built", ["seccomp=auto"]), ("debian", [])])
def test_only_the_kernel_that_can_is_told_to_catch_programs_by_seccomp(kernel, by):
    machine = Machine("vm1", "/vms/vm1", "tap1", "10.97.0.101/24", "10.97.0.1", 512, 1, "/images/root.img")
    found = Kernel(modules="/images/modules.img", vmlinuz="/images/linux.uml" if kernel == "built" else "")
    words = command(engines(kernel)["uml"], machine, found)
    assert [word for word in words if word.startswith("seccomp")] == by
