# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a preflight reads of a node, from what its tools and its kernel print."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    BallastError,
    CommandFailed,
    UserError,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight import kernel
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.facts import Facts
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.versions import Versions, parse_version
from tests.unit.kube_proxy.preflight_node import IPVS, SOCKETS, asked, facts, node
from tests.unit.rules import given


def test_a_plain_node_is_read_whole() -> None:
    found = facts()
    states = dict.fromkeys(kernel.nftables_modules(), "loadable")
    assert found.modules == {**states, "nf_tables": "loaded", "nf_conntrack": "loaded"}
    assert (found.kernel, found.nft, found.version) == ((6, 12, 43), (1, 0, 6), (1, 36, 4))
    assert found.has_ipv6
    assert sorted(found.views) == sorted(found.before) == sorted(found.after) == [4, 6]
    nothing = replace(
        Facts(found.change), kernel=found.kernel, nft=found.nft, modules=found.modules, links=found.links,
        views=found.views, before=found.before, after=found.after, foreign=found.foreign,
    )  # fmt: skip
    assert found == nothing


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("v1.36.4", (1, 36, 4)),
        ("v1.37.0-rc.1", (1, 37, 0)),
        ("6.18.44-fc-v595", (6, 18, 44)),
        ("5.13.0+deb", (5, 13, 0)),
        ("1.0.6.1", (1, 0, 6)),
        ("6.12", (6, 12, 0)),
        ("", None),
        ("devel", None),
        ("v1", None),
        ("99999.1", None),
    ],
)
def test_versions_are_read_from_their_beginning(text: str, wanted: object) -> None:
    assert parse_version(text) == wanted


def test_a_span_of_versions_ends_in_each_branch_where_it_was_mended() -> None:
    span = Versions(since=(1, 29, 0), before=((1, 33, 6), (1, 34, 2), (1, 35, 0)))
    inside = [(1, 29, 0), (1, 32, 99), (1, 33, 5), (1, 34, 1)]
    outside = [(1, 28, 9), (1, 33, 6), (1, 33, 7), (1, 34, 2), (1, 35, 0), (1, 36, 0), (2, 0, 0)]
    assert [one in span for one in inside + outside] == [True] * len(inside) + [False] * len(outside)
    assert (1, 2, 3) in Versions()
    assert (str(span), str(Versions())) == ("from 1.29, before 1.33.6, 1.34.2, 1.35", "all")
    for wrong in (((1, 33, 0), (1, 32, 0)), ((1, 29, 0),)):
        with pytest.raises(ValueError, match="no span"):
            Versions(since=(1, 29, 0), before=wrong)


def test_virtual_servers_and_listeners_are_read() -> None:
    host = node()
    host.given(
        "/proc/net/ip_vs",
        IPVS + "TCP  0A600001:0050 rr\n  -> 0A010005:1F90      Masq    1      3          4\n"
        "UDP  [fd00:0000:0000:0000:0000:0000:0000:0001]:0035 rr\nFWM  00000007 wlc\n",
    )
    row = " 0: 0A00600A:0035 00000000:0000 {} 00000000:00000000 00:00000000 00000000 0 0 1 2 0\n"
    host.given("/proc/net/tcp", SOCKETS + row.format("0A") + row.format("01") + " 1: cut short\n")
    host.given("/proc/net/udp", SOCKETS + row.format("07"))
    found = facts(host=host)
    assert found.virtual_servers == {
        (0, "10.96.0.1", "TCP", 80): 7,
        (0, "fd00::1", "UDP", 53): 0,
        (7, "", "", 0): 0,
    }
    assert found.listeners == (("10.96.0.10", 53, "TCP"), ("10.96.0.10", 53, "UDP"))


def test_a_listing_of_ipvs_that_is_not_understood_is_told_of() -> None:
    host = node()
    host.given("/proc/net/ip_vs", f"{IPVS}NEW  0A600001:0050\n")
    assert [what for what, _problem in facts(host=host).unread] == ["/proc/net/ip_vs"]


def test_what_cannot_be_read_is_named_and_the_rest_is_read() -> None:
    host = node(rules="not of iptables\n")
    host.given("/proc/sys/kernel/osrelease", "mine\n")
    host.on("nft", "--version", answer="nftables of mine\n", reads=True)
    host.on("nft", "-j", "list", "chains", answer=CommandFailed(["nft"], status=1, output="no"), reads=True)
    host.on("ip", "-j", "address", "show", answer="[", reads=True)
    found = facts(host=host)
    assert [what for what, _problem in found.unread] == [
        "interfaces and addresses",
        "the version of the kernel",
        "the version of nft",
        "iptables rules of IPv4, variant nft",
        "tables of nftables",
    ]
    assert (found.kernel, found.nft) == (None, None)


def test_a_current_configuration_that_is_not_understood_is_no_input_error() -> None:
    question = asked()
    found = facts(replace(question, config={**question.config, "ofAnotherRelease": 1}))
    assert [what for what, _problem in found.unread] == ["kube-proxy's current configuration"]
    assert found.before == {}
    assert found.after != {}


def test_a_wanted_configuration_that_cannot_be_is_one() -> None:
    with pytest.raises(UserError) as caught:
        facts(asked(wanted={"nodePortAddresses": ["everywhere"]}))
    assert caught.value.id == "rules-config-value"


def test_a_snapshot_that_cannot_be_is_one() -> None:
    with pytest.raises(UserError):
        facts(asked(objects=(given.service(clusterIP="here"), given.node())))


@drawn(
    data=st.dictionaries(
        st.sampled_from(["kind", "items", "apiVersion", "spec"]), st.lists(st.text() | st.none()) | st.text()
    )
)
def test_whatever_the_snapshot_is_it_is_read_or_refused(data: dict[str, object]) -> None:
    try:
        facts(replace(asked(), snapshot=data))
    except BallastError:
        pass


@drawn(text=st.text(alphabet='kubeproxy_{}="\n 0123.e+-NaInf', max_size=200))
def test_whatever_metrics_are_they_are_read(text: str) -> None:
    counted = replace(facts_of_nothing(), change=replace(asked(), metrics=text)).count_of("kubeproxy_0")
    assert counted is None or math.isfinite(counted)


def facts_of_nothing() -> Facts:
    return Facts(asked())
