# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Binaries from upstream's release sites: downloaded with curl, and verified before use."""

from __future__ import annotations

import hashlib
import io
import os
import re
import signal
from collections.abc import Mapping
from typing import Optional

from .._archives.tarred import FILE, Damaged, decompress, read_members
from .._core.host.host import Host
from .._core.text.errors import CommandFailed, Unavailable
from .families import Family, Release
from .messages import MESSAGES
from .pinned import PINNED

_DOWNLOAD_SECONDS = 1800  # for the whole download
_FILE_LIMIT = 512 * 2**20  # bytes; the largest files today are below 100 MiB
_CHECKSUMS_LIMIT = 2**20
_UNPACKED_LIMIT = 2 * 2**30
_ENTRIES = 10_000
# curl's exit codes (curl(1), EXIT CODES), and the signal of the kernel's file size limit.
_FAILURES = {
    1: "binaries-download-plain",
    63: "binaries-download-large",
    -signal.SIGXFSZ: "binaries-download-large",
}


class Downloads:
    """The release files of one run. An archive is fetched once for all the binaries in it."""

    def __init__(self, host: Host, *, checksums: Mapping[str, str], environment: Mapping[str, str], work: str) -> None:
        self._host = host
        self._checksums = checksums
        self._environment = environment
        self._work = work
        self._archives: dict[str, bytes] = {}

    def program(self, family: Family, *, name: str, version: str, base: str, architecture: str) -> bytes:
        """The verified content of one binary."""
        fields = {"base": base, "version": version, "arch": architecture, "name": name}
        url = family.release.url.format(**fields)
        if not family.release.archive:
            return self._get_checked(url, family.release, key=name, fields=fields)
        if url not in self._archives:
            self._archives[url] = self._get_checked(url, family.release, key=family.name, fields=fields)
        try:
            data = archive_member(self._archives[url], family.release.member.format(**fields))
        except Damaged as error:
            raise MESSAGES.error("binaries-archive-damaged", found=str(error), url=url) from error
        if data is None:
            raise MESSAGES.error("binaries-archive-member", url=url, name=name)
        return data

    def _get_checked(self, url: str, release: Release, *, key: str, fields: Mapping[str, str]) -> bytes:
        expected = (
            self._checksums.get(key)
            or PINNED.get((key, fields["version"], fields["arch"]))
            or self._get_checksum(url, release.checksum.format(**fields))
        )
        data = self._get(url, limit=_FILE_LIMIT)
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 != expected:
            raise MESSAGES.error("binaries-download-checksum", found=f"{sha256}, expected {expected}", url=url)
        return data

    def _get_checksum(self, url: str, checksum_url: str) -> str:
        file = url.rsplit("/", 1)[1]
        text = self._get(checksum_url, limit=_CHECKSUMS_LIMIT).decode(errors="replace")
        sha256 = parse_checksum(text, file=file)
        if sha256 is None:
            raise MESSAGES.error("binaries-no-checksum", url=checksum_url, file=file)
        return sha256

    def _get(self, url: str, *, limit: int) -> bytes:
        path = os.path.join(self._work, "download")
        # A file and its checksum come over the same connection, so it must be https, unless the operator configured an http mirror.
        schemes = "=http,https" if url.startswith("http://") else "=https"
        argv = ["curl", "--fail", "--silent", "--show-error", "--proto", schemes]
        # Redirects are followed, as release files are often behind them.
        argv += ["--location", "--proto-redir", schemes, "--max-redirs", "5"]
        argv += ["--connect-timeout", "30", "--max-time", str(_DOWNLOAD_SECONDS), "--retry", "3"]
        argv += ["--max-filesize", str(limit), "--output", path, "--config", "-"]
        try:
            self._host.run(
                argv,
                timeout=_DOWNLOAD_SECONDS,
                stdin=setting("url", url),
                env=self._environment,
                cwd=self._work,
                writes=limit,  # curl before 8.4 only checks the size that a server announces
            )
        except Unavailable as error:
            raise Unavailable("curl", package="curl") from error
        except CommandFailed as error:
            raise MESSAGES.error(
                _FAILURES.get(error.status, "binaries-download"), found=error.found, url=url
            ) from error
        data = self._host.read(path, limit=limit) or b""
        self._host.remove(path)
        return data


def setting(name: str, value: str) -> bytes:
    """A setting in the form that curl reads from standard input. On the command line every user could read a password in it."""
    quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'{name} = "{quoted}"\n'.encode()


def parse_checksum(text: str, *, file: str) -> Optional[str]:
    """The SHA-256 of `file`: the only word of the text, or the first word of the line that names it."""
    words = text.split()
    if len(words) == 1 and _is_sum(words[0]):
        return words[0].lower()
    for line in text.splitlines():
        parts = line.split()
        # "hash  name" and "hash *name" (read in binary mode) are the forms of sha256sum(1); some name it with a directory.
        if len(parts) == 2 and _is_sum(parts[0]) and parts[1].lstrip("*").rsplit("/", 1)[-1] == file:
            return parts[0].lower()
    return None


def _is_sum(text: str) -> bool:
    return re.fullmatch(r"[0-9a-fA-F]{64}", text) is not None


def archive_member(archive: bytes, name: str) -> Optional[bytes]:
    """The content of a regular file in a compressed tar archive; None when the archive lacks it. Raises Damaged for an archive
    that is unreadable or too large."""
    source = decompress(io.BytesIO(archive))
    for member in read_members(source, entries=_ENTRIES, size=_UNPACKED_LIMIT):
        if member.name == name and member.kind == FILE:
            return b"".join(member.pieces())
    return None
