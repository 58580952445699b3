# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the engines that a host keeps come and go. `_ansible/kept.py` says why there are any, and runs them."""

from __future__ import annotations

import importlib.util
import io
import marshal
import os
import zipfile
from contextlib import suppress

from .errors import HostError
from .host import Host, LocalHost
from .local import lock_file
from .names import ENGINES_DIRECTORY, STATE_DIRECTORY

_OTHERS_WRITE = 0o022
_UNCHECKED = (1).to_bytes(4, "little")  # PEP 552: by the hash of the source, which is not looked at


def keep(sources: str, path: str) -> None:
    """The archive `sources` as `path`, compiled; and what is kept of other versions, and not in use, goes. It saves time and is
    no part of what was asked for, so what cannot be kept is not."""
    host, directory = LocalHost(), os.path.dirname(path)
    with suppress(HostError, zipfile.BadZipFile):
        found = host.stat(directory)
        if found is None:
            host.make_directory(directory, mode=0o700)
        elif found.kind != "directory" or found.uid != os.geteuid() or found.mode & _OTHERS_WRITE:
            return
        host.write(path, _compiled(sources, path), mode=0o600)
        for name in host.listdir(directory):
            if name != os.path.basename(path):
                _remove_unused(host, os.path.join(directory, name))


def forget(host: Host) -> None:
    """What is kept, once nothing of ours is left that it would be kept for. The last that a run does: what it goes on to import
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
