# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""Parts of the service proxy that are functions of their input alone."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._agent.log import Log
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError, UserError
from ansible_collections.ballast.kube.plugins.module_utils._rules.frontends import claims_of
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import Endpoint, ServicePort
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.backend import Nftables
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Table
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy import kernel, netlink, ports
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy import main as agent
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.configuration import Configuration
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.connections import (
    Connection,
    Serving,
    doubtful,
    is_stale,
    serving_endpoints,
)
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.main import main
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.selection import select
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.status import Record, table
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.tallies import Tallies
from tests.unit.fakes import FakeHost

# Which of several changes


@given(st.lists(st.integers(), unique=True, max_size=40), st.sets(st.integers(0, 39), max_size=5))
def test_all_but_those_at_fault_are_selected(items: list[int], places: set[int]) -> None:
    bad = {item for place, item in enumerate(items) if place in places}
    questions: list[int] = []

    def accepts(chosen: list[int]) -> bool:
        questions.append(len(chosen))
        return not bad & set(chosen)

    assert select(items, accepts) == [item for item in items if item not in bad]  # type: ignore[arg-type]
    assert len(questions) <= 1 + 2 * 6 * max(1, len(bad))


def test_of_two_that_exclude_each_other_the_first_is_selected() -> None:
    assert select("abcd", lambda chosen: not {"b", "d"} <= set(chosen)) == ["a", "b", "c"]


# Connections that the kernel treats by former rules

ENDPOINTS = (
    Endpoint("10.1.0.1", 53),
    Endpoint("10.1.0.2", 53, ready=False, serving=True, terminating=True),
    Endpoint("10.1.0.3", 53, ready=False, serving=False, terminating=True),
)
UDP, TCP, SCTP = 17, 6, 132
NODE_IP = "192.168.1.10"


def dns(protocol: str = "UDP", endpoints: tuple[Endpoint, ...] = ENDPOINTS, **fields: object) -> ServicePort:
    given: dict[str, object] = {"node_port": 30053, "external_ips": ("203.0.113.1",), **fields}
    return ServicePort(
        "kube-system",
        "dns",
        "dns",
        protocol,
        53,
        "10.96.0.10",
        endpoints=endpoints,
        **given,  # type: ignore[arg-type]
    )


def serving_of(*services: ServicePort) -> Serving:
    """Each destination with its own Service's endpoints."""
    claims = claims_of(services).values()
    return serving_endpoints((each for _port, each in claims if each is not None), (NODE_IP,))


def connection(
    endpoint: str,
    endpoint_port: int = 0,
    *,
    protocol: int = UDP,
    to: str = "10.96.0.10",
    port: int = 53,
    answered: bool = False,
) -> Connection:
    """To port 53 of `endpoint`, or to the port that it asks for where it is not translated."""
    target = endpoint_port or (port if endpoint == to else 53)
    return Connection(protocol, to, port, endpoint, target, answered, ())


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize(
    ("destination", "port", "endpoint", "stale"),
    [
        ("10.96.0.10", 53, "10.1.0.1", False),
        ("10.96.0.10", 53, "10.1.0.2", False),  # it serves while it terminates
        ("10.96.0.10", 53, "10.1.0.3", True),
        ("10.96.0.10", 53, "10.96.0.10", True),  # from before the first endpoint
        ("203.0.113.1", 53, "10.1.0.9", True),
        ("192.168.1.10", 30053, "10.1.0.9", True),
        ("192.168.1.10", 30053, "10.1.0.2", False),
        ("10.96.0.11", 53, "10.1.0.9", False),  # of another Service
        ("10.96.0.10", 5353, "10.1.0.9", False),
        # To another machine, at its own node port: without its entry it would have another source port there.
        ("192.168.1.11", 30053, "192.168.1.11", False),
        ("192.168.1.11", 30053, "10.1.0.9", False),  # another program's translation
    ],
)
def test_a_connection_of_udp_is_stale_whose_endpoint_does_not_serve(
    destination: str, port: int, endpoint: str, stale: bool, answered: bool
) -> None:
    found = connection(endpoint, to=destination, port=port, answered=answered)
    assert is_stale(found, serving_of(dns())) == stale


def test_a_connection_of_udp_to_another_port_of_an_endpoint_is_stale() -> None:
    """As after a change of targetPort: the same pods serve at another port."""
    serving = serving_of(dns())
    assert is_stale(connection("10.1.0.1", 5353), serving)
    assert is_stale(connection("10.1.0.1", 5353, to="192.168.1.10", port=30053), serving)
    assert not is_stale(connection("10.1.0.1", 5353), serving_of(dns(endpoints=(Endpoint("10.1.0.1", 5353),))))


def test_an_endpoint_of_the_nodes_network_is_a_translation_by_port_alone() -> None:
    node = NODE_IP
    none = serving_of(dns(endpoints=()))
    assert is_stale(connection(node, 53, to=node, port=30053), none)
    own = serving_of(dns("TCP", (Endpoint(node, 5353),), external_ips=(node,)))
    assert not is_stale(connection(node, 5353, protocol=TCP, to=node), own)  # its SYN may be answered at any moment


def test_without_endpoints_what_was_translated_is_stale() -> None:
    serving = serving_of(dns(endpoints=()))
    assert is_stale(connection("10.1.0.1"), serving)
    assert not is_stale(connection("192.168.1.10", to="192.168.1.10", port=30053), serving)  # a program of the node


@pytest.mark.parametrize(("name", "number"), [("TCP", TCP), ("SCTP", SCTP)])
def test_a_connection_of_tcp_or_sctp_is_stale_that_began_without_rules_and_has_no_answer(
    name: str, number: int
) -> None:
    serving = serving_of(dns(name))
    assert is_stale(connection("10.96.0.10", protocol=number), serving)
    assert is_stale(connection("203.0.113.1", protocol=number, to="203.0.113.1"), serving)
    assert not is_stale(connection("10.96.0.10", protocol=number, answered=True), serving)
    assert not is_stale(connection("10.1.0.9", protocol=number), serving)  # its SYN may be answered at any moment
    assert not is_stale(connection("10.96.0.10", protocol=UDP), serving)
    # To the same port of another machine: without its entry it would have another source port there.
    assert not is_stale(connection("198.51.100.7", protocol=number, to="198.51.100.7", port=30053), serving)
    assert not is_stale(connection("10.96.0.10", protocol=number), serving_of(dns(name, endpoints=())))


def test_after_a_change_tcp_is_looked_at_where_nothing_served_and_udp_always() -> None:
    def destinations(protocol: str, before: tuple[Endpoint, ...], after: tuple[Endpoint, ...]) -> int:
        return len(doubtful(*(serving_of(dns(protocol, endpoints)) for endpoints in (before, after))))

    assert destinations("TCP", (), ENDPOINTS) == 2  # clusterIP and external IP
    assert destinations("TCP", ENDPOINTS[:1], ENDPOINTS) == 0
    assert destinations("TCP", ENDPOINTS, ()) == 0
    assert destinations("UDP", ENDPOINTS[:1], ENDPOINTS) == 3  # and node port
    gone = doubtful(serving_of(dns()), {})
    assert set(gone.values()) == {frozenset()}
    assert len(gone) == 3


# Netlink


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def message(kind: int, family: int, *attributes: bytes) -> bytes:
    body = struct.pack("!BBH", family, 0, 0) + b"".join(attributes)
    return struct.pack("=IHHII", 16 + len(body), 10 << 8 | kind, 0, 0, 0) + body


def test_messages_of_one_datagram_are_read_one_by_one() -> None:
    data = message(12, 2, attribute(1, b"ballast-x\0"), attribute(2, b"set\0")) + message(
        15, 0, attribute(1, struct.pack("!I", 77)), attribute(2, struct.pack("!I", 4711)), attribute(3, b"nft\0")
    )
    (element, generation) = netlink._messages(data)
    assert element[:2] == (12, 2)
    assert netlink._first(element[2]) == b"ballast-x\0"
    assert generation[0] == 15
    assert netlink.attributes_of(generation[2])[2] == struct.pack("!I", 4711)


# What is counted, and shown


def test_what_is_counted_goes_with_its_service() -> None:
    tallies, name = Tallies(4), ports.ServiceName("kube-system", "dns")
    remote = (Endpoint("10.1.0.1", 53, node="n2"),)
    tallies.replace(name, (dns(endpoints=remote, external_local=True, internal_local=True),), "n1")
    assert tallies.no_local == (1, 1)
    tallies.replace(name, (dns(endpoints=remote, external_local=True),), "n2")
    assert tallies.no_local == (0, 0)
    tallies.replace(name, (), "n1")
    assert tallies.health_checks() == ()


def test_status_shows_what_was_reported() -> None:
    log = io.StringIO()
    record = Record(Log(log))
    name = ports.ServiceName("default", "web")
    record.take(ports.NodeState("n1"))
    record.take(ports.Connection(0.0, True))
    record.take(ports.Programmed(1.0, 0.5, True, (4,), 10, 100, served=12))
    record.take(ports.Repaired(2.0, 4, 0.1, 5, 4711, "nft"))
    record.take(ports.Refused(3.0, name, "the kernel says no\nand more"))
    data = {"node": "n1", "seconds": 61.0, "config": "/etc/x.yaml", **record.as_data()}
    text = table(data)
    head = "node n1, follows the API server, 12 Services, 1 changes, 1 repairs, up 1 min 1 s   /etc/x.yaml\n"
    assert text.startswith(head)
    assert "changed by nft (process 4711)" in text
    assert "refused default/web" in text
    assert "last change of IPv4" in text
    assert len(text.splitlines()) == 7
    record.take(ports.Accepted(name))
    assert record.as_data()["refused"] == []
    events = [line.split()[1] for line in log.getvalue().splitlines()]
    assert events == ["following", "compared", "repaired", "refused", "accepted"]


def test_a_failure_is_shown_until_all_families_are_programmed() -> None:
    record = Record(Log(io.StringIO()))
    record.take(ports.Failed(1.0, "no nat"))
    record.take(ports.Programmed(1.0, 0.5, True, (4,), 10, 100, behind=(6,)))
    assert (record.as_data()["failed"], record.as_data()["pending"]) == ("no nat", True)
    four, six = record.as_data()["families"]
    assert (four["family"], four["behind"]) == ("IPv4", False)
    assert six == {"family": "IPv6", "last_change": None, "behind": True}
    record.take(ports.Programmed(1.0, 0.5, True, (4, 6), 10, 100))
    assert (record.as_data()["failed"], record.as_data()["pending"]) == ("", False)


def test_before_anything_happened_status_says_so() -> None:
    data = {"node": "n1", "seconds": 1.0, "config": "x", **Record(Log(io.StringIO())).as_data()}
    assert "waits for the API server" in table(data)


# The command line


class Running:
    """A program that runs with a configuration, as far as a reload asks."""

    def __init__(self, configuration: Configuration) -> None:
        self.service_proxy_name = ""
        self._configuration = configuration

    def reload(self, configuration: Configuration) -> list[str]:
        self._configuration, restart = self._configuration.reload(configuration)
        return restart


def test_a_reload_keeps_the_name_of_the_node_that_the_command_line_gives() -> None:
    text = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nhostnameOverride: of-the-file\n"
    started = agent._of_node(agent._parse(text, "x.yaml"), "N1")
    said = agent._take(Running(started), "x.yaml", "N1", text)  # type: ignore[arg-type]
    assert said == {"settings": "node n1, all Services", "needs_restart": ""}
    said = agent._take(Running(started), "x.yaml", "", text)  # type: ignore[arg-type]
    assert said["needs_restart"] == "hostnameOverride"


def test_a_node_is_not_named_by_blanks_on_the_command_line() -> None:
    text = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
    with pytest.raises(UserError, match='--hostname-override: " " is not the name of a node'):
        agent._of_node(agent._parse(text, "x.yaml"), " ")


def test_a_clean_up_removes_no_table_if_one_of_that_name_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    committed: list[object] = []

    def refuse_ipv6(_backend: Nftables, _host: FakeHost, family: int) -> None:
        if family == 6:
            raise HostError("it is not ours", id="rules-nft-others")

    monkeypatch.setattr(kernel, "families", lambda _host: (4, 6))
    monkeypatch.setattr(Nftables, "require_ours", refuse_ipv6)
    monkeypatch.setattr(Nftables, "read_for_removal", lambda *_arguments: Table("ip", "ballast-service-proxy"))
    monkeypatch.setattr(kernel.transaction, "commit", lambda operations, _host: committed.append(operations))
    with pytest.raises(HostError):
        kernel.remove_tables(FakeHost())
    assert committed == []


@pytest.mark.parametrize("words", [[], ["check"], ["status", "--json"], ["--service-proxy-name", "x"]])
def test_all_but_a_clean_up_needs_a_configuration(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "required: --config" in capsys.readouterr().err
