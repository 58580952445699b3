# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a process of our service proxy may do, as the kernel says."""

from __future__ import annotations

from pathlib import Path

NET_ADMIN = 1 << 12


def is_confined(pid: int, uid: int, gid: int) -> None:
    """All its threads are this user's, with CAP_NET_ADMIN alone, and get no more."""
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        rows = dict(line.split(":", 1) for line in status.read_text().splitlines())
        assert rows["Uid"].split() == [str(uid)] * 4, rows["Name"]
        assert (rows["Gid"].split(), rows["Groups"].split()) == ([str(gid)] * 4, [])
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert int(rows[name], 16) == NET_ADMIN, (rows["Name"], name)
        assert rows["NoNewPrivs"].split() == ["1"]
