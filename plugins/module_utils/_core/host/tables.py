# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses numbers, and tables of names and numbers, as the kernel prints them."""

from __future__ import annotations

from typing import Optional

from .host import Host


def read_meminfo(host: Host) -> dict[str, int]:
    """/proc/meminfo by name, in bytes."""
    return {name.rstrip(":"): 1024 * kib for name, kib in parse_table(host.read("/proc/meminfo")).items()}


def parse_table(data: Optional[bytes]) -> dict[str, int]:
    """Lines "name number ..."; other lines are skipped."""
    rows = [line.split() for line in (data or b"").decode(errors="replace").splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isascii() and row[1].isdigit()}


def parse_number(data: Optional[bytes]) -> Optional[int]:
    """The content of a file with one number; None if it is absent or holds a word such as `max`."""
    text = (data or b"").strip()
    return int(text) if text.isdigit() else None
