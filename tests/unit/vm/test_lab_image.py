# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images and their cache: on a machine in memory whose tools make empty files, and the parts that are pure."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Plan
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._images.debian import KEYRING, debian_mirror
from ansible_collections.ballast.kube.plugins.module_utils._vm import cpio
from ansible_collections.ballast.kube.plugins.module_utils._vm.build import BUILDERS, initrd
from ansible_collections.ballast.kube.plugins.module_utils._vm.image import ImageEngine, ImageRequest
from ansible_collections.ballast.kube.plugins.module_utils._vm.recipes import EPOCH, RECIPES, WORK
from ansible_collections.ballast.kube.plugins.module_utils._vm.sparse import image_digest
from tests.unit.fakes import Call, FakeHost

CACHE = "/var/cache/ballast/vm"


def params(**other: Any) -> dict[str, Any]:
    return {
        "state": "present",
        "name": None,
        "recipe": "debian-13",
        "source": None,
        "packages": [],
        "mirror": None,
        "cache_dir": CACHE,
        **other,
    }


class World:
    def __init__(self) -> None:
        self.host = host = FakeHost(
            files={KEYRING: "keys", "/etc/apt/sources.list": "deb http://mirror.test/debian x main\n"}
        )
        self.sums = "1"
        self.bootstraps: list[Call] = []
        self.events: list[str] = []
        host.on("apt-config", answer="", reads=True)
        host.on("mmdebstrap", answer=self._bootstrap)
        host.on("dpkg-query", answer="systemd 257\nbash 5\n", reads=True)
        host.on("find", answer=lambda call: "tool\t755\n" if "-L" in call.argv else "18\n", reads=True)
        host.on("sha256sum", answer=lambda call: f"{self.sums}  {call.argv[-1]}\0", reads=True)
        host.on("mke2fs", answer=lambda call: self._made(call.argv[-2]))
        host.on("touch", answer=self._touched)
        host.on("mv", answer=self._moved)
        for tool in ("debugfs", "e2fsck", "fallocate", "cp"):
            host.on(tool)
        self.engine = ImageEngine(digest=lambda path: "sha256-blocks:1")

    def plan(self, asked: dict[str, Any]) -> Plan:
        desired = ImageRequest.from_params(asked)
        return self.engine.plan(desired, self.engine.observe(Context(desired, self.host)))

    def apply(self, asked: dict[str, Any]) -> dict[str, Any]:
        desired, plan = ImageRequest.from_params(asked), self.plan(asked)
        self.engine.apply(plan, Context(desired, self.host, Progress(self, feature="image")))
        return self.engine.report(Context(desired, self.host))

    def emit(self, event: Event) -> None:
        self.events.append(event.text)

    def built(self) -> int:
        return len([argv for argv in self.host.commands if argv[0] == "mke2fs"])

    def _bootstrap(self, call: Call) -> str:
        self.bootstraps.append(call)
        root = next(word for word in call.argv if word.endswith("/root"))
        self.host.given(f"{root}/etc/hostname", "builder")
        self.host.given(f"{root}/var/log/dpkg.log", "today")
        return ""

    def _made(self, path: str) -> str:
        self.host.given(path, "")
        return ""

    def _touched(self, call: Call) -> str:
        self.host._nodes[call.argv[-1]].mtime = EPOCH
        return ""

    def _moved(self, call: Call) -> str:
        source, target = call.argv[-2:]
        for path in self.host.paths(source):
            self.host._nodes[target + path[len(source) :]] = self.host._nodes.pop(path)
        return ""


def test_an_image_is_built_once_and_removed_whole() -> None:
    world = World()
    found = world.apply(params())
    assert found["path"].endswith("/root.img")
    assert found["packages"] == ["bash 5", "systemd 257"]
    effects = len(world.host.effects)
    assert world.apply(params()) == found
    assert world.plan(params()).steps == ()
    assert len(world.host.effects) == effects
    world.apply(params(state="absent"))
    assert world.host.paths(f"{CACHE}/debian-13") == []


def test_a_build_says_what_it_does_and_how_long_that_took_last_time() -> None:
    world = World()
    world.apply(params())
    assert "install Debian into the disk of the machines" in world.events
    world.events.clear()
    manifest = next(path for path in world.host.paths(f"{CACHE}/debian-13") if path.endswith("manifest.json"))
    world.host.given(manifest, json.dumps({**json.loads(world.host.text(manifest)), "seconds": 386.7}))
    world.apply(params(packages=["tcpdump"]))
    assert "install Debian into the disk of the machines; last time that took 387 s" in world.events


def test_every_way_to_build_has_words_for_people() -> None:
    assert set(WORK) == set(BUILDERS) == {recipe.build for recipe in RECIPES.values()}


def test_a_plan_builds_nothing() -> None:
    world = World()
    assert [step.title for step in world.plan(params()).steps] == ["image debian-13"]
    assert world.host.effects == []


def test_the_machines_own_mirror_is_used() -> None:
    world = World()
    world.apply(params())
    world.apply(params(name="other", mirror="http://asked.test/debian"))
    assert [call.stdin for call in world.bootstraps] == [
        b"deb http://mirror.test/debian trixie main\n",
        b"deb http://asked.test/debian trixie main\n",
    ]
    assert {call.argv[-1] for call in world.bootstraps} == {"-"}


def test_no_password_of_a_proxy_or_a_mirror_is_on_a_command_line_in_an_image_or_in_an_error() -> None:
    """Everybody on the machine reads command lines, and an image keeps the options that it was built with."""
    world = World()
    proxy, mirror = "http://u:c4n4ry-Xy7@proxy.test:3128", "http://m:c4n4ry-Xy7@mirror.test/debian"
    world.host.on("apt-config", answer=f"Acquire::http::Proxy {proxy}\nAcquire::https::Proxy DIRECT\n", reads=True)
    world.apply(params(mirror=mirror))
    [call] = world.bootstraps
    assert call.env["http_proxy"] == proxy
    assert "https_proxy" not in call.env
    assert mirror in call.stdin.decode()
    assert "c4n4ry" not in str(world.host.commands)
    assert "c4n4ry" not in str([step.title for step in world.plan(params(mirror=mirror, name="x")).steps])
    assert world.host.mode(f"{CACHE}/debian-13/images/current.json") == 0o600
    world.host.on(
        "mmdebstrap", answer=Completed(("mmdebstrap",), 25, "", f"E: Failed to fetch {mirror}/dists 407 by {proxy}")
    )
    with pytest.raises(BallastError) as caught:
        world.apply(params(mirror=mirror, name="other"))
    assert "c4n4ry" not in str(caught.value)
    assert "407" in str(caught.value)


def test_an_image_does_not_keep_the_address_that_it_was_built_from() -> None:
    from ansible_collections.ballast.kube.plugins.module_utils._vm import guest

    written = {file.path: file.content for file in guest.FILES}
    assert written["/etc/apt/sources.list"] == "deb http://deb.debian.org/debian trixie main\n"
    assert "/etc/apt/sources.list.d" in guest.EMPTIED


@pytest.mark.parametrize(
    ("files", "mirror"),
    [
        (
            {"/etc/apt/sources.list.d/debian.sources": "Types: deb\nURIs: http://m.test/debian/\n"},
            "http://m.test/debian/",
        ),
        ({"/etc/apt/sources.list": "deb [arch=amd64] https://m.test/debian x main\n"}, "https://m.test/debian"),
        ({"/etc/apt/sources.list": "deb http://m.test/ubuntu x main\n# deb http://n.test/debian x\n"}, ""),
        ({}, ""),
    ],
)
def test_mirrors_of_other_distributions_are_passed_over(files: dict[str, str], mirror: str) -> None:
    assert debian_mirror(FakeHost(files=files)) == mirror


def test_other_packages_are_another_image_and_the_first_stays() -> None:
    world = World()
    first = world.apply(params())
    second = world.apply(params(packages=["strace"]))
    assert first["path"] != second["path"]
    assert world.host.stat(first["path"]) is not None
    assert world.apply(params())["path"] == first["path"]
    assert world.built() == 2


def test_a_directory_image_follows_the_content() -> None:
    world = World()
    asked = params(recipe="directory", name="binaries", source="/opt/b")
    first = world.apply(asked)
    world.sums = "2"
    second = world.apply(asked)
    assert first["key"] != second["key"]
    world.sums = "1"
    assert world.apply(asked)["key"] == first["key"]
    assert world.built() == 2


def test_an_image_that_was_touched_is_built_anew() -> None:
    world = World()
    path = world.apply(params())["path"]
    world.host.write(path, b"x")
    assert [step.verb for step in world.plan(params()).steps] == ["change"]
    world.apply(params())
    assert world.built() == 2
    assert world.plan(params()).steps == ()


def test_a_build_that_was_interrupted_is_done_anew() -> None:
    world = World()
    world.host.on("e2fsck", answer=KeyboardInterrupt())
    with pytest.raises(BallastError):
        world.apply(params())
    assert world.engine.report(Context(ImageRequest.from_params(params()), world.host))["path"] == ""
    assert not [path for path in world.host.paths(CACHE) if "/.work" in path]
    world.host.on("e2fsck")
    assert world.apply(params())["path"]
    assert not [path for path in world.host.paths(CACHE) if "/.new" in path]


def test_a_full_disk_stops_the_build_before_it_begins() -> None:
    world = World()
    world.host.free = 2**30
    with pytest.raises(BallastError) as caught:
        world.apply(params())
    assert caught.value.id == "vm-disk"
    assert world.built() == 0


def test_missing_tools_are_told_at_once() -> None:
    world = World()
    world.host._rules = [rule for rule in world.host._rules if rule.prefix[0] not in ("mmdebstrap", "debugfs")]
    with pytest.raises(BallastError) as caught:
        world.apply(params())
    assert caught.value.id == "vm-tool-missing"
    assert "e2fsprogs mmdebstrap" in caught.value.remedy


@pytest.mark.parametrize(
    ("asked", "id"),
    [
        (params(name="No Name"), "vm-name"),
        (params(recipe="directory"), "vm-required"),
        (params(packages=["a b"]), "image-package-name"),
        (params(packages=["--include=x"]), "image-package-name"),
        (params(cache_dir="/a,b"), "vm-path"),
    ],
)
def test_faults_of_the_request_are_told(asked: dict[str, Any], id: str) -> None:
    with pytest.raises(BallastError) as caught:
        ImageRequest.from_params(asked)
    assert caught.value.id == id


def test_every_input_is_in_the_key() -> None:
    recipe = RECIPES["debian-13"]
    keys = {
        recipe.key(packages=("a",), content=""),
        recipe.key(packages=("a", "b"), content=""),
        recipe.key(packages=("a",), content="x"),
        RECIPES["directory"].key(packages=("a",), content=""),
    }
    assert len(keys) == 4
    assert recipe.key(packages=("b", "a"), content="") == recipe.key(packages=("a", "b"), content="")


def test_the_archive_is_one_that_cpio_reads(tmp_path: Path) -> None:
    data = cpio.archive(
        [cpio.Entry(path="bin"), cpio.Entry(path="bin/x", data=b"12345"), cpio.Entry(path="e", data=b"")]
    )
    assert len(data) % 4 == 0
    read, position = [], 0
    while position < len(data):  # the format itself, read back
        assert data[position : position + 6] == b"070701"
        size, length = (int(data[position + at : position + at + 8], 16) for at in (54, 94))
        name = data[position + 110 : position + 110 + length - 1].decode()
        start = position + (110 + length + 3) // 4 * 4
        read.append((name, data[start : start + size]))
        position = start + (size + 3) // 4 * 4
    assert read == [("bin", b""), ("bin/x", b"12345"), ("e", b""), ("TRAILER!!!", b"")]


def test_the_first_root_is_the_same_each_time() -> None:
    assert initrd(b"busybox", b"driver") == initrd(b"busybox", b"driver")
    assert b"switch_root" in initrd(b"busybox", b"driver")


def test_the_digest_sees_content_place_and_size_and_not_holes(tmp_path: Path) -> None:
    def image(name: str, *, size: int, at: int, data: bytes, sparse: bool) -> str:
        path = tmp_path / name
        with path.open("wb") as file:
            if not sparse:
                file.write(bytes(size))
            file.truncate(size)
            file.seek(at)
            file.write(data)
        return image_digest(str(path))

    plain = image("a", size=2**20, at=300_000, data=b"x", sparse=True)
    assert plain == image("b", size=2**20, at=300_000, data=b"x", sparse=False)
    assert plain != image("c", size=2**20, at=300_000, data=b"y", sparse=True)
    assert plain != image("d", size=2**20, at=700_000, data=b"x", sparse=True)
    assert plain != image("e", size=2**20 + 1, at=300_000, data=b"x", sparse=True)
    assert image("f", size=2**20, at=0, data=b"", sparse=True) == image("g", size=2**20, at=0, data=b"", sparse=False)


def test_the_scripts_of_the_guest_are_valid_shell() -> None:
    from ansible_collections.ballast.kube.plugins.module_utils._vm import guest

    scripts = [file.content for file in guest.FILES if file.content.startswith("#!/bin/sh")]
    assert len(scripts) == 2
    for script in scripts:
        subprocess.run(["sh", "-n"], input=script.encode(), check=True)
