# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A proxy on a real socket, and extension API servers that do as a test says."""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._agent.log import Log
from ansible_collections.ballast.kube.plugins.module_utils._agent.place import listen
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.agent.counts import Counts
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.agent.proxy import Proxy
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.messages import AGENT
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.pki import (
    CLIENT,
    PKI_KINDS,
    SERVER,
    Certificate,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost

HOST = "wardle.default.svc"
TARGET = f"{HOST}:443"
SECONDS = 60.0  # more than any wait of the proxy
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


@dataclass
class Running:
    """A proxy with one service, wardle, and what it told."""

    path: str
    proxy: Proxy
    counts: Counts
    log: io.StringIO
    failures: list[None] = field(default_factory=list)
    dialed: list[asyncio.StreamWriter] = field(default_factory=list)

    async def dial(self) -> Stream:
        found = await asyncio.wait_for(asyncio.open_unix_connection(self.path), SECONDS)
        self.dialed.append(found[1])
        return found

    async def connect(self, target: str = TARGET) -> Stream:
        reader, writer = await self.dial()
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert await within(reader.readuntil(b"\r\n\r\n")) == b"HTTP/1.1 200 Connection established\r\n\r\n"
        return reader, writer

    async def said(self, *parts: bytes) -> bytes:
        """Everything that is answered to this."""
        reader, writer = await self.dial()
        for part in parts:
            writer.write(part)
            await asyncio.sleep(0)
        return await within(reader.read())


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await within(writer.wait_closed())


async def within(waited: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(waited, SECONDS)


@asynccontextmanager
async def running(directory: Path, serve: Serve = echo, *, address: str = "") -> AsyncIterator[Running]:
    """Without `address` an extension API server that does `serve`."""
    tasks: set[Any] = set()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            await serve(reader, writer)
        except OSError:
            pass
        finally:
            await closed(writer)

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    path = str(directory / "egress")
    text, counts = io.StringIO(), Counts()
    addresses = {(HOST, 443): address or f"127.0.0.1:{port}"}
    made = Running(path, Proxy(addresses, counts, Log(text), failed=lambda: made.failures.append(None)), counts, text)
    listening = await made.proxy.start(listen(AGENT, path))
    try:
        yield made
    finally:
        listening.close()
        await within(made.proxy.end())
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in made.dialed:
            writer.transport.abort()
            await closed(writer)


async def eventually(probe: Callable[[], object]) -> None:
    for _turn in range(int(SECONDS / 0.01)):
        if probe():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come")


def issue(path: Path, issuer: Optional[Path], *, names: tuple[str, ...] = (), name: str = "") -> Path:
    """A certificate with its key beside it: an authority, a server with names, a client without."""
    usages = () if issuer is None else (SERVER,) if names else (CLIENT,)
    wanted = Certificate(
        path=str(path),
        issuer=issuer and str(issuer),
        common_name=name or path.stem,
        usages=usages,
        names=names,
        days=30,
    ).resource(group="")
    PKI_KINDS["certificate"].write(Context(None, LocalHost()), wanted.target, wanted.value, ABSENT)
    return path


@dataclass
class Pki:
    """Of an extension API server, and of the proxies that it believes."""

    ca: Path
    other_ca: Path
    serving: Path
    client: Path

    @classmethod
    def at(cls, directory: Path) -> Pki:
        ca, front = issue(directory / "ca.crt", None), issue(directory / "front.crt", None)
        serving = issue(directory / "serving.crt", ca, names=(f"DNS:{HOST}",))
        return cls(ca, issue(directory / "other.crt", None), serving, issue(directory / "client.crt", front))

    @property
    def context(self) -> ssl.SSLContext:
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        found.load_cert_chain(self.serving, self.serving.with_suffix(".key"))
        found.load_verify_locations(self.serving.parent / "front.crt")
        found.verify_mode = ssl.CERT_REQUIRED
        return found


def api_service(
    *, name: str = "wardle", port: Any = 443, conditions: Optional[list[Any]] = None, **spec: Any
) -> dict[str, Any]:
    status: Mapping[str, Any] = {} if conditions is None else {"conditions": conditions}
    service = {"name": name, "namespace": "default", "port": port}
    return {
        "metadata": {"name": "v1.wardle.example.com", "resourceVersion": "7"},
        "spec": {"group": "wardle.example.com", "version": "v1", "service": service, **spec},
        "status": status,
    }
