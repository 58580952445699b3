# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A listener's PullImage calls: read, asked of `Pulls`, performed at the listener's runtime, answered."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Callable, Optional

from ..._core.agent.log import Log
from ..._core.errors import last_lines
from . import http2
from .hpack import Header
from .http2 import Answer, Failed, MessageError, Metadata
from .pulls import Draining, Full, Interrupted, Pulls
from .request import PullRequest, credentials_digest
from .runtime import Runtime
from .settings import Listener
from .wire import (
    PullImageRequest,
    WireError,
    image_status_request,
    parse_image_status_response,
    parse_pull_image_request,
    pull_image_response,
)

PULL_IMAGE = "/runtime.v1.ImageService/PullImage"
IMAGE_STATUS = "/runtime.v1.ImageService/ImageStatus"
_STATUS_SECONDS = 10.0  # for ImageStatus, which a runtime answers from its own store
_SECRET_LEAST = 4  # characters: shorter ones would mask half the text
# Lets nobody outside tell from two digests whether two credentials are the same.
_SALT = os.urandom(32)


class Endpoint:
    """Of one listener; the Backend of its connections. `draining` and `present_succeeds` may change at any time."""

    def __init__(
        self, listener: Listener, pulls: Pulls[Answer], log: Log, *, on_size: Optional[Callable[[str, int], None]]
    ) -> None:
        """`on_size` is told the listener's name and the bytes of an image that was pulled; without it nobody asks."""
        self.runtime = listener.runtime
        self.present_succeeds = False
        self.draining = False
        self._listener = listener
        self._pulls = pulls
        self._log = log
        self._on_size = on_size
        self._calls = Runtime(listener.runtime)
        self._fails = ""  # why the runtime could not be reached the last time
        self._sizes: set[asyncio.Task[None]] = set()

    def is_pull(self, path: bytes) -> bool:
        return path == PULL_IMAGE.encode()

    async def answer(self, headers: Sequence[Header], body: bytes) -> Answer:
        try:
            seconds = http2.parse_timeout(headers)
            asked = self._answer(http2.parse_metadata(headers), http2.parse_message(headers, body))
            return await (asked if seconds is None else asyncio.wait_for(asked, seconds))
        except MessageError as error:
            return Answer(code=error.code, text=error.text)
        except WireError as error:
            return Answer(code=http2.INTERNAL, text=f"the pull proxy cannot read this PullImageRequest: {error}")
        except asyncio.TimeoutError:
            return Answer(code=http2.DEADLINE_EXCEEDED, text="the deadline of this pull's caller passed")
        except Failed as error:
            return error.answer
        except Full as error:
            return Answer(code=http2.UNKNOWN, text=str(error))
        except (Draining, Interrupted) as error:
            return Answer(code=http2.UNAVAILABLE, text=str(error))
        except Exception as error:  # ours; the connection and its other calls go on
            self._log.event(
                "bug", listener=self._listener.name, error=repr(error), trace=last_lines(traceback.format_exc())
            )
            return Answer(code=http2.INTERNAL, text=f"the pull proxy failed: {type(error).__name__}")

    async def _answer(self, metadata: Metadata, message: bytes) -> Answer:
        asked = parse_pull_image_request(message)
        if self.draining:
            raise Draining("the pull proxy is about to end, and takes no new pulls")
        if self.present_succeeds:
            answer = await self._present(asked, metadata)
            if answer is not None:
                return answer
        request = PullRequest(
            listener=self._listener.name,
            runtime=self._listener.runtime,
            image=asked.image,
            handler=asked.handler,
            annotations=tuple(sorted(asked.annotations.items())),
            credentials=credentials_digest(asked.credentials, _SALT),
            namespace=asked.namespace,
            pod=asked.pod,
            pod_annotations=asked.pod_annotations,
        )
        return await self._pulls.pull(request, partial(self._perform, asked, message, metadata))

    async def _perform(self, asked: PullImageRequest, message: bytes, metadata: Metadata) -> Answer:
        try:
            answer = await self._calls.call(PULL_IMAGE, message, metadata=metadata)
        except Failed as error:
            error.shown = _masked(error.answer.text, asked.credentials)
            raise
        if self._on_size is not None:
            task = asyncio.get_running_loop().create_task(self._tell_size(asked, metadata, self._on_size))
            self._sizes.add(task)
            task.add_done_callback(self._sizes.discard)
        return answer

    async def _present(self, asked: PullImageRequest, metadata: Metadata) -> Optional[Answer]:
        """Success where the runtime has the image already; None where it has not, or does not say."""
        request = image_status_request(asked.spec)
        try:
            status = await self._calls.call(IMAGE_STATUS, request, metadata=metadata, timeout=_STATUS_SECONDS)
            image = parse_image_status_response(status.message)
        except (Failed, WireError):
            return None
        if not image.id:
            return None
        self._log.event("present", listener=self._listener.name, image=asked.image, pod=_pod(asked), id=image.id)
        return Answer(message=pull_image_response(image.id))

    async def _tell_size(self, asked: PullImageRequest, metadata: Metadata, tell: Callable[[str, int], None]) -> None:
        """PullImage says nothing of bytes, so the runtime is asked as the kubelet asks it after a pull."""
        request = image_status_request(asked.spec)
        try:
            status = await self._calls.call(IMAGE_STATUS, request, metadata=metadata, timeout=_STATUS_SECONDS)
            tell(self._listener.name, parse_image_status_response(status.message).size)
        except (Failed, WireError):
            return

    def runtime_answers(self) -> None:
        if self._fails:
            self._fails = ""
            self._log.event("runtime-back", listener=self._listener.name, runtime=self.runtime)

    def runtime_fails(self, error: Exception) -> Answer:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        if reason != self._fails:  # once, not for each of the calls that a kubelet makes every second
            self._fails = reason
            self._log.event("runtime-gone", listener=self._listener.name, runtime=self.runtime, error=reason)
        text = f"the pull proxy has no connection to the container runtime at {self.runtime}: {reason}"
        return Answer(code=http2.UNAVAILABLE, text=text)

    def misbehaved(self, text: str) -> None:
        self._log.event("connection-closed", listener=self._listener.name, error=text)

    async def close(self) -> None:
        for task in self._sizes:
            task.cancel()
        await self._calls.close()


def _pod(asked: PullImageRequest) -> str:
    return f"{asked.namespace}/{asked.pod}" if asked.pod else ""


def _masked(text: str, credentials: Mapping[str, str]) -> str:
    """`text` without what the caller gave as credentials, in any of the forms in which a runtime might repeat them."""
    secrets = {value for name, value in credentials.items() if name not in ("username", "server_address")}
    for value in list(secrets):
        try:
            secrets.update(base64.b64decode(value, validate=True).decode().split(":", 1))
        except (binascii.Error, ValueError):
            continue
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SECRET_LEAST:
            text = text.replace(secret, "***")
    return text
