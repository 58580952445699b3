# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._lab.preflight import preflight
from tests.unit.fakes import Answer, Call, FakeHost

TOOLS = ("ip", "nsenter", "nft", "sysctl", "runc", "dpkg-deb", "runsvdir", "sv", "iptables", "ipvsadm", "ipset", "crun")


def machine(
    *, without: Sequence[str] = (), refuses: Sequence[str] = (), available_mib: int = 4096, systemd: bool = False
) -> FakeHost:
    """`refuses`: words of trials that this kernel fails."""
    host = FakeHost(systemd=systemd)
    for tool in TOOLS:
        if tool not in without:
            host.on(tool, answer=AssertionError("a trial runs in a namespace of its own"))

    def trial(call: Call) -> Answer:
        assert call.argv[:3] in (("unshare", "--net", "--"), ("unshare", "--mount", "--propagation"))
        told = " ".join(call.argv)
        if any(word in told for word in refuses):
            return Completed(argv=call.argv, status=2, stdout="", stderr="one\nOperation not supported\n")
        return ""

    host.on("unshare", answer=trial, reads=True)
    if "nft" not in without:
        host.on("nft", "-j", "list", "chains", answer='{"nftables": [{"metainfo": {}}]}', reads=True)
    host.given("/proc/filesystems", "nodev\toverlay\n")
    host.given("/proc/meminfo", f"MemTotal: 9999999 kB\nMemAvailable: {available_mib * 1024} kB\n")
    return host


def missing(
    host: FakeHost,
    *,
    new_nodes: int = 3,
    target: str = "host",
    backends: Sequence[str] = ("nftables",),
    runtimes: Sequence[str] = ("runc",),
) -> list[BallastError]:
    try:
        preflight(
            host,
            lab_dir="/var/lib/ballast/lab",
            bridge="ballast-lab",
            target=target,
            new_nodes=new_nodes,
            backends=backends,
            runtimes=runtimes,
        )
    except Problems as problems:
        return [*problems.problems]
    except BallastError as error:
        return [error]
    finally:
        assert host.effects == [], "a preflight changes nothing"
    return []


def test_a_machine_that_has_everything_passes() -> None:
    assert missing(machine(), backends=["nftables", "iptables", "ipvs"], runtimes=["runc", "crun"]) == []
    assert missing(machine(), target="vm") == []


@pytest.mark.parametrize(
    ("tool", "package"),
    [
        ("ip", "iproute2"),
        ("nsenter", "util-linux"),
        ("nft", "nftables"),
        ("sysctl", "procps"),
        ("runc", "runc"),
        ("dpkg-deb", "dpkg"),
        ("runsvdir", "runit"),
        ("iptables", "iptables"),
        ("ipset", "ipset"),
        ("crun", "crun"),
    ],
)
def test_a_missing_tool_is_told_with_its_package(tool: str, package: str) -> None:
    [error] = missing(machine(without=[tool]), backends=["ipvs", "iptables"], runtimes=["crun"])
    assert error.id == "lab-tools"
    assert error.text == f"this host lacks {tool}"
    assert error.remedy.endswith(f"apt-get install {package}")


def test_tools_that_this_lab_does_not_use_may_be_absent() -> None:
    assert missing(machine(without=["iptables", "ipvsadm", "ipset", "crun"])) == []
    assert missing(machine(without=["runsvdir", "sv"], systemd=True)) == []
    assert missing(machine(without=["iptables"]), target="vm", backends=["iptables"]) == [], (
        "it is used inside the machines"
    )


@pytest.mark.parametrize(
    ("word", "feature"),
    [
        ("veth", "veth pairs"),
        ("bridge", "bridges"),
        ("masquerade", "masquerading"),
        ("iptables", "its nat table"),
        ("ipvsadm", "ipvs"),
    ],
)
def test_what_the_kernel_cannot_do_is_told(word: str, feature: str) -> None:
    [error] = missing(machine(refuses=[word]), backends=["iptables", "ipvs"])
    assert (error.id, feature in error.text) == ("lab-kernel", True)
    assert error.found == "Operation not supported"
    assert error.remedy


def test_overlay_may_be_a_module_that_is_not_loaded_yet() -> None:
    host = machine()
    host.given("/proc/filesystems", "ext4\n")
    assert [error.id for error in missing(host)] == ["lab-kernel"]
    host.on("modprobe", "-n", "overlay", answer=1, reads=True)
    assert [error.id for error in missing(host)] == ["lab-kernel"]
    host.on("modprobe", "-n", "overlay", answer="", reads=True)
    assert missing(host) == []


@pytest.mark.parametrize(("word", "id"), [("-t overlay", "lab-dir-overlay"), ("./program", "lab-dir-noexec")])
def test_a_filesystem_that_holds_no_containers_is_told(word: str, id: str) -> None:
    [error] = missing(machine(refuses=[word]))
    assert (error.id, error.found) == (id, "one")
    assert error.text.startswith("/var/lib: no ")
    assert missing(machine(refuses=[word]), target="vm") == []
    assert missing(machine(refuses=[word]), new_nodes=0) == []


def test_the_filesystem_is_that_of_the_nearest_directory_that_exists() -> None:
    host = machine(refuses=["./program"])
    host.given_directory("/var/lib/ballast")
    [error] = missing(host)
    assert error.text.startswith("/var/lib/ballast: ")


_PID_1 = "21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n22 21 0:19 / /run rw shared:5 - tmpfs tmpfs rw\n"


@pytest.mark.parametrize(
    ("mountinfo", "ids"),
    [
        # PrivateTmp: mounts come from the machine and do not go back.
        (
            "81 1 8:1 / / rw master:1 - ext4 /dev/sda1 rw\n82 81 0:19 / /run rw master:5 - t t rw\n",
            ["lab-mount-namespace"],
        ),
        ("81 1 8:1 / / rw shared:9 - ext4 /dev/sda1 rw\n", ["lab-mount-namespace"]),
        ("81 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n82 81 0:19 / /run rw shared:5 - t t rw\n", []),  # both ways
        ("81 1 0:99 / / rw - overlay overlay rw\n", []),  # a container with the machine's processes
    ],
)
def test_a_mount_namespace_that_others_do_not_see_is_told(mountinfo: str, ids: list[str]) -> None:
    host = machine()
    host.given("/proc/1/mountinfo", _PID_1)
    host.given("/proc/self/mountinfo", mountinfo)
    assert [error.id for error in missing(host)] == ids
    assert missing(host, target="vm") == []
    host.given("/proc/self/mountinfo", _PID_1)
    assert missing(host) == []


def test_everything_that_is_missing_is_told_at_once() -> None:
    host = machine(refuses=["veth", "bridge"], available_mib=500)
    host.free = 10 * 2**20
    assert [error.id for error in missing(host)] == ["lab-kernel", "lab-kernel", "lab-memory", "lab-disk"]
    host = machine(without=["nft", "runc"], available_mib=500)
    host.fill_disk()
    found = missing(host)
    assert [error.id for error in found] == ["lab-tools", "lab-memory", "lab-disk"]
    assert found[0].text == "this host lacks nft, runc"
    assert found[1].text == "3 more nodes need about 1300 MiB of memory; 500 MiB are available"
    assert found[2].text == "/var/lib/ballast/lab: 3 more nodes need about 450 MiB of disk; 0 MiB are free"


def test_a_lab_that_grows_by_nothing_needs_no_room() -> None:
    host = machine(available_mib=10)
    host.fill_disk()
    assert missing(host, new_nodes=0) == []


def given_forward_chain(host: FakeHost, *, policy: str = "drop", hook: str = "forward", rules: str = "") -> None:
    chain = {"family": "ip", "table": "filter", "name": "FORWARD", "hook": hook, "prio": 0, "policy": policy}
    shown = json.dumps({"nftables": [{"metainfo": {}}, {"chain": {"family": "ip", "name": "x"}}, {"chain": chain}]})
    host.on("nft", "-j", "list", "chains", answer=shown, reads=True)
    host.on("nft", "list", "chain", "ip", "filter", "FORWARD", answer=rules, reads=True)


def test_a_firewall_that_drops_what_is_forwarded_is_told_with_the_rules_that_let_the_lab_pass() -> None:
    host = machine()
    given_forward_chain(host)
    [error] = missing(host)
    assert (error.id, "ip filter FORWARD" in error.text) == ("lab-forward", True)
    assert "nft insert rule ip filter FORWARD iifname ballast-lab accept" in error.remedy
    given_forward_chain(host, rules='iifname "ballast-lab" counter accept\noifname "ballast-lab" counter accept\n')
    assert missing(host) == []
    given_forward_chain(host, rules='iifname "ballast-lab2" accept\noifname "ballast-lab2" accept\n')
    assert [error.id for error in missing(host)] == ["lab-forward"], "of another lab"


def test_a_firewall_that_lets_pass_what_is_forwarded_does_not_matter() -> None:
    host = machine()
    given_forward_chain(host, policy="accept")
    assert missing(host) == []
    given_forward_chain(host, hook="input")
    assert missing(host) == []


def test_the_older_iptables_has_tables_that_nft_does_not_show() -> None:
    host = machine()
    host.given("/proc/net/ip_tables_names", "nat\nfilter\n")
    host.on("iptables-legacy", "-w", "-S", "FORWARD", answer="-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n", reads=True)
    [error] = missing(host)
    assert "iptables-legacy -I FORWARD -i ballast-lab -j ACCEPT" in error.remedy
    passing = "-P FORWARD DROP\n-A FORWARD -i ballast-lab -j ACCEPT\n-A FORWARD -o ballast-lab -j ACCEPT\n"
    host.on("iptables-legacy", "-w", "-S", "FORWARD", answer=passing, reads=True)
    assert missing(host) == []
