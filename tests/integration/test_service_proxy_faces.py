# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The faces of `ballast-service-proxy`, held to those of a real kube-proxy in mode nftables, which runs in a network namespace."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.configuration import parse_configuration
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.faces.events import Event, EventWriter
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.faces.health import Health
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.faces.health_check_node_ports import (
    HealthCheckNodePorts,
)
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.ports import (
    HealthCheck,
    HealthChecks,
    NodeState,
    Programmed,
    ServiceName,
)
from tests.integration import containerds, journal
from tests.integration.followed_api import FollowedApi, followed
from tests.integration.kube_proxy import eventually
from tests.integration.test_service_proxy import write_config
from tests.integration.wire import InNamespace, entered, namespace
from tests.unit.fake_api import FakeApi
from tests.unit.service_proxy import exposed, test_metrics
from tests.unit.service_proxy.configurations import ACCEPTED, HEAD, REFUSED, STRICTER

NODE, NODE_IPS = "n1", ("10.97.77.11", "fd00:97:77::11")
CHECK, TAKEN = 30777, 30888  # health check node ports
WEB = ServiceName("default", "web")
DOWN = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can make network namespaces")]


@dataclass(frozen=True)
class Running:
    """A kube-proxy, and what its API server says."""

    host: InNamespace
    api: FollowedApi
    config: str
    program: str

    def ask(self, port: int, path: str, address: str = "127.0.0.1") -> tuple[int, dict[str, str], bytes]:
        with entered(self.host.namespace):
            connection = http.client.HTTPConnection(address, port, timeout=10)
            connection.connect()
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def healthz(self) -> tuple[int, dict[str, Any]]:
        status, _headers, body = self.ask(10256, "/healthz")
        return status, json.loads(body)

    def livez(self) -> int:
        return self.ask(10256, "/livez")[0]

    def metrics(self) -> str:
        return self.ask(10249, "/metrics")[2].decode()

    def has_synced(self) -> bool:
        with suppress(OSError):
            return 'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv6"}' in self.metrics()
        return False

    def serves(self) -> bool:
        with suppress(OSError):
            return self.ask(CHECK, "/", NODE_IPS[0])[0] == 200
        return False


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("faces")
    program = f"{containerds.bin_dir()}/kube-proxy"
    with ExitStack() as undo:
        host = undo.enter_context(namespace("faces"))
        host.run(["ip", "link", "add", "eth0", "type", "bridge"], timeout=60)
        for address in NODE_IPS:
            words = ["128", "dev", "eth0", "nodad"] if ":" in address else ["32", "dev", "eth0"]
            host.run(["ip", "address", "add", f"{address}/{words[0]}", *words[1:]], timeout=60)
        host.run(["ip", "link", "set", "eth0", "up"], timeout=60)
        with entered(host.namespace):
            api = undo.enter_context(followed(place))
            taken = undo.enter_context(socket.socket())
            taken.bind((NODE_IPS[0], TAKEN))
            taken.listen()
        api.put("Node", _node())
        found = Running(host, api, _write_config(place), program)
        undo.enter_context(_started(found, place))
        assert eventually(found.has_synced, seconds=30)
        for number, port in enumerate((CHECK, TAKEN)):
            api.put("Service", _service(number, port))
        api.put("EndpointSlice", _slice())
        for item in _udp_service():  # of which kube-proxy looks for stale connections
            api.put(item["kind"], item)
        assert eventually(found.serves, seconds=30)
        yield found


def _node(**more: Any) -> dict[str, Any]:
    status = {"addresses": [{"type": "InternalIP", "address": address} for address in NODE_IPS]}
    metadata = {"name": NODE, "uid": "un1", **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": more, "status": status}


def _service(number: int, port: int) -> dict[str, Any]:
    cluster_ip = f"10.96.77.{number + 10}"
    spec = {
        "type": "LoadBalancer",
        "clusterIP": cluster_ip,
        "clusterIPs": [cluster_ip],
        "ipFamilies": ["IPv4"],
        "externalTrafficPolicy": "Local",
        "internalTrafficPolicy": "Local",
        "sessionAffinity": "None",
        "healthCheckNodePort": port,
        "ports": [{"name": "p", "protocol": "TCP", "port": 80, "targetPort": 8080, "nodePort": 30080 + number}],
    }
    name = ("web", "taken")[number]
    metadata = {"name": name, "namespace": "default", "uid": f"u{number}"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec, "status": {"loadBalancer": {}}}


def _udp_service() -> list[dict[str, Any]]:
    item, endpoints = _service(0, 0), _slice()
    port = {"name": "p", "protocol": "UDP", "port": 53}
    spec = {"type": "ClusterIP", "clusterIP": "10.96.77.53", "clusterIPs": ["10.96.77.53"], "ipFamilies": ["IPv4"]}
    labels = {"kubernetes.io/service-name": "dns"}
    return [
        {**item, "metadata": {"name": "dns", "namespace": "default", "uid": "udns"}, "spec": {**spec, "ports": [port]}},
        {**endpoints, "metadata": {"name": "dns-1", "namespace": "default", "labels": labels}, "ports": [port]},
    ]


def _slice(address: str = "10.244.1.5") -> dict[str, Any]:
    changed = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    metadata = {
        "name": "web-1",
        "namespace": "default",
        "labels": {"kubernetes.io/service-name": "web"},
        "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": changed},
    }
    endpoint = {"addresses": [address], "conditions": {"ready": True}, "nodeName": NODE}
    ports = [{"name": "p", "protocol": "TCP", "port": 8080}]
    head = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
    return {**head, "metadata": metadata, "endpoints": [endpoint], "ports": ports}


def _write_config(place: Path) -> str:
    write_config(place)  # and a kubeconfig
    more = (
        f"clientConnection: {{kubeconfig: {place}/kubeconfig, contentType: application/json}}\n"
        f"conntrack: {{maxPerCore: 0}}\nhostnameOverride: {NODE}\nclusterCIDR: 10.244.0.0/16,fd00:10:244::/56\n"
    )
    (place / "config.yaml").write_text(HEAD + more)
    return f"{place}/config.yaml"


@contextmanager
def _started(running: Running, place: Path) -> Iterator[None]:
    argv = ["ip", "netns", "exec", running.host.namespace, running.program, f"--config={running.config}"]
    with (place / "kube-proxy.log").open("w") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)


def test_its_metrics_are_those_that_ours_are_compared_with(running: Running) -> None:
    """All but those that it shows after a failure."""
    running.healthz(), running.livez()
    recorded = exposed.parse(test_metrics.OF_KUBE_PROXY.read_text())
    addresses = itertools.cycle(["10.244.1.6", "10.244.1.5"])

    def has_timed_a_change() -> bool:  # those of the second in which it started are not counted
        running.api.put("EndpointSlice", _slice(next(addresses)))
        return "kubeproxy_network_programming_duration_seconds_count" in running.metrics()

    assert eventually(has_timed_a_change, seconds=30)
    found = exposed.parse(running.metrics())
    live = {name: family for name, family in found.items() if name.startswith("kubeproxy_")}
    assert live == {name: family for name, family in recorded.items() if not name.endswith("_failures_total")}


def test_ours_are_the_same_with_the_library_of_the_distribution() -> None:
    """Debian's python3-prometheus-client, with which the program runs on nodes."""
    argv = ["/usr/bin/python3", "-c", "from tests.unit.service_proxy import scraped; scraped.main()"]
    path = f"{journal.ROOT}/.build/collections:{journal.ROOT}"  # without the libraries of this Python
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env={"PYTHONPATH": path})
    recorded = exposed.parse(test_metrics.OF_KUBE_PROXY.read_text())
    found = exposed.parse(done.stdout)
    assert {name: found.get(name) for name in recorded} == recorded


def test_its_settings_are_ours(running: Running) -> None:
    theirs = json.loads(running.ask(10249, "/configz")[2])
    ours = parse_configuration(Path(running.config).read_text(), name=running.config).configz()
    assert theirs == ours
    assert running.ask(10249, "/proxyMode")[2] == b"nftables"
    assert running.ask(10249, "/healthz")[2] == b"ok"
    assert running.ask(10256, "/metrics")[0] == running.ask(10249, "/livez")[0] == 404


@pytest.mark.parametrize(
    ("node", "state"),
    [
        ({}, NodeState(NODE)),
        ({"taints": [DOWN]}, NodeState(NODE, to_be_deleted=True)),
        ({"metadata": {"deletionTimestamp": "2026-11-27T12:00:00Z"}}, NodeState(NODE, deleting=True)),
    ],
)
def test_its_health_is_ours(running: Running, node: dict[str, Any], state: NodeState) -> None:
    ours, now = Health(30.0), time.time()
    ours.take(Programmed(now, 0.1, True, (4, 6), 1, 1))
    ours.take(state)
    running.api.put("Node", _node(**node))
    answer = ours.healthz(now)
    assert eventually(lambda: running.healthz()[0] == answer.status, seconds=10)
    assert running.livez() == ours.livez(now).status == 200
    theirs, body = running.healthz()[1], json.loads(answer.body)
    assert _shape(theirs) == _shape(body)
    running.api.put("Node", _node())
    assert eventually(lambda: running.healthz()[0] == 200, seconds=10)


def _shape(body: Any) -> Any:
    """With the order of its keys, and times of the same form as one."""
    if isinstance(body, dict):
        return [(key, _shape(value)) for key, value in body.items()]
    return body if isinstance(body, bool) else body[-1]


def test_its_health_checks_of_services_are_ours(running: Running) -> None:
    ours = HealthCheckNodePorts(NODE, lambda: True, lambda event: None)
    status, headers, body = running.ask(CHECK, "/", NODE_IPS[0])
    ours._wanted = {("", CHECK): HealthCheck(WEB, CHECK, 1)}
    answer = ours._answer(("", CHECK), None)  # type: ignore[arg-type]
    assert (answer.status, answer.body, answer.kind) == (status, body, headers["Content-Type"])
    assert dict(answer.headers).items() <= headers.items()


def test_its_events_are_ours(running: Running) -> None:
    fake, events = FakeApi(), list[Event]()
    with entered(running.host.namespace):
        ports = HealthCheckNodePorts(NODE, lambda: True, events.append)
        ports.take(HealthChecks((HealthCheck(ServiceName("default", "taken"), TAKEN, 0),), {4: NODE_IPS[:1]}))
    writer = EventWriter(lambda: fake.api, NODE)
    writer.post(events[0])
    writer.start()
    writer.end(20)
    (ours,) = fake.objects.values()
    found = eventually(lambda: _posted(running, ours["reason"]), seconds=10)
    theirs = found[0]
    for key in ("apiVersion", "kind", "action", "reason", "type", "regarding"):
        assert ours[key] == theirs[key]
    assert ours["metadata"]["namespace"] == theirs["metadata"]["namespace"]
    assert [event["action"] for event in _posted(running, "Starting")] == ["StartKubeProxy"]


def _posted(running: Running, reason: str) -> list[dict[str, Any]]:
    return [event for event in running.api.posts if event.get("kind") == "Event" and event["reason"] == reason]


def _written(running: Running, place: Path, rest: str) -> dict[str, Any]:
    """What it writes of a configuration, with all defaults; empty where it refuses it."""
    given, made = place / "given.yaml", place / "made.yaml"
    given.write_text(HEAD + rest)
    made.unlink(missing_ok=True)
    argv = [running.program, f"--config={given}", f"--write-config-to={made}"]
    subprocess.run(argv, capture_output=True, timeout=60)
    return yaml.safe_load(made.read_text()) if made.exists() else {}


def test_it_takes_the_configurations_that_we_take(running: Running, tmp_path: Path) -> None:
    differing = {}
    for rest in ACCEPTED:
        theirs = _written(running, tmp_path, rest)
        ours = parse_configuration(HEAD + rest, name="config").configz()["kubeproxy.config.k8s.io"]
        if theirs != ours:
            differing[rest] = {key: (theirs.get(key), ours[key]) for key in ours if theirs.get(key) != ours[key]}
    assert differing == {}
    assert [rest for rest in REFUSED if _written(running, tmp_path, rest)] == []
    assert [rest for rest in STRICTER if not _written(running, tmp_path, rest)] == []
