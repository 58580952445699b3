# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""The running program: connects feed, kernel, loop and faces, each with its own threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Optional

from .._agent.log import Log
from .._core.host.local_host import LocalHost
from .._core.kube.client import Api
from .._core.kube.connection import connect
from .._rules.node_addresses import families, own_addresses, read_links
from .configuration import Configuration
from .connections import ConnectionCleaner
from .faces.faces import Faces
from .feed import Feed
from .kernel import Kernel
from .loop import Loop, Waker, run
from .messages import AGENT
from .ports import Failed, LoopSettings, Report
from .status import Record

_END_SECONDS = 30.0  # a transaction in progress is finished


class Program:
    def __init__(self, configuration: Configuration, service_proxy_name: str, log: Log) -> None:
        """HostError if it cannot run on this machine."""
        self.service_proxy_name = service_proxy_name
        self._configuration = configuration
        self._host = LocalHost()
        self._since = time.monotonic()
        self._waker = Waker()
        self._ended = threading.Event()
        self._inbox: list[LoopSettings] = []
        self._failure: Optional[BaseException] = None
        self._record = Record(log)
        try:
            self._kernel = Kernel(self._host)
        except OSError as error:
            raise AGENT.error("kernel", found=error.strerror or str(error)) from error
        self._faces = Faces(configuration, connect=self._connect, log=log)
        self._feed = Feed(self._connect, configuration.node_name, service_proxy_name, self._waker)
        self._cleaner = ConnectionCleaner(self._report, self._report_uncleaned)
        self._loop = Loop(
            self._settings(configuration),
            self._feed,
            self._kernel,
            self._report,
            families=families(self._host),
            addresses=lambda: own_addresses(read_links(self._host)),
            clean=self._cleaner.clean,
        )
        self._over = asyncio.Event()  # bound to the event loop in which this object is created
        self._thread = threading.Thread(target=self._work, name="loop", daemon=True)

    def start(self) -> None:
        """HostError if a port is taken and the configuration makes that an error."""
        self._faces.start()
        self._feed.start()
        self._cleaner.start()
        self._tell_over = partial(asyncio.get_running_loop().call_soon_threadsafe, self._over.set)
        self._thread.start()

    async def wait(self, ending: asyncio.Event) -> None:
        """Wait until `ending` is set, or until the loop ends by itself, whose error is then raised."""
        waits = [asyncio.ensure_future(event.wait()) for event in (ending, self._over)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if self._failure is not None:
            raise self._failure

    def reload(self, configuration: Configuration) -> Sequence[str]:
        """Apply a configuration; returns the keys that need a restart."""
        self._configuration, restart = self._configuration.reload(configuration)
        self._inbox.append(self._settings(self._configuration))
        self._waker()
        self._faces.reload(self._configuration)
        return restart

    def status(self) -> dict[str, Any]:
        """What the command `status` shows, as JSON has it. `seconds` is the time since the start."""
        seconds, node = time.monotonic() - self._since, self._configuration.node_name
        of = {"node": node, "service_proxy_name": self.service_proxy_name}
        return {"seconds": seconds, **of, "settings": asdict(self._configuration), **self._record.as_data()}

    def close(self) -> None:
        """Stop. The rules stay in the kernel."""
        self._feed.end()
        self._cleaner.end()
        self._ended.set()
        self._waker()
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)
            self._faces.close()
        self._kernel.close()

    def _connect(self) -> Api:
        return connect(self._host, self._configuration.kubeconfig)

    def _settings(self, configuration: Configuration) -> LoopSettings:
        return LoopSettings(
            node_name=configuration.node_name,
            document=configuration.document,
            service_proxy_name=self.service_proxy_name,
            min_sync_seconds=configuration.min_sync_seconds,
        )

    def _report(self, report: Report) -> None:
        self._record.take(report)
        self._faces.report(report)

    def _report_uncleaned(self, text: str) -> None:
        self._report(Failed(time.time(), f"stale connections stay: {text}"))

    def _take_inbox(self) -> list[LoopSettings]:
        taken = []
        while self._inbox:
            taken.append(self._inbox.pop(0))
        return taken

    def _work(self) -> None:
        try:
            run(self._loop, self._waker, self._kernel, self._ended, self._take_inbox)
        except BaseException as error:  # a bug: the program exits with it, and its supervisor restarts it
            self._failure = error
        finally:
            self._tell_over()
