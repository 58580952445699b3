# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds of network objects and mounts: on output as iproute2 6.1 and nft 1.0.6 print it, and on the kernel in memory."""

from __future__ import annotations

import json

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import Kind, SysctlMinimumKind
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT, Value
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from ansible_collections.ballast.kube.plugins.module_utils._instance import hostnet
from ansible_collections.ballast.kube.plugins.module_utils._instance.images import ImagesKind
from ansible_collections.ballast.kube.plugins.module_utils._instance.mounts import MOUNT_KINDS
from ansible_collections.ballast.kube.plugins.module_utils._instance.network import (
    NETNS_SYSCTLS,
    NETWORK_KINDS,
    mac_address,
)
from ansible_collections.ballast.kube.plugins.module_utils._instance.node_ports import NODE_PORT_KINDS
from tests.unit.cases import apply, check_kills
from tests.unit.fakes import FakeHost
from tests.unit.instance import given as g
from tests.unit.instance.kernel import HERE, Kernel
from tests.unit.instance.test_model import network

BRIDGE = """[{"ifindex":22,"ifname":"ballast-lab","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1500,
"qdisc":"noqueue","operstate":"UP","group":"default","txqlen":1000,"link_type":"ether","address":"2e:d8:53:7b:6a:0e",
"broadcast":"ff:ff:ff:ff:ff:ff","promiscuity":0,"min_mtu":68,"max_mtu":65535,"linkinfo":{"info_kind":"bridge",
"info_data":{"forward_delay":1500,"hello_time":200,"stp_state":0}},"num_tx_queues":1,"num_rx_queues":1,
"addr_info":[{"family":"inet6","local":"fe80::1","prefixlen":64,"scope":"link"},
{"family":"inet","local":"10.97.0.1","prefixlen":24,"scope":"global","label":"ballast-lab",
"valid_life_time":4294967295,"preferred_life_time":4294967295}]}]"""
OUTER = """[{"ifindex":25,"link_index":2,"ifname":"ballast-lab-n1","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],
"mtu":1500,"qdisc":"noqueue","master":"ballast-lab","operstate":"UP","linkmode":"DEFAULT","group":"default",
"txqlen":1000,"link_type":"ether","address":"ca:2c:09:3d:50:11","broadcast":"ff:ff:ff:ff:ff:ff","link_netns":"ballast-lab-n1"}]"""
INNER = """[{"ifindex":2,"link_index":25,"ifname":"eth0","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1500,
"qdisc":"noqueue","operstate":"UP","group":"default","txqlen":1000,"link_type":"ether","address":"02:4a:1c:70:06:aa",
"broadcast":"ff:ff:ff:ff:ff:ff","link_netnsid":0,"addr_info":[{"family":"inet","local":"10.97.0.11","prefixlen":24,
"scope":"global","label":"eth0","valid_life_time":4294967295,"preferred_life_time":4294967295}]}]"""
DEFAULT = '[{"dst":"default","gateway":"10.97.0.1","dev":"eth0","flags":[]}]'
TABLE = """table ip ballast-lab {
\tcomment "ballast ballast-lab 10.128.0.0/16 10.97.0.0/24"
\tchain postrouting {
\t\ttype nat hook postrouting priority srcnat; policy accept;
\t\tip saddr { 10.97.0.0/24, 10.128.0.0/16 } ip daddr != { 10.97.0.0/24, 10.128.0.0/16 } oifname != "ballast-lab" masquerade
\t}
}
"""


def test_a_bridge_is_read_as_ip_prints_it() -> None:
    host = FakeHost()
    host.on("ip", "-j", "-d", "addr", "show", "dev", "ballast-lab", answer=BRIDGE, reads=True)
    host.on("ip", "-j", "-d", "addr", "show", "dev", "eth0", answer=INNER, reads=True)
    host.on("ip", "-j", "-d", "addr", "show", "dev", "none", answer=1, reads=True)
    kind = NETWORK_KINDS["bridge"]
    assert kind.read(Context(None, host), "ballast-lab") == {
        "address": "10.97.0.1/24",
        "mac": "2e:d8:53:7b:6a:0e",
        "up": True,
    }
    advertised = (
        """{"family":"inet6","local":"2001:db8::5","prefixlen":64,"scope":"global","dynamic":true,"mngtmpaddr":true},"""
    )
    shown = BRIDGE.replace('"addr_info":[', f'"addr_info":[{advertised}')
    host.on("ip", "-j", "-d", "addr", "show", "dev", "advertised", answer=shown, reads=True)
    assert kind.read(Context(None, host), "advertised") == kind.read(Context(None, host), "ballast-lab")
    assert kind.read(Context(None, host), "eth0") == ABSENT, "a link that is no bridge"
    assert kind.read(Context(None, host), "none") == ABSENT


def test_a_veth_pair_is_read_as_ip_prints_it() -> None:
    host, kind, target = FakeHost(), NETWORK_KINDS["veth"], "ballast-lab-n1 ballast-lab-n1"
    inside = ("ip", "-j", "-n", "ballast-lab-n1")
    host.on("ip", "-j", "link", "show", "dev", "ballast-lab-n1", answer=OUTER, reads=True)
    host.on(*inside, "addr", "show", "dev", "eth0", answer=INNER, reads=True)
    host.on(*inside, "route", "show", "default", answer=DEFAULT, reads=True)
    whole = {"bridge": "ballast-lab", "mac": "02:4a:1c:70:06:aa", "address": "10.97.0.11/24", "gateway": "10.97.0.1"}
    assert kind.read(Context(None, host), target) == whole
    host.on(*inside, "route", "show", "default", answer="[]", reads=True)
    assert kind.read(Context(None, host), target) == {**whole, "gateway": ""}
    host.on(
        *inside, "addr", "show", "dev", "eth0", answer=INNER.replace('"link_index":25', '"link_index":26'), reads=True
    )
    found = kind.read(Context(None, host), target)
    assert found == {"bridge": "ballast-lab", "mac": "", "address": "", "gateway": ""}, "the end of another pair"
    host.on("ip", "-j", "link", "show", "dev", "ballast-lab-n1", answer=1, reads=True)
    assert kind.read(Context(None, host), target) == ABSENT


def test_a_route_and_a_table_are_read_as_they_are_printed() -> None:
    host = FakeHost()
    host.on(
        "ip",
        "-j",
        "route",
        "show",
        "exact",
        answer='[{"dst":"10.128.1.0/24","gateway":"10.97.0.11","dev":"b"}]',
        reads=True,
    )
    assert NETWORK_KINDS["route"].read(Context(None, host), "10.128.1.0/24") == {"via": "10.97.0.11"}
    refused = '[{"type":"unreachable","dst":"10.192.0.0/16","flags":[]}]'
    host.on("ip", "-j", "route", "show", "exact", answer=refused, reads=True)
    assert NETWORK_KINDS["route"].read(Context(None, host), "10.192.0.0/16") == {"via": ""}
    host.on("ip", "-j", "route", "show", "exact", answer="[ ]", reads=True)
    assert NETWORK_KINDS["route"].read(Context(None, host), "10.128.1.0/24") == ABSENT
    kind = NETWORK_KINDS["masquerade"]
    host.on("nft", "list", "table", "ip", answer=TABLE, reads=True)
    assert kind.read(Context(None, host), "ballast-lab") == {
        "bridge": "ballast-lab",
        "inside": ["10.128.0.0/16", "10.97.0.0/24"],
    }
    host.on("nft", "list", "table", "ip", answer=TABLE.replace("masquerade", "accept"), reads=True)
    assert kind.read(Context(None, host), "ballast-lab") == {"ruleset": "changed by another program"}
    host.on("nft", "list", "table", "ip", answer=1, reads=True)
    assert kind.read(Context(None, host), "ballast-lab") == ABSENT


def test_a_table_that_another_put_in_the_place_of_ours_stays() -> None:
    host, kind = FakeHost(), NETWORK_KINDS["masquerade"]
    host.on("nft", "list", "table", "ip", answer="table ip ballast-lab {\n\tchain input {\n\t}\n}\n", reads=True)
    for act in (
        lambda: kind.remove(Context(None, host), "ballast-lab", None),
        lambda: kind.write(Context(None, host), "ballast-lab", {"bridge": "b", "inside": []}, None),
    ):
        with pytest.raises(HostError) as caught:
            act()
        assert caught.value.id == "core-taken"
    assert host.effects == []


VALUES: list[tuple[str, str, Value]] = [
    ("bridge", "ballast-two", {"address": "10.97.1.1/24", "mac": "02:00:00:00:00:02", "up": True}),
    ("netns", "ballast-lab-n1", {"sysctls": NETNS_SYSCTLS, "lo": True}),
    (
        "veth",
        "ballast-lab-n1 ballast-lab-n1",
        {"bridge": "ballast-lab", "mac": "02:00:00:00:00:09", "address": "10.97.0.11/24", "gateway": "10.97.0.1"},
    ),
    ("route", "10.128.1.0/24", {"via": "10.97.0.11"}),
    ("route", "10.192.0.0/16", {"via": ""}),
    ("masquerade", "ballast-lab", {"bridge": "ballast-lab", "inside": ["10.128.0.0/16", "10.97.0.0/24"]}),
    (
        "published-ports",
        "ballast-lab-publish",
        {"bridge": "ballast-lab", "ports": ["tcp 8080 10.97.0.11:30080", "udp 53 10.97.0.11:30053"]},
    ),
    (
        "node-ports",
        "ballast-lab-node-ports",
        {"bridge": "ballast-lab", "to": "10.97.0.11", "ports": "30000-32767", "taken": ["tcp 30500", "udp 30053"]},
    ),
    ("loopback-route", "ballast-lab", {"on": True}),
    ("private-directory", "/run/ballast/lab", {}),
    (
        "mountns",
        "/run/ballast/lab/n1.mnt",
        {
            "home": f"{g.STATE}/n1",
            "cgroup": "ballast-lab-n1",
            "mounts": [{"target": "/run", "source": ""}, {"target": "/var/lib/kubelet", "source": "/run"}],
            "given": [{"source": "/run", "target": "/data", "options": "ro"}],
        },
    ),
]
KINDS: dict[str, Kind] = {**NETWORK_KINDS, **NODE_PORT_KINDS, **MOUNT_KINDS}


@pytest.mark.parametrize(("name", "target", "value"), VALUES, ids=[row[0] for row in VALUES])
def test_what_is_written_is_read_and_what_is_removed_is_gone(name: str, target: str, value: Value) -> None:
    host = g.machine()
    if name == "veth":
        NETWORK_KINDS["netns"].write(Context(None, host), "ballast-lab-n1", {"sysctls": NETNS_SYSCTLS}, ABSENT)
    if name == "mountns":
        MOUNT_KINDS["private-directory"].write(Context(None, host), "/run/ballast/lab", {}, ABSENT)
        host.given_directory(f"{g.STATE}/n1/etc")
    before, kind = host.snapshot(), KINDS[name]
    assert kind.read(Context(None, host), target) == ABSENT
    kind.write(Context(None, host), target, value, ABSENT)
    assert kind.read(Context(None, host), target) == value
    kind.write(Context(None, host), target, value, {"something": "else"} if name != "netns" else {"sysctls": {}})
    assert kind.read(Context(None, host), target) == value, "written again over what is there"
    kind.remove(Context(None, host), target, value)
    assert kind.read(Context(None, host), target) == ABSENT
    after = host.snapshot()
    if name in ("netns", "private-directory"):  # their parents are of somebody else: the shared directory, the sysctls
        after.pop("/run/netns", None)
        after["/proc/self/mountinfo"] = before["/proc/self/mountinfo"]
    if name == "mountns":  # the instance's files stay
        after = {path: part for path, part in after.items() if path in before}
    assert after == before


def test_a_namespace_without_its_loopback_link_is_not_done() -> None:
    """A new namespace may take the settings from the host, and then has all of them before the link is up."""
    host, kind = g.machine(), NETWORK_KINDS["netns"]
    host.run(["ip", "netns", "add", "ballast-lab-n1"], timeout=1)
    host.namespaces["ballast-lab-n1"].sysctls.update(NETNS_SYSCTLS)
    assert kind.read(Context(None, host), "ballast-lab-n1") == {"sysctls": NETNS_SYSCTLS, "lo": False}
    kind.write(
        Context(None, host),
        "ballast-lab-n1",
        {"sysctls": NETNS_SYSCTLS, "lo": True},
        kind.read(Context(None, host), "ballast-lab-n1"),
    )
    assert host.namespaces["ballast-lab-n1"].links["lo"].up


def test_a_file_that_a_restart_left_is_no_namespace() -> None:
    host, kind = g.machine(), NETWORK_KINDS["netns"]
    host.given("/run/netns/ballast-lab-n1")
    kind.write(
        Context(None, host),
        "ballast-lab-n1",
        {"sysctls": NETNS_SYSCTLS, "lo": True},
        kind.read(Context(None, host), "ballast-lab-n1"),
    )
    assert kind.read(Context(None, host), "ballast-lab-n1") == {"sysctls": NETNS_SYSCTLS, "lo": True}


def test_a_half_made_mount_namespace_is_made_anew_and_can_be_removed() -> None:
    host, kind, target = g.machine(), MOUNT_KINDS["mountns"], "/run/ballast/lab/n1.mnt"
    MOUNT_KINDS["private-directory"].write(Context(None, host), "/run/ballast/lab", {}, ABSENT)
    home = f"{g.STATE}/n1"
    host.given_directory(f"{home}/etc")
    value = {"home": home, "cgroup": "ballast-lab-n1", "mounts": [{"target": "/run", "source": ""}], "given": []}
    kind.write(Context(None, host), target, value, ABSENT)
    host.remove(f"{target}.json")
    assert kind.read(Context(None, host), target) not in (ABSENT, value)
    kind.write(Context(None, host), target, value, kind.read(Context(None, host), target))
    assert host.inner_mounts[target][-1] == ("ballast", "/run", "tmpfs", "mode=0755,X-mount.mkdir")
    host.remove(f"{target}.json")
    kind.remove(Context(None, host), target, ABSENT)
    assert kind.read(Context(None, host), target) == ABSENT
    assert target not in host.mounts


# As nft 1.0.6 prints it.
NODE_PORTS = """table ip ballast-lab-node-ports {
\tcomment "ballast ballast-lab 10.97.0.11 30000-32767"
\tchain prerouting {
\t\ttype filter hook prerouting priority raw; policy accept;
\t\tiifname "ballast-lab" ip daddr 127.0.0.0/8 drop
\t\tiifname "ballast-lab" ip saddr 127.0.0.0/8 drop
\t}

\tchain output {
\t\ttype nat hook output priority -100; policy accept;
\t\tip daddr 127.0.0.1 tcp dport 30500 return comment "ballast tcp 30500"
\t\tip daddr 127.0.0.1 tcp dport 30000-32767 dnat to 10.97.0.11
\t\tip daddr 127.0.0.1 udp dport 30000-32767 dnat to 10.97.0.11
\t}

\tchain postrouting {
\t\ttype nat hook postrouting priority srcnat; policy accept;
\t\toifname "ballast-lab" ip saddr 127.0.0.0/8 masquerade
\t}
}
"""


@pytest.mark.parametrize("lost", ["iifname", "dnat to", "masquerade"])
def test_node_ports_are_read_as_they_are_printed(lost: str) -> None:
    host, kind = FakeHost(), NODE_PORT_KINDS["node-ports"]
    host.on("nft", "list", "table", "ip", answer=NODE_PORTS, reads=True)
    value = {"bridge": "ballast-lab", "to": "10.97.0.11", "ports": "30000-32767", "taken": ["tcp 30500"]}
    assert kind.read(Context(None, host), "ballast-lab-node-ports") == value
    lines = NODE_PORTS.splitlines(keepends=True)
    lines.remove(next(line for line in lines if lost in line))
    host.on("nft", "list", "table", "ip", answer="".join(lines), reads=True)
    assert kind.read(Context(None, host), "ballast-lab-node-ports") == {"ruleset": "changed by another program"}


def with_node_ports(host: Kernel) -> hostnet.HostNetworkRequest:
    given = network(node_ports={"address": "10.97.0.11", "ports": "30000-32767"})
    return hostnet.HostNetworkRequest.from_params(given, host)


def test_a_port_that_a_program_of_this_host_has_stays_the_programs() -> None:
    host = g.machine()
    host.given_directory("/var/lib/ballast/lab")
    host.given_sysctl("net.ipv4.ip_forward", 0)
    host.run(["ip", "link", "del", "ballast-lab"], timeout=5)
    row = "   0: {}:{:04X} 00000000:0000 {} 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
    tcp = [("0100007F", 30001), ("00000000", 30002), ("0B00610A", 30003), ("0100007F", 29999)]
    host.given("/proc/net/tcp", "head\n" + "".join(row.format(*one, "0A") for one in tcp))
    udp = [("0100007F", 30053, "07"), ("0100007F", 30054, "01")]
    host.given("/proc/net/udp", "head\n" + "".join(row.format(*one) for one in udp))
    desired = with_node_ports(host)
    apply(hostnet.ENGINE, desired, host)
    value = NODE_PORT_KINDS["node-ports"].read(Context(None, host), "ballast-lab-node-ports")
    assert isinstance(value, dict)
    assert value["taken"] == ["tcp 30001", "tcp 30002", "udp 30053"]
    host.given("/proc/net/udp", "head\n" + row.format("0100007F", 30055, "07"))
    assert hostnet.ENGINE.verify(Context(desired, host)) == [], "what listens a moment later is the next run's"


def test_the_table_is_made_before_packets_from_loopback_addresses_may_leave_and_removed_after() -> None:
    """Otherwise nodes and pods on the bridge would reach what listens on loopback."""
    host = g.machine()
    host.given_directory("/var/lib/ballast/lab")
    host.given_sysctl("net.ipv4.ip_forward", 0)
    host.run(["ip", "link", "del", "ballast-lab"], timeout=5)
    before = host.snapshot()
    removal = hostnet.HostNetworkRequest.from_params(network(state="absent"), host)
    orders = []
    for desired in (with_node_ports(host), removal):
        plan = apply(hostnet.ENGINE, desired, host)
        orders.append([step.kind for step in plan.steps if step.kind in ("bridge", *NODE_PORT_KINDS)])
    assert orders == [["bridge", "node-ports", "loopback-route"], ["loopback-route", "node-ports", "bridge"]]
    assert host.snapshot() == before


DUAL = {
    "address": "10.97.0.1/24,fd00::1/64",
    "inside": ["10.97.0.0/24", "fd00::/64", "fd00:1::/56"],
    "routes": [],
    "publish": [
        {"port": 80, "protocol": "tcp", "address": address, "to_port": 30080} for address in ("fd00::b", "10.97.0.11")
    ],
}
ROUTES = '[{"dst":"default","gateway":"fe80::1","dev":"eth0.7","protocol":"ra"},{"dst":"fd00:5::/64","dev":"wlan0"}]'


def wanted(host: FakeHost, **changes: object) -> dict[tuple[str, str], Value]:
    desired = hostnet.HostNetworkRequest.from_params(network(**changes), host)
    return {resource.key: resource.value for resource in hostnet.ENGINE.wanted(Context(desired, host))}


def test_a_host_of_both_families_has_two_tables_of_each_kind() -> None:
    host = FakeHost()
    host.on("ip", "-j", "-6", "route", "show", "proto", "ra", answer="[]", reads=True)
    found = wanted(host, **DUAL)
    assert [(kind, value["ports"]) for (kind, _target), value in found.items() if kind.startswith("published")] == [
        ("published-ports", ["tcp 80 10.97.0.11:30080"]),
        ("published-ports-ipv6", ["tcp 80 [fd00::b]:30080"]),
    ]
    assert [(kind, value["inside"]) for (kind, _target), value in found.items() if kind.startswith("masquerade")] == [
        ("masquerade", ["10.97.0.0/24"]),
        ("masquerade-ipv6", ["fd00:1::/56", "fd00::/64"]),
    ]
    assert not [kind for kind, _target in wanted(FakeHost()) if kind.endswith("ipv6")]


def test_a_host_that_forwards_ipv6_goes_on_taking_router_advertisements() -> None:
    """The kernel drops the routes that it has from them when it begins to forward, where accept_ra is 1."""
    host = FakeHost()
    host.on("ip", "-j", "-6", "route", "show", "proto", "ra", answer=ROUTES, reads=True)
    host.given("/proc/sys/net/ipv6/conf/eth0.7/accept_ra", "1\n")
    host.given("/proc/sys/net/ipv6/conf/wlan0/accept_ra", "0\n")  # a program takes them there
    names = [target.split(" ")[0] for kind, target in wanted(host, **DUAL) if kind == "sysctl-minimum"]
    assert names == ["net.ipv4.ip_forward", "net/ipv6/conf/eth0.7/accept_ra", "net.ipv6.conf.all.forwarding"]


def accepting(host: FakeHost) -> list[str]:
    names = [target.split(" ")[0] for kind, target in wanted(host, **DUAL) if kind == "sysctl-minimum"]
    return [name for name in names if name.endswith("/accept_ra")]


def test_two_routers_of_a_host_make_one_route() -> None:
    host = FakeHost()
    hops = [{"gateway": f"fe80::{number}", "dev": "eth0", "weight": 1, "flags": []} for number in (1, 2)]
    rows = [{"dst": "default", "protocol": "ra", "flags": [], "nexthops": hops}]
    host.on("ip", "-j", "-6", "route", "show", "proto", "ra", answer=json.dumps(rows), reads=True)
    host.given("/proc/sys/net/ipv6/conf/eth0/accept_ra", "1\n")
    assert accepting(host) == ["net/ipv6/conf/eth0/accept_ra"]


def test_a_link_without_its_cable_goes_on_taking_router_advertisements() -> None:
    """Its routes are gone for the moment; with accept_ra as it was, the kernel would ignore the next one."""
    host = FakeHost()
    host.on("ip", "-j", "-6", "route", "show", "proto", "ra", answer=ROUTES, reads=True)
    setting = "/proc/sys/net/ipv6/conf/eth0.7/accept_ra"
    host.given(setting, "1\n")
    host.given("/proc/sys/net/ipv6/conf/wlan0/accept_ra", "0\n")
    (name,) = accepting(host)
    SysctlMinimumKind().write(Context(None, host), f"{name} {g.STATE}", {"at_least": 2}, ABSENT)
    host.on("ip", "-j", "-6", "route", "show", "proto", "ra", answer="[]", reads=True)
    assert accepting(host) == [name]
    host.remove(setting)
    assert accepting(host) == [], "a link that is gone"


def test_an_address_of_a_link_stays_the_same() -> None:
    assert mac_address("ballast-lab-n1") == mac_address("ballast-lab-n1") != mac_address("ballast-lab-n2")
    first = int(mac_address("ballast-lab-n1").split(":", maxsplit=1)[0], 16)
    assert (first & 1, first & 2) == (0, 2), "for one station, locally administered"


def test_a_containerd_that_never_answers_has_its_own_error() -> None:
    host = g.machine()
    host.given("/run/ballast/lab/n1.mnt")
    host.inner_mounts["/run/ballast/lab/n1.mnt"] = []
    with pytest.raises(Exception, match="did not respond within 60 seconds") as caught:
        ImagesKind().write(
            Context(g.desired(), host), f"/run/ballast/lab/n1.mnt /bin/ctr {g.ARCHIVE} x", g.IMAGES, ABSENT
        )
    assert caught.value.id == "instance-containerd"  # type: ignore[attr-defined]


def holds(host: FakeHost) -> bool:
    assert isinstance(host, Kernel)
    bridge = host.namespaces[HERE].links.get("ballast-new")
    return (
        bridge is not None
        and (bridge.up, bridge.addresses) == (True, ["10.97.0.1/24"])
        and host.text("/proc/sys/net/ipv4/ip_forward") == "1\n"
        and 'oifname != "ballast-new" masquerade' in host.tables.get("ballast-lab", "")
        and host.namespaces[HERE].routes == {"10.98.0.0/28": "10.97.0.201"}
    )


def test_the_hosts_network_survives_a_kill_at_any_effect() -> None:
    def machine() -> Kernel:
        host = g.machine()
        host.given_sysctl("net.ipv4.ip_forward", 0)
        return host

    want = hostnet.HostNetworkRequest.from_params(network(bridge="ballast-new"), FakeHost())
    nothing = hostnet.HostNetworkRequest.from_params(network(bridge="ballast-new", state="absent"), FakeHost())
    assert check_kills(hostnet.ENGINE, machine, want, nothing, holds) > 60
    host = machine()
    apply(hostnet.ENGINE, want, host)
    done = len(host.effects)
    apply(hostnet.ENGINE, want, host)
    assert host.effects[done:] == []
    more = hostnet.HostNetworkRequest.from_params(network(bridge="ballast-new", routes=[]), FakeHost())
    assert [step.title for step in apply(hostnet.ENGINE, more, host).steps] == ["route to 10.98.0.0/28 via 10.97.0.201"]
    assert (
        json.dumps(hostnet.ENGINE.report(Context(want, host))) == '{"bridge": "ballast-new", "address": "10.97.0.1/24"}'
    )
    assert hostnet.ENGINE.verify(Context(more, host)) == []
