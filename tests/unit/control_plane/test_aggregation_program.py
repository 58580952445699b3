# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The agent as a machine runs it: one file, by the system's Python and by this one's, between two TLS servers."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent.program import ZipappKind, program
from ansible_collections.ballast.kube.plugins.module_utils._agent.status import ask
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.messages import AGENT
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from tests.unit.control_plane.aggregated import HOST, Pki, api_service, issue

PYTHONS = [path for path in dict.fromkeys(("/usr/bin/python3", sys.executable)) if os.path.exists(path)]
SECONDS = 60
NAME = "v1.wardle.example.com"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("program") / "ballast-aggregation")
    packages = ["_agent", "_core", "_control_plane/aggregation"]
    made = program(path, packages=packages, main="_control_plane.aggregation.agent.main.main", group="")
    ZipappKind().write(Context(None, LocalHost()), path, made.value, ABSENT)
    return path


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    found = Pki.at(tmp_path_factory.mktemp("pki"))
    issue(found.ca.parent / "api.crt", found.ca, names=("IP:127.0.0.1",))
    issue(found.ca.parent / "agent.crt", found.ca, name="ballast:aggregation")
    return found


class Server(ThreadingHTTPServer):
    """An API server with APIServices, and an extension API server, as `items` and `well` say."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self._context = context
        self.items: list[dict[str, Any]] = []
        self.well = True
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """The handshake is made in the connection's thread: one that says nothing holds up nobody."""
        request.settimeout(SECONDS)
        with self._context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is killed is no news."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def condition(self) -> tuple[str, str]:
        rows = self.items[0]["status"].get("conditions") or [{"status": "", "reason": ""}]
        return rows[0]["status"], rows[0]["reason"]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if "watch=1" in self.path:
            self._say(200, b"")
        elif "apiservices" in self.path:
            listed = {"metadata": {"resourceVersion": "1"}, "items": self.server.items}
            self._say(200, json.dumps(listed).encode())
        else:
            self._say(200 if self.server.well else 500, b"{}")

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.items = [body]
        self._say(200, json.dumps(body).encode())

    def log_message(self, *_args: Any) -> None:
        pass

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)


@dataclass
class Machine:
    directory: Path
    archive: str
    api: Server
    extension: Server
    pki: Pki
    python: str = PYTHONS[0]
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    sockets: list[socket.socket] = field(default_factory=list)

    @property
    def egress(self) -> Path:
        return self.directory / "run" / "egress"

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(encoding="utf-8")

    def write(self, **settings: object) -> None:
        service = {"host": HOST, "port": 443, "address": self.extension.address}
        given = {
            "kubeconfig": str(self.directory / "kubeconfig"),
            "socket": str(self.egress),
            "certificate": str(self.pki.client),
            "key": str(self.pki.client.with_suffix(".key")),
            "services": [service],
            "interval": "1s",
            **settings,
        }
        (self.directory / "config.json").write_text(json.dumps(given), encoding="utf-8")

    def argv(self, *command: str) -> list[str]:
        return [self.python, "-I", self.archive, *command, "--config", str(self.directory / "config.json")]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*command), capture_output=True, text=True, timeout=SECONDS, check=False, env=self.environment
        )

    def start(self) -> subprocess.Popen[str]:
        before = self.log.count(" started ")
        with open(self.directory / "log", "a", encoding="utf-8") as log:
            process = subprocess.Popen(self.argv(), stderr=log, text=True, env=self.environment)
        self.processes.append(process)
        eventually(lambda: self.log.count(" started ") > before or process.poll() is not None)
        assert process.poll() is None, self.log
        return process

    def status(self) -> dict[str, Any]:
        """As its command asks for it, without the start of another Python."""
        return ask(AGENT, str(self.directory / "run"))

    def connect(self) -> tuple[socket.socket, bytes]:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sockets.append(one)
        one.settimeout(SECONDS)
        one.connect(str(self.egress))
        one.sendall(f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return one, one.recv(1000)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "RUNTIME_DIRECTORY": str(self.directory / "run")}


def eventually(probe: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not probe():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def machine(tmp_path: Path, archive: str, pki: Pki) -> Iterator[Machine]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    at = pki.ca.parent
    context.load_cert_chain(at / "api.crt", at / "api.key")
    api, extension = Server(context), Server(pki.context)
    api.items = [api_service(caBundle=base64.b64encode(pki.ca.read_bytes()).decode())]
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": f"https://{api.address}", "certificate-authority": str(pki.ca)}}
        ],
        "users": [{"name": "u", "user": {"client-certificate": f"{at}/agent.crt", "client-key": f"{at}/agent.key"}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "log").touch()
    made = Machine(tmp_path, archive, api, extension, pki)
    made.write()
    yield made
    for process in made.processes:
        process.kill()
        process.wait(SECONDS)
    for one in made.sockets:
        one.close()
    for server in (api, extension):
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("python", PYTHONS)
def test_it_works_tells_reloads_and_ends(machine: Machine, python: str) -> None:
    machine.python = python
    process = machine.start()
    eventually(lambda: machine.api.condition == ("True", "Passed"))
    one, told = machine.connect()
    assert told.startswith(b"HTTP/1.1 200 ")
    eventually(lambda: [row["status"] for row in machine.status()["api_services"]] == ["True"])
    assert machine.status()["connections"] == 1
    assert json.loads(machine.run("status", "--json").stdout)["connections"] == 1
    done = machine.run("status")
    assert "1 of 1 APIServices available, 1 connections open" in done.stdout
    assert NAME in done.stdout

    machine.extension.well = False
    eventually(lambda: machine.api.condition == ("False", "FailedDiscoveryCheck"))
    machine.extension.well = True
    eventually(lambda: machine.api.condition == ("True", "Passed"))

    machine.write(services=[{"host": "other.default.svc", "port": 443, "address": "127.0.0.1:1"}])
    process.send_signal(signal.SIGHUP)
    eventually(lambda: machine.api.condition == ("False", "ServiceNotFound"))
    assert machine.connect()[1].startswith(b"HTTP/1.1 403 ")
    assert machine.status()["settings"]["services"][0]["host"] == "other.default.svc"

    machine.write(interval="soon", nonsense=1)
    process.send_signal(signal.SIGHUP)
    eventually(lambda: " reload-refused " in machine.log)
    assert "is not a duration" in machine.log
    machine.write(socket=str(machine.directory / "elsewhere"))
    process.send_signal(signal.SIGHUP)
    eventually(lambda: "needs_restart=socket" in machine.log)
    eventually(lambda: machine.api.condition == ("True", "Passed"))
    one.sendall(b"x")  # what is open outlives all that

    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0
    assert one.recv(1000) == b""
    assert " ended" in machine.log
    assert "Traceback" not in machine.log
    assert not machine.egress.exists()
    assert machine.run("status").returncode == 3


@pytest.mark.parametrize("python", PYTHONS)
def test_without_a_list_it_keeps_the_conditions_and_leads_nowhere(machine: Machine, python: str) -> None:
    machine.python = python
    path = machine.directory / "config.json"
    listed = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({key: listed[key] for key in ("kubeconfig", "certificate", "key")}), encoding="utf-8")
    assert "services by their names" in machine.run("check").stdout
    process = machine.start()
    # The name has no address, or no name server answers.
    eventually(lambda: machine.api.condition in {("False", "ServiceNotFound"), ("False", "FailedDiscoveryCheck")})
    eventually(lambda: machine.status()["api_services"])  # its status follows the API's
    (row,) = machine.status()["api_services"]
    assert (row["service"], row["address"]) == (f"{HOST}:443", None)
    assert sorted(os.listdir(machine.directory / "run")) == ["control", "lock"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0
    assert "Traceback" not in machine.log


def test_one_that_was_killed_is_followed_by_the_next_and_two_do_not_run(machine: Machine) -> None:
    process = machine.start()
    second = machine.run()
    assert second.returncode == 3
    assert "another aggregation agent" in second.stderr
    process.kill()
    process.wait(SECONDS)
    assert machine.egress.exists()
    machine.start()
    eventually(lambda: machine.connect()[1].startswith(b"HTTP/1.1 200 "))


def test_while_the_api_server_is_away_the_proxy_works(machine: Machine) -> None:
    machine.api.shutdown()
    machine.api.server_close()
    process = machine.start()
    assert machine.connect()[1].startswith(b"HTTP/1.1 200 ")
    eventually(lambda: machine.status()["problems"])
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0


def test_a_configuration_is_checked_without_a_run(machine: Machine) -> None:
    done = machine.run("check")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"services {HOST}:443 at {machine.extension.address}" in done.stdout
    machine.write(services=[], interval="soon")
    done = machine.run("check")
    assert done.returncode == 2
    assert "is not a duration" in done.stderr
    assert "a list of at least one" in done.stderr
    (machine.directory / "kubeconfig").unlink()
    machine.write()
    done = machine.run()
    assert done.returncode == 3
    assert "this kubeconfig does not exist" in done.stderr


def test_prometheus_gets_what_it_counts(machine: Machine) -> None:
    libraries = [machine.python, "-c", "import prometheus_client"]
    if subprocess.run(libraries, check=False, capture_output=True).returncode != 0:
        machine.python = sys.executable
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    machine.write(metrics=f"127.0.0.1:{port}")
    machine.start()
    eventually(lambda: machine.api.condition == ("True", "Passed"))
    machine.connect()

    def scraped() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as answer:
            text: str = answer.read().decode()
        return text

    eventually(lambda: f'ballast_aggregation_available{{api_service="{NAME}"}} 1.0' in scraped())
    text = scraped()
    assert f'ballast_aggregation_connections{{service="{HOST}:443"}} 1.0' in text
    assert 'ballast_aggregation_connects_total{result="connected"} 1.0' in text
    assert 'ballast_aggregation_connects_total{result="refused"} 0.0' in text
