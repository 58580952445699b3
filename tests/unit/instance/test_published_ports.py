# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports of this host that lead to a node: as nft 1.0.6 prints their table, and ports that others have."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from ansible_collections.ballast.kube.plugins.module_utils._instance import hostnet
from ansible_collections.ballast.kube.plugins.module_utils._instance.network import (
    NETWORK_KINDS,
)
from tests.unit.cases import apply
from tests.unit.fakes import FakeHost
from tests.unit.instance import given as g
from tests.unit.instance.kernel import Kernel
from tests.unit.instance.test_model import network

# As nft 1.0.6 prints it.
PUBLISHED = """table ip ballast-lab-publish {
\tcomment "ballast ballast-lab"
\tchain prerouting {
\t\ttype nat hook prerouting priority dstnat; policy accept;
\t\tiifname "ballast-lab" return
\t\tfib daddr type local tcp dport 8080 dnat to 10.97.0.11:30080 comment "ballast tcp 8080 10.97.0.11:30080"
\t}

\tchain output {
\t\ttype nat hook output priority -100; policy accept;
\t\tip daddr 127.0.0.0/8 return
\t\tfib daddr type local tcp dport 8080 dnat to 10.97.0.11:30080 comment "ballast tcp 8080 10.97.0.11:30080"
\t}
}
"""


def test_published_ports_are_read_as_they_are_printed() -> None:
    host, kind = FakeHost(), NETWORK_KINDS["published-ports"]
    host.on("nft", "list", "table", "ip", answer=PUBLISHED, reads=True)
    assert kind.read(Context(None, host), "ballast-lab-publish") == {
        "bridge": "ballast-lab",
        "ports": ["tcp 8080 10.97.0.11:30080"],
    }
    lines = PUBLISHED.splitlines(keepends=True)
    host.on("nft", "list", "table", "ip", answer="".join(lines[:5] + lines[6:]), reads=True)
    assert kind.read(Context(None, host), "ballast-lab-publish") == {"ruleset": "changed by another program"}


def publish(host: Kernel, *ports: int, lab: str = "one", protocol: str = "tcp") -> None:
    rows = [{"port": port, "protocol": protocol, "address": "10.97.0.11", "to_port": 30080} for port in ports]
    given = network(publish=rows, lab=lab, bridge=f"ballast-{lab}", state_dir=f"/var/lib/ballast/{lab}/network")
    host.given_directory(f"/var/lib/ballast/{lab}")
    desired = hostnet.HostNetworkRequest.from_params(given, host)
    ctx = Context(desired, host)
    state = hostnet.ENGINE.observe(ctx)
    hostnet.ENGINE.require(ctx, state)
    apply(hostnet.ENGINE, desired, host)


def test_a_port_that_another_has_is_not_published() -> None:
    host = g.machine()
    host.given_sysctl("net.ipv4.ip_forward", 0)
    listens = "   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
    loopback = listens.replace("00000000:1F90", "0100007F:1F91")
    host.given("/proc/net/tcp", f"head\n{listens}{loopback}")
    with pytest.raises(HostError) as caught:
        publish(host, 8080, 8081)
    assert caught.value.id == "instance-port-taken"
    assert caught.value.text == "publish: port 8080/tcp of this host is in use"
    assert caught.value.found == "a program listens on it"
    host.given("/proc/net/tcp", "head\n")
    publish(host, 8080, 8081)
    host.given("/proc/net/tcp", f"head\n{listens}")
    publish(host, 8080, 8081, 8082)  # it has 8080 already, so that the program came later
    with pytest.raises(HostError) as caught:
        publish(host, 8082, lab="two")
    assert caught.value.found == "the nftables table ip ballast-one-publish uses it"


def test_a_udp_port_that_a_program_serves_is_not_published() -> None:
    host = g.machine()
    host.given_sysctl("net.ipv4.ip_forward", 0)
    row = "   0: {}:{:04X} {} {} 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
    nobody = "00000000:0000"
    serves, own = row.format("00000000", 53, nobody, "07"), row.format("0100007F", 54, nobody, "07")
    asks = row.format("0100000A", 55, "0200000A:0035", "01")  # of one peer
    host.given("/proc/net/udp", f"head\n{serves}{own}{asks}")
    with pytest.raises(HostError) as caught:
        publish(host, 53, 54, 55, protocol="udp")
    assert caught.value.text == "publish: port 53/udp of this host is in use"
    publish(host, 53, 54, 55)
    publish(host, 54, 55, lab="two", protocol="udp")
