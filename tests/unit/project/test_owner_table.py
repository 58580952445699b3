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


def test_where_a_kubelet_takes_flags_the_way_says_which_limit_has_none() -> None:
    by_flags = [owner for owner in OWNERS if "serialize-image-pulls" in owner.image_pulls]
    assert len(by_flags) == 5
    assert [owner.name for owner in by_flags if "maxParallelImagePulls" not in owner.image_pulls] == []
    assert all("no flag" in owner.image_pulls for owner in by_flags)
