# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Logs one line per event to stderr: time in UTC, name of the event, key=value."""

from __future__ import annotations

import json
import re
import sys
from datetime import datetime, timezone
from typing import Optional, TextIO

from .._core.text.errors import shorten
from .._core.text.redaction import redact_json
from .log_file import bound_output

# What a key=value parser reads as one word.
_WORD = re.compile(r"[A-Za-z0-9_.,:;/@%+*()\[\]<>~#-]+", re.ASCII)


class Log:
    """Writes to the sys.stderr that is current when a line is written, unless another stream is given."""

    def __init__(self, stream: Optional[TextIO] = None) -> None:
        self._stream = stream

    def event(self, name: str, **fields: object) -> None:
        """Write an event. Fields that are "" or None are omitted."""
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        texts = {key: str(value) for key, value in fields.items() if value not in ("", None)}
        pairs = [f"{key}={_show(text)}" for key, text in redact_json(texts).items()]
        stream = self._stream or sys.stderr
        if self._stream is None:
            bound_output()
        try:
            stream.write(" ".join([now, name, *pairs]) + "\n")
            stream.flush()
        except (OSError, ValueError):
            return  # nobody reads the log any more; the work continues


def _show(text: str) -> str:
    """A word as it is, other text as JSON, so that no line break or terminal control character gets into the log."""
    text = shorten(text, limit=1000)
    return text if _WORD.fullmatch(text) else json.dumps(text)
