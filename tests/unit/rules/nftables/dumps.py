# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules as nft 1.0.6 listed them from a kernel; tests/integration/test_nft_language.py makes them anew."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "dumps"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.nft")))


def text(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text()


def form(name: str) -> str:
    return (FOLDER / f"{name}.json").read_text()
