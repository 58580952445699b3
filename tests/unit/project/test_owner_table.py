# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._kubelet.owners import OWNERS
from scripts import owner_table
from scripts.owner_table import as_markdown


def test_the_page_has_each_owner() -> None:
    assert owner_table.main(["--check"]) == 0
    text = as_markdown()
    assert all(f"| {owner.title} |" in text for owner in OWNERS)
