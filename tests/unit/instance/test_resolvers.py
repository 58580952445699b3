# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods get resolvers that they can reach."""

from __future__ import annotations

import json
from typing import Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._instance import config
from ansible_collections.ballast.kube.plugins.module_utils._instance.model import desired_from_params
from ansible_collections.ballast.kube.plugins.module_utils._instance.resolvers import OF_RESOLVED, find_resolv_conf
from tests.unit.fakes import FakeHost
from tests.unit.instance import given as g

STUB = "# stub\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch example.org\n"
REAL = "nameserver 192.0.2.1\nnameserver fe80::1%eth0\n"


def machine(default: Optional[str], of_resolved: Optional[str]) -> FakeHost:
    host = FakeHost()
    for path, text in (("/etc/resolv.conf", default), (OF_RESOLVED, of_resolved)):
        if text is not None:
            host.given(path, text)
    return host


@pytest.mark.parametrize(
    ("default", "of_resolved", "found"),
    [
        (STUB, REAL, OF_RESOLVED),
        ("nameserver ::1\n", REAL, OF_RESOLVED),
        (None, REAL, OF_RESOLVED),
        (REAL, STUB, ""),
        ("nameserver 127.0.0.1\nnameserver 192.0.2.1\n", REAL, ""),
        (STUB, None, ""),
        (STUB, STUB, ""),
        (STUB, "nameserver\nnameserver none\n", ""),
        (STUB, "nameserver fe80::1%eth0\n", OF_RESOLVED),
    ],
)
def test_resolvers_on_loopback_are_of_no_use_in_a_network_namespace(
    default: Optional[str], of_resolved: Optional[str], found: str
) -> None:
    assert find_resolv_conf(machine(default, of_resolved)) == found


@pytest.mark.parametrize("stub", ["127.0.0.1", "127.0.1.1", "::1", "0.0.0.0"])
@pytest.mark.parametrize("behind", ["/run/NetworkManager/no-stub-resolv.conf", "/run/dnsmasq/resolv.conf"])
def test_behind_a_dnsmasq_of_this_machine_are_real_resolvers(stub: str, behind: str) -> None:
    host = machine(f"nameserver {stub}\n", None)
    assert find_resolv_conf(host) == ""
    host.given(behind, REAL)
    assert find_resolv_conf(host) == behind
    host.given(OF_RESOLVED, REAL)
    assert find_resolv_conf(host) == OF_RESOLVED


@pytest.mark.parametrize(("default", "found"), [(STUB, OF_RESOLVED), (REAL, None)])
def test_a_kubelet_gives_pods_the_resolvers_behind_the_stub(default: str, found: Optional[str]) -> None:
    desired = desired_from_params(g.params(), machine(default, REAL))
    assert json.loads(config.kubelet(desired, desired.instances[0], "/srv/n1")).get("resolvConf") == found
