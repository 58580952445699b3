# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A drop-in file that a service reads when it starts. One step writes it, restarts the service and verifies the result.

    absent  -> written, marked -> service restarted and verified -> mark removed
    present -> emptied, marked -> service restarted and verified -> file removed

If a later run finds the mark, a run was killed before it restarted the service.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Union

from ..._core.engine.context import Context
from ..._core.engine.kinds import fields
from ..._core.engine.plan import ABSENT, Resource, Value
from ..._core.engine.wait import Pending, Ready, wait
from ..._core.service.daemon import restart_daemon
from ..._core.text.errors import PeerError
from .messages import MESSAGES
from .model import ImagePullsRequest
from .toml import PENDING

HEADING = "# ballast: image pulls\n"
MARK = f"# {PENDING}\n"
_MODE = 0o644
_GROUP = "image pulls"


def drop_in(kind: str, path: str, text: str, *, title: str) -> Resource:
    """A drop-in as a resource for a `DropInKind`; `text` lacks the mark."""
    return Resource(kind=kind, target=path, value={"text": text}, title=title, group=_GROUP)


def restart_until_healthy(
    ctx: Context[ImagePullsRequest], name: str, service: str, check: Callable[[], str], *, failure: str
) -> None:
    """Restart `service` and wait until `check` returns no reason why it is not healthy. `failure` is the id of the error."""

    def probe() -> Union[Ready[None], Pending]:
        reason = check()
        return Pending(reason) if reason else Ready(None)

    ctx.progress.started(name, "restarting")
    restart_daemon(ctx.host, service)
    seconds = ctx.desired.ready_seconds
    try:
        wait(ctx.host, ctx.progress, name, probe, deadline_seconds=seconds, interval=0.2)
    except PeerError as error:
        shown = {"runtime": name, "seconds": f"{seconds:.0f}"}
        raise MESSAGES.error(failure, found=error.found or error.text, **shown) from error


class DropInKind:
    """`{text}`: the content of the file, with the mark until it is in effect."""

    def read(self, ctx: Context[ImagePullsRequest], target: str) -> Value:
        data = ctx.host.read(target)
        return ABSENT if data is None else {"text": data.decode(errors="surrogateescape")}

    def write(self, ctx: Context[ImagePullsRequest], target: str, after: Value, before: Value) -> None:
        text = str(fields(after)["text"]).replace(MARK, "")
        self._change(ctx, target, text, before=before)
        ctx.host.write(target, _bytes(text), mode=_MODE)

    def remove(self, ctx: Context[ImagePullsRequest], target: str, before: Value) -> None:
        self._change(ctx, target, self.empty_text(str(fields(before)["text"])), before=before)
        ctx.host.remove(target)

    def empty_text(self, text: str) -> str:
        """The text of a drop-in that sets nothing."""
        raise NotImplementedError

    def take_effect(
        self, ctx: Context[ImagePullsRequest], target: str, text: str, seen: Any, *, rolls_back: bool
    ) -> None:
        """Restart the service and verify that it is healthy and that `text` is in effect. Called with the file written.

        `seen` is what `prepare` returned. With `rolls_back`, after a failed change, the service need only be healthy: the
        cause of that failure may still be present, and is already reported.
        """
        raise NotImplementedError

    def prepare(self, ctx: Context[ImagePullsRequest], target: str, text: str, *, rolls_back: bool) -> Any:
        """Called before `text` is written: read what must not change, and refuse what must not be done."""
        return None

    def _change(self, ctx: Context[ImagePullsRequest], target: str, text: str, *, before: Value) -> None:
        rolls_back = before != ABSENT and MARK in str(fields(before)["text"])
        seen = self.prepare(ctx, target, text, rolls_back=rolls_back)
        if ctx.host.stat(os.path.dirname(target)) is None:
            ctx.host.make_directory(os.path.dirname(target))
        ctx.host.write(target, _bytes(MARK + text), mode=_MODE)
        self.take_effect(ctx, target, text, seen, rolls_back=rolls_back)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
