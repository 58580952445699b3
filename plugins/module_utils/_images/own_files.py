# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that come from no package: the user's files and directories on the building machine, and the collection's own programs.

A request keeps a digest of each, so that an archive is built again when they change. Owners and dates are ignored.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Union

from .._agent.program import build_archive, sources_digest
from .._core.host.host import PROGRAM_LIMIT, Host
from .definitions import File, Image
from .layout import FileEntry, LinkEntry
from .messages import MESSAGES

if TYPE_CHECKING:
    from .._agent.installation import Installation

    # Ansible ships a machine only the imported files, and the program is built from them there. The module runs none of it.
    from .._service_proxy import main  # noqa: F401

LocalEntry = Union[FileEntry, LinkEntry]
_ENTRIES_MOST = 20_000
_LINKS_MOST = 40  # the kernel's limit
_EXECUTABLE = 0o100


def with_digests(host: Host, image: Image) -> Image:
    """The image with the present digests of its own files. UserError when a file cannot be in an image."""
    return replace(image, files=tuple(_with_digest(host, image, file) for file in image.files))


def _with_digest(host: Host, image: Image, file: File) -> File:
    if file.local is not None:
        return replace(file, digest=_digest(read_local(host, image, file)))
    if file.agent is not None:
        agent = _agent(file.agent)
        return replace(file, digest=sources_digest(agent.main, agent.packages))
    return file


def read_agent(file: File) -> FileEntry:
    """The collection's program that the file names, as one executable archive for Python."""
    agent = _agent(file.agent or "")
    return FileEntry(path=file.path, data=build_archive(agent.main, agent.packages), mode=0o644)


def _agent(name: str) -> Installation:
    # Imported only for an image that uses it: this takes as long as all other imports of this package together.
    from .._service_proxy.deployment.installation import INSTALLATION

    return {INSTALLATION.agent.short: INSTALLATION}[name]


def read_local(host: Host, image: Image, file: File) -> list[LocalEntry]:
    """What is at `file.local`, as entries at and below `file.path`, sorted. UserError for what an image cannot contain, HostError when it
    differs from what the request's digest was made from."""
    root = _follow(host, image, file.local or "")
    entries: list[LocalEntry] = []
    size = 0
    for path in _walk(host, image, root):
        entry = _entry(host, image, path, to=file.path + path[len(root) :])
        size += len(entry.data) if isinstance(entry, FileEntry) else 0
        if len(entries) >= _ENTRIES_MOST or size > PROGRAM_LIMIT:
            most = f"{_ENTRIES_MOST} files and {PROGRAM_LIMIT // 2**20} MiB"
            raise MESSAGES.error("image-local-large", image=image.name, path=root, most=most)
        entries.append(entry)
    if file.digest is not None and file.digest != _digest(entries):
        raise MESSAGES.error("image-local-changed", image=image.name, path=root)
    return entries


def _follow(host: Host, image: Image, path: str) -> str:
    """The target of a link that the user names. Links inside a directory stay links."""
    for _link in range(_LINKS_MOST):
        stat = host.stat(path)
        if stat is None or stat.kind != "symlink":
            return path
        path = os.path.normpath(os.path.join(os.path.dirname(path), host.readlink(path) or ""))
    raise MESSAGES.error("image-local", image=image.name, path=path, what="a link to itself")


def _walk(host: Host, image: Image, path: str) -> Iterator[str]:
    stat = host.stat(path)
    if stat is None:
        raise MESSAGES.error("image-local", image=image.name, path=path, what="nothing")
    if stat.kind != "directory":
        yield path
        return
    for name in host.listdir(path):
        yield from _walk(host, image, os.path.join(path, name))


def _entry(host: Host, image: Image, path: str, *, to: str) -> LocalEntry:
    stat = host.stat(path)
    if stat is not None and stat.kind == "symlink":
        return LinkEntry(path=to, to=host.readlink(path) or "")
    if stat is None or stat.kind != "file":  # a device, a socket or a pipe; or it was removed after it was listed
        what = "nothing" if stat is None else "neither a file, a directory nor a link"
        raise MESSAGES.error("image-local", image=image.name, path=path, what=what)
    data = host.read(path, limit=PROGRAM_LIMIT)
    if data is None:
        raise MESSAGES.error("image-local", image=image.name, path=path, what="nothing")
    return FileEntry(path=to, data=data, mode=0o755 if stat.mode & _EXECUTABLE else 0o644)


def _digest(entries: Sequence[LocalEntry]) -> str:
    total = hashlib.sha256()
    for entry in entries:
        content = entry.data if isinstance(entry, FileEntry) else entry.to.encode()
        kind = f"{entry.mode:o}" if isinstance(entry, FileEntry) else "link"
        total.update(f"{len(entry.path)} {entry.path} {kind} {len(content)} ".encode() + content)
    return total.hexdigest()
