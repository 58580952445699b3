# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A page in a headless Chromium, asked over the pipe of its DevTools protocol.

    with browser(tmp_path) as page:
        page.looks(width=360, dark=True)
        page.open(path)
        page.asks("document.title")

https://chromedevtools.github.io/devtools-protocol/: JSON messages, each ended by a null byte, on the file descriptors 3 and 4.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from tests.integration.processes import ended

_PROGRAM = "chromium-headless-shell"
_OPTIONS = (
    "--no-sandbox",  # which does not run as root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--remote-debugging-pipe",
)
_HIGHEST = 6000  # pixels of a screenshot: a larger one takes longer than it tells


class Page:
    def __init__(self, to: BinaryIO, of: BinaryIO) -> None:
        self._to, self._of, self._number = to, of, 0
        self._session: dict[str, str] = {}
        self._events: list[str] = []  # since the last page was opened
        target = self.does("Target.createTarget", url="about:blank")["targetId"]
        attached = self.does("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        self.does("Page.enable")

    def does(self, method: str, **parameters: Any) -> Any:
        """The result of one command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        answer = self._told()
        while answer.get("id") != self._number:
            answer = self._told()
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, path: Path) -> None:
        self._events.clear()
        self.does("Page.navigate", url=path.as_uri())
        while "Page.loadEventFired" not in self._events:  # which may come before the answer
            self._told()

    def looks(self, *, width: int, dark: bool = False, media: str = "screen") -> None:
        self.does(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.does("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def asks(self, expression: str) -> Any:
        done = self.does("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def shoot(self, path: Path) -> None:
        """A picture of the page, from its top, into `path`."""
        size = self.does("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], _HIGHEST), "scale": 1}
        shot = self.does("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def prints(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.does("Page.printToPDF", printBackground=True)["data"]))

    def _told(self) -> Any:
        told = json.loads(self._message())
        self._events.append(told.get("method", ""))
        return told

    def _message(self) -> bytes:
        """Up to the null byte, of which the buffer behind `peek` knows where it is."""
        found = b""
        while True:
            there = self._of.peek(1)  # type: ignore[attr-defined]
            assert there, "the browser has ended"
            part, null, _rest = there.partition(b"\0")
            self._of.read(len(part) + len(null))
            found += part
            if null:
                return found


@contextmanager
def browser(directory: Path) -> Iterator[Page]:
    """It keeps what it keeps in `directory`, and its log too."""
    to_read, to_write = os.pipe()
    of_read, of_write = os.pipe()
    own = f"--user-data-dir={directory}/chromium"
    argv = ["setpriv", "--pdeathsig", "KILL", _PROGRAM, *_OPTIONS, own]
    # Whatever numbers the pipes have here, they are 3 and 4 there; dash takes numbers of one digit alone.
    shell = ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{of_write}', "bash", *argv]
    with (directory / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            shell, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(to_read, of_write)
        )
    os.close(to_read)
    os.close(of_write)
    try:
        with open(to_write, "wb") as to, open(of_read, "rb") as of:
            yield Page(to, of)
    finally:
        ended(process)
