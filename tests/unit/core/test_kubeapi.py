# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The client of the API server, and the kubeconfig that it goes by."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import answer_too_large
from ansible_collections.ballast.kube.plugins.module_utils._core.kube import client as kubeapi
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import Credentials, parse_credentials
from ansible_collections.ballast.kube.plugins.module_utils._core.text.document import format_document, parse_document
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, PeerError, Problems
from tests.unit.fakes import FakeHost, json_answer

SERVER = "https://192.0.2.1:6443"
TOKEN = "hunter2hunter2"
PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def kubeconfig(*, cluster: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "me@it",
        "contexts": [{"name": "other", "context": {}}, {"name": "me@it", "context": {"cluster": "it", "user": "me"}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "me", "user": user}],
    }


def read(whole: object) -> Credentials:
    return parse_credentials(json.dumps(whole), base_dir="/etc/kubernetes", name="admin.conf")


def api(host: FakeHost) -> Api:
    return Api(host, Credentials(server=SERVER, token=TOKEN))


def raised(act: Callable[[], object]) -> BallastError:
    with pytest.raises(BallastError) as caught:
        act()
    return caught.value


def test_files_of_a_kubeconfig_are_relative_to_it() -> None:
    user = {"client-certificate": "/var/lib/kubelet/pki/current.pem", "client-key": "pki/me.key"}
    found = read(kubeconfig(cluster={"server": f"{SERVER}/", "certificate-authority": "pki/ca.crt"}, user=user))
    assert found == Credentials(
        server=SERVER,
        ca="/etc/kubernetes/pki/ca.crt",
        cert="/var/lib/kubelet/pki/current.pem",
        key="/etc/kubernetes/pki/me.key",
    )


def test_data_of_a_kubeconfig_stays_in_memory_and_out_of_sight() -> None:
    data = base64.b64encode(PEM).decode()
    user = {"client-certificate-data": data, "client-key-data": data, "client-key": "not-this-one"}
    found = read(kubeconfig(cluster={"server": SERVER, "certificate-authority-data": data}, user=user))
    assert (found.ca, found.cert, found.key) == (PEM, PEM, PEM)
    assert "AAAA" not in repr(found)


def test_a_kubeconfig_may_be_yaml() -> None:
    whole = kubeconfig(cluster={"server": SERVER}, user={"token": TOKEN})
    found = parse_credentials(yaml.safe_dump(whole), base_dir="/", name="admin.conf")
    assert found == Credentials(server=SERVER, token=TOKEN)
    assert TOKEN not in repr(found)


def test_a_file_of_the_token_is_read_each_time_and_wins() -> None:
    found = read(kubeconfig(cluster={"server": SERVER}, user={"token": "old", "tokenFile": "/run/token"}))
    host = FakeHost(files={"/run/token": "first\n"})
    assert found.bearer_token(host) == "first"
    host.given("/run/token", "second")
    assert found.bearer_token(host) == "second"
    for ill in ("", "two\nlines"):
        host.given("/run/token", ill)
        assert raised(lambda: found.bearer_token(host)).id == "core-kubeconfig"


WELL = {"server": SERVER}
ME = {"token": TOKEN}


@pytest.mark.parametrize(
    ("cluster", "user", "told"),
    [
        ({}, ME, "no entry"),
        ({"server": "http://192.0.2.1"}, ME, "cluster.server"),
        ({"server": "https://me:word@192.0.2.1"}, ME, "cluster.server"),
        ({"server": "https://192.0.2.1:six"}, ME, "cluster.server"),
        ({"server": "https://192.0.2.1/\r\nHost: other"}, ME, "cluster.server"),
        ({"server": 7}, ME, "cluster.server"),
        ({**WELL, "insecure-skip-tls-verify": True}, ME, "cluster.insecure-skip-tls-verify"),
        ({**WELL, "certificate-authority-data": "!"}, ME, "certificate-authority-data"),
        ({**WELL, "certificate-authority-data": base64.b64encode(b"\xff").decode()}, ME, "certificate-authority-data"),
        (WELL, {}, "no entry"),
        (WELL, {"unknown": "x"}, "neither"),
        (WELL, {"exec": {"command": "login"}}, "user.exec"),
        (WELL, {"username": "me", "password": "word"}, "user.password"),
        (WELL, {"client-certificate": "x"}, "has only one of"),
        (WELL, {"token": "a\nb"}, "user.token"),
        (WELL, {"token": ["x"]}, "token"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(cluster: dict[str, Any], user: dict[str, Any], told: str) -> None:
    whole = kubeconfig(cluster=cluster, user=user)
    for group, part in (("clusters", cluster), ("users", user)):
        if not part:
            whole[group] = []
    error = raised(lambda: read(whole))
    every = error.problems if isinstance(error, Problems) else (error,)
    assert {one.id for one in every} == {"core-kubeconfig"}
    assert told in str(error)
    assert "word" not in str(error).replace("user.password", "")


def test_every_fault_of_a_kubeconfig_is_told_at_once() -> None:
    error = raised(lambda: read(kubeconfig(cluster={"server": "ftp://x"}, user={"exec": {}, "as": "root"})))
    assert isinstance(error, Problems)
    assert len(error.problems) == 2


def keyed(part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    words = [
        "current-context",
        "contexts",
        "clusters",
        "users",
        "name",
        "context",
        "cluster",
        "user",
        "server",
        "token",
    ]
    return st.dictionaries(st.sampled_from(words), part)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda part: st.lists(part) | keyed(part)))
def test_nonsense_for_a_kubeconfig_is_told_as_such(whole: object) -> None:
    assert isinstance(raised(lambda: read(whole)), (Problems, BallastError))


def test_a_document_that_is_neither_yaml_nor_json_does_not_show_its_content() -> None:
    for text in (
        "token: 'hunter2",
        "a: &x [1]\nb: [*x, *x]\n",
        "1: 2\n",
        "!!python/object:os.system {}",
        "a: 1\n---\nb: 2\n",
    ):
        error = raised(lambda text=text: parse_document(text, name="it"))
        assert error.id == "core-document"
        assert "hunter2" not in str(error)


def test_yaml_is_read_as_kubernetes_writes_it() -> None:
    text = "mode: ''\nsince: 2026-01-01\nat: 12:30\noct: 010\nyes: true\nperiod: 30s\nn: null\nport: 10256\nf: 0.5\n"
    assert parse_document(text.replace("yes:", "'yes':"), name="it") == {
        "mode": "", "since": "2026-01-01", "at": "12:30", "oct": "010", "yes": True, "period": "30s", "n": None,
        "port": 10256, "f": 0.5,
    }  # fmt: skip


def test_a_document_is_written_in_the_form_that_it_had() -> None:
    value = {"mode": "nftables", "b": {"a": None}, "text": "on", "number": "010"}
    for like in ('{"mode": "iptables"}', "mode: iptables\n"):
        text = format_document(value, like=like)
        assert text.startswith("{") == like.startswith("{")
        assert parse_document(text, name="it") == value


def test_a_list_is_read_to_its_end() -> None:
    host = FakeHost()
    pages = {
        "": {"metadata": {"continue": "more/+", "resourceVersion": "7"}, "items": [{"n": 1}]},
        "more/+": {"metadata": {"resourceVersion": "7"}, "items": [{"n": 2}]},
    }

    def page(url: str, _body: object) -> Response:
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
        assert (query["limit"], query["labelSelector"]) == ("500", "a=b")
        return json_answer(200, pages[query.get("continue", "")])

    host.answer(f"{SERVER}/api/v1/nodes?", page)
    found = api(host).list("/api/v1/nodes", {"labelSelector": "a=b"})
    assert (found.items, found.resource_version) == (({"n": 1}, {"n": 2}), "7")


def test_objects_that_are_too_large_for_a_page_come_in_smaller_ones() -> None:
    """As EndpointSlices of a thousand endpoints are."""
    host, objects = FakeHost(), [{"n": number} for number in range(7)]
    asked: list[tuple[int, int]] = []

    def page(url: str, _body: object) -> Response:
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
        count, start = int(query["limit"]), int(query.get("continue", "0"))
        asked.append((start, count))
        if len(objects[start : start + count]) > 3:
            raise answer_too_large("GET", url, 1)
        rest = {"continue": str(start + count)} if start + count < len(objects) else {}
        return json_answer(200, {"metadata": rest, "items": objects[start : start + count]})

    host.answer(f"{SERVER}/api/v1/nodes?", page)
    found = [item for page in api(host).pages("/api/v1/nodes", objects=12) for item in page.items]
    assert found == objects
    assert asked == [(0, 12), (0, 6), (0, 3), (3, 3), (6, 3)]


def test_an_object_that_is_too_large_alone_is_an_error() -> None:
    host = FakeHost()

    def page(url: str, _body: object) -> Response:
        raise answer_too_large("GET", url, 1)

    host.answer(f"{SERVER}/api/v1/nodes?", page)
    assert raised(lambda: api(host).list("/api/v1/nodes")).id == "core-too-large"


def test_a_list_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeapi, "_PAGES_MOST", 5)
    host = FakeHost()
    page = {"metadata": {"continue": "more"}, "items": []}
    host.answer(f"{SERVER}/api/v1/nodes?", json_answer(200, page))
    assert raised(lambda: api(host).list("/api/v1/nodes")).id == "core-api-answer"
    assert len(host.requests) == 5


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "a: " * 50_000, "- " * 50_000, "a: 1\n" * 300_000, "a: &a [1]\nb: [*a, *a]\n"]
)
def test_yaml_that_would_take_the_parser_down_is_refused_in_time(text: str) -> None:
    start = time.monotonic()
    assert raised(lambda: parse_document(text, name="it")).id == "core-document"
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    ("status", "id"),
    [(401, "forbidden"), (403, "forbidden"), (404, "absent"), (409, "conflict"), (410, "gone")]
    + [(301, "refused"), (422, "refused"), (500, "refused")],
)
def test_what_the_server_refuses_has_an_id_by_its_status(status: int, id: str) -> None:
    host = FakeHost()
    host.answer(SERVER, json_answer(status, {"kind": "Status", "message": "no: \x1b[31mnot you"}), method="PATCH")
    error = raised(lambda: api(host).patch("/api/v1/nodes/n1", {"secret": TOKEN}, params={"fieldManager": "ballast"}))
    assert isinstance(error, PeerError)
    assert error.id == f"core-api-{id}"
    assert error.text == f"PATCH /api/v1/nodes/n1: the API server returned status {status}"
    assert error.found == "no:  [31mnot you"
    assert TOKEN not in str(error)


@pytest.mark.parametrize("body", [b"\n", b"<html>", b"[]", b"null", b"[" * 100_000])
def test_an_answer_that_is_no_object_is_an_error(body: bytes) -> None:
    host = FakeHost()
    host.answer(SERVER, Response(200, body))
    assert raised(lambda: api(host).get("/api/v1/nodes/n1")).id == "core-api-answer"
    assert raised(lambda: api(host).list("/api/v1/nodes")).id == "core-api-answer"
    assert raised(lambda: list(api(host).watch("/api/v1/nodes"))).id == "core-api-answer"


@pytest.mark.parametrize("items", [None, {}, ["x"]])
def test_a_list_of_something_else_is_an_error(items: object) -> None:
    host = FakeHost()
    host.answer(SERVER, json_answer(200, {"metadata": {}, "items": items}))
    assert raised(lambda: api(host).list("/api/v1/nodes")).id == "core-api-answer"


def test_absent_is_an_answer_to_find_and_to_delete() -> None:
    host = FakeHost()
    for method in ("GET", "DELETE"):
        host.answer(SERVER, json_answer(404, {"message": "not found"}), method=method)
    assert api(host).find("/api/v1/nodes/n1") is None
    api(host).delete("/api/v1/nodes/n1")
    host.answer(SERVER, json_answer(403, {}))
    assert raised(lambda: api(host).find("/api/v1/nodes/n1")).id == "core-api-forbidden"


def events(*rows: object) -> Response:
    return Response(200, b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def test_a_watch_gives_each_event_and_ends_with_the_answer() -> None:
    host = FakeHost()
    given = [{"type": kind, "object": {"n": kind}} for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")]
    host.answer(f"{SERVER}/api/v1/nodes?watch=1&allowWatchBookmarks=true&resourceVersion=7", events(*given))
    assert list(api(host).watch("/api/v1/nodes", {"resourceVersion": "7"})) == given


@pytest.mark.parametrize(
    ("event", "id"),
    [
        ({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}, "core-api-gone"),
        ({"type": "ERROR", "object": {"kind": "Status", "code": 500}}, "core-api-refused"),
        ({"type": "ERROR", "object": {}}, "core-api-refused"),
        ({"type": "OTHER", "object": {}}, "core-api-answer"),
        ({"type": ["ADDED"], "object": {}}, "core-api-answer"),
        ({"type": "ADDED"}, "core-api-answer"),
    ],
)
def test_an_event_that_is_none_ends_a_watch(event: object, id: str) -> None:
    host = FakeHost()
    host.answer(SERVER, events({"type": "ADDED", "object": {}}, event))
    watch = api(host).watch("/api/v1/nodes")
    assert next(watch)["type"] == "ADDED"
    assert raised(lambda: next(watch)).id == id


def test_a_watch_that_is_refused_has_the_id_of_its_status() -> None:
    host = FakeHost()
    host.answer(SERVER, json_answer(410, {"message": "too old"}))
    assert raised(lambda: next(api(host).watch("/api/v1/nodes"))).id == "core-api-gone"


class _Handler(http.server.BaseHTTPRequestHandler):
    """/api/v1/slow sends an event and then nothing; /api/v1/torn breaks off in the second; else two events."""

    protocol_version = "HTTP/1.1"
    asked: list[tuple[str, str]]
    released: threading.Event

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._chunk(b'{"type":"ADDED","obj')
        self._chunk(b'ect":{"n":1}}\n')
        if "/slow" in self.path:
            self.released.wait(20)
        elif "/torn" in self.path:
            self._chunk(b'{"type":')
        else:
            self._chunk(b'{"type":"ADDED","object":{"n":2}}\n')
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def log_message(self, *words: object) -> None:
        pass


def _certificate(directory: Path, name: str) -> tuple[bytes, bytes]:
    key, cert = directory / f"{name}.key", directory / f"{name}.crt"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        + ["-keyout", str(key), "-out", str(cert), "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True,
        capture_output=True,
    )
    return cert.read_bytes(), key.read_bytes()


@contextmanager
def _served(tmp_path: Path) -> Iterator[tuple[Api, type[_Handler]]]:
    """A server with TLS that knows one client, and an `Api` of that client, all from memory."""
    server_cert, server_key = _certificate(tmp_path, "server")
    client_cert, client_key = _certificate(tmp_path, "client")
    handler = type("Handler", (_Handler,), {"asked": [], "released": threading.Event()})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    context.load_verify_locations(cadata=client_cert.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"https://127.0.0.1:{server.server_address[1]}"
    try:
        yield (
            Api(LocalHost(), Credentials(server=url, ca=server_cert, cert=client_cert, key=client_key, token=TOKEN)),
            handler,
        )
    finally:
        handler.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_watch_over_tls_gives_an_event_as_soon_as_it_is_there(tmp_path: Path) -> None:
    with _served(tmp_path) as (client, handler):
        assert [event["object"]["n"] for event in client.watch("/api/v1/nodes")] == [1, 2]
        assert handler.asked == [("/api/v1/nodes?watch=1&allowWatchBookmarks=true", f"Bearer {TOKEN}")]
        slow = client.watch("/api/v1/slow", silence_seconds=0.5)
        assert next(slow)["object"] == {"n": 1}
        error = raised(lambda: next(slow))
        assert (error.id, error.found) == ("core-no-answer", "The read operation timed out")
        torn = client.watch("/api/v1/torn")
        assert next(torn)["object"] == {"n": 1}
        assert raised(lambda: next(torn)).id == "core-no-answer"


def test_a_client_without_its_certificate_is_turned_away(tmp_path: Path) -> None:
    with _served(tmp_path) as (client, _handler):
        known = client._access
        assert isinstance(known, Credentials)
        stranger = Api(LocalHost(), Credentials(server=known.server, ca=known.ca, token=TOKEN))
        assert raised(lambda: list(stranger.watch("/api/v1/nodes"))).id == "core-no-answer"
        deceived = Api(LocalHost(), Credentials(server=known.server, ca=known.cert, cert=known.cert, key=known.key))
        assert raised(lambda: list(deceived.watch("/api/v1/nodes"))).id == "core-no-answer"


def test_what_answers_in_words_of_its_own_is_read_as_text() -> None:
    host = FakeHost()
    host.answer(f"{SERVER}/api/v1/nodes/n1/proxy/metrics", Response(status=200, body=b"up 1\n\xff"))
    assert api(host).text("/api/v1/nodes/n1/proxy/metrics") == "up 1\n\ufffd"
    host.answer(f"{SERVER}/api/v1/nodes/n1/proxy/metrics", json_answer(403, {"message": "no"}))
    assert raised(lambda: api(host).text("/api/v1/nodes/n1/proxy/metrics")).id == "core-api-forbidden"
