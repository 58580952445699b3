# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compiled engines that a host keeps, as one archive named after the digest of its sources.

For each run, Ansible parses a module with everything it imports, sends that to each host, and has it compiled there. A
module that starts here only needs this file. What it runs has been on the host since the first run; if it is missing, the
module says so, and its action plugin (plugins/action/node.py) sends the sources and runs it again.

Nothing is imported from an archive before its content has been compared with the digest that the action plugin asks for:
  - an archive that was sent: the digest is the SHA-256 of its bytes;
  - an archive that is kept: by its seal. No other machine can know the digest of code that this host compiled, so the run
that compiled it, from sources with that digest, appends the SHA-256 of digest and content. This detects a file that is
damaged, truncated or made from other sources.
Only root or the user who runs this can write the seal: the file and its directory belong to that user, and nobody else may
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

# A parameter of the action plugin, hidden from users: {digest, directory, sources: path of the archive or "", keep}.
PARAMETER = "_engines"
MISSING = "engines_missing"  # returned by the module if nothing is kept and nothing was sent
_TOP = "ballast"  # the package in the archive that contains ours, see _agent/program.py
_KEEP = "_ansible.engine_cache.store.keep"
_LIMIT = 64 * 2**20  # bytes of an archive; a longer one has another digest
_SEAL = 64  # bytes of the seal at the end, see _ansible/engine_cache/store.py
# A copy of the text in _core/text/run_messages.py, which is in the archive and so not available here.
_NOT_SENT = (
    "the engines at {path} differ from those that this task needs\n"
    "  do:    check whether the disk of this host is full or broken, then run the same command again\n"
    "  id:    core-engines   (docs/reference/errors-core.md#core-engines)"
)


def run_kept(main: str) -> None:
    """Call `main` (a dotted name below module_utils) of the engines that the action plugin names, with the names of the
    hidden parameters; in a checkout, of the engines next to this file. Engines are kept after a successful run."""
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
    """Whether the archive arrived as it was sent. It is where Ansible put the module itself, which other users cannot write
    either."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read(_LIMIT)).hexdigest() == digest
    except OSError:
        return False


def _hold(path: str, digest: str) -> bool:
    """Protect the kept archive from removal while this process lives. False if there is none, or if users other than this
    one could have written it. An archive that does not match its seal is removed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    with suppress(OSError):  # it is being removed, or was removed before we got the lock
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
