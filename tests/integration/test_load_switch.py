# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The load sees what a restart of kube-proxy in another mode costs: what `make bench-migrate` rests on."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES
from tests.bench.migrate import IPTABLES, NFTABLES, ORIGINS, STOCK, Bench, Sizes, calm_at_last, switched
from tests.bench.rules import binaries
from tests.integration.kube_proxy import control_plane
from tests.integration.loaded_node import AWAY, LOCAL
from tests.integration.supervised_proxy import LEGACY, NFT

VERSION = os.environ.get("LAB_KUBERNETES", DEFAULT_KUBERNETES)

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can make network namespaces")]


@pytest.mark.parametrize("variant", [LEGACY, NFT])
def test_a_stock_restart_fails_connections_and_a_time_without_one_does_not(variant: str, tmp_path: Path) -> None:
    bin_dir, version = binaries(VERSION)
    with control_plane(version, bin_dir, tmp_path) as api, ExitStack() as undo:
        bench = Bench(api, bin_dir, tmp_path, Sizes(services=500, calm=5, rounds=1))
        road = bench.road(undo, ORIGINS[variant], bench.fill(), IPTABLES)
        quiet = calm_at_last(road.running, 5)  # in which nothing fails
        assert quiet["total"]["attempts"] > 5000
        there = switched(road, STOCK, NFTABLES)
        back = switched(road, STOCK, IPTABLES)
        undo.close()
    for found in (there, back):
        assert found["total"]["failures"] > 0
        assert 0 < found["total"]["outage_seconds"] < found["seconds"] + 5
    for records in road.running.records[:2]:
        assert {name.partition(":")[0] for name in records.answered_by} == {
            *(f"local{number}" for number in range(len(LOCAL))),
            *(f"away{number}" for number in range(len(AWAY))),
        }
