# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests that new API servers serve: readiness and their OpenAPI documents, requested over the network as clients do.

If its Go version or a module differs from upstream's, an API server may build, start and become ready, and still answer `/openapi/v2`
with 503 or `/openapi/v3` with a malformed document; `kubectl apply` then fails. So each API server runs once, on loopback, with an
etcd and temporary credentials. Every process runs under timeout(1), so it ends even if we are killed.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Union

from .._core.engine.events import Progress
from .._core.engine.wait import Impossible, Pending, Ready, wait, wait_until
from .._core.host.host import LOG_LIMIT, Host, ProcessId, Response
from .._core.text.errors import BallastError, PeerError, last_lines
from .._core.text.json_text import parse_object
from .messages import MESSAGES

ANSWERS = ("readyz", "OpenAPI v2", "OpenAPI v3")

_READY_SECONDS = 60  # two on an idle machine
_LIFE_SECONDS = 150  # after which timeout(1) ends the process
_STOP_SECONDS = 10
_TOKENS = "tokens.csv"
_V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def smoke(host: Host, progress: Progress, *, etcd: str, servers: Mapping[str, str], work: str) -> None:
    """Run each API server (binary by name) and request its documents. Raises for the first that does not serve, with the end of its log."""
    host.make_directory(work, mode=0o700)
    try:
        _make_credentials(host, work)
        store = f"http://127.0.0.1:{_free_port()}"
        with _running(host, _etcd(etcd, work=work, store=store), log=os.path.join(work, "etcd.log")):
            for name, program in sorted(servers.items()):
                _ask(host, progress, name, program, work=work, store=store)
    finally:
        host.remove_tree(work)


def _ask(host: Host, progress: Progress, name: str, program: str, *, work: str, store: str) -> None:
    port, log = _free_port(), os.path.join(work, f"{name}.log")
    argv = _server(program, work=work, store=store, port=port, prefix=name, full=name == "kube-apiserver")
    with _running(host, argv, log=log) as process:
        try:
            wait(host, progress, name, lambda: _ready(host, process, port, work), deadline_seconds=_READY_SECONDS)
            _check(ANSWERS[1], judge_v2(_get(host, port, "/openapi/v2", work, accept=_V2)))
            _check(ANSWERS[2], judge_v3_root(_get(host, port, "/openapi/v3", work)))
            _check(ANSWERS[2], judge_v3_group(_get(host, port, "/openapi/v3/api/v1", work)))
        except BallastError as error:
            log_end = last_lines((host.read_end(log, LOG_LIMIT) or b"").decode(errors="replace"))
            details = "\n".join(part for part in (error.found, log_end) if part)
            raise MESSAGES.error("binaries-smoke", found=details, name=name, reason=error.text) from error


def _check(what: str, fault: str) -> None:
    if fault:
        raise PeerError(f"{what}: {fault}", id="binaries-smoke")


def judge_v2(answer: Response) -> str:
    """The problem with the protobuf document; "" if there is none."""
    if answer.status != 200:
        return f"status {answer.status}"
    # Field 1 of openapi_v2.Document is the text "2.0": tag 0x0a, length 3.
    return "" if answer.body.startswith(b"\x0a\x032.0") else "not an OpenAPI v2 document"


def judge_v3_root(answer: Response) -> str:
    """The problem with the list of documents; "" if there is none."""
    paths = _json(answer).get("paths")
    return "" if isinstance(paths, dict) and "api/v1" in paths else f"status {answer.status}, no path api/v1"


def judge_v3_group(answer: Response) -> str:
    """The problem with the document of api/v1; "" if there is none."""
    components = _json(answer).get("components")
    if not isinstance(components, dict) or not components.get("schemas"):
        return f"status {answer.status}, no schemas for api/v1"
    # These are written by an encoder that does not know the inlined fields of kube-openapi's types.
    malformed = any(mark in answer.body for mark in (b'"Extensions":null', b'"MediaTypeProps"'))
    return "malformed schemas for api/v1" if malformed else ""


def _json(answer: Response) -> Mapping[str, object]:
    """The object in the response; empty when the body is no object."""
    return parse_object(answer.body) or {}


def _get(host: Host, port: int, path: str, work: str, *, accept: str = "application/json") -> Response:
    token = (host.read(os.path.join(work, _TOKENS)) or b"").decode().partition(",")[0]
    headers = {"Accept": accept, "Authorization": f"Bearer {token}"}
    return host.request(
        f"https://127.0.0.1:{port}{path}", headers=headers, ca=os.path.join(work, "tls.crt"), timeout=30
    )


def _ready(host: Host, process: ProcessId, port: int, work: str) -> Union[Ready[None], Pending, Impossible]:
    if not _alive(host, process):
        return Impossible("it ended")
    try:
        answer = _get(host, port, "/readyz", work)
    except PeerError as error:
        return Pending(error.found)
    if answer.status == 200:
        return Ready(None)
    failing = [line for line in answer.body.decode(errors="replace").splitlines() if line.startswith("[-]")]
    return Pending(f"readyz returns status {answer.status}: {', '.join(failing)[:200]}")


def _make_credentials(host: Host, work: str) -> None:
    """One self-signed certificate is server certificate and authority at once; its key also signs ServiceAccount tokens."""
    key, certificate = os.path.join(work, "tls.key"), os.path.join(work, "tls.crt")
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    argv += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    host.run(argv, timeout=60)
    # An ordinary user: every authenticated user may read the API's documents and readiness (ClusterRole system:discovery).
    host.write(os.path.join(work, _TOKENS), f"{secrets.token_hex(16)},smoke,smoke\n".encode(), mode=0o600)


def _etcd(program: str, *, work: str, store: str) -> list[str]:
    return [
        program,
        f"--data-dir={work}/etcd",
        f"--listen-client-urls={store}",
        f"--advertise-client-urls={store}",
        "--listen-peer-urls=http://127.0.0.1:0",
        "--unsafe-no-fsync=true",
        "--logger=zap",
        "--log-level=warn",
    ]


def _server(program: str, *, work: str, store: str, port: int, prefix: str, full: bool) -> list[str]:
    """`full` means kube-apiserver, which serves Services; the generic API server lacks these flags."""
    argv = [
        program,
        f"--etcd-servers={store}",
        f"--etcd-prefix=/{prefix}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={work}/tls.crt",
        f"--tls-private-key-file={work}/tls.key",
        f"--token-auth-file={work}/{_TOKENS}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={work}/tls.crt",
        f"--service-account-signing-key-file={work}/tls.key",
        "--shutdown-watch-termination-grace-period=0s",
    ]
    return argv + ["--service-cluster-ip-range=10.96.0.0/24", "--endpoint-reconciler-type=none"] if full else argv


def _free_port() -> int:
    """A free TCP port of loopback."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def _running(host: Host, argv: list[str], *, log: str) -> Iterator[ProcessId]:
    """Start a binary, end it, and wait until it is gone."""
    limited = ["timeout", "--kill-after=2", str(_LIFE_SECONDS), *argv]
    process = host.spawn(limited, log=log)
    try:
        yield process
    finally:
        host.signal(process, signal.SIGTERM)  # timeout(1) passes it on, and kills after two seconds if it is ignored
        wait_until(host, lambda: not _alive(host, process), seconds=_STOP_SECONDS, interval=0.05)


def _alive(host: Host, process: ProcessId) -> bool:
    """Whether the process runs. A zombie has an empty command line."""
    return bool(host.read_process(process, "cmdline"))
