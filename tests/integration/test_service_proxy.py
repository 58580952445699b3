# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""The running `ballast-service-proxy` in a network namespace, between an API server with faults and a real kernel: whatever
happens, the kernel comes to have the compiled rules of all that the API says, and a restart changes none of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Optional

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._agent.program import build_archive
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import SERVICE_PROXY_TABLE as TABLE
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables import transaction
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Table
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_addresses import own_addresses, read_links
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import Snapshot, parse_snapshot
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.connections import read_connections
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.installation import INSTALLATION
from tests.integration.followed_api import PORT, FollowedApi, followed
from tests.integration.wire import InNamespace, entered, namespace
from tests.unit.service_proxy.objects import NAMES, NODE_NAME, Item, cidr_object, node_objects, services, slices

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nft") is None, reason="only root can make namespaces, and nft is needed"
)

ADDRESSES = ("192.168.1.10/24", "10.50.0.10/24")
SECONDS = 20.0  # until the kernel has what the API says, on a busy machine; benchmarks say how long it takes
CONFIG = {"clusterCIDR": "10.1.0.0/16", "nodePortAddresses": ["192.168.1.0/24", "10.50.0.0/16"]}
RANDOM = settings(
    max_examples=12, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
_PROGRAM = "ballast-service-proxy.pyz"


@dataclass
class Proxy:
    """A program that is started and killed, and what is around it."""

    host: InNamespace
    api: FollowedApi
    place: Path
    process: Optional[subprocess.Popen[bytes]] = None
    flags: list[str] = field(default_factory=list)
    config: Item = field(default_factory=lambda: CONFIG)
    python: list[str] = field(default_factory=lambda: [sys.executable])

    def start(self, log_path: str = "") -> None:
        with open(log_path or self.place / "log", "ab") as log:
            self.process = self._run(["--config", str(self.place / "config.json"), *self.flags], stderr=log)

    def kill(self, number: int = signal.SIGKILL) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(timeout=40)
        self.process = None
        return status

    def command(self, *words: str) -> tuple[int, str]:
        process = self._run(list(words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output, _errors = process.communicate(timeout=60)
        return process.returncode, output.decode()

    def status(self) -> Item:
        """{} where none answers."""
        status, printed = self.command("status", "--json", "--config", str(self.place / "config.json"))
        answer: Item = json.loads(printed) if status == 0 else {}
        return answer

    def tables(self) -> dict[int, Optional[Table]]:
        """In the kernel, without the clients that packets have put into the sets of session affinity."""
        found = {family: transaction.read(self.host, name, TABLE) for family, name in ((4, "ip"), (6, "ip6"))}
        return {family: table and _without_clients(table) for family, table in found.items()}

    def snapshot(self) -> Snapshot:
        """What the API says."""
        listed = [item for items in self.api.items.values() for _key, item in sorted(items.items())]
        addresses = own_addresses(read_links(self.host))
        return parse_snapshot(
            {"kind": "List", "items": listed}, node_name=NODE_NAME, node_ips=addresses, config=self.config
        )

    def expected(self) -> dict[int, Table]:
        snapshot, tables = self.snapshot(), {}
        for family in (4, 6):
            view = snapshot.view(family)
            config = parse_config(self.config, backend="nftables", family=family, node=view.node).rules
            tables[family] = compile_rules(view, config, table=TABLE, owner="service-proxy")
        return tables

    def agrees(self, seconds: float = SECONDS) -> None:
        """Waits until the kernel has what the API says."""
        expected = self.expected()

        def holds() -> bool:
            try:
                return self.tables() == expected
            except BallastError:  # it came or went while nft read it
                return False

        if not eventually(holds, seconds=seconds):
            assert self.tables() == expected, (self.place / "log").read_text()[-2000:]

    def nft(self, *words: str) -> str:
        return self.host.run(["nft", *words], timeout=60).stdout

    def _run(self, words: list[str], **options: Any) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "RUNTIME_DIRECTORY": str(self.place / "run")}
        with entered(self.host.namespace):
            return subprocess.Popen([*self.python, str(self.place / _PROGRAM), *words], env=environment, **options)


def _without_clients(table: Table) -> Table:
    sets = {
        name: replace(one, elements={}) if name.startswith("affinity-") else one for name, one in table.sets.items()
    }
    return replace(table, sets=sets)


def eventually(holds: Callable[[], bool], *, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.02)
    return holds()


def write_config(place: Path, config: Item = CONFIG) -> Item:
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [
            {"name": "c", "cluster": {"server": f"https://127.0.0.1:{PORT}", "certificate-authority": "ca.crt"}}
        ],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    (place / "kubeconfig").write_text(json.dumps(kubeconfig))
    configuration = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(place / "kubeconfig")},
        "hostnameOverride": NODE_NAME,
        **config,
    }
    (place / "config.json").write_text(json.dumps(configuration))
    return configuration


def add_links(host: InNamespace, addresses: Sequence[str]) -> None:
    host.run(["ip", "link", "add", "eth0", "type", "veth", "peer", "far0"], timeout=60)
    for address in addresses:
        host.run(["ip", "address", "add", address, "dev", "eth0", *(["nodad"] if ":" in address else [])], timeout=60)
    for link in ("eth0", "far0"):
        host.run(["ip", "link", "set", link, "up"], timeout=60)
    host.run(["ip", "route", "add", "default", "dev", "eth0"], timeout=60)  # for what is not translated, too


def install(place: Path) -> None:
    """The program and its configuration."""
    write_config(place)
    (place / _PROGRAM).write_bytes(build_archive(INSTALLATION.main, INSTALLATION.packages))
    (place / "run").mkdir(mode=0o700)


@contextmanager
def standing(place: Path, name: str) -> Iterator[Proxy]:
    """A node's namespace and an API server; no proxy yet."""
    install(place)
    with ExitStack() as undo:
        host = undo.enter_context(namespace(name))
        add_links(host, ADDRESSES)
        with entered(host.namespace):
            api = undo.enter_context(followed(place))
        proxy = Proxy(host, api, place)
        try:
            yield proxy
        finally:
            if proxy.process is not None:
                proxy.kill()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with standing(tmp_path_factory.mktemp("proxy"), "service-proxy") as made:
        node = node_of("192.168.1.10")
        made.api.put("Node", node)
        made.start()
        made.agrees()
        yield made


def node_of(address: str) -> Item:
    status = {"addresses": [{"type": "InternalIP", "address": address}], "nodeInfo": {"kubeletVersion": "v1.37.1"}}
    return {"metadata": {"name": NODE_NAME, "uid": "u"}, "status": status}


def web(name: str = "a", **spec: Any) -> Item:
    ip = f"10.96.0.{NAMES.index(name) + 1}"
    own = {"clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"], "ports": [{"name": "http", "port": 80}]}
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": {**own, **spec}}


def endpoints(name: str, *addresses: str) -> Item:
    metadata = {"name": f"{name}-x", "namespace": "default", "labels": {"kubernetes.io/service-name": name}}
    return {
        "metadata": metadata,
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": [address], "nodeName": "n2"} for address in addresses],
    }


@st.composite
def deeds(draw: st.DrawFn) -> tuple[str, Any]:
    faults = ("flush", "edit", "kill", "watches", "forget", "address")
    what = draw(
        st.sampled_from(("service",) * 3 + ("slice",) * 4 + ("no service", "no slice", "node", "cidr", *faults))
    )
    name, own = draw(st.sampled_from(NAMES)), draw(st.sampled_from(("s1", "s2", "s3", "s4", "s5")))
    values: dict[str, Any] = {
        "service": services(name),
        "slice": slices(own),
        "no service": st.just(name),
        "no slice": st.just(own),
        "node": node_objects(),
        "flush": st.sampled_from((f"delete table ip {TABLE}", f"flush table ip6 {TABLE}", "flush ruleset")),
        "edit": st.sampled_from(("map services", "set cluster-ips", "map endpoints-tcp", "set hairpin")),
    }
    return what, draw(values.get(what, st.none()))


def do(proxy: Proxy, what: str, value: Any) -> None:
    api = proxy.api
    if what in ("service", "slice", "node"):
        api.put({"service": "Service", "slice": "EndpointSlice", "node": "Node"}[what], value)
    elif what in ("no service", "no slice"):
        api.remove("Service" if what == "no service" else "EndpointSlice", value)
    elif what == "cidr":
        api.put("ServiceCIDR", cidr_object("kubernetes", "10.96.0.0/24", "fd00:96::/112"))
    elif what in ("flush", "edit"):
        kind, _space, name = value.partition(" ")
        words = value if what == "flush" else f"flush {kind} ip {TABLE} {name}"
        proxy.host.run(["nft", words], timeout=60, check=False)  # it may be gone
    elif what == "kill":
        proxy.kill()
        proxy.start()
    elif what in ("watches", "forget"):
        api.close_watches(forget=what == "forget")
    elif what == "address":
        there = "10.50.0.77" in str(read_links(proxy.host))
        proxy.host.run(
            ["ip", "address", "del" if there else "add", "10.50.0.77/24", "dev", "eth0"], timeout=60, check=False
        )


@RANDOM
@given(st.lists(deeds(), min_size=1, max_size=8))
def test_the_kernel_has_what_the_api_says_after_any_fault(proxy: Proxy, batch: list[tuple[str, Any]]) -> None:
    for what, value in batch:
        do(proxy, what, value)
    proxy.agrees()


def settled(proxy: Proxy) -> str:
    """Two Services in force; the rules with the kernel's own numbers, which a rule that is made again does not keep."""
    if proxy.process is None:
        proxy.start()
    for name in ("a", "b"):
        proxy.api.put("Service", web(name))
        proxy.api.put("EndpointSlice", endpoints(name, "10.1.1.5", "10.1.1.6"))
    proxy.agrees()
    return proxy.nft("-a", "list", "ruleset")


def test_a_kill_and_a_restart_change_no_rule(proxy: Proxy) -> None:
    before = settled(proxy)
    proxy.kill()
    assert proxy.nft("-a", "list", "ruleset") == before
    proxy.start()
    assert eventually(lambda: answers(proxy), seconds=SECONDS)
    assert eventually(lambda: proxy.status()["last_comparison"] is not None, seconds=SECONDS)
    assert proxy.nft("-a", "list", "ruleset") == before


def answers(proxy: Proxy) -> bool:
    return proxy.status().get("api") == "followed"


def test_terminated_it_leaves_the_rules(proxy: Proxy) -> None:
    before = settled(proxy)
    assert eventually(lambda: answers(proxy), seconds=SECONDS)
    assert proxy.kill(signal.SIGTERM) == 0
    assert proxy.nft("-a", "list", "ruleset") == before


def test_a_flush_is_repaired_and_reported(proxy: Proxy) -> None:
    settled(proxy)
    assert eventually(lambda: answers(proxy), seconds=SECONDS)
    repairs = proxy.status()["repairs"]
    proxy.nft("flush", "ruleset")
    assert eventually(lambda: proxy.status()["repairs"] >= repairs + 2, seconds=SECONDS)  # of both families
    assert proxy.tables() == proxy.expected()  # what is reported was done
    assert proxy.status()["last_repair"]["program"] == "nft"


def test_another_configuration_is_taken_without_a_restart(proxy: Proxy) -> None:
    settled(proxy)
    assert eventually(lambda: answers(proxy), seconds=SECONDS)
    path = proxy.place / "config.json"
    before = path.read_text()
    try:
        path.write_text(before.replace("10.1.0.0/16", "10.1.0.0/24"))
        assert proxy.process is not None
        proxy.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: "10.1.0.0/24" in proxy.nft("list", "table", "ip", TABLE), seconds=SECONDS)
        assert proxy.status()["settings"]["document"]["clusterCIDR"] == "10.1.0.0/24"
        path.write_text("nonsense: true")
        proxy.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: "reload-refused" in (proxy.place / "log").read_text(), seconds=SECONDS)
    finally:
        path.write_text(before)
        assert proxy.process is not None
        proxy.process.send_signal(signal.SIGHUP)
    proxy.agrees()


def test_an_api_that_is_away_changes_nothing_and_is_followed_again(proxy: Proxy) -> None:
    before = settled(proxy)
    assert eventually(lambda: answers(proxy), seconds=SECONDS)
    proxy.api.go_away()
    assert eventually(lambda: proxy.status()["api"] == "lost", seconds=10)
    assert proxy.nft("-a", "list", "ruleset") == before
    with entered(proxy.host.namespace):
        proxy.api.come_back()
    assert eventually(lambda: proxy.status()["api"] == "followed", seconds=30)
    assert proxy.nft("-a", "list", "ruleset") == before
    proxy.api.put("EndpointSlice", endpoints("a", "10.1.1.5"))
    proxy.agrees()


def test_it_starts_without_an_api_and_serves_what_the_kernel_has(proxy: Proxy) -> None:
    before = settled(proxy)
    proxy.kill()
    proxy.api.go_away()
    proxy.start()
    assert eventually(lambda: proxy.status().get("api") == "lost", seconds=SECONDS)
    assert proxy.nft("-a", "list", "ruleset") == before
    with entered(proxy.host.namespace):
        proxy.api.come_back()
    proxy.api.remove("Service", "b")
    proxy.agrees()


def test_clean_up_removes_its_rules_alone(proxy: Proxy) -> None:
    settled(proxy)
    assert eventually(lambda: answers(proxy), seconds=SECONDS)
    proxy.nft("add", "table", "ip", "foreign")
    proxy.kill(signal.SIGTERM)
    assert proxy.command("--cleanup") == (0, f"removed: table ip {TABLE}, table ip6 {TABLE}\n")
    assert proxy.tables() == {4: None, 6: None}
    assert proxy.nft("list", "tables").split("\n") == ["table ip foreign", ""]
    assert proxy.command("--cleanup") == (0, "removed: nothing, as there were no rules of it\n")
    proxy.nft("delete", "table", "ip", "foreign")


def test_a_table_of_its_name_that_is_not_its_own_is_left_alone(proxy: Proxy) -> None:
    if proxy.process is not None:
        proxy.kill(signal.SIGTERM)
    proxy.command("--cleanup")
    proxy.nft("add", "table", "ip", TABLE)
    proxy.start()
    assert eventually(lambda: answers(proxy) and bool(proxy.status()["failed"]), seconds=SECONDS)
    assert "was not created by service-proxy" in proxy.status()["failed"]
    assert proxy.nft("list", "table", "ip", TABLE).split() == ["table", "ip", TABLE, "{", "}"]
    proxy.nft("delete", "table", "ip", TABLE)
    proxy.agrees()


def send(proxy: Proxy, address: str, port: int, source_port: int) -> None:
    with entered(proxy.host.namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("192.168.1.10", source_port))
        sender.sendto(b"x", (address, port))


def endpoints_of(proxy: Proxy, address: str) -> dict[str, int]:
    """How many connections of UDP to `address` each endpoint has."""
    with entered(proxy.host.namespace):
        found = list(read_connections(4, unanswered=False))
    assert {each.protocol for each in found} <= {socket.IPPROTO_UDP}
    return dict(Counter(each.endpoint for each in found if each.destination == address))


def test_connections_of_udp_leave_an_endpoint_that_is_gone(proxy: Proxy) -> None:
    """Those of others stay; and the Service that loses its last one, too."""
    settled(proxy)
    for name in ("a", "b"):
        proxy.api.put("Service", web(name, ports=[{"name": "http", "port": 53, "protocol": "UDP"}]))
    udp = {name: endpoints(name, "10.1.1.5", "10.1.1.6") for name in ("a", "b")}
    for item in udp.values():
        item["ports"] = [{"name": "http", "port": 5353, "protocol": "UDP"}]
        proxy.api.put("EndpointSlice", item)
    proxy.agrees()
    for number in range(40):
        for address in ("10.96.0.1", "10.96.0.2"):
            send(proxy, address, 53, 40000 + number)
    before = endpoints_of(proxy, "10.96.0.2")
    assert set(endpoints_of(proxy, "10.96.0.1")) == set(before) == {"10.1.1.5", "10.1.1.6"}
    fewer = {**udp["a"], "endpoints": udp["a"]["endpoints"][:1]}
    proxy.api.put("EndpointSlice", fewer)
    assert eventually(lambda: set(endpoints_of(proxy, "10.96.0.1")) == {"10.1.1.5"}, seconds=SECONDS)
    assert endpoints_of(proxy, "10.96.0.2") == before
    proxy.api.put("EndpointSlice", {**fewer, "endpoints": []})
    assert eventually(lambda: endpoints_of(proxy, "10.96.0.1") == {}, seconds=SECONDS)
    proxy.api.remove("Service", "b")
    assert eventually(lambda: endpoints_of(proxy, "10.96.0.2") == {}, seconds=SECONDS)


def test_connections_of_udp_stay_with_the_service_that_has_the_address(proxy: Proxy) -> None:
    """Whatever becomes of the endpoints of another one that claims it, until it goes to that one."""
    settled(proxy)
    shared = "203.0.113.53"
    ports = [{"name": "http", "port": 53, "protocol": "UDP"}]
    for name, day, address in (("a", 1, "10.1.1.5"), ("b", 2, "10.1.1.6")):
        item = web(name, ports=ports, externalIPs=[shared])
        item["metadata"]["creationTimestamp"] = f"2026-01-0{day}T00:00:00Z"
        proxy.api.put("Service", item)
        proxy.api.put("EndpointSlice", udp_slice(name, address))
    proxy.agrees()
    for number in range(10):
        for address in (shared, "10.96.0.2"):
            send(proxy, address, 53, 40000 + number)
    assert endpoints_of(proxy, shared) == {"10.1.1.5": 10}
    proxy.api.put("EndpointSlice", udp_slice("b", "10.1.1.7"))
    assert eventually(lambda: endpoints_of(proxy, "10.96.0.2") == {}, seconds=SECONDS)
    assert endpoints_of(proxy, shared) == {"10.1.1.5": 10}
    proxy.api.remove("Service", "a")
    assert eventually(lambda: endpoints_of(proxy, shared) == {}, seconds=SECONDS)
    send(proxy, shared, 53, 40000)
    assert endpoints_of(proxy, shared) == {"10.1.1.7": 1}


def test_connections_of_udp_to_another_machine_s_node_port_stay(proxy: Proxy) -> None:
    settled(proxy)
    port, own, other = 30053, "192.168.1.10", "192.168.1.77"
    ports = [{"name": "http", "port": 53, "protocol": "UDP", "nodePort": port}]
    proxy.api.put("Service", web("a", type="NodePort", ports=ports))
    proxy.api.put("EndpointSlice", udp_slice("a", "10.1.1.5"))
    proxy.agrees()
    for address in (own, other):
        send(proxy, address, port, 40000)
    proxy.api.put("EndpointSlice", udp_slice("a", "10.1.1.6"))
    assert eventually(lambda: endpoints_of(proxy, own) == {}, seconds=SECONDS)
    assert endpoints_of(proxy, other) == {other: 1}


def udp_slice(name: str, *addresses: str) -> Item:
    return {**endpoints(name, *addresses), "ports": [{"name": "http", "port": 5353, "protocol": "UDP"}]}
