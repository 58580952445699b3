# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether etcd exits because its data is damaged or of a later etcd, by its log. Pure.

The patterns are what etcd 3.6 logged when its files were overwritten, cut and emptied for a test. Other reasons to exit (a
port in use, a full disk) match none of them.
"""

from __future__ import annotations

import re

_SIGN = re.compile(
    r"walpb: crc mismatch|wal: (?:crc mismatch|slice bounds out of range)|snap: (?:crc mismatch|empty snapshot)"
    r"|invalid database|checksum error|failed to find database snapshot file"
    r"|panic: (?:assertion failed: Page|freepages: |page \d|cannot use none as id)"
    r"|fatal error: fault"  # a mapped file that was cut is read behind its end
)
_LATER = re.compile(r'"error":"version \\{0,2}"(\d{1,4}\.\d{1,4})\.\d{1,4}\\{0,2}" is not supported"')
_JSON_ERROR = re.compile(r'"error":"([^"]{1,300})"')


def find_damage(log: str) -> str:
    """The last line of etcd's log that reports damaged data; empty when none does."""
    for line in reversed(log.splitlines()):
        if _SIGN.search(line):
            error = _JSON_ERROR.search(line)
            return error[1] if error else line[:300]
    return ""


def find_later_version(log: str) -> str:
    """The minor version ("3.7") of the etcd that wrote the data, where an older one refuses it; empty where none does."""
    versions = _LATER.findall(log)
    return versions[-1] if versions else ""
