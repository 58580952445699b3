# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Versions of programs, and ranges of kube-proxy's releases."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

Version = tuple[int, int, int]

_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?![\d])", re.ASCII)


def parse_version(text: str) -> Optional[Version]:
    """Parse a text such as "v1.36.4", "6.18.44-amd64" or "1.0.6.1"; a release candidate counts as its release."""
    match = _VERSION.match(text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def version_text(version: Version) -> str:
    major, minor, patch = version
    return f"{major}.{minor}.{patch}" if patch else f"{major}.{minor}"


@dataclass(frozen=True)
class Versions:
    """All versions from `since` on, up to the releases in `before`: for each branch the first one outside the range, as for
    a backported fix. The last of them ends the range for all later branches."""

    since: Version = (0, 0, 0)
    before: tuple[Version, ...] = ()  # ascending

    def __post_init__(self) -> None:
        if list(self.before) != sorted(set(self.before)) or any(end <= self.since for end in self.before):
            raise ValueError(f"no span of versions: {self}")

    def __contains__(self, version: Version) -> bool:
        ended = any(version[:2] == end[:2] and version >= end for end in self.before)
        return version >= self.since and not ended and (not self.before or version < self.before[-1])

    @property
    def limited(self) -> bool:
        return self != Versions()

    def __str__(self) -> str:
        """As in "from 1.29, before 1.33.6, 1.34.2, 1.35"."""
        parts = [f"from {version_text(self.since)}"] if self.since > (0, 0, 0) else []
        parts += [f"before {', '.join(version_text(end) for end in self.before)}"] if self.before else []
        return ", ".join(parts) or "all"
