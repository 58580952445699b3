# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from tests.unit.instance import given as g
from tests.unit.instance.kernel import Kernel


@pytest.fixture(params=list(g.MACHINES))
def host(request: pytest.FixtureRequest) -> Kernel:
    cgroups, systemd = g.MACHINES[request.param]
    return g.machine(cgroups=cgroups, systemd=systemd)
