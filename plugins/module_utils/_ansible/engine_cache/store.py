# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the engines that a host keeps come and go. `_ansible/engine_cache/start.py` says why there are any, and runs them."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import os
import zipfile
from contextlib import suppress

from ..._core.host.host import Host
from ..._core.host.local_files import lock_file
from ..._core.host.local_host import LocalHost
from ..._core.host.names import ENGINES_DIRECTORY, STATE_DIRECTORY
from ..._core.text.errors import HostError

_OTHERS_WRITE = 0o022
_NO_SEAL = b" " * 64  # as long as the SHA-256 that takes its place
_UNCHECKED = (1).to_bytes(4, "little")  # PEP 552: by the hash of the source, which is not looked at


def keep(sources: str, path: str) -> None:
    """The archive `sources` as `path`, compiled; and what is kept of other versions, and not in use, goes. It saves time and is
    no part of what was asked for, so what cannot be kept is not. The name of `path` begins with the digest of `sources`."""
    host, directory = LocalHost(), os.path.dirname(path)
    digest = os.path.basename(path).partition(".")[0]
    with suppress(HostError):
        data = host.read(sources) or b""
        if hashlib.sha256(data).hexdigest() != digest:
            return
        stat = host.stat(directory)
        if stat is None:
            host.make_directory(directory, mode=0o700)
        elif stat.kind != "directory" or stat.uid != os.geteuid() or stat.mode & _OTHERS_WRITE:
            return
        host.write(path, seal(_compile(data, path), digest), mode=0o600)
        for name in host.listdir(directory):
            if name != os.path.basename(path):
                _remove_unused(host, os.path.join(directory, name))


def forget(host: Host) -> None:
    """What is kept, once the machine has no state directory of the collection. The last that a run does: what it goes on to import
    may lie there."""
    if host.stat(STATE_DIRECTORY) is not None:
        return
    for name in host.listdir(ENGINES_DIRECTORY):
        host.remove(f"{ENGINES_DIRECTORY}/{name}")
    if host.stat(ENGINES_DIRECTORY) is not None:
        host.remove_directory(ENGINES_DIRECTORY)


def _remove_unused(host: Host, path: str) -> None:
    with suppress(HostError):  # a run holds it, and imports from it
        descriptor = lock_file(path)
        host.remove(path)
        os.close(descriptor)


def seal(archive: bytes, digest: str) -> bytes:
    """The archive, whose comment is blank and as long as a seal, with its seal as the comment: that this content was made from
    sources of this digest. `_ansible/engine_cache/start.py` compares it before anything is imported."""
    content = archive[: -len(_NO_SEAL)]
    return content + hashlib.sha256(digest.encode() + content).hexdigest().encode()


def _compile(sources: bytes, path: str) -> bytes:
    """The archive with what this Python makes of each source beside it; `path` is where it will be."""
    data = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(sources)) as given, zipfile.ZipFile(data, "w") as made:
        for name in given.namelist():
            source = given.read(name)
            made.writestr(zipfile.ZipInfo(name), source)
            if name.endswith(".py"):
                code = compile(source, f"{path}/{name}", "exec", dont_inherit=True)
                head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
                made.writestr(zipfile.ZipInfo(f"{name}c"), head + marshal.dumps(code))
        made.comment = _NO_SEAL
    return data.getvalue()
