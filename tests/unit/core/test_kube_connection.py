# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which API server, and as whom: what stands in for the option, merged files, and what the package kubernetes is needed for.

The server is a real one with TLS; it answers with the token, the client certificate and the name that it was asked by.
"""

from __future__ import annotations

import base64
import http.server
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube import library
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.connection import access_by, connect
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import Credentials
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError

TOKEN = "hunter2hunter2"
NAME = "api.example"  # the server has a certificate for this name alone


def raised(act: Callable[[], object]) -> BallastError:
    with pytest.raises(BallastError) as caught:
        act()
    return caught.value


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    release: threading.Event

    def do_GET(self) -> None:
        if "/slow" in self.path:
            self.release.wait(20)
        if "watch=1" in self.path:
            self._watch()
            return
        peer = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        names = [value for row in (peer or {}).get("subject", ()) for key, value in row if key == "commonName"]
        answer = {"authorization": self.headers["Authorization"], "client": names, "path": self.path}
        self._answer(403 if "/refused" in self.path else 200, answer)

    def do_POST(self) -> None:
        self._answer(201, {"sent": json.loads(self._sent()), "type": self.headers["Content-Type"]})

    do_PATCH = do_PUT = do_POST

    def do_DELETE(self) -> None:
        self._sent()
        self._answer(404, {"message": "not found"})

    def _sent(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def _answer(self, status: int, answer: object) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _watch(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for data in (b'{"type":"ADDED","obj', b'ect":{"n":1}}\n{"type":"ADDED","object":{"n":2}}\n'):
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        if "/silent" in self.path:
            self.release.wait(20)
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def log_message(self, *words: object) -> None:
        pass


class Server:
    def __init__(self, directory: Path) -> None:
        _certificate(directory, "server", f"DNS:{NAME}")
        _certificate(directory, "client", "DNS:client")
        self.directory = directory
        self.handler = type("TheHandler", (Handler,), {"release": threading.Event()})
        self.asked_by: list[str] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "server.crt", directory / "server.key")
        context.load_verify_locations(directory / "client.crt")
        context.verify_mode = ssl.CERT_OPTIONAL
        context.sni_callback = lambda _socket, name, _context: self.asked_by.append(name)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]

    @contextmanager
    def running(self) -> Iterator[Server]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.handler.release.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    @property
    def cluster(self) -> dict[str, Any]:
        """As a kubeconfig beside the certificates has it."""
        return {
            "server": f"https://127.0.0.1:{self.port}",
            "certificate-authority": "server.crt",
            "tls-server-name": NAME,
        }

    def kubeconfig(
        self, user: Mapping[str, Any], *, name: str = "config", context: str = "it", **cluster: object
    ) -> str:
        """The path of a file whose one context has that user, and the server with these fields changed."""
        fields = {key.replace("_", "-"): value for key, value in cluster.items()}
        return self.file(name, context, {**self.cluster, **fields}, user)

    def file(self, name: str, context: str, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> str:
        whole = {
            "current-context": context,
            "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
            "clusters": [{"name": context, "cluster": cluster}],
            "users": [{"name": context, "user": user}],
        }
        path = self.directory / name
        path.write_text(yaml.safe_dump(whole))
        path.chmod(0o600)
        return str(path)

    def plugin(self, status: Mapping[str, Any], *, also: str = "") -> dict[str, Any]:
        """An `exec` section, of a program beside the kubeconfig that answers with this."""
        answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
        (self.directory / "answer.json").write_text(json.dumps(answer))
        script = self.directory / "login.sh"
        script.write_text(
            f'#!/bin/sh\necho "$KUBERNETES_EXEC_INFO $ACCOUNT $*" >> "$0.calls"\n{also}\ncat "${{0%/*}}/answer.json"\n'
        )
        script.chmod(0o700)
        return {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./login.sh",
            "args": ["get-token"],
            "env": [{"name": "ACCOUNT", "value": "prod"}],
        }

    def calls(self) -> list[str]:
        path = self.directory / "login.sh.calls"
        return path.read_text().splitlines() if path.exists() else []


def _certificate(directory: Path, name: str, subject: str) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        + ["-keyout", str(directory / f"{name}.key"), "-out", str(directory / f"{name}.crt"), "-subj", f"/CN={name}"]
        + ["-addext", f"subjectAltName={subject}"],
        check=True,
        capture_output=True,
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path).running() as running:
        yield running


def api(kubeconfig: str, context: str = "", **environ: str) -> Api:
    return connect(LocalHost(), kubeconfig, context, timeout=10, environ=environ)


# Credential plugins


def test_a_plugin_gives_a_token(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    path = server.kubeconfig({"exec": server.plugin({"token": TOKEN})})
    client = api(path)
    assert client.get("/version")["authorization"] == f"Bearer {TOKEN}"
    assert client.get("/api")["authorization"] == f"Bearer {TOKEN}"
    (call,) = server.calls()  # one for both
    assert '"interactive": false' in call
    assert call.endswith("prod get-token")
    assert server.asked_by[0] == NAME
    assert capfd.readouterr() == ("", "")


def test_a_plugin_gives_a_certificate(server: Server) -> None:
    certificate, key = ((server.directory / f"client.{end}").read_text() for end in ("crt", "key"))
    path = server.kubeconfig({"exec": server.plugin({"clientCertificateData": certificate, "clientKeyData": key})})
    assert api(path).get("/version")["client"] == ["client"]


def test_a_token_that_is_about_to_expire_is_renewed(server: Server) -> None:
    status = {"token": TOKEN, "expirationTimestamp": "2020-01-01T00:00:00Z"}
    client = api(server.kubeconfig({"exec": server.plugin(status)}))
    server.plugin({**status, "token": "the-next-one"})
    assert client.get("/version")["authorization"] == "Bearer the-next-one"


@pytest.mark.parametrize(
    ("status", "also", "found"),
    [
        ({"token": TOKEN}, "echo no session; exit 3", "process returned 3"),
        ({"token": TOKEN}, "echo please log in >&2; exit 1", "please log in"),
        ({}, "", "missing token or clientCertificateData"),
        ({"token": TOKEN}, "echo {", "failed to decode"),
    ],
)
def test_a_plugin_without_credentials_is_an_error_with_what_it_said(
    server: Server, capfd: pytest.CaptureFixture[str], status: dict[str, Any], also: str, found: str
) -> None:
    error = raised(lambda: api(server.kubeconfig({"exec": server.plugin(status, also=also)})))
    assert error.id == "core-kubeconfig-plugin"
    assert found in error.found
    assert TOKEN not in str(error)
    assert capfd.readouterr() == ("", "")  # the library writes nothing of its own


def test_a_plugin_that_is_missing_is_named(server: Server) -> None:
    plugin = {**server.plugin({"token": TOKEN}), "command": "no-such-login"}
    error = raised(lambda: api(server.kubeconfig({"exec": plugin})))
    assert (error.id, "no-such-login" in error.found) == ("core-kubeconfig-plugin", True)


def test_a_plugin_that_does_not_end_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_LOAD_SECONDS", 0.3)
    plugin = server.plugin({"token": TOKEN}, also="sleep 3 >&2 &\nsleep 3")
    assert raised(lambda: api(server.kubeconfig({"exec": plugin}))).found == "timed out"


# The rest of what needs the library


def test_the_name_of_the_server_is_another_one(server: Server) -> None:
    assert api(server.kubeconfig({"token": TOKEN})).get("/version")["authorization"] == f"Bearer {TOKEN}"
    wrong = api(server.kubeconfig({"token": TOKEN}, tls_server_name="other.example"))
    assert raised(lambda: wrong.get("/version")).id == "core-no-answer"


def test_a_server_is_not_verified_only_where_that_is_said(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    lax: dict[str, Any] = {"certificate_authority": None, "tls_server_name": None}
    path = server.kubeconfig({"token": TOKEN}, insecure_skip_tls_verify=True, **lax)
    assert api(path).get("/version")["path"] == "/version"
    strict = api(server.kubeconfig({"token": TOKEN}, insecure_skip_tls_verify=False, **lax))
    assert raised(lambda: strict.get("/version")).id == "core-no-answer"
    assert capfd.readouterr() == ("", "")


@contextmanager
def proxied() -> Iterator[tuple[int, list[bytes]]]:
    """A proxy for CONNECT: its port, and the head of each request."""
    heads: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _address = listener.accept()
            except OSError:
                return
            threading.Thread(target=relay, args=(client,), daemon=True).start()

    def relay(client: socket.socket) -> None:
        with client, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            heads.append(head)
            host, port = head.split()[1].decode().rsplit(":", 1)
            with socket.create_connection((host, int(port))) as upstream:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=pump, args=(upstream, client), daemon=True)
                back.start()
                pump(client, upstream)
                back.join()

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1], heads
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_a_proxy_stands_between(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with proxied() as (port, heads):
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")  # not for a proxy that the kubeconfig names
        client = api(server.kubeconfig({"token": TOKEN}, proxy_url=f"http://me:pass%20word@127.0.0.1:{port}"))
        assert client.get("/version")["authorization"] == f"Bearer {TOKEN}"
    (head,) = heads
    assert head.startswith(f"CONNECT 127.0.0.1:{server.port} ".encode())
    assert base64.b64encode(b"me:pass word") in head
    assert TOKEN.encode() not in head


def test_a_proxy_that_does_not_answer_is_an_error_without_its_password(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = api(server.kubeconfig({"token": TOKEN}, proxy_url=f"http://me:password@127.0.0.1:{port}"))
    error = raised(lambda: client.get("/version"))
    assert error.id == "core-no-answer"
    assert "password" not in str(error)


@pytest.mark.parametrize(
    "proxy", ["socks9://me:password@10.0.0.1", "http://me:password@[::1", "10.0.0.1:3128", 3128, ["x"]]
)
def test_what_is_no_proxy_is_an_error_without_its_password(server: Server, proxy: Any) -> None:
    error = raised(lambda: api(server.kubeconfig({"token": TOKEN}, proxy_url=proxy)))
    assert error.id == "core-kubeconfig-plugin"
    assert error.text.endswith("cluster.proxy-url does not give access to the API server")
    assert "password" not in str(error)


def test_a_login_by_oidc_is_its_id_token(server: Server) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 4102444800}).encode()).decode().rstrip("=")
    token = f"e30.{claims}.c2ln"
    config = {"id-token": token, "idp-issuer-url": "https://192.0.2.1", "client-id": "x", "refresh-token": "y"}
    path = server.kubeconfig({"auth-provider": {"name": "oidc", "config": config}})
    before = Path(path).read_bytes()
    assert api(path).get("/version")["authorization"] == f"Bearer {token}"
    assert Path(path).read_bytes() == before


def test_an_issuer_of_no_named_authority_is_verified_by_that_of_the_machine() -> None:
    user: dict[str, Any] = {"auth-provider": {"name": "oidc", "config": {"id-token": "x"}}}
    library._verify_issuer(user)
    assert user["auth-provider"]["config"]["idp-certificate-authority"].startswith("/")


def test_without_the_library_the_package_is_named(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = server.kubeconfig({"token": TOKEN}, name="plain", tls_server_name=None)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    error = raised(lambda: api(server.kubeconfig({"exec": server.plugin({"token": TOKEN})})))
    assert error.id == "core-kubeconfig-library"
    assert "user.exec" in error.text
    assert "pip install kubernetes" in error.remedy
    assert server.calls() == []
    assert isinstance(access_by(LocalHost(), [plain]), Credentials)


def test_a_library_that_does_not_know_a_key_is_too_old(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    import kubernetes.client

    class Old(kubernetes.client.Configuration):
        def __setattr__(self, name: str, value: Any) -> None:
            if name != "tls_server_name":
                super().__setattr__(name, value)

    monkeypatch.setattr(kubernetes.client, "Configuration", Old)
    error = raised(lambda: api(server.kubeconfig({"token": TOKEN})))
    assert (error.id, "cluster.tls-server-name" in error.text) == ("core-kubeconfig-library", True)


# The interface is the same


def test_the_library_s_client_has_the_same_methods_and_errors(server: Server) -> None:
    client = api(server.kubeconfig({"token": TOKEN}))
    assert client.create("/api/v1/things", {"a": 1})["sent"] == {"a": 1}
    patched = client.patch("/api/v1/things/x", [{"op": "add"}], content_type="application/json-patch+json")
    assert (patched["type"], patched["sent"]) == ("application/json-patch+json", [{"op": "add"}])
    client.delete("/api/v1/things/x")
    assert raised(lambda: client.get("/refused")).id == "core-api-forbidden"
    assert [event["object"]["n"] for event in client.watch("/api/v1/things")] == [1, 2]
    assert client.elsewhere("https://192.0.2.1", timeout=1, who="the kubelet") is None


def test_the_library_s_client_has_a_deadline(server: Server) -> None:
    slow = connect(LocalHost(), server.kubeconfig({"token": TOKEN}), timeout=0.3, environ={})
    error = raised(lambda: slow.get("/slow"))
    assert (error.id, "timed out" in error.found.lower()) == ("core-no-answer", True)
    # Long enough for the first events on a busy machine; the handshake counts too.
    silent = api(server.kubeconfig({"token": TOKEN})).watch("/silent", silence_seconds=3)
    assert [next(silent)["object"]["n"], next(silent)["object"]["n"]] == [1, 2]
    assert raised(lambda: next(silent)).id == "core-no-answer"


def test_an_answer_beyond_its_cap_is_given_up(server: Server) -> None:
    client = api(server.kubeconfig({"token": TOKEN}))
    assert raised(lambda: client.ask_program("/version", "0", timeout=30, limit=10)).id == "core-too-large"


# Whose file it is


@pytest.mark.parametrize("mode", [0o602, 0o666])
def test_a_kubeconfig_that_others_may_write_is_refused(server: Server, mode: int) -> None:
    path = server.kubeconfig({"exec": server.plugin({"token": TOKEN})})
    Path(path).chmod(mode)
    error = raised(lambda: api(path))
    assert error.id == "core-place-open"
    assert server.calls() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_a_kubeconfig_of_another_user_is_refused(server: Server) -> None:
    path = server.kubeconfig({"exec": server.plugin({"token": TOKEN})})
    os.chown(path, 65534, 0)
    assert raised(lambda: api(path)).id == "core-place-owner"
    assert server.calls() == []
