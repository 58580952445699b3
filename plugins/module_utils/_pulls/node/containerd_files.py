# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that containerd reads: its own, those that it imports, and their imports; and which of them decides on a key.

1.6, 1.7   the last file with any part of a plugin's table, or of one below it, replaces the plugin's whole table; earlier
           files, including the main file, do not contribute to it (containerd#5837, #7982)
2.0 on     tables are merged key by key, and the last file with a key decides (containerd#9982)
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence

from ..._core.host.host import Host
from .containerd_tables import CRI_IMAGES, CRI_V2, TRANSFER, Version
from .toml import head_imports, parse_tables

_FILES_MOST = 1000

Files = Sequence[tuple[str, str]]  # path and text, in the order in which they are merged


def read_files(host: Host, config_path: str, version: Version) -> Files:
    """`config_path` and all files that it and its imports import; a missing file has no text. At most 1000 files."""
    files: list[tuple[str, str]] = []
    queue = [config_path]
    while queue and len(files) < _FILES_MOST:
        path = queue.pop(0)
        if path in (known for known, _text in files):
            continue
        text = (host.read(path) or b"").decode(errors="replace")
        files.append((path, text))
        for pattern in head_imports(text) or []:
            queue += _expand(host, path, pattern, version)
    return files


def replacing_import(files: Files) -> str:
    """Before containerd 2.0: the path of the import that replaces the CRI plugin's table of all earlier files; "" if none does."""
    replacing = [path for path, text in files if _has_table(text, CRI_V2)]
    return replacing[-1] if replacing and replacing[-1] != files[0][0] else ""


def source_of(files: Files, table: str, key: str, version: Version) -> str:
    """The path of the file that sets this key, "" for none; `table` as in a dump."""
    names = (TRANSFER,) if table == TRANSFER else (CRI_IMAGES, CRI_V2)
    if version < (2, 0):
        files = [(path, text) for path, text in files if _has_table(text, CRI_V2)][-1:]
    setting = [path for path, text in files if any(key in parse_tables(text).get(name, {}) for name in names)]
    return setting[-1] if setting else ""


def _has_table(text: str, name: str) -> bool:
    return any(table == name or table.startswith(f"{name}.") for table in parse_tables(text))


def _expand(host: Host, parent: str, pattern: str, version: Version) -> list[str]:
    """Only `*` makes a pattern. A relative path starts at the file; with `*`, 1.6 starts at its working directory."""
    if "*" not in pattern:
        return [os.path.normpath(os.path.join(os.path.dirname(parent), pattern))]
    if not os.path.isabs(pattern) and version < (1, 7):
        return []
    directory, name = os.path.split(os.path.normpath(os.path.join(os.path.dirname(parent), pattern)))
    names = [entry for entry in sorted(host.listdir(directory)) if fnmatch.fnmatchcase(entry, name)]
    return [os.path.join(directory, entry) for entry in names]
