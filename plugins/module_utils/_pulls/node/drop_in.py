# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A drop-in file of ours that a service reads when it starts: written, the service started anew and proven, in one step.

    absent -> written, marked -> started anew, proven -> mark taken away
    there  -> emptied, marked -> started anew, proven -> removed

Who finds the mark knows that a restart is still to come: a run was killed before it.
"""

from __future__ import annotations

import os

from ..._core.host import Host
from ..._core.kinds import fields
from ..._core.plan import ABSENT, Resource, Value
from .toml import PENDING

HEADING = "# ballast: image pulls\n"
_MARK = f"# {PENDING}\n"
_MODE = 0o644
_GROUP = "image pulls"


def drop_in(kind: str, path: str, text: str, *, title: str) -> Resource:
    return Resource(kind=kind, target=path, value={"text": text}, title=title, group=_GROUP)


class DropInKind:
    """`{text}`: the content of the file, with the mark where it is not in effect yet."""

    def read(self, host: Host, target: str) -> Value:
        data = host.read(target)
        return ABSENT if data is None else {"text": data.decode(errors="surrogateescape")}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        text = str(fields(after)["text"]).replace(_MARK, "")
        self._change(host, target, text, before=before)
        host.write(target, _bytes(text), mode=_MODE)

    def remove(self, host: Host, target: str, before: Value) -> None:
        self._change(host, target, self.emptied(str(fields(before)["text"])), before=before)
        host.remove(target)

    def emptied(self, text: str) -> str:
        """The text of a drop-in that sets nothing."""
        raise NotImplementedError

    def take_effect(self, host: Host, target: str, text: str, *, goes_back: bool) -> None:
        """Start the service anew and prove that it is healthy, and has in effect what `text` says. The file is there.

        What goes back, because what was to come failed, need but be healthy: what stood in the way of the one may stand in
        the way of the other, and it has been told.
        """
        raise NotImplementedError

    def prepare(self, host: Host, target: str) -> None:
        """Look at what must not change, before the file is written."""

    def _change(self, host: Host, target: str, text: str, *, before: Value) -> None:
        self.prepare(host, target)
        if host.stat(os.path.dirname(target)) is None:
            host.make_directory(os.path.dirname(target))
        host.write(target, _bytes(_MARK + text), mode=_MODE)
        self.take_effect(host, target, text, goes_back=before != ABSENT and _MARK in str(fields(before)["text"]))


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
