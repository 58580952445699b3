# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages of images: from where they come, which are fetched, and which come with another."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._images.definitions import ImageArchiveRequest
from tests.unit.images.debian_host import DEFINITION, DebianHost, bring_about, desired, layer_of


class ProxyHost(DebianHost):
    """Has what kube-proxy runs in two packages, of which one is asked for by name and the other comes with it."""

    def __init__(self) -> None:
        super().__init__()
        self.packages = {
            "netbase": ("6.4", {"etc/protocols": b"tcp 6 TCP\n", "etc/services": b"http 80/tcp\n"}),
            "nftables": ("1.0.6-2", {"usr/sbin/nft": b"ELF nft", "usr/lib/systemd/system/nftables.service": b"unit"}),
            "libnft": (
                "1:2",
                {"lib/x86_64-linux-gnu/libnft.so.1.0": b"ELF lib", "usr/lib/x86_64-linux-gnu/gconv/X.so": b"set"},
            ),
        }

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        if argv[0] == "apt-get" and "--simulate" in argv:
            assert argv[-6:] == ["install", "nftables", "iptables", "conntrack", "ipset", "kmod"]
            assert Path(argv[-7].partition("=")[2]).read_bytes() == b""
            return self._said(
                argv, "NOTE: a simulation\nInst nftables (1.0.6-2 Debian:12 [amd64])\nInst libnft (1:2)\n"
            )
        done = super().run(argv, **options)
        if argv[:2] == ["dpkg-deb", "--extract"] and "libnft_" in argv[2]:
            Path(argv[3], "lib/x86_64-linux-gnu/libnft.so.1").symlink_to("libnft.so.1.0")
        return done


def test_an_installed_package_is_not_fetched(archive: Path, tmp_path: Path) -> None:
    host = DebianHost(installed=["tool"])
    tool = tmp_path / "usr/bin/tool"
    host.packages["tool"] = ("2", {str(tool).lstrip("/"): b""})
    tool.parent.mkdir(parents=True)
    tool.write_bytes(b"tool")
    tool.chmod(0o755)
    file = {"path": "/tool", "source": str(tool), "content": None}
    bring_about(desired(archive, images=[], definitions=[{**DEFINITION, "files": [file]}]), host)
    assert "apt-get --quiet" not in host.commands
    assert layer_of(archive, DEFINITION["name"])["tool"].size == 4


def test_a_file_of_another_package_is_not_taken_from_the_machine(archive: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "secret"
    foreign.write_bytes(b"x")
    file = {"path": "/tool", "source": str(foreign), "content": None}
    wanted = desired(archive, images=[], definitions=[{**DEFINITION, "files": [file]}])
    with pytest.raises(BallastError) as raised:
        bring_about(wanted, DebianHost(installed=["tool"]))
    assert raised.value.id == "image-source-missing"


def test_another_version_than_the_installed_one_is_fetched(archive: Path) -> None:
    host = DebianHost(installed=["tool"])
    bring_about(desired(archive, images=[], definitions=[{**DEFINITION, "packages": ["tool=3"]}]), host)
    assert "apt-get --quiet" in host.commands


def test_packages_of_a_suite_come_from_its_lists_alone(archive: Path) -> None:
    host = DebianHost(installed=["catatonit", "busybox-static"])
    bring_about(desired(archive, suite="trixie"), host)
    assert host.sources == ["deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] URL trixie main"]
    assert host.fetched_by == {"trixie"}
    assert "dpkg-query --show" not in host.commands
    assert bring_about(desired(archive, suite="trixie"), DebianHost()).steps == ()
    assert [step.verb for step in bring_about(desired(archive), DebianHost()).steps] == ["change"]
    assert os.listdir(archive.parent) == [archive.name]


def test_all_packages_are_fetched_by_one_command(archive: Path) -> None:
    host = DebianHost()
    bring_about(desired(archive), host)
    assert len(desired(archive).images) == 2
    assert host.commands.count("apt-get --quiet") == 1


def test_no_lists_are_fetched_for_programs_alone(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "etcd").write_bytes(b"ELF etcd")
    host = DebianHost()
    bring_about(desired(archive, images=["etcd"], definitions=[], bin_dir=str(tmp_path), suite="trixie"), host)
    assert host.sources == []


@pytest.mark.parametrize("suite", ["Trixie", "trixie main", "trixie\n", "../x"])
def test_a_suite_is_a_name(archive: Path, suite: str) -> None:
    with pytest.raises(BallastError) as raised:
        desired(archive, suite=suite)
    assert raised.value.id == "image-suite"


def test_a_package_that_cannot_be_fetched_says_so_and_leaves_nothing(archive: Path) -> None:
    wanted = desired(archive, images=[], definitions=[{**DEFINITION, "packages": ["nonsense"]}])
    with pytest.raises(BallastError) as raised:
        bring_about(wanted, DebianHost())
    assert raised.value.id == "image-fetch"
    assert "Unable to locate package" in raised.value.found
    assert [path.name for path in archive.parent.iterdir()] == [f"{archive.name}.lock"]


def kube_proxy(path: Path, bin_dir: Path) -> ImageArchiveRequest:
    return desired(path, images=["kube-proxy"], bin_dir=str(bin_dir))


def test_the_image_of_kube_proxy_has_what_its_packages_depend_on(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "kube-proxy").write_bytes(b"ELF kube-proxy")
    bring_about(kube_proxy(archive, tmp_path), ProxyHost())
    layer = layer_of(archive, "ballast.local/kube-proxy:1")
    files = {name for name, member in layer.items() if member.isfile()}
    programs = {"usr/local/bin/kube-proxy", "usr/sbin/nft", "usr/lib/x86_64-linux-gnu/libnft.so.1.0"}
    assert files == programs | {"etc/protocols"}
    assert layer["usr/local/bin/kube-proxy"].mode == 0o755
    links = {name: member.linkname for name, member in layer.items() if member.issym()}
    assert links["usr/lib/x86_64-linux-gnu/libnft.so.1"] == "libnft.so.1.0"
    assert links["lib"] == "usr/lib"
    assert links["usr/sbin/ip6tables-restore"] == "xtables-nft-multi"
    assert links["usr/libexec/iptables-legacy/iptables"] == "/usr/sbin/xtables-legacy-multi"
    second = tmp_path / "second.tar"
    bring_about(kube_proxy(second, tmp_path), ProxyHost())
    assert second.read_bytes() == archive.read_bytes()
    assert bring_about(kube_proxy(second, tmp_path), ProxyHost()).steps == ()


def test_the_image_of_kube_proxy_needs_its_program(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(BallastError) as raised:
        desired(archive, images=["kube-proxy"])
    assert raised.value.id == "image-bin-dir"
    with pytest.raises(BallastError) as raised:
        bring_about(kube_proxy(archive, tmp_path), ProxyHost())
    assert raised.value.id == "image-program"
    assert not archive.exists()
