# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layout of kube-proxy's nftables table is known by its chains, also where one of them is missing: so that what is missing is
reported, and not taken for another release."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.kube_proxy_layouts import LAYOUTS, layout_of

OF_A_SERVICE = ("service-ABC-default/web/tcp/http", "endpoint-DEF-default/web/tcp/http__10.244.1.5/8080")


@pytest.mark.parametrize("last_minor", [layout.last_minor for layout in LAYOUTS])
def test_a_layout_is_known_without_any_one_of_its_chains(last_minor: int) -> None:
    layout = next(row for row in LAYOUTS if row.last_minor == last_minor)
    for chains in (layout.required, layout.required.union(layout.others)):
        for absent in ("", *sorted(chains)):
            assert layout_of([*chains - {absent}, *OF_A_SERVICE]) is layout, absent


def test_an_empty_table_is_of_the_newest() -> None:
    assert layout_of(()) is LAYOUTS[0]


def test_releases_follow_each_other() -> None:
    minors = [layout.last_minor for layout in LAYOUTS]
    assert minors == sorted(minors, reverse=True)
