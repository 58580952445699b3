# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""KubeProxyConfiguration as kubeadm and kubespray write it: read, checked and changed, on a node without PyYAML."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.config_file import (
    changed_text,
    healthz_url,
    metrics_url,
    parse_config,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.rules import preflight
from ansible_collections.ballast.kube.plugins.module_utils._rules.config_keys import check_config
from tests.unit.kube_proxy.preflight_node import LINKS, asked, facts, node

FORMS = Path(__file__).parents[1] / "core/cases/plain_yaml"
KUBEADM, KUBESPRAY = "kubeadm_kube_proxy_config_conf", "kubespray_kube_proxy_configuration"
DNS = {**LINKS, "nodelocaldns": ("169.254.25.10",)}  # kubespray's default address of it


@pytest.fixture(params=[KUBEADM, KUBESPRAY, "kube_proxy_defaults_1.37"])
def text(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(sys.modules, "yaml", None)
    return (FORMS / f"{request.param}.conf").read_text(encoding="utf-8")


def test_it_is_understood_and_only_the_mode_changes(text: str) -> None:
    config = parse_config(text, path="it")
    problems: list[BallastError] = []
    check_config(config, problems)
    assert problems == []
    assert (metrics_url(config), healthz_url(config)) == ("http://127.0.0.1:10249", "http://127.0.0.1:10256")
    again = changed_text(text, {"mode": "nftables"}, path="it")
    assert parse_config(again, path="it") == {**config, "mode": "nftables"}
    assert list(parse_config(again, path="it")) == list(config)


@pytest.mark.parametrize(
    ("form", "from_mode", "links", "strict_arp", "ids"),
    [
        (KUBEADM, "iptables", LINKS, False, set()),
        (KUBESPRAY, "ipvs", LINKS, False, set()),
        (KUBESPRAY, "ipvs", DNS, False, set()),
        (KUBESPRAY, "ipvs", DNS, True, {"preflight-ipvs-strict-arp"}),  # kube_proxy_strict_arp, as MetalLB needs it
    ],
)
def test_the_preflight_has_nothing_against_their_defaults(
    form: str, from_mode: str, links: dict[str, tuple[str, ...]], strict_arp: bool, ids: set[str]
) -> None:
    config = parse_config((FORMS / f"{form}.conf").read_text(encoding="utf-8"), path=form)
    given = {**config, "mode": from_mode, "ipvs": {**config["ipvs"], "strictARP": strict_arp}}
    findings = preflight(facts(asked(from_mode, "nftables", config=given, deployment="daemonset"), node(links=links)))
    assert {finding.id for finding in findings} == ids
