# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kubelet is known by its own certificate, and no token goes to one that somebody else named."""

from __future__ import annotations

import http.server
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import Credentials
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubelet_api import (
    local_kubelet,
    read_kubelet_text,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.unit.fakes import FakeHost

SERVER = "https://192.0.2.1:6443"
NODE: dict[str, Any] = {
    "metadata": {"name": "n1"},
    "status": {
        "addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "192.0.2.7"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    },
}


def made(place: Path, name: str) -> tuple[Path, Path]:
    certificate, key = place / f"{name}.crt", place / f"{name}.key"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days"]
    argv += ["1", "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    return certificate, key


@contextmanager
def serving(certificate: Path, key: Path) -> Iterator[tuple[int, list[str]]]:
    """Its port, and the Authorization of each request."""
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"kubeletconfig": {}}')

        def log_message(self, *_words: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def asked(port: int, certificate: object) -> Api:
    credentials = Credentials(server=SERVER, ca="/nowhere", token="hunter2")
    return local_kubelet(LocalHost(), credentials, address="127.0.0.1", port=port, certificate=certificate)  # type: ignore[arg-type]


def test_the_local_one_is_known_by_its_certificate(tmp_path: Path) -> None:
    """Which names another host, or none: a kubelet's own is for its name alone."""
    certificate, key = made(tmp_path, "node")
    with serving(certificate, key) as (port, seen):
        assert asked(port, str(certificate)).get("/configz") == {"kubeletconfig": {}}
        chain = b"of the node\n" + certificate.read_bytes() + made(tmp_path, "authority")[0].read_bytes()
        assert asked(port, chain).get("/configz") == {"kubeletconfig": {}}
    assert seen == ["Bearer hunter2"] * 2


@pytest.mark.parametrize("what", ["another", "alike", "empty", "absent"])
def test_nothing_is_sent_to_another_server_on_its_port(tmp_path: Path, what: str) -> None:
    mine, key = made(tmp_path, "mallory")
    known: Optional[Path] = {"another": made(tmp_path, "node")[0], "alike": None}.get(what)
    if what == "alike":  # of the same name
        (tmp_path / "x").mkdir()
        known = made(tmp_path / "x", "mallory")[0]
    if what == "empty":
        known = tmp_path / "none.crt"
        known.write_text("")
    with serving(mine, key) as (port, seen):
        with pytest.raises(BallastError) as caught:
            asked(port, str(known or tmp_path / "absent.crt")).get("/configz")
        assert seen == []
    assert caught.value.id == "core-no-answer"
    assert "hunter2" not in str(caught.value)


def host_with(*urls: str) -> FakeHost:
    host = FakeHost()
    for url in urls:
        host.answer(url, Response(status=200, body=url.encode()))
    return host


KUBELET, PROXY = "https://192.0.2.7:10250/metrics", f"{SERVER}/api/v1/nodes/n1/proxy/metrics"
CERTIFICATE = Credentials(server=SERVER, ca="/ca.crt", cert="/x.crt", key="/x.key")


def test_a_kubelet_elsewhere_is_asked_itself() -> None:
    host = host_with(KUBELET, PROXY)
    assert read_kubelet_text(Api(host, CERTIFICATE), NODE, "/metrics") == KUBELET
    assert [url for _method, url, _body in host.requests] == [KUBELET]


@pytest.mark.parametrize(
    "credentials",
    [
        Credentials(server=SERVER, token="hunter2"),
        Credentials(server=SERVER, token_file="/token"),
        Credentials(server=SERVER, cert="/x.crt", key="/x.key", token="hunter2"),
    ],
    ids=["token", "token file", "both"],
)
def test_a_token_never_goes_to_an_address_that_a_node_names(credentials: Credentials) -> None:
    host = host_with(KUBELET, PROXY)
    host.given("/token", "hunter2")
    assert read_kubelet_text(Api(host, credentials), NODE, "/metrics") == PROXY
    assert [url for _method, url, _body in host.requests] == [PROXY]


def test_one_that_cannot_be_reached_or_believed_is_asked_by_way_of_the_api_server() -> None:
    assert read_kubelet_text(Api(host_with(PROXY), CERTIFICATE), NODE, "/metrics") == PROXY
    refusing = host_with(PROXY)
    refusing.answer(KUBELET, Response(status=403, body=b"no"))
    assert read_kubelet_text(Api(refusing, CERTIFICATE), NODE, "/metrics") == PROXY


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"addresses": "x"},
        {**NODE["status"], "addresses": [{"type": "InternalIP", "address": "example.com"}]},
        {**NODE["status"], "addresses": [{"type": "InternalIP", "address": "192.0.2.7:1/x?"}]},
        {**NODE["status"], "addresses": [{"type": "InternalIP", "address": "fe80::1%eth0"}]},
        {**NODE["status"], "daemonEndpoints": {"kubeletEndpoint": {"Port": "10250"}}},
        {**NODE["status"], "daemonEndpoints": {"kubeletEndpoint": {"Port": 99999}}},
    ],
    ids=str,
)
def test_a_node_whose_address_is_none_is_not_gone_to(status: Any) -> None:
    host = host_with(KUBELET, PROXY, "https://")
    node = {**NODE, "status": status}
    assert read_kubelet_text(Api(host, CERTIFICATE), node, "/metrics") == PROXY
    assert [url for _method, url, _body in host.requests] == [PROXY]
