# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stores and removes the engines that a host keeps. `_ansible/engine_cache/start.py` says why they exist, and runs them."""

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
_NO_SEAL = b" " * 64  # has the length of the SHA-256 that replaces it
_UNCHECKED = (1).to_bytes(4, "little")  # PEP 552: validated by the hash of the source, which is not checked


def keep(sources: str, path: str) -> None:
    """Compile the archive `sources` and store it as `path`; remove what is kept of other versions and not in use. This only
    saves time and was not asked for, so errors are ignored. The name of `path` begins with the digest of `sources`."""
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
    """Remove what is kept, if the machine has no state directory of the collection any more. Must be the last act of a run,
    because what it would import later may be stored there."""
    if host.stat(STATE_DIRECTORY) is not None:
        return
    for name in host.listdir(ENGINES_DIRECTORY):
        host.remove(f"{ENGINES_DIRECTORY}/{name}")
    if host.stat(ENGINES_DIRECTORY) is not None:
        host.remove_directory(ENGINES_DIRECTORY)


def _remove_unused(host: Host, path: str) -> None:
    with suppress(HostError):  # a run holds it and imports from it
        descriptor = lock_file(path)
        host.remove(path)
        os.close(descriptor)


def seal(archive: bytes, digest: str) -> bytes:
    """Replace the blank comment at the end of the archive, which has the length of a seal, with its seal: proof that this
    content was made from sources with this digest. `_ansible/engine_cache/start.py` checks it before anything is
    imported."""
    content = archive[: -len(_NO_SEAL)]
    return content + hashlib.sha256(digest.encode() + content).hexdigest().encode()


def _compile(sources: bytes, path: str) -> bytes:
    """The archive, with the compiled code next to each source. `path` is its future location."""
    data = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(sources)) as archive, zipfile.ZipFile(data, "w") as made:
        for name in archive.namelist():
            source = archive.read(name)
            made.writestr(zipfile.ZipInfo(name), source)
            if name.endswith(".py"):
                code = compile(source, f"{path}/{name}", "exec", dont_inherit=True)
                head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
                made.writestr(zipfile.ZipInfo(f"{name}c"), head + marshal.dumps(code))
        made.comment = _NO_SEAL
    return data.getvalue()
