# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A request ends at its time and at its cap, however a server divides what it sends."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host import web
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import PeerError
from tests.unit.core.limits import refused, within
from tests.unit.memory import MIB, measured

HOST = LocalHost()
Serve = Callable[[socket.socket, threading.Event], None]
OK = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def server(serve: Serve, *, path: str = "", tls: str = "") -> Iterator[str]:
    """Its URL. Each connection is served in a thread; the event says that the test is over."""
    over = threading.Event()
    threads = []
    listening = socket.socket(socket.AF_UNIX if path else socket.AF_INET, socket.SOCK_STREAM)
    with listening:
        listening.bind(path or ("127.0.0.1", 0))
        listening.listen()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
        if context is not None:
            context.load_cert_chain(tls)

        def one(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                spoken = context.wrap_socket(connection, server_side=True) if context else connection
                with spoken:
                    spoken.recv(65536)
                    serve(spoken, over)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    thread = threading.Thread(target=one, args=(listening.accept()[0],))
                    thread.start()
                    threads.append(thread)

        accepting = threading.Thread(target=accept)
        accepting.start()
        scheme = "https" if tls else "http"
        try:
            yield f"unix://{path}:/" if path else f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            over.set()
            listening.shutdown(socket.SHUT_RDWR)
    accepting.join()
    for thread in threads:
        thread.join()


def drips(head: bytes, piece: bytes) -> Serve:
    """For a minute."""

    def serve(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(head)
        for _time in range(600):
            if over.wait(0.1):
                return
            connection.sendall(piece)

    return serve


def says(*pieces: bytes) -> Serve:
    def serve(connection: socket.socket, over: threading.Event) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return serve


def silent(connection: socket.socket, over: threading.Event) -> None:
    over.wait(60)


SLOW: dict[str, Serve] = {
    "status line": drips(b"", b"H"),
    "header": drips(OK + b"X: ", b"x"),
    "headers": drips(OK, b"X: y\r\n"),
    "continue": drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": drips(OK + b"Content-Length: 100000\r\n\r\n", b"."),
    "body without a length": drips(OK + b"\r\n", b"."),
    "chunks": drips(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n.\r\n"),
    "size of a chunk": drips(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    "trailer": drips(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
}


@pytest.mark.parametrize("part", SLOW)
@pytest.mark.parametrize("over", ["tcp", "unix", "tls"])
def test_a_server_that_drips_is_given_up_at_the_time_of_the_whole_request(part: str, over: str, tmp_path: Path) -> None:
    path, tls = str(tmp_path / "socket") if over == "unix" else "", certificate(tmp_path) if over == "tls" else ""
    with server(SLOW[part], path=path, tls=tls) as url, within(10):
        error = refused(lambda: HOST.request(url, ca=tls or None, timeout=1))
    assert error.id == "core-no-answer"


def test_a_server_that_never_shakes_hands_is_given_up() -> None:
    with server(silent) as url, within(10):
        assert refused(lambda: HOST.request(url.replace("http:", "https:"), timeout=1)).id == "core-no-answer"


def test_a_server_that_reads_nothing_is_given_up() -> None:
    with server(silent) as url, within(10):
        assert refused(lambda: HOST.request(url, method="POST", body=bytes(64 * MIB), timeout=1)).id == "core-no-answer"


def test_a_name_that_a_resolver_is_slow_about_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def slow(*_arguments: object, **_options: object) -> object:
        over.wait(60)
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with within(10):
        assert refused(lambda: HOST.request("http://slow.example:1/", timeout=0.5)).id == "core-no-answer"
    over.set()


def test_each_address_of_a_name_is_tried_within_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    full = socket.create_server(("127.0.0.1", 0), backlog=0)
    with full, server(says(OK + b"Content-Length: 2\r\n\r\nok")) as url:
        waiting = [socket.socket() for _number in range(8)]
        for one in waiting:  # until its backlog takes no more: the next waits
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        port = int(url.rstrip("/").rpartition(":")[2])
        rows = [(socket.AF_INET, full.getsockname()), (socket.AF_INET, ("127.0.0.1", port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_o: [(row[0], 1, 6, "", row[1]) for row in rows])
        with within(10):
            assert HOST.request("http://two.example/", timeout=2).body == b"ok"
        for one in waiting:
            one.close()


@pytest.mark.parametrize(
    "head",
    [b"Content-Length: 5000\r\n\r\n", b"\r\n", b"Transfer-Encoding: chunked\r\n\r\n1388\r\n"],
    ids=["length", "none", "chunked"],
)
def test_a_body_beyond_its_cap_is_an_error(head: bytes) -> None:
    end = b"\r\n0\r\n\r\n" if b"chunked" in head else b""
    with server(says(OK + head, bytes(5000), end)) as url:
        assert len(HOST.request(url, timeout=10, limit=5000).body) == 5000
        error = refused(lambda: HOST.request(url, timeout=10, limit=4999))
    assert (error.id, type(error)) == ("core-too-large", PeerError)


@pytest.mark.parametrize(
    "answer",
    [
        b"Content-Length: 5000\r\n\r\n0123",
        b"Transfer-Encoding: chunked\r\n\r\n1388\r\n0123",
        b"Content-Length: -5\r\n\r\n",
    ],
)
def test_a_body_that_is_cut_is_no_answer(answer: bytes) -> None:
    with server(says(OK + answer)) as url:
        if b"-5" in answer:  # http.client takes it for none
            assert HOST.request(url, timeout=5).body == b""
            return
        assert refused(lambda: HOST.request(url, timeout=5)).id == "core-no-answer"


@pytest.mark.parametrize("answer", [b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"X" * 70_000, b"X: y\r\n" * 200])
def test_an_answer_that_is_no_http_is_no_answer(answer: bytes) -> None:
    with server(says(OK + answer + b"\r\n\r\n")) as url:
        assert refused(lambda: HOST.request(url, timeout=5)).id == "core-no-answer"


@pytest.mark.parametrize("piece", [b"2\r\nab\r\n", bytes(MIB)], ids=["tiny chunks", "without an end"])
def test_memory_stays_near_the_cap(piece: bytes) -> None:
    many = piece * (200_000 if len(piece) < 100 else 1)

    def serve(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(OK + (b"Transfer-Encoding: chunked\r\n\r\n" if len(piece) < 100 else b"\r\n"))
        while not over.is_set():
            connection.sendall(many)

    local = "from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost"
    prepare = f"{local}\nfrom ansible_collections.ballast.kube.plugins.module_utils._core.host import web"
    limit = 2 * MIB if len(piece) < 100 else 64 * MIB
    with server(serve) as url:
        said, size = measured(prepare, f"LocalHost().request(sys.argv[1], timeout=50, limit={limit})", url)
    assert (said, size < 1.5 * limit + 16 * MIB) == ("core-too-large", True), size


class TestStreams:
    def test_a_line_that_drips_is_given_up_as_silence_is(self) -> None:
        with server(drips(OK + b"\r\n{", b"x")) as url, within(10), HOST.stream(url, timeout=1) as stream:
            assert refused(lambda: next(stream.lines)).id == "core-no-answer"

    def test_headers_that_drip_are_given_up(self) -> None:
        with server(SLOW["headers"]) as url, within(10):
            assert refused(lambda: HOST.stream(url, timeout=1).__enter__()).id == "core-no-answer"

    def test_lines_that_come_go_on_for_longer_than_its_time(self) -> None:
        def serve(connection: socket.socket, over: threading.Event) -> None:
            connection.sendall(OK + b"\r\n")
            for number in range(6):
                over.wait(0.4)
                connection.sendall(b"%d\n" % number)

        with server(serve) as url, HOST.stream(url, timeout=1) as stream:
            assert list(stream.lines) == [b"%d\n" % number for number in range(6)]

    def test_a_line_beyond_its_cap_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(web, "LINE_LIMIT", 1000)
        lines = OK + b"\r\n" + b"x" * 999 + b"\n" + b"x" * 2000 + b"\n"
        with server(says(lines)) as url, HOST.stream(url, timeout=5) as stream:
            assert len(next(stream.lines)) == 1000
            assert refused(lambda: next(stream.lines)).id == "core-too-large"


def certificate(directory: Path) -> str:
    """Certificate and key in one file."""
    path = directory / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        + ["-keyout", str(path), "-out", str(directory / "cert.pem"), "-subj", "/CN=x"]
        + ["-addext", "subjectAltName=IP:127.0.0.1"],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + (directory / "cert.pem").read_text())
    return str(path)
