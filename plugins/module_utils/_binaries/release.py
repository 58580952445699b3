# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs from upstream's release pages: downloaded by curl, checked before anything is made of them."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Mapping
from typing import Optional

from .._core.errors import CommandFailed, Unavailable
from .._core.host import Host
from .families import Family, Release
from .messages import MESSAGES

_DOWNLOAD_SECONDS = 1800


class Downloads:
    """The release files of one run. An archive is fetched once for all the programs in it."""

    def __init__(self, host: Host, *, checksums: Mapping[str, str], environment: Mapping[str, str], work: str) -> None:
        self._host = host
        self._checksums = checksums
        self._environment = environment
        self._work = work
        self._archives: dict[str, bytes] = {}

    def program(self, family: Family, *, name: str, version: str, base: str, architecture: str) -> bytes:
        """The content of one program, whose checksum, or that of its archive, held."""
        fields = {"base": base, "version": version, "arch": architecture, "name": name}
        url = family.release.url.format(**fields)
        if not family.release.archive:
            return self._checked(url, family.release, key=name, fields=fields)
        if url not in self._archives:
            self._archives[url] = self._checked(url, family.release, key=family.name, fields=fields)
        data = archive_member(self._archives[url], family.release.member.format(**fields))
        if data is None:
            raise MESSAGES.error("binaries-archive-member", url=url, name=name)
        return data

    def _checked(self, url: str, release: Release, *, key: str, fields: Mapping[str, str]) -> bytes:
        wanted = self._checksums.get(key) or self._published(url, release.checksum.format(**fields))
        data = self._get(url)
        found = hashlib.sha256(data).hexdigest()
        if found != wanted:
            raise MESSAGES.error("binaries-download-checksum", found=f"{found}, published {wanted}", url=url)
        return data

    def _published(self, url: str, checksum_url: str) -> str:
        file = url.rsplit("/", 1)[1]
        wanted = parse_checksum(self._get(checksum_url).decode(errors="replace"), file=file)
        if wanted is None:
            raise MESSAGES.error("binaries-no-checksum", url=checksum_url, file=file)
        return wanted

    def _get(self, url: str) -> bytes:
        path = os.path.join(self._work, "download")
        # Redirections are followed, since releases live behind them; what comes is trusted for its checksum only.
        argv = ["curl", "--fail", "--silent", "--show-error", "--location", "--proto", "=http,https", "--retry", "3"]
        try:
            self._host.run(
                [*argv, "--output", path, "--", url], timeout=_DOWNLOAD_SECONDS, env=self._environment, cwd=self._work
            )
        except Unavailable as error:
            raise Unavailable("curl", package="curl") from error
        except CommandFailed as error:
            raise MESSAGES.error("binaries-download", found=error.found, url=url) from error
        data = self._host.read(path) or b""
        self._host.remove(path)
        return data


def parse_checksum(text: str, *, file: str) -> Optional[str]:
    """The SHA-256 of `file`: the only word of the text, or the first word of the line that names it. None when there is none."""
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
    """The content of a regular file in a compressed tar archive; None when the archive has no such file."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            path = member.name[2:] if member.name.startswith("./") else member.name
            if path == name and member.isfile():
                file = tar.extractfile(member)
                return file.read() if file else None
    return None
