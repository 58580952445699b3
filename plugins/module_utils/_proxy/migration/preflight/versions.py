# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Versions of programs, and spans of kube-proxy's releases."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

Version = tuple[int, int, int]

_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?![\d])", re.ASCII)


def parse_version(text: str) -> Optional[Version]:
    """Of what begins with a version, as in "v1.36.4", "6.18.44-amd64", "1.0.6.1"; a release candidate counts as its release."""
    found = _VERSION.match(text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def version_text(version: Version) -> str:
    major, minor, patch = version
    return f"{major}.{minor}.{patch}" if patch else f"{major}.{minor}"


@dataclass(frozen=True)
class Versions:
    """From `since` on, up to the releases in `before`: of each release branch the first that is out of the span. The last of
    them ends it for all later branches as well, as that of a mend which was taken back to older branches."""

    since: Version = (0, 0, 0)
    before: tuple[Version, ...] = ()  # ascending

    def __post_init__(self) -> None:
        if list(self.before) != sorted(set(self.before)) or any(one <= self.since for one in self.before):
            raise ValueError(f"no span of versions: {self}")

    def __contains__(self, version: Version) -> bool:
        ended = any(version[:2] == one[:2] and version >= one for one in self.before)
        return version >= self.since and not ended and (not self.before or version < self.before[-1])

    @property
    def limited(self) -> bool:
        return self != Versions()

    def __str__(self) -> str:
        """`1.29 to 1.33.5, 1.34.1` would need every release: this says where it ends, as in "from 1.29, before 1.33.6, 1.34.2, 1.35"."""
        parts = [f"from {version_text(self.since)}"] if self.since > (0, 0, 0) else []
        parts += [f"before {', '.join(version_text(one) for one in self.before)}"] if self.before else []
        return ", ".join(parts) or "all"
