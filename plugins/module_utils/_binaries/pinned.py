# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pinned SHA-256 of releases, so that a release site alone does not vouch for its files.

A row is (a family whose release is an archive, else a binary; version; architecture). A value is only pinned after it was
compared with at least three projects that pin it independently. Other files are compared with the release site's checksum
file. The option `checksums` overrides both.
"""

from __future__ import annotations

from collections.abc import Mapping

PINNED: Mapping[tuple[str, str, str], str] = {
    ("cni", "1.9.1", "amd64"): "b98f74a0f8522f0a83867178729c1aa70f2158f90c45a2ca8fa791db1c76b303",
    ("cni", "1.9.1", "arm64"): "56171987d3947707c3563db2f4001bccaf50fd63468611b9f3cbecb1375ee7ec",
    ("cri-tools", "1.36.0", "amd64"): "83855e114566a8a8c44c548d515670f51de3a5e1da8b2effb59870e2f10c25a3",
    ("etcd", "3.6.14", "amd64"): "ffe840ff9295808e88cce2794a18a5ac87f12a5203c8314d0bf6aa119b41bac5",
}
