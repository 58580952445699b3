# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The disk of User Mode Linux that holds what differs from an image."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._vm.cow import cow_header


def test_an_empty_disk_is_as_the_kernel_would_make_it() -> None:
    header, size = cow_header("/images/root.img", size=8 * 2**30, mtime=1735689600)
    assert header[:44].hex() == "4f4f4f4d00000003677485800000000200000000000002000000100000000000" + (
        b"/images/root".hex()
    )
    assert len(header) == 32 + 4096
    # A bitmap of 2 MiB follows, and the sectors begin at the next page.
    assert size == 4096 + 4096 + 2 * 2**20 + 8 * 2**30


def test_a_size_that_is_not_of_whole_pages() -> None:
    _header, size = cow_header("/i", size=512, mtime=0)
    assert size == 8192 + 512
