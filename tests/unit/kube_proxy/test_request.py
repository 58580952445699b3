# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import Problems, UserError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.installation import Installation
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.request import INFO_SPEC, SPEC, KubeProxyRequest
from tests.unit.kube_proxy.fake_node import params

OPTION, CONFIG_KEY, CONFIG_VALUE = "migrate-option", "rules-config-key", "rules-config-value"


@pytest.mark.parametrize(
    ("options", "id", "says"),
    [
        ({"drain_seconds": -1}, OPTION, "drain_seconds: -1 is not at least 0"),
        ({"verify_seconds": 0}, OPTION, "verify_seconds: 0 is not at least 1"),
        ({"confirm_within": -5}, OPTION, "confirm_within: -5 is not at least 0"),
        ({"probe_service": "web"}, OPTION, "probe_service: web is not NAMESPACE/NAME"),
        ({"probe_service": "a/b/c"}, OPTION, "probe_service: a/b/c is not NAMESPACE/NAME"),
        ({"config": {"mode": "ipvs"}}, OPTION, "config.mode: ipvs is not set in config"),
        ({"config": {"mode": None}}, OPTION, "config.mode: None is not set in config"),
        ({"config": {"clusterCidr": "10.0.0.0/8"}}, CONFIG_KEY, "did you mean clusterCIDR?"),
        ({"config": {"masqueradeAll": True}}, CONFIG_KEY, "iptables.masqueradeAll or nftables.masqueradeAll"),
        ({"config": {"nftables": {"masqueradeBit": "14"}}}, CONFIG_VALUE, "nftables.masqueradeBit"),
        ({"config": {"iptables": True}}, CONFIG_VALUE, "iptables"),
        ({"config": {"kind": "KubeletConfiguration"}}, CONFIG_VALUE, "KubeProxyConfiguration"),
        ({"acknowledge": ["preflight-nonsense"]}, "preflight-acknowledge-unknown", "preflight-nonsense"),
    ],
    ids=str,
)
def test_a_wrong_option_is_told_by_its_name_with_what_to_do(options: dict[str, Any], id: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        KubeProxyRequest.from_params(params(**options))
    error = caught.value
    assert error.id == id
    assert says in str(error)
    assert error.remedy


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(Problems) as caught:
        KubeProxyRequest.from_params(
            params(drain_seconds=-1, probe_service="web", config={"nonsense": 1, "mode": "ipvs"})
        )
    assert sorted(one.id for one in caught.value.problems) == [OPTION, OPTION, OPTION, CONFIG_KEY]


def test_null_removes_a_key_and_is_no_wrong_value() -> None:
    config = {"nodePortAddresses": None, "nftables": {"masqueradeBit": None}}
    assert KubeProxyRequest.from_params(params(config=config)).config == config


def test_what_is_not_given_is_to_be_found_out() -> None:
    found = KubeProxyRequest.from_params(params(state="previous", mode=None))
    assert (found.mode, found.confirm_within) == ("", 0)
    assert found.where == Installation("auto", "", "")


def test_the_guard_gets_what_it_needs_to_go_back_and_no_state() -> None:
    given = params(node_name="n1", confirm_within=60, acknowledge=["preflight-node-port-localhost"])
    first = KubeProxyRequest.from_params(given)
    assert set(first.params) == set(SPEC) - {"state"}
    again = KubeProxyRequest.from_params({**first.params, "state": "previous"})
    assert (again.where, again.params, again.state) == (first.where, first.params, "previous")


def test_the_reading_module_asks_with_fewer_options() -> None:
    given = {name: row.get("default") for name, row in INFO_SPEC.items()}
    assert KubeProxyRequest.to_read({**given, "mode": "ipvs"}) == KubeProxyRequest.from_params(
        {
            **params(mode="ipvs", drain_seconds=86400, verify_seconds=SPEC["verify_seconds"]["default"]),
            "audit_rules": False,
        }
    )
