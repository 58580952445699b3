# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options that are paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..._core.text.errors import BallastError
from .messages import MESSAGES

_PATH = re.compile(r"/[-A-Za-z0-9._/]*", re.ASCII)


def find_path_problems(params: Mapping[str, Any], options: tuple[str, ...]) -> list[BallastError]:
    """An error for each given option that is not an absolute path of plain characters without `..`."""
    return [
        MESSAGES.error("plane-operation-path", option=option, value=params[option])
        for option in options
        if params[option] and not _is_path(str(params[option]))
    ]


def _is_path(text: str) -> bool:
    return _PATH.fullmatch(text) is not None and ".." not in text.split("/")
