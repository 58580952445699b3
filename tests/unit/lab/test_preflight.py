# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    BallastError,
    CommandFailed,
    Problems,
)
from ansible_collections.ballast.kube.plugins.module_utils._lab.packets import Paths, find_dropped
from ansible_collections.ballast.kube.plugins.module_utils._lab.preflight import preflight
from tests.unit.fakes import Answer, Call, FakeHost

PATHS = Paths("ballast-lab", "10.97.0.1/24", "10.128.0.0/16", 6443)
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
    # The trial of packets, in the namespace of the host: its firewall is there.
    for tool in {"ip", "nft", "sysctl"} - {*without}:
        host.on(tool, answer=lambda call: 1 if call.argv[1:3] == ("link", "show") else "", reads=True)
    host.on(sys.executable, answer="", reads=True)
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
    members: int = 1,
    paths: Sequence[Paths] = (PATHS,),
) -> list[BallastError]:
    try:
        preflight(
            host,
            lab_dir="/var/lib/ballast/lab",
            paths=paths,
            target=target,
            new_nodes=new_nodes,
            backends=backends,
            runtimes=runtimes,
            members=members,
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


def test_a_load_balancer_is_needed_for_members_alone() -> None:
    host = machine(without=["haproxy"])
    assert missing(host) == []
    [error] = missing(host, members=3)
    assert (error.text, error.remedy.rpartition(" ")[2]) == ("this host lacks haproxy", "haproxy")


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
    assert error.text.startswith("/var/lib: this filesystem ")
    assert missing(machine(refuses=[word]), target="vm") == []
    assert missing(machine(refuses=[word]), new_nodes=0) == []


def test_a_filesystem_that_takes_no_file_is_not_taken_for_one_that_runs_no_program() -> None:
    host = machine()
    failed = Completed(argv=("unshare",), status=3, stdout="", stderr="mktemp: Read-only file system\n")
    host.on("unshare", "--mount", answer=failed, reads=True)
    [error] = missing(host)
    assert (error.id, error.found) == ("lab-dir-write", "mktemp: Read-only file system")


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


@pytest.mark.parametrize(
    ("first", "mountinfo", "ids"),
    [
        ("mnt:[2]", "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n", ["lab-mount-namespace"]),
        ("mnt:[1]", "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n", []),
        (None, "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n", []),  # of a container that may not look
        ("mnt:[2]", _PID_1, []),  # another one, whose mounts are PID 1's too
    ],
)
def test_a_mount_namespace_that_was_just_made_has_the_same_mounts_and_is_told(
    first: str | None, mountinfo: str, ids: list[str]
) -> None:
    """In a container, whose mounts are private, `unshare --mount` changes none of them."""
    host = machine()
    for pid, name in (("self", "mnt:[1]"), ("1", first)):
        host.given(f"/proc/{pid}/mountinfo", mountinfo)
        if name is not None:
            host.given_directory(f"/proc/{pid}/ns")
            host.symlink(f"/proc/{pid}/ns/mnt", name)
    host.effects.clear()
    assert [error.id for error in missing(host)] == ids


def test_everything_that_is_missing_is_told_at_once() -> None:
    host = machine(refuses=["veth", "bridge"], available_mib=500)
    host.free = 10 * 2**20
    assert [error.id for error in missing(host)] == ["lab-kernel", "lab-kernel", "lab-memory", "lab-disk"]
    host = machine(without=["nft", "runc"], available_mib=500)
    host.fill_disk()
    found = missing(host)
    assert [error.id for error in found] == ["lab-tools", "lab-memory", "lab-disk"]
    assert found[0].text == "this host lacks nft, runc"
    assert found[1].text == "3 more nodes need about 1300 MiB of memory; 500 MiB is available"
    assert found[2].text == "/var/lib/ballast/lab: 3 more nodes need about 450 MiB of disk; 0 MiB is free"


def test_a_lab_that_grows_by_nothing_needs_no_room() -> None:
    host = machine(available_mib=10)
    host.fill_disk()
    assert missing(host, new_nodes=0) == []


def given_firewall(host: FakeHost, dropped: str, *trace: str) -> None:
    """`dropped`: names of connections that fail. `trace`: what the kernel says of their packets."""
    host.on(sys.executable, answer=dropped, reads=True)
    host.on("sh", answer="\n".join([*trace, dropped]), reads=True)


def test_a_firewall_that_drops_is_told_with_the_rule_and_with_what_lets_the_lab_pass() -> None:
    host = machine()
    given_firewall(
        host,
        "forward\ninput\n",
        'trace id 7a ip filter FORWARD packet: iif "ballast-lab" oif "ballast-lab"',
        "trace id 7a ip filter FORWARD rule jump DOCKER-USER (verdict jump DOCKER-USER)",
        "trace id 7a ip filter FORWARD policy drop ",
        'trace id 7b ip ballast-lab-try prerouting packet: iif "ballast-lab" ether saddr 02:00:00:00:00:01',
        "trace id 7b inet fw in rule counter packets 1 bytes 60 reject (verdict drop)",
        'trace id 7c inet fw in packet: iif "ballast-lab" ether saddr 02:00:00:00:00:01',
        "trace id 7c inet fw in rule counter packets 1 bytes 60 reject (verdict drop)",
        "trace id 7d ip nat POSTROUTING verdict continue ",
    )
    [error] = missing(host)
    assert error.id == "lab-firewall"
    assert error.text == "this host's firewall drops packets between nodes and from nodes to the API server"
    assert error.found == "ip filter FORWARD: policy drop; inet fw in: counter packets 1 bytes 60 reject"
    insert = "iptables -I FORWARD -i ballast-lab -j ACCEPT"
    assert error.remedy == f"allow this lab's traffic: {insert}; nft insert rule inet fw in iifname ballast-lab accept"


@pytest.mark.parametrize(
    ("chain", "drops", "where", "command"),
    [
        ("inet fw out", "policy drop", "policy drop", "nft insert rule inet fw out oifname ballast-lab accept"),
        (
            "ip filter OUTPUT",
            "policy drop meta mark 0x000000d4 ",
            "policy drop",
            "iptables -I OUTPUT -o ballast-lab -j ACCEPT",
        ),
        (
            "ip filter ufw-after-output",
            "rule drop (verdict drop)",
            "drop",
            "iptables -I OUTPUT -o ballast-lab -j ACCEPT",
        ),
    ],
)
def test_what_drops_packets_of_this_host_is_told_as_such_and_not_as_an_older_iptables(
    chain: str, drops: str, where: str, command: str
) -> None:
    """The replies of the API server are dropped too, so the connection to it fails."""
    host = machine()
    given_firewall(
        host,
        "input\noutput\n",
        'trace id 7a ip ballast-lab-try prerouting packet: iif "ballast-lab" ether saddr 02:00:00:00:00:01',
        "trace id 7a ip ballast-lab-try prerouting policy accept ",
        f'trace id 7b {chain} packet: oif "ballast-lab" ip saddr 10.97.0.1 ip daddr 10.97.0.254',
        f"trace id 7b {chain} {drops}",
    )
    [error] = missing(host)
    assert error.text == "this host's firewall drops packets from this host to nodes"
    assert error.found == f"{chain}: {where}"
    assert error.remedy == f"allow this lab's traffic: {command}"


@pytest.mark.parametrize(
    ("chain", "command"),
    [
        ("inet firewalld filter_FORWARD", "firewall-cmd --zone=trusted --add-interface=ballast-lab"),
        ("ip filter ufw-reject-forward", "iptables -I FORWARD -i ballast-lab -j ACCEPT"),
        ("inet fw forward", "nft insert rule inet fw forward iifname ballast-lab accept"),
    ],
)
def test_a_program_that_keeps_its_rules_is_told_by_its_own_command(chain: str, command: str) -> None:
    host = machine()
    given_firewall(host, "forward\n", f"trace id 7a {chain} rule reject (verdict drop)")
    assert [error.remedy for error in missing(host)] == [f"allow this lab's traffic: {command}"]


def test_the_older_iptables_traces_nothing() -> None:
    host = machine()
    given_firewall(host, "forward\n")
    [error] = missing(host)
    assert error.found == "the rule is unknown: the kernel cannot trace packets in iptables-legacy"
    assert error.remedy == "allow this lab's traffic: iptables-legacy -I FORWARD -i ballast-lab -j ACCEPT"


def test_a_connection_that_is_late_once_is_no_problem() -> None:
    host = machine()
    given_firewall(host, "forward\n")
    host.on("sh", answer="trace id 7a ip filter FORWARD packet: iif\n", reads=True)
    assert missing(host) == []


def commands_of(host: FakeHost) -> list[str]:
    return [" ".join(argv[:4]) for argv in host.commands if argv[0] in ("ip", "nft")]


@pytest.mark.parametrize("refused", ["", "eth0", "route"])
def test_the_trial_takes_away_what_it_made_also_where_it_fails(refused: str) -> None:
    host = machine()

    def answer(call: Call) -> Answer:
        asked = " ".join(call.argv)
        status = 1 if "link show" in asked or (refused and refused in asked) else 0
        return Completed(argv=call.argv, status=status, stdout="", stderr="")

    host.on("ip", answer=answer, reads=True)
    if refused:
        with pytest.raises(CommandFailed):
            find_dropped(host, PATHS)
    else:
        assert find_dropped(host, PATHS) == []
    assert commands_of(host)[-6:] == [
        "nft delete table ip",
        f"ip link delete {PATHS.links[0]}",
        "ip netns delete ballast-lab-try1",
        f"ip link delete {PATHS.links[1]}",
        "ip netns delete ballast-lab-try2",
        "ip link delete ballast-lab",
    ]


def test_a_bridge_that_is_there_already_is_left_alone() -> None:
    host = machine()
    host.on("ip", answer="", reads=True)
    assert find_dropped(host, PATHS) == []
    assert commands_of(host) == ["ip link show dev"]


def test_labs_that_come_up_at_once_try_apart() -> None:
    other = replace(PATHS, bridge="ballast-lab2")
    for names in (lambda paths: paths.links, lambda paths: paths.namespaces, lambda paths: [paths.table]):
        assert len({*names(PATHS), *names(other)}) == 2 * len(names(PATHS))
    assert max(map(len, [*PATHS.links, *replace(PATHS, bridge="ballast-0123456").links])) <= 15


def test_an_api_server_elsewhere_is_not_tried() -> None:
    assert {"input", "output"} <= {*PATHS.connections(forwards=True)}
    assert not {"input", "output"} & {*replace(PATHS, api_port=None).connections(forwards=True)}


IPV6 = Paths("ballast-lab", "fd00::1/64", "fd00:1::/56", None)
SETTINGS = "/proc/sys/net/ipv6/conf"


def of_both(setting: str | None = "0", *, refuses: Sequence[str] = (), backend: str = "nftables") -> list[BallastError]:
    host = machine(refuses=refuses)
    host.on("ip6tables", answer="")
    if setting is not None:
        host.given(f"{SETTINGS}/all/disable_ipv6", f"{setting}\n")
    return missing(host, paths=(PATHS, IPV6), backends=(backend,))


@pytest.mark.parametrize(("setting", "found"), [(None, "ipv6.disable=1"), ("1", "net.ipv6.conf.all.disable_ipv6")])
def test_a_host_without_ipv6_is_told_how_to_turn_it_on(setting: str | None, found: str) -> None:
    error = of_both(setting)[0]
    assert error.id == "lab-ip-family"
    assert found in error.found
    assert of_both() == []


@pytest.mark.parametrize(
    ("backend", "refused", "feature"),
    [
        ("nftables", "table ip6 p", "nftables with masquerading for IPv6"),
        ("iptables", "ip6tables", "ip6tables with its nat table"),
        ("ipvs", "[2001:db8::1]:80", "ipvs for IPv6"),
    ],
)
def test_what_a_backend_needs_of_the_kernel_is_tried_for_ipv6_too(backend: str, refused: str, feature: str) -> None:
    assert [error.text for error in of_both(refuses=[refused], backend=backend)] == [f"this kernel lacks {feature}"]


@pytest.mark.parametrize(
    ("settings", "forwards"),
    [
        ({"default/force_forwarding": "0"}, f"net/ipv6/conf/{PATHS.bridge}/force_forwarding=1"),
        ({"all/forwarding": "1"}, f"net/ipv6/conf/{PATHS.bridge}/forwarding=1"),
        ({"all/forwarding": "0"}, ""),
    ],
)
def test_no_packet_of_ipv6_is_forwarded_by_the_whole_host_for_a_trial(settings: dict[str, str], forwards: str) -> None:
    """Before Linux 6.17 no link can forward alone: then only the way to the API server is tried."""
    host = machine()
    for name, value in settings.items():
        host.given(f"{SETTINGS}/{name}", f"{value}\n")
    calls: list[tuple[str, ...]] = []
    for tool in ("sysctl", sys.executable):
        host.on(tool, answer=lambda call: calls.append(call.argv) or "", reads=True)
    assert find_dropped(host, replace(IPV6, api_port=6443)) == []
    assert [argv[-1] for argv in calls if argv[0] == "sysctl" and "forwarding" in argv[-1]] == [forwards][
        : bool(forwards)
    ]
    asked = next(argv for argv in calls if argv[0] == sys.executable)
    assert ("forward" in asked, "input" in asked) == (bool(forwards), True)


def test_for_nodes_with_the_service_proxy_its_packages_are_asked_for() -> None:
    host = machine()
    host.on("/usr/bin/python3", answer="prometheus_client\n", reads=True)
    [problem] = missing(host, backends=("ballast", "nftables"))
    assert problem.id == "service-proxy-deploy-packages"
    assert "python3-prometheus-client" in problem.remedy
    assert missing(host) == []
    assert missing(host, backends=("ballast",), target="vm") == [], "their image has them"
