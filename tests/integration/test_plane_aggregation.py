# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real extension API server outside of any pod, asked through a real API server that has no Services."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation import deployment
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info import readiness_answers as readiness
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from tests.integration import extension_server, processes
from tests.integration.certificates import issue
from tests.integration.lab import stopped
from tests.integration.plane_client import Client, eventually
from tests.integration.plane_lab import Plane, place
from tests.integration.told import assert_told

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a control plane")]

_NAME = "v1.wardle.example.com"
_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_GROUP = "/apis/wardle.example.com/v1"
_FLUNDERS = f"{_GROUP}/namespaces/default/flunders"
_HOST = "wardle.default.svc"
# What takes long, and is the same whatever program the API server is.
_once = pytest.mark.parametrize("lab", ["generic"], indirect=True)


@dataclass
class Lab:
    plane: Plane
    ca: str
    certificate: str
    directory: Path
    address: str
    server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = extension_server.command(self.address, self.certificate, self.plane.pki("front-proxy-ca.crt"))
        self.server = processes.started(argv, self.directory / "extension.log")

    def end(self, number: int = signal.SIGTERM) -> None:
        if self.server is not None:
            processes.ended(self.server, number)
        self.server = None

    def condition(self, name: str = _NAME) -> dict[str, Any]:
        found = self.plane.ask(f"{_SERVICES}/{name}").body.get("status", {}).get("conditions", [])
        return next((row for row in found if row["type"] == "Available"), {})

    def wait_for(self, status: str, reason: str, name: str = _NAME) -> dict[str, Any]:
        def probe() -> dict[str, Any] | None:
            found = self.condition(name)
            return found if (found.get("status"), found.get("reason")) == (status, reason) else None

        return eventually(probe, what=f"{name} is {status} with {reason}, not {self.condition(name)}")

    def well(self) -> None:
        if self.server is None:
            self.start()
        self.wait_for("True", "Passed")
        eventually(lambda: self.plane.ask(_GROUP).ok, what="the API server asks the extension API server")

    @contextmanager
    def watch(self) -> Iterator[tuple[Client, Iterator[dict[str, Any]]]]:
        """Events of what happens to flunders from now on."""
        with self.plane.client() as client:
            version = client.get(_FLUNDERS)["metadata"]["resourceVersion"]
            query = f"watch=1&timeoutSeconds=300&resourceVersion={version}"
            with client.watch(f"{_FLUNDERS}?{query}") as events:
                yield client, events

    @property
    def service(self) -> str:
        return f"{self.plane.desired().mark}-aggregation"

    @property
    def agent(self) -> dict[str, Any]:
        return deployment.read_agent(self.plane.state_dir, self.plane.desired().name, LocalHost()) or {}

    @property
    def socket(self) -> str:
        return f"/run/{self.service}/egress"

    def connect(self, target: str) -> str:
        """The status line that the proxy answers with."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
            one.settimeout(60)
            one.connect(self.socket)
            one.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            return one.makefile("rb").readline().decode().strip()


def entry(address: str, ca: str, **changes: object) -> dict[str, object]:
    return {"name": _NAME, "service": "wardle", "namespace": "default", "address": address, "ca": ca, **changes}


@pytest.fixture(scope="module", params=["generic", "hyper-mini"])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    here = tmp_path_factory.mktemp("extension")
    ca = issue(str(here / "ca.crt"), None)
    certificate = issue(str(here / "serving.crt"), ca, f"DNS:{_HOST}")
    with ExitStack() as undo:
        plane = undo.enter_context(place(request.param))
        address = f"{plane.address}:8443"
        made = Lab(plane.changed(aggregation=[entry(address, ca)]), ca, certificate, here, address)
        undo.callback(made.end)
        made.plane.run()
        yield made


def test_it_is_not_available_before_its_server_runs(lab: Lab) -> None:
    lab.end()
    found = lab.wait_for("False", "FailedDiscoveryCheck")
    assert f"https://{_HOST}:443{_GROUP} at {lab.address}" in found["message"]
    eventually(lambda: lab.plane.ask(_FLUNDERS).status == 503, what="503")
    lab.start()
    lab.wait_for("True", "Passed")


def test_kubectl_works_with_its_objects_and_it_sees_who_asks(lab: Lab) -> None:
    lab.well()
    kinds = eventually(
        lambda: sorted(
            lab.plane.kubectl("api-resources", "--api-group=wardle.example.com", "-o", "name").stdout.split()
        ),
        what="discovery shows the group",
    )
    assert kinds == ["callers.wardle.example.com", "flunders.wardle.example.com"]
    flunder = {
        "apiVersion": "wardle.example.com/v1",
        "kind": "Flunder",
        "metadata": {"name": "one"},
        "spec": {"size": 3},
    }
    lab.plane.kubectl("create", "-f", "-", stdin=json.dumps(flunder))
    found = json.loads(lab.plane.kubectl("get", "flunders", "one", "-o", "json").stdout)
    assert found["spec"] == {"size": 3}
    assert found["metadata"]["annotations"]["made-by"] == "ballast:admin"
    assert "one" in lab.plane.kubectl("get", "flunders").stdout
    explained = eventually(
        lambda: (done := lab.plane.kubectl("explain", "flunders", check=False)).returncode == 0 and done.stdout,
        what="the OpenAPI of the group",
    )
    assert "Flunder is what this server keeps" in explained
    lab.plane.kubectl("delete", "flunder", "one", "--wait=false")
    me = lab.plane.ask(f"{_GROUP}/callers/me").body
    assert (me["user"], me["groups"]) == ("ballast:admin", ["system:authenticated"])


def test_a_watch_through_it_tells_at_once(lab: Lab) -> None:
    lab.well()
    with lab.watch() as (client, events):
        for name in ("w1", "w2"):
            client.create(_FLUNDERS, {"metadata": {"name": name}})
            event = next(events)
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)


def test_rbac_decides_who_is_let_through(lab: Lab) -> None:
    lab.well()
    plane = lab.plane
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    plane.ask(accounts, "POST", {"metadata": {"name": "reader"}})
    made = plane.ask(
        f"{accounts}/reader/token", "POST", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    )
    with plane.client(token=made.body["status"]["token"]) as reader:
        assert reader.ask(f"{_GROUP}/callers/me").status == 403
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        rule = {"apiGroups": ["wardle.example.com"], "resources": ["callers"], "verbs": ["get"]}
        plane.ask(f"{rbac}/clusterroles", "POST", {"metadata": {"name": "callers"}, "rules": [rule]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "callers"}
        subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
        binding = {"metadata": {"name": "callers"}, "roleRef": role, "subjects": [subject]}
        plane.ask(f"{rbac}/clusterrolebindings", "POST", binding)
        me = eventually(
            lambda: (a := reader.ask(f"{_GROUP}/callers/me")).ok and a.body, what="the reader is let through"
        )
        assert me["user"] == "system:serviceaccount:default:reader"
        assert reader.ask(_FLUNDERS).status == 403


def test_a_webhook_that_is_named_by_its_service_is_asked(lab: Lab) -> None:
    lab.well()
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    authority = base64.b64encode(Path(lab.ca).read_bytes()).decode()
    service = {"name": "wardle", "namespace": "default", "path": "/admit", "port": 443}
    hook = {
        "name": "names.wardle.example.com",
        "clientConfig": {"service": service, "caBundle": authority},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    with lab.plane.client() as client:
        client.create(hooks, {"metadata": {"name": "wardle"}, "webhooks": [hook]})
        try:
            maps = "/api/v1/namespaces/default/configmaps"
            found = eventually(lambda: _refused(client, maps), what="the API server knows the webhook")
            assert 'names.wardle.example.com" denied the request: it is called refused' in found
            client.create(maps, {"metadata": {"name": "allowed"}})
        finally:
            client.delete(f"{hooks}/wardle")
            client.ask(f"{maps}/allowed", "DELETE")


def _refused(client: Client, maps: str) -> str | None:
    """What is said of it; it is not kept where it is let in, before the API server has heard of the webhook."""
    found = client.ask(f"{maps}?dryRun=All", "POST", {"metadata": {"name": "refused"}})
    return None if found.ok else str(found.body["message"])


def test_one_that_is_killed_is_unavailable_and_comes_back(lab: Lab) -> None:
    lab.well()
    with lab.watch() as (_client, events), suppress(OSError, HTTPException):
        lab.end(signal.SIGKILL)
        assert list(events) == []  # a watch that is cut ends
    lab.wait_for("False", "FailedDiscoveryCheck")
    eventually(lambda: lab.plane.ask(_FLUNDERS).status == 503, what="503")
    lab.start()
    lab.wait_for("True", "Passed")
    eventually(lambda: lab.plane.ask(_FLUNDERS).ok, what="it serves again")


def test_an_agent_that_is_killed_is_there_again(lab: Lab) -> None:
    lab.well()
    assert stat.S_IMODE(os.stat(lab.socket).st_mode) == 0o600
    with open(f"/run/{lab.service}/lock", encoding="ascii") as file:
        pid = int(file.read())
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: lab.plane.ask(_FLUNDERS).ok, what="the way leads there again")
    lab.wait_for("True", "Passed")
    (row,) = eventually(lambda: lab.agent["api_services"], what="the agent answers")
    assert lab.agent["pid"] not in (None, pid)
    assert (row["name"], row["address"], row["status"]) == (_NAME, lab.address, "True")


@_once
def test_who_reads_the_control_plane_sees_what_the_agent_sees(lab: Lab) -> None:
    lab.well()
    eventually(lambda: lab.agent["api_services"], what="the agent has looked")
    served = {"group": "wardle.example.com", "version": "v1", "resources": ["callers", "flunders"]}

    # The API server reads what an extension serves after it calls it available.
    def looked() -> dict[str, Any] | None:
        found = lab.plane.info()
        return found if served in found["served"] else None

    found = eventually(looked, what=f"{served} is served")
    (row,) = found["aggregation"]["api_services"]
    assert (row["name"], row["service"], row["status"]) == (_NAME, f"{_HOST}:443", "True")
    assert found["drift"] == []


@_once
def test_its_readiness_tells_whether_the_server_or_the_agent_is_away(lab: Lab) -> None:
    lab.well()
    eventually(lambda: lab.plane.reading()["present"] == (), what="nothing is wrong")
    lab.end(signal.SIGKILL)
    lab.wait_for("False", "FailedDiscoveryCheck")
    found = lab.plane.reading()
    assert found["present"] == (readiness.API_SERVICE_AWAY,)
    assert_told(found, readiness.API_SERVICE_AWAY)
    with stopped(os.path.join(lab.plane.state_dir, "sv", lab.service)):
        found = lab.plane.reading()
    assert found["present"] == (readiness.AGENT_AWAY,)
    assert_told(found, readiness.AGENT_AWAY)


def test_the_proxy_leads_nowhere_else(lab: Lab) -> None:
    lab.well()
    assert lab.connect(f"{_HOST}:443") == "HTTP/1.1 200 Connection established"
    for target in ("kubernetes.default.svc:443", f"{_HOST}:8443", f"{lab.plane.address}:6443", "localhost:22"):
        assert lab.connect(target) == f"HTTP/1.1 403 {target} is not in the list of APIServices"
    spec = {
        "group": "other.example.com",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "service": {"name": "other", "namespace": "default", "port": 443},
    }
    lab.plane.ask(_SERVICES, "POST", {"metadata": {"name": "v1.other.example.com"}, "spec": spec})
    lab.wait_for("False", "ServiceNotFound", "v1.other.example.com")
    assert lab.plane.ask("/apis/other.example.com/v1").status == 503
    lab.plane.ask(f"{_SERVICES}/v1.other.example.com", "DELETE")


@_once
def test_a_changed_list_is_taken_without_breaking_off_what_is_open(lab: Lab) -> None:
    lab.well()
    assert lab.plane.run() == []
    other = issue(str(lab.directory / "other-ca.crt"), None)
    pid = Path(f"/run/{lab.service}/lock").read_text(encoding="ascii")
    with lab.watch() as (client, events):
        first, second = (
            entry(lab.address, lab.ca),
            entry(lab.address, other, name="v2.wardle.example.com", service="w2"),
        )
        changed = lab.plane.changed(aggregation=[first, second])
        assert {step.kind for step in changed.run()} == {"aggregation-agent", "api-service"}
        found = lab.wait_for("False", "FailedDiscoveryCheck", "v2.wardle.example.com")
        assert "certificate verify failed" in found["message"]
        assert lab.condition()["status"] == "True"
        client.create(_FLUNDERS, {"metadata": {"name": "still"}})
        assert next(events)["object"]["metadata"]["name"] == "still"
    lab.plane.run()
    assert lab.plane.ask(f"{_SERVICES}/v2.wardle.example.com").status == 404
    assert Path(f"/run/{lab.service}/lock").read_text(encoding="ascii") == pid


def test_the_agent_may_do_no_more_than_it_has_to(lab: Lab) -> None:
    with lab.plane.client("aggregation") as agent:
        found = agent.get(f"{_SERVICES}/{_NAME}")
        assert agent.ask("/api/v1/secrets").status == 403
        assert agent.ask(f"{_SERVICES}/{_NAME}", "PUT", found).status == 403
        assert agent.ask(f"{_SERVICES}/{_NAME}/status", "PUT", found).status in (200, 409)
