# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of the kernel that modes left: which go to their default, and which stay."""

from __future__ import annotations

from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup import settings
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.artefact import KEPT

LOCALNET = "net.ipv4.conf.all.route_localnet"


def known(**fields: Any) -> settings.Known:
    values = {one.name: one.value for one in settings.SETTINGS}
    given = {
        "values": values,
        "recorded": {},
        "configured": {},
        "was_ipvs": True,
        "servers_stay": "",
        "loopback_rule": "",
    }
    return settings.Known(**{**given, **fields})


def changes(found: settings.Known, mode: str = "nftables") -> dict[str, str]:
    return {one.target: one.after for stage in settings.plan_settings(found, mode).stages for one in stage.operations}  # type: ignore[union-attr]


def test_settings_go_to_the_default_only_where_nothing_else_can_want_them() -> None:
    after = changes(known())
    assert after == {
        LOCALNET: "0",
        "net.ipv4.vs.conntrack": "0",
        "net.ipv4.vs.conn_reuse_mode": "1",
        "net.ipv4.vs.expire_nodest_conn": "0",
        "net.ipv4.vs.expire_quiescent_template": "0",
    }
    kept = {
        one.target.split()[0]: one.why
        for one in settings.plan_settings(known(), "nftables").artefacts
        if one.fate == KEPT
    }
    assert set(kept) == {"net.ipv4.conf.all.arp_ignore", "net.ipv4.conf.all.arp_announce", "net.ipv4.ip_forward"}


def test_settings_stay_where_something_wants_them() -> None:
    assert LOCALNET not in changes(known(loopback_rule="-A OTHER -j DNAT"))
    assert not any(name.startswith("net.ipv4.vs.") for name in changes(known(servers_stay="10.7.0.1:80/TCP")))
    assert set(changes(known(was_ipvs=False))) == {LOCALNET}
    assert LOCALNET not in changes(known(), "iptables")
    assert set(changes(known(), "ipvs")) == {LOCALNET}


def test_a_recorded_value_or_one_of_a_file_comes_first_but_forwarding_never_ends() -> None:
    arp = "net.ipv4.conf.all.arp_ignore"
    assert changes(known(recorded={arp: "0", "net.ipv4.ip_forward": "0"}))[arp] == "0"
    assert "net.ipv4.ip_forward" not in changes(known(recorded={"net.ipv4.ip_forward": "0"}))
    assert LOCALNET not in changes(known(configured={LOCALNET: ("1", "/etc/sysctl.d/x.conf")}))
    assert changes(known(configured={arp: ("2", "/etc/sysctl.d/x.conf")}))[arp] == "2"


def test_files_are_read_as_they_are_applied() -> None:
    names = {"/usr/lib/sysctl.d": ["50-a.conf", "60-b.conf", "README"], "/etc/sysctl.d": ["50-a.conf"]}
    assert settings.file_order(names) == ["/etc/sysctl.d/50-a.conf", "/usr/lib/sysctl.d/60-b.conf", "/etc/sysctl.conf"]
    found = settings.parse_files(
        [
            ("/a", "# c\n-net/ipv4/conf/all/route_localnet = 0\nnonsense\n=\n"),
            ("/b", "net.ipv4.conf.*.route_localnet=1\n"),
        ]
    )
    assert found == {LOCALNET: ("1", "/b")}
