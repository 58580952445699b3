# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the modules; doc_fragments/_binaries.py documents them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._core.engine.events import PROGRESS_LOG
from .families import FAMILIES
from .request import SOURCES

_SOURCE: Mapping[str, Any] = {"type": "str", "choices": list(SOURCES)}

READ: Mapping[str, Mapping[str, Any]] = {
    "version": {"type": "str", "default": FAMILIES["kubernetes"].default_version},
    "source": {**_SOURCE, "default": SOURCES[0]},
    "path": {"type": "path"},
    "families": {
        "type": "list",
        "elements": "dict",
        "default": [{"name": name} for name, family in FAMILIES.items() if not family.optional],
        "options": {
            "name": {"type": "str", "required": True},
            "version": {"type": "str"},
            "programs": {"type": "list", "elements": "str"},
            "source": _SOURCE,
            "path": {"type": "path"},
        },
    },
    "components": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "source": _SOURCE,
            "path": {"type": "path"},
        },
    },
    "toolchain_dir": {"type": "path"},
    "cache_dir": {"type": "path", "default": "/var/cache/ballast/binaries"},
    "go": {"type": "str"},
    "release_urls": {"type": "dict", "default": {}},
    "checksums": {"type": "dict", "default": {}},
}

MAKE: Mapping[str, Mapping[str, Any]] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    **READ,
    **PROGRESS_LOG,
}
