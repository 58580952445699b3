# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A listener's PullImage calls: parsed, queued in `Pulls`, performed at the listener's runtime, answered."""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
import os
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Callable, Optional

from ..._agent.log import Log
from ..._core.text.errors import last_lines
from . import http2
from .hpack import Header
from .http2 import Answer, Failed, MessageError, Metadata
from .limits import CONNECTIONS, FIELD_COST_BYTES, NO_ALLOWANCE, Allowance
from .pulls import Draining, Full, Interrupted, Pulls
from .request import PullRequest, credentials_digest
from .runtime import Runtime
from .settings import Listener
from .wire import (
    Image,
    PullImageRequest,
    WireError,
    image_status_request,
    parse_image_status_response,
    parse_pull_image_request,
    pull_image_response,
)

PULL_IMAGE = "/runtime.v1.ImageService/PullImage"
IMAGE_STATUS = "/runtime.v1.ImageService/ImageStatus"
_SAY_AGAIN_SECONDS = 60.0
_STATUS_SECONDS = 10.0  # for ImageStatus, which a runtime answers from its own store
_SECRET_LEAST = 4  # characters; masking shorter ones would hide half the text
# Random, so that digests cannot be compared with those of known credentials.
_SALT = os.urandom(32)


class Endpoint:
    """A listener's endpoint, the Backend of its connections. `draining` and `present_succeeds` may change at any time."""

    def __init__(
        self,
        listener: Listener,
        pulls: Pulls[Answer],
        log: Log,
        *,
        most: int = CONNECTIONS,
        on_size: Optional[Callable[[str, int], None]],
    ) -> None:
        """`most` connections are accepted at once. `on_size` gets the listener's name and the size in bytes of each pulled image."""
        self.runtime = listener.runtime
        self.allowance = Allowance()
        self.present_succeeds = False
        self.draining = False
        self._listener = listener
        self._pulls = pulls
        self._log = log
        self._on_size = on_size
        self._calls = Runtime(listener.runtime)
        self._most = most
        self._users = {0, os.geteuid()}
        self._refused = -math.inf  # when a refusal was last logged
        self._fails = ""  # the last error of connecting to the runtime; "" after a success
        self._sizes: set[asyncio.Task[None]] = set()

    def admits(self, user: int, connections: int) -> bool:
        """Admit only root and our own user, even if somebody changed the mode of the socket."""
        if user in self._users and connections < self._most:
            return True
        now = asyncio.get_running_loop().time()
        if now - self._refused > _SAY_AGAIN_SECONDS:
            self._refused = now
            self._log.event("connection-refused", listener=self._listener.name, user=user, connections=connections)
        return False

    def is_pull(self, path: bytes) -> bool:
        return path == PULL_IMAGE.encode()

    async def answer(self, headers: Sequence[Header], body: bytes) -> Answer:
        try:
            seconds = http2.parse_timeout(headers)
            metadata, message = http2.parse_metadata(headers), http2.parse_message(headers, body)
            request = parse_pull_image_request(message)
            # The connection has already counted the body's bytes.
            more = max(0, len(message) - len(body)) + request.fields * FIELD_COST_BYTES
            del headers, body
            if not self.allowance.take(more):
                raise MessageError(http2.RESOURCE_EXHAUSTED, NO_ALLOWANCE)
            try:
                answer = self._answer(request, metadata, message)
                return await (answer if seconds is None else asyncio.wait_for(answer, seconds))
            finally:
                self.allowance.give_back(more)
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
        except Exception as error:  # a bug of ours; the connection and its other calls continue
            self._log.event(
                "bug", listener=self._listener.name, error=repr(error), trace=last_lines(traceback.format_exc())
            )
            return Answer(code=http2.INTERNAL, text=f"the pull proxy failed: {type(error).__name__}")

    async def _answer(self, request: PullImageRequest, metadata: Metadata, message: bytes) -> Answer:
        if self.draining:
            raise Draining("the pull proxy is stopping and accepts no new pulls")
        if self.present_succeeds:
            answer = await self._answer_from_store(request, metadata)
            if answer is not None:
                return answer
        pull = PullRequest(
            listener=self._listener.name,
            runtime=self._listener.runtime,
            image=request.image,
            handler=request.handler,
            annotations=tuple(sorted(request.annotations.items())),
            credentials=credentials_digest(request.credentials, _SALT),
            namespace=request.namespace,
            pod=request.pod,
            pod_annotations=request.pod_annotations,
        )
        return await self._pulls.pull(pull, partial(self._perform, request, message, metadata))

    async def _perform(self, request: PullImageRequest, message: bytes, metadata: Metadata) -> Answer:
        try:
            answer = await self._calls.call(PULL_IMAGE, message, metadata=metadata)
        except Failed as error:
            error.shown = _mask(error.answer.text, request.credentials)
            raise
        if self._on_size is not None:
            task = asyncio.get_running_loop().create_task(self._report_size(request, metadata))
            self._sizes.add(task)
            task.add_done_callback(self._sizes.discard)
        return answer

    async def _answer_from_store(self, request: PullImageRequest, metadata: Metadata) -> Optional[Answer]:
        """Success if the runtime already has the image, None if it lacks it or does not answer."""
        image = await self._read_image(request, metadata)
        if image is None or not image.id:
            return None
        self._log.event("present", listener=self._listener.name, image=request.image, pod=_pod(request), id=image.id)
        return Answer(message=pull_image_response(image.id))

    async def _report_size(self, request: PullImageRequest, metadata: Metadata) -> None:
        """Read the size with ImageStatus, as the kubelet does after a pull: the answer to PullImage has no size."""
        image = await self._read_image(request, metadata)
        if image is not None and self._on_size is not None:
            self._on_size(self._listener.name, image.size)

    async def _read_image(self, request: PullImageRequest, metadata: Metadata) -> Optional[Image]:
        message = image_status_request(request.spec)
        try:
            status = await self._calls.call(IMAGE_STATUS, message, metadata=metadata, timeout=_STATUS_SECONDS)
            return parse_image_status_response(status.message)
        except (Failed, WireError):
            return None

    def note_runtime_up(self) -> None:
        if self._fails:
            self._fails = ""
            self._log.event("runtime-back", listener=self._listener.name, runtime=self.runtime)

    def note_runtime_failure(self, error: Exception) -> Answer:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        if reason != self._fails:  # logged once, not for each call: a kubelet makes one every second
            self._fails = reason
            self._log.event("runtime-gone", listener=self._listener.name, runtime=self.runtime, error=reason)
        text = f"the pull proxy has no connection to the container runtime at {self.runtime}: {reason}"
        return Answer(code=http2.UNAVAILABLE, text=text)

    def note_misbehaviour(self, text: str) -> None:
        self._log.event("connection-closed", listener=self._listener.name, error=text)

    async def close(self) -> None:
        for task in self._sizes:
            task.cancel()
        await self._calls.close()


def _pod(request: PullImageRequest) -> str:
    return f"{request.namespace}/{request.pod}" if request.pod else ""


def _mask(text: str, credentials: Mapping[str, str]) -> str:
    """`text` without the caller's credentials, in all forms in which a runtime might repeat them."""
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
