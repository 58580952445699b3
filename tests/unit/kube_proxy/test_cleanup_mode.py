# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""By what the clean-up knows the mode of kube-proxy, and the variant of iptables that it writes."""

from __future__ import annotations

from typing import Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.artefact import KEPT, REMOVED
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.engine import (
    ENGINE,
    SPEC,
    CleanupRequest,
    read_stale_rules,
)
from tests.unit.fakes import FakeHost

MODE_URL = "http://127.0.0.1:10249/proxyMode"


def answering(mode: str) -> FakeHost:
    host = FakeHost()
    host.given_port(10249)
    host.answer(MODE_URL, Response(200, mode.encode()))
    return host


def test_the_mode_is_what_kube_proxy_says() -> None:
    assert ENGINE.observe(Context(CleanupRequest(), answering("ipvs"))).mode == "ipvs"
    assert ENGINE.observe(Context(CleanupRequest("ipvs"), FakeHost())).mode == "ipvs"
    for given, host, id_ in (
        ("", FakeHost(), "residue-mode-unknown"),
        ("", answering("userspace"), "residue-mode-unknown"),
        ("nftables", answering("iptables"), "residue-mode-other"),
    ):
        with pytest.raises(BallastError) as caught:
            ENGINE.observe(Context(CleanupRequest(given), host))
        assert caught.value.id == id_


def test_a_kube_proxy_that_was_just_started_gets_time_to_answer() -> None:
    host = answering("nftables")
    started = host.monotonic() + 20

    def answer(url: str, _body: object) -> Response:
        if host.monotonic() < started:
            raise no_answer_error("GET", url, ConnectionRefusedError(111, "Connection refused"))
        return Response(200, b"nftables")

    host.answer(MODE_URL, answer)
    assert ENGINE.observe(Context(CleanupRequest(), host)).mode == "nftables"


@pytest.mark.parametrize(
    "address", ["10249", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "x@y:1", ":1", "a:²", "a/b:1"]
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    params = {name: spec.get("default") for name, spec in SPEC.items()}
    with pytest.raises((BallastError, Problems)) as caught:
        CleanupRequest.from_params({**params, "metrics_address": address}, FakeHost())
    assert caught.value.id == "residue-address"
    assert CleanupRequest.from_params({**params, "metrics_address": "[::1]:10249"}, FakeHost()).mode == ""


def two_variants(*, nft: str, legacy: str, here: str = "nf_tables") -> FakeHost:
    host = FakeHost()
    host.on("iptables", "--version", answer=f"iptables v1.8.11 ({here})\n", reads=True)
    for variant, text in (("nft", nft), ("legacy", legacy)):
        host.on(f"iptables-{variant}-save", answer=text, reads=True)
        host.on(f"ip6tables-{variant}-save", answer="", reads=True)
    return host


JUMPING = """\
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
COMMIT
"""
HINTED = "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n"


@pytest.mark.parametrize(
    ("nft", "legacy", "here", "left"),
    [
        (JUMPING, "", "nf_tables", None),
        ("", JUMPING, "nf_tables", None),  # kube-proxy's image chose the other one
        (JUMPING, JUMPING, "nf_tables", "legacy"),
        (JUMPING, JUMPING, "legacy", "nft"),
        (JUMPING + HINTED, JUMPING, "nf_tables", "legacy"),
        (JUMPING + HINTED, JUMPING + HINTED, "nf_tables", "legacy"),
        (JUMPING, JUMPING + HINTED, "nf_tables", "nobody knows"),
    ],
)
def test_which_variant_kube_proxy_writes(nft: str, legacy: str, here: str, left: Optional[str]) -> None:
    host = two_variants(nft=nft, legacy=legacy, here=here)
    found = read_stale_rules(host, "iptables", change_under_way=False)
    if left == "nobody knows":
        assert {(one.target, one.fate) for one in found} == {("iptables (legacy)", KEPT), ("iptables (nft)", KEPT)}
        assert "it is unknown which one" in found[0].why
    else:
        assert {one.target.split()[1] for one in found} == ({f"({left})"} if left else set())
        assert {one.fate for one in found} <= {REMOVED}
