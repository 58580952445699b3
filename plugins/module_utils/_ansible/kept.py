# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Engines that a host keeps, compiled, as one archive by the digest of their sources.

Ansible parses a module with all that it imports at each run, sends it to each host, and has it compiled there. A module that
begins here brings this file alone. What it runs lies on the host since the first run; where it does not, it says so, and its
action plugin (plugins/action/node.py) sends the sources and runs it again.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Optional

from ansible.module_utils import basic

# Of the action plugin, hidden from users: {digest, directory, sources: path of the archive or "", keep}.
PARAMETER = "_engines"
MISSING = "engines_missing"  # what the module returns where nothing is kept and nothing was sent
_TOP = "ballast"  # the package that the archive's are in, see _core/program.py
_KEEP = "_core.engines.keep"


def run_kept(main: str) -> None:
    """Calls `main`, dotted below module_utils, of the engines that the action plugin names, with the names of the parameters
    that are hidden from users; or in a checkout of those beside this file. They are kept once they have succeeded."""
    asked: Optional[Mapping[str, Any]] = (basic._load_params() or {}).get(PARAMETER)
    if asked is None:
        _function(__name__.rpartition("._ansible.")[0], main)()
        return
    path = os.path.join(asked["directory"], f"{asked['digest']}.{sys.implementation.cache_tag}.zip")
    found = _kept(path, main)
    if found is None and not asked["sources"]:
        sys.stdout.write(json.dumps({"changed": False, MISSING: True}))
        raise SystemExit
    try:
        (found or _archived(asked["sources"], main))(PARAMETER)
    except SystemExit as end:
        if found is None and asked["keep"] and not end.code:
            _function(_TOP, _KEEP)(asked["sources"], path)
        raise


def _kept(path: str, main: str) -> Optional[Callable[..., None]]:
    """None where nothing is kept. What is damaged is removed, and counts as nothing."""
    if not _hold(path):
        return None
    try:
        return _archived(path, main)
    except Exception:  # of whatever bytes Python found there
        sys.path.remove(path)
        for name in [name for name in sys.modules if name.partition(".")[0] == _TOP]:
            del sys.modules[name]
        with suppress(OSError):
            os.unlink(path)
        return None


def _archived(path: str, main: str) -> Callable[..., None]:
    sys.path.insert(0, path)
    return _function(_TOP, main)


def _function(top: str, main: str) -> Callable[..., None]:
    module, _dot, name = main.rpartition(".")
    found: Callable[..., None] = getattr(importlib.import_module(f"{top}.{module}"), name)
    return found


def _hold(path: str) -> bool:
    """Against its removal, as long as this process lives. False where there is none, or where others than this user could
    have written it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    with suppress(OSError):  # it is being removed, or was before the lock
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        opened, named, directory = os.fstat(descriptor), os.stat(path), os.stat(os.path.dirname(path))
        if os.path.samestat(opened, named) and _is_ours(opened) and _is_ours(directory):
            return True
    os.close(descriptor)
    return False


def _is_ours(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
