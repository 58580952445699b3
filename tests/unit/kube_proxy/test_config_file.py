# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import UserError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.config_file import (
    changed_text,
    healthz_url,
    merge,
    metrics_url,
    parse_config,
)

PATH = "/var/lib/kube-proxy/config.conf"
TEXT = """\
# of the platform team
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: "iptables"   # as ever
nodePortAddresses: [primary]
iptables:
  masqueradeAll: false
  syncPeriod: 30s
"""
KEYS = st.sampled_from(["mode", "iptables", "nftables", "a"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["", "x"])
    | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


@pytest.mark.parametrize(
    ("config", "changes", "wanted"),
    [  # RFC 7386, appendix A, as far as it is of objects
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "text"}, {"a": {"b": None}}, {"a": {}}),
    ],
)
def test_changes_are_a_merge_patch(config: dict[str, Any], changes: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert merge(config, changes) == wanted


@given(OBJECTS, OBJECTS)
def test_merged_twice_is_merged_once_and_what_was_given_stays(config: dict[str, Any], changes: dict[str, Any]) -> None:
    before = json.dumps(config)
    once = merge(config, changes)
    assert merge(once, changes) == once
    assert json.dumps(config) == before
    assert set(once) == {*config, *changes} - {key for key, value in changes.items() if value is None}


@given(OBJECTS)
def test_nothing_is_no_change(config: dict[str, Any]) -> None:
    assert merge(config, {}) == config


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mode": "iptables"},
        {"ipvs": None},
        {"iptables": {"masqueradeAll": False}},
        {"nodePortAddresses": ["primary"]},
    ],
    ids=str,
)
def test_a_file_that_says_it_already_keeps_its_form_and_its_comments(changes: dict[str, Any]) -> None:
    assert changed_text(TEXT, changes, path=PATH) == TEXT


def test_yaml_stays_yaml_and_json_stays_json_in_the_order_of_their_keys() -> None:
    changes = {"mode": "nftables", "nodePortAddresses": None, "iptables": {"syncPeriod": "10s"}}
    wanted = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "iptables": {"masqueradeAll": False, "syncPeriod": "10s"},
    }
    text = changed_text(TEXT, changes, path=PATH)
    assert text.startswith(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n"
    )
    assert yaml.safe_load(text) == wanted
    as_json = changed_text(json.dumps(yaml.safe_load(TEXT)), changes, path=PATH)
    assert json.loads(as_json) == wanted
    assert list(json.loads(as_json)) == list(wanted)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "text",
        "{}",
        "kind: KubeProxyConfiguration",
        "apiVersion: v1\nkind: ConfigMap",
        "{apiVersion: [], kind: {}}",
    ],
)
def test_what_is_no_configuration_of_kube_proxy_is_refused(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_config(text, path=PATH)
    assert caught.value.id == "migrate-config-shape"
    assert PATH in str(caught.value)


@pytest.mark.parametrize("text", ["a: [", "a: &x 1\nb: *x", "1: 2", "\0", "a: !!python/object:os.system {}"])
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_config(text, path=PATH)
    assert caught.value.id == "core-document"


@pytest.mark.parametrize(
    ("config", "metrics", "healthz"),
    [
        ({}, "http://127.0.0.1:10249", "http://127.0.0.1:10256"),
        ({"metricsBindAddress": "", "healthzBindAddress": ""}, "http://127.0.0.1:10249", "http://127.0.0.1:10256"),
        (
            {"metricsBindAddress": "0.0.0.0:9000", "healthzBindAddress": "192.0.2.10:9001"},
            "http://127.0.0.1:9000",
            "http://192.0.2.10:9001",
        ),
        (
            {"metricsBindAddress": "[::]:9000", "healthzBindAddress": "[2001:db8::10]:9001"},
            "http://[::1]:9000",
            "http://[2001:db8::10]:9001",
        ),
        (
            {"metricsBindAddress": ":9000", "healthzBindAddress": ":9001"},
            "http://127.0.0.1:9000",
            "http://127.0.0.1:9001",
        ),
        # An address alone has kube-proxy's own port (v1alpha1/defaults.go).
        ({"metricsBindAddress": "0.0.0.0", "healthzBindAddress": "::"}, "http://127.0.0.1:10249", "http://[::1]:10256"),
        # What is not said follows the family of bindAddress (v1alpha1/defaults.go).
        ({"bindAddress": "::"}, "http://[::1]:10249", "http://[::1]:10256"),
        ({"bindAddress": "2001:db8::10"}, "http://[::1]:10249", "http://[::1]:10256"),
        ({"bindAddress": "192.0.2.10"}, "http://127.0.0.1:10249", "http://127.0.0.1:10256"),
    ],
    ids=str,
)
def test_kube_proxy_is_asked_where_it_listens(config: dict[str, Any], metrics: str, healthz: str) -> None:
    assert (metrics_url(config), healthz_url(config)) == (metrics, healthz)
