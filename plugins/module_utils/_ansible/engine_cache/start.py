# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Engines that a host keeps, compiled, as one archive by the digest of their sources.

Ansible parses a module with all that it imports at each run, sends it to each host, and has it compiled there. A module that
begins here brings this file alone. What it runs lies on the host since the first run; where it does not, it says so, and its
action plugin (plugins/action/node.py) sends the sources and runs it again.

Nothing of an archive is imported before its content is compared with the digest that the action plugin asks for:
  - what was sent, as it is: the digest is the SHA-256 of those bytes;
  - what is kept, by its seal: code that this host compiled has no digest that another machine could know, so the run that
    compiled it, from bytes of that digest, ends the file with the SHA-256 of digest and content. A damaged file, a part of one
    and the file of another digest are found by it.
Who can write the seal is root, or the user that runs this: the file and its directory belong to that user, and nobody else may
write there.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import json
import os
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn, Optional

from ansible.module_utils import basic

# Of the action plugin, hidden from users: {digest, directory, sources: path of the archive or "", keep}.
PARAMETER = "_engines"
MISSING = "engines_missing"  # what the module returns where nothing is kept and nothing was sent
_TOP = "ballast"  # the package that the archive's are in, see _agent/program.py
_KEEP = "_ansible.engine_cache.store.keep"
_LIMIT = 64 * 2**20  # bytes of an archive; one of more has another digest
_SEAL = 64  # bytes of the seal at the end, see _ansible/engine_cache/store.py
# As the table of messages has it (_core/text/run_messages.py), which is among what was not sent.
_NOT_SENT = (
    "the engines at {path} differ from those that this task needs\n"
    "  do:    check whether the disk of this host is full or broken, then run the same command again\n"
    "  id:    core-engines   (docs/reference/errors-core.md#core-engines)"
)


def run_kept(main: str) -> None:
    """Calls `main`, dotted below module_utils, of the engines that the action plugin names, with the names of the parameters
    that are hidden from users; or in a checkout of those beside this file. They are kept once they have succeeded."""
    request: Optional[Mapping[str, Any]] = (basic._load_params() or {}).get(PARAMETER)
    if request is None:
        _function(__name__.rpartition("._ansible.")[0], main)()
        return
    path = os.path.join(request["directory"], f"{request['digest']}.{sys.implementation.cache_tag}.zip")
    kept = _hold(path, request["digest"])
    if not kept and not request["sources"]:
        _end({"changed": False, MISSING: True})
    if not kept and not _is_sent(request["sources"], request["digest"]):
        _end({"failed": True, "changed": False, "id": "core-engines", "msg": _NOT_SENT.format(path=request["sources"])})
    try:
        _load_archived(path if kept else request["sources"], main)(PARAMETER)
    except SystemExit as end:
        if not kept and request["keep"] and not end.code:
            _function(_TOP, _KEEP)(request["sources"], path)
        raise


def _end(result: Mapping[str, Any]) -> NoReturn:
    sys.stdout.write(json.dumps(result))
    raise SystemExit(1 if result.get("failed") else 0)


def _load_archived(path: str, main: str) -> Callable[..., None]:
    sys.path.insert(0, path)
    return _function(_TOP, main)


def _function(top: str, main: str) -> Callable[..., None]:
    module, _dot, name = main.rpartition(".")
    function: Callable[..., None] = getattr(importlib.import_module(f"{top}.{module}"), name)
    return function


def _is_sent(path: str, digest: str) -> bool:
    """Whether it arrived as it was sent. It lies where Ansible put the module itself, which others cannot write either."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read(_LIMIT)).hexdigest() == digest
    except OSError:
        return False


def _hold(path: str, digest: str) -> bool:
    """Against its removal, as long as this process lives. False where there is none, or where others than this user could
    have written it. One that is not what its seal says is removed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    with suppress(OSError):  # it is being removed, or was before the lock
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        opened, named, directory = os.fstat(descriptor), os.lstat(path), os.lstat(os.path.dirname(path))
        ours = (
            stat.S_ISREG(opened.st_mode)
            and stat.S_ISDIR(directory.st_mode)
            and _is_ours(opened)
            and _is_ours(directory)
        )
        if ours and os.path.samestat(opened, named):
            with os.fdopen(os.dup(descriptor), "rb") as file:
                data = file.read(_LIMIT)
            if hashlib.sha256(digest.encode() + data[:-_SEAL]).hexdigest().encode() == data[-_SEAL:]:
                return True
            os.unlink(path)
    os.close(descriptor)
    return False


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
