# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Engines that a host keeps, compiled, as one archive by the digest of their sources.

Ansible parses a module with all that it imports at each run, sends it to each host, and has it compiled there. A module that
begins here brings this file alone. What it runs lies on the host since the first run; where it does not, it says so, and its
action plugin (plugins/plugin_utils/engines.py) sends the sources and runs it again.
"""

from __future__ import annotations

import fcntl
import importlib
import importlib.util
import io
import json
import marshal
import os
import stat
import sys
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Optional

from ansible.module_utils import basic

# Of the action plugin, hidden from users: {digest, directory, sources: path of the archive or "", keep}.
PARAMETER = "_engines"
MISSING = "engines_missing"  # what the module returns where nothing is kept and nothing was sent
_TOP = "ballast"  # the package that the archive's are in
_UNCHECKED = (1).to_bytes(4, "little")  # PEP 552: by the hash of the source, which is not looked at


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
            with suppress(OSError, zipfile.BadZipFile):  # it saves time, and is no part of what was asked for
                _keep(asked["sources"], path)
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
    if _is_ours(os.fstat(descriptor)) and _is_ours(os.stat(os.path.dirname(path))) and _lock(descriptor, fcntl.LOCK_SH):
        with suppress(OSError):  # it may have been removed before the lock
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return True
    os.close(descriptor)
    return False


def _is_ours(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _keep(sources: str, path: str) -> None:
    """Whole or not at all, also when the power fails; and what is kept of other versions, and not in use, goes."""
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    if not _is_ours(os.stat(directory)):
        return
    data = _compiled(sources, path)
    begun = f"{path}.{os.getpid()}"
    descriptor = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.rename(begun, path)
    except OSError:
        os.unlink(begun)
        raise
    for name in os.listdir(directory):
        if name != os.path.basename(path):
            with suppress(OSError):
                _remove_unused(os.path.join(directory, name))


def _remove_unused(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if _lock(descriptor, fcntl.LOCK_EX):
            os.unlink(path)
    finally:
        os.close(descriptor)


def _compiled(sources: str, path: str) -> bytes:
    """The archive with what this Python makes of each source beside it; `path` is where it will be."""
    data = io.BytesIO()
    with zipfile.ZipFile(sources) as given, zipfile.ZipFile(data, "w") as made:
        for name in given.namelist():
            source = given.read(name)  # checked by its CRC
            made.writestr(zipfile.ZipInfo(name), source)
            if name.endswith(".py"):
                code = compile(source, f"{path}/{name}", "exec", dont_inherit=True)
                head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
                made.writestr(zipfile.ZipInfo(f"{name}c"), head + marshal.dumps(code))
    return data.getvalue()
