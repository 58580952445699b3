# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connections through ipvs over a change of the mode: what is held, made again, and given back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import drain_record
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.drain_record import (
    count_open,
    read_draining,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.ipvs_connections import (
    give_back,
    hold,
    restore,
    settle,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_addresses import own_addresses, read_links
from tests.unit.fakes import FakeHost, Killed
from tests.unit.kube_proxy.draining_node import DNS, EXPIRE, FOREIGN, HIDDEN, IDLE, PORT, SIX, WEB, DrainingKernel
from tests.unit.rules.ipvs.kernel import LINK

RECORD = f"{drain_record.DIRECTORY}/host-draining.json"
BUSY = (WEB, DNS, PORT, SIX)


def changed(kernel: DrainingKernel, mode: str, *, drain_seconds: float = 600) -> None:
    """As switch.py does it."""
    draining = hold(kernel.on_host, drain_seconds=drain_seconds)
    kernel.kube_proxy_starts(mode)
    if draining is not None:
        restore(kernel.on_host, draining)
        settle(kernel.on_host, draining)


@pytest.mark.parametrize("mode", ["nftables", "iptables"])
def test_no_connection_is_lost_and_none_is_taken_any_more(mode: str) -> None:
    kernel = DrainingKernel()
    before = dict(kernel.open)
    changed(kernel, mode)
    assert kernel.open == before
    assert {key: weight for key, weight in kernel.weights().items() if key in BUSY} == dict.fromkeys(BUSY, "0")
    assert kernel.weights()[FOREIGN] == "3", "of another program: as it was"
    assert kernel.servers[FOREIGN].real["10.9.9.8:80"][0] == "-g"
    assert (IDLE in kernel.servers) == (mode == "iptables"), "without a connection nothing keeps it"
    assert kernel.links[LINK] == ["10.96.0.1", "10.96.0.2", "10.96.0.10", "fd00:96::1"]
    assert HIDDEN not in kernel.links
    assert kernel.silenced == set()


def test_while_virtual_servers_are_gone_nothing_answers_their_connections_with_a_reset() -> None:
    kernel = DrainingKernel()
    hold(kernel.on_host, drain_seconds=600)
    assert kernel.silenced == {"ip", "ip6"}
    give_back(kernel.on_host)
    assert kernel.silenced == set()


def test_while_kube_proxy_starts_it_finds_no_link_and_ip_vs_forgets_no_connection() -> None:
    kernel = DrainingKernel()
    hold(kernel.on_host, drain_seconds=600)
    assert LINK not in kernel.links
    assert kernel.on_host.text("/proc/sys/net/ipv4/vs/expire_nodest_conn") == "0\n"
    assert "10.96.0.1" not in own_addresses(read_links(kernel.on_host)), "addresses of Services are not the node's"


def test_nothing_is_held_where_nothing_is_to_be_kept_or_no_tool_keeps_it() -> None:
    assert hold(FakeHost(), drain_seconds=600) is None
    kernel = DrainingKernel()
    kernel.open.clear()
    del kernel.servers[FOREIGN]
    kernel.show()
    assert hold(kernel.on_host, drain_seconds=600) is None
    kernel = DrainingKernel()
    kernel.on_host._rules = [rule for rule in kernel.on_host._rules if rule.prefix[0] != "ipvsadm"]
    assert hold(kernel.on_host, drain_seconds=600) is None
    assert kernel.on_host.effects == []


def test_virtual_servers_of_other_programs_come_back_alone_and_nothing_drains() -> None:
    kernel = DrainingKernel()
    kernel.open = {FOREIGN: 1}
    kernel.show()
    changed(kernel, "nftables")
    assert list(kernel.servers) == [FOREIGN]
    assert read_draining(kernel.on_host) is None
    assert kernel.links.keys() == {"lo", "eth0"}, "kube-proxy removes the link, as no connection needs it"


def test_the_first_deadline_stays() -> None:
    kernel = DrainingKernel()
    changed(kernel, "iptables", drain_seconds=600)
    first = read_draining(kernel.on_host)
    assert first is not None
    assert first.until == first.since + 600
    kernel.on_host.sleep(60)
    changed(kernel, "nftables", drain_seconds=6000)
    second = read_draining(kernel.on_host)
    assert second is not None
    assert (second.since, second.until, second.own_keys) == (first.since, first.until, first.own_keys)
    assert PORT in kernel.servers, "the sets that named it are gone: the record does"


@pytest.mark.parametrize("starts", [False, True])
def test_the_way_back_finds_all_as_it_was(starts: bool) -> None:
    kernel = DrainingKernel()
    before, was_open = kernel.weights(), dict(kernel.open)
    draining = hold(kernel.on_host, drain_seconds=600)
    if starts:
        kernel.kube_proxy_starts("nftables")
    give_back(kernel.on_host)
    assert kernel.open == was_open
    assert {**before, **kernel.weights()} == before
    assert set(BUSY) <= kernel.servers.keys()
    assert LINK in kernel.links
    assert HIDDEN not in kernel.links
    assert draining is not None
    assert not kernel.on_host.paths(drain_record.DIRECTORY)


def test_a_link_that_kube_proxy_has_made_again_takes_the_place_of_the_hidden_one() -> None:
    kernel = DrainingKernel()
    hold(kernel.on_host, drain_seconds=600)
    kernel.links[LINK] = list(kernel.links[HIDDEN])
    kernel.show()
    give_back(kernel.on_host)
    assert HIDDEN not in kernel.links
    assert kernel.links[LINK]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_killed_anywhere_the_way_back_loses_no_connection(data: st.DataObject) -> None:
    """Whichever virtual servers have connections, and whenever kube-proxy starts and the run is killed."""
    kernel = DrainingKernel()
    kernel.open = dict.fromkeys(data.draw(st.sets(st.sampled_from(BUSY))), 1) | {FOREIGN: 1}
    kernel.show()
    was_open, before = dict(kernel.open), kernel.weights()
    number = data.draw(st.integers(1, 12))
    kernel.on_host.fail_at(number)
    try:
        draining = hold(kernel.on_host, drain_seconds=600)
        kernel.kube_proxy_starts(data.draw(st.sampled_from(("nftables", "iptables"))))
        if draining is not None:
            restore(kernel.on_host, draining)
            settle(kernel.on_host, draining)
    except Killed:
        pass
    kernel.on_host.calm()
    give_back(kernel.on_host)
    assert kernel.open == was_open
    assert {key for key, count in was_open.items() if count} <= kernel.servers.keys()
    assert all(before[key] == weight for key, weight in kernel.weights().items())
    assert HIDDEN not in kernel.links


def test_a_virtual_server_that_cannot_be_kept_fails_the_change() -> None:
    kernel = DrainingKernel()
    draining = hold(kernel.on_host, drain_seconds=600)
    kernel.kube_proxy_starts("nftables")
    assert draining is not None
    kernel.fail_on = "-A -t 10.96.0.1:80"
    with pytest.raises(BallastError) as caught:
        settle(kernel.on_host, draining)
    assert caught.value.id == "migrate-ipvs-lost"
    assert "10.96.0.1:80/TCP" in str(caught.value)


def test_open_are_those_that_may_still_carry_data() -> None:
    heading = "Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData\n"
    rows = [f"TCP 0A010009 9C40 0A600001 0050 0A010005 1F90 {state} 9" for state in ("ESTABLISHED", "FIN_WAIT")]
    rows += [f"TCP 0A010009 9C40 0A600001 0050 0A010005 1F90 {state} 9" for state in ("TIME_WAIT", "CLOSE", "NONE")]
    six = ":".join(["fd00", "0096", *["0000"] * 5, "0001"])
    rows.append(f"UDP {six} 9C40 {six} 0035 {six} 1F90 UDP 9")
    host = FakeHost(files={"/proc/net/ip_vs_conn": heading + "".join(f"{row}\n" for row in rows)})
    assert count_open(host) == {(0, "10.96.0.1", "TCP", 80): 2, (0, "fd00:96::1", "UDP", 53): 1}
    assert count_open(FakeHost()) == {}


def test_what_the_module_returns_of_it() -> None:
    kernel = DrainingKernel()
    assert drain_record.describe(kernel.on_host) is None
    changed(kernel, "nftables")
    found = drain_record.describe(kernel.on_host)
    draining = read_draining(kernel.on_host)
    assert draining is not None
    assert found == {
        "virtual_servers": 4,
        "connections": 5,
        "until": drain_record.show_time(draining.since + 600),
    }


@pytest.mark.parametrize("text", ["", "{}", '{"since": "x", "until": 1, "own": [], "others": []}'])
def test_a_record_that_is_none_is_refused(text: str) -> None:
    host = FakeHost()
    host.given(RECORD, text, mode=0o600)
    with pytest.raises(BallastError) as caught:
        read_draining(host)
    assert caught.value.id == "migrate-draining"


def test_the_setting_is_changed_where_kube_proxy_had_it() -> None:
    kernel = DrainingKernel()
    kernel.on_host.given_sysctl(EXPIRE, 0)
    hold(kernel.on_host, drain_seconds=600)
    assert not any("expire" in effect.target for effect in kernel.on_host.effects)
