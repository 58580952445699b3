# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network of instances, as a real kernel has it."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._instance.network import NETWORK_KINDS
from tests.integration.wire import namespace

BRIDGE, MAC = "ballast-btest", "02:00:00:00:00:99"


def test_a_bridge_keeps_its_link_address_when_a_port_with_a_lower_one_is_added() -> None:
    """Else the instances that were there before do not reach the host for the time that they remember the old one."""
    kind = NETWORK_KINDS["bridge"]
    wanted = {"address": "10.97.0.1/24", "mac": MAC, "up": True}
    with namespace("bridge") as host:
        kind.write(Context(None, host), BRIDGE, wanted, ABSENT)
        assert kind.read(Context(None, host), BRIDGE) == wanted
        for port, address in (("first", "02:00:00:00:00:02"), ("second", "02:00:00:00:00:01")):
            host.run(["ip", "link", "add", port, "address", address, "type", "veth"], timeout=60)
            host.run(["ip", "link", "set", port, "master", BRIDGE, "up"], timeout=60)
            assert kind.read(Context(None, host), BRIDGE) == wanted
