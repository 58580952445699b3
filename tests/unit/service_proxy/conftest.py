# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from tests.unit.service_proxy.loop_world import World, endpoints, web
from tests.unit.service_proxy.objects import NAMES, NODE_NAME


@pytest.fixture
def world() -> World:
    made = World()
    addresses = [{"type": "InternalIP", "address": address} for address in ("192.168.1.10", "fd00:50::10")]
    made.api.put("Node", {"metadata": {"name": NODE_NAME, "resourceVersion": "1"}, "status": {"addresses": addresses}})
    for name in NAMES:
        made.api.put("Service", web(name))
        made.api.put("EndpointSlice", endpoints(name, "10.1.1.5", "10.1.1.6"))
    return made
