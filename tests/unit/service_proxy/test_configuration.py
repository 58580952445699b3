# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import Problems, UserError
from ansible_collections.ballast.kube.plugins.module_utils._rules.config_keys import KEYS
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.configuration import (
    DEFAULTS,
    UNUSED,
    Configuration,
    parse_configuration,
)
from tests.unit.service_proxy.configurations import ACCEPTED, HEAD, REFUSED, STRICTER

KUBEADM = """\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 0
  contentType: ""
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 0
clusterCIDR: 10.244.0.0/16
configSyncPeriod: 0s
conntrack:
  maxPerCore: null
  min: null
  tcpBeLiberal: false
  tcpCloseWaitTimeout: null
  tcpEstablishedTimeout: null
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ""
enableProfiling: false
healthzBindAddress: ""
hostnameOverride: ""
iptables:
  localhostNodePorts: null
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: "0"
    text:
      infoBufferSize: "0"
  verbosity: 0
metricsBindAddress: ""
mode: ""
nftables:
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
nodePortAddresses: null
oomScoreAdj: null
portRange: ""
showHiddenMetricsForVersion: ""
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: ""
  rootHnsEndpointName: ""
  sourceVip: ""
"""


def parse(rest: str = "") -> Configuration:
    return parse_configuration(HEAD + rest, name="/etc/config", hostname="Node-1")


def faults(rest: str) -> list[str]:
    with pytest.raises(UserError) as caught:
        parse(rest)
    problems = caught.value.problems if isinstance(caught.value, Problems) else (caught.value,)
    return [problem.text.partition(":")[0] for problem in problems]


def unused(rest: str) -> list[str]:
    return [warning.text.partition(":")[0] for warning in parse(rest).warnings]


@pytest.mark.parametrize("rest", ACCEPTED)
def test_what_kube_proxy_accepts_is_accepted(rest: str) -> None:
    json.dumps(parse(rest).configz())


@pytest.mark.parametrize(("rest", "paths"), [*REFUSED.items(), *STRICTER.items()])
def test_what_is_refused_is_named_with_all_its_faults(rest: str, paths: list[str]) -> None:
    assert faults(rest) == paths


def test_a_message_has_path_value_and_what_is_allowed() -> None:
    with pytest.raises(UserError) as caught:
        parse("metricsBindAddress: 127.0.0.1:0")
    expected = "an IP address, or one with a port: 127.0.0.1:10249, [::1]:10249"
    assert caught.value.text == f'metricsBindAddress: "127.0.0.1:0" is not {expected}'
    assert caught.value.remedy


@pytest.mark.parametrize("text", ["[]", "mode: nftables", "apiVersion: v1\nkind: KubeProxyConfiguration", "a: [", ""])
def test_another_document_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        parse_configuration(text, name="/etc/config")


def test_defaults() -> None:
    made = parse()
    assert (made.healthz, made.metrics) == (("0.0.0.0", 10256), ("127.0.0.1", 10249))
    assert (made.sync_seconds, made.min_sync_seconds, made.must_bind) == (30.0, 0.0, False)
    assert (made.node_name, made.kubeconfig, made.warnings) == ("node-1", "", ())


def test_values() -> None:
    made = parse(
        "bindAddress: '::'\nhealthzBindAddress: 10.0.0.1\nhostnameOverride: ' N2 '\nbindAddressHardFail: true\n"
        "nftables: {syncPeriod: 1m30s, minSyncPeriod: 250ms}\nclientConnection: {kubeconfig: /k}"
    )
    assert (made.healthz, made.metrics) == (("10.0.0.1", 10256), ("::1", 10249))
    assert (made.sync_seconds, made.min_sync_seconds, made.must_bind) == (90.0, 0.25, True)
    assert (made.node_name, made.kubeconfig) == ("n2", "/k")
    assert made.document["nftables"] == {"syncPeriod": "1m30s", "minSyncPeriod": "250ms"}


def test_a_file_of_kubeadm_has_no_setting_without_effect() -> None:
    assert parse_configuration(KUBEADM, name="/etc/config").warnings == ()


@pytest.mark.parametrize(
    ("rest", "paths"),
    [
        ("iptables: {masqueradeAll: true, syncPeriod: 5s}", ["iptables.masqueradeAll", "iptables.syncPeriod"]),
        ("ipvs: {strictARP: true}", ["ipvs.strictARP"]),
        ("conntrack: {maxPerCore: 0, min: 131072}", []),
        ("conntrack: {maxPerCore: 1}", ["conntrack.maxPerCore"]),
        ("iptables: {localhostNodePorts: false}", ["iptables.localhostNodePorts"]),
        ("conntrack: {tcpEstablishedTimeout: 1440m}", []),  # the default, in other words
        ("conntrack: {udpTimeout: 10s}", ["conntrack.udpTimeout"]),
        ("oomScoreAdj: -500", ["oomScoreAdj"]),
        ("clientConnection: {qps: 50, kubeconfig: /k}", ["clientConnection.qps"]),
        ("logging: {format: json}", ["logging.format"]),
        ("nftables: {minSyncPeriod: 1s, masqueradeAll: true}\nclusterCIDR: 10.0.0.0/8", []),
        ("featureGates: {AllAlpha: false}", []),
        ("nodePortAddresses: [localhost]", ["nodePortAddresses"] * 2),  # of both families
        ("nodePortAddresses: [primary, 127.0.0.0/8]", ["nodePortAddresses"]),
        ("nodePortAddresses: [all]", []),  # contains loopback, and does not ask for it
        (
            "nodePortAddresses: ['::1/128']\nfeatureGates: {KubeProxyNFTablesLocalhostNodePorts: true}",
            ["nodePortAddresses"],
        ),
    ],
)
def test_what_has_no_effect_is_named(rest: str, paths: list[str]) -> None:
    assert unused(rest) == paths


def test_another_mode_is_named() -> None:
    text = HEAD.replace("nftables", "ipvs")
    (warning,) = parse_configuration(text, name="/etc/config").warnings
    assert warning.text == 'mode: "ipvs" has no effect: this program supports only the rules of mode nftables'
    assert warning.remedy == "remove it, or set nftables"


def test_every_key_is_in_effect_or_named() -> None:
    """Each has a default that /configz shows, or is left to others."""
    for key in KEYS:
        assert key in DEFAULTS or key in UNUSED or key == "featureGates"
    for path in UNUSED:
        assert path.partition(".")[0] in KEYS


def test_configz_has_durations_as_go_prints_them() -> None:
    whole = parse("nftables: {syncPeriod: 1.5h0.5us, minSyncPeriod: 0.25s}\nconfigSyncPeriod: 0s").configz()
    found = whole["kubeproxy.config.k8s.io"]
    assert found["nftables"]["syncPeriod"] == "1h30m0.0000005s"
    assert found["nftables"]["minSyncPeriod"] == "250ms"
    assert found["configSyncPeriod"] == "15m0s"


def test_a_reload_keeps_what_needs_a_restart() -> None:
    running = parse()
    changed = parse("nftables: {syncPeriod: 1m}\nmetricsBindAddress: 127.0.0.1:99\nclientConnection: {kubeconfig: /k}")
    taken, keys = running.reload(changed)
    assert keys == ["clientConnection.kubeconfig", "metricsBindAddress"]
    assert (taken.sync_seconds, taken.metrics, taken.kubeconfig) == (60.0, running.metrics, "")
    assert running.reload(running) == (running, [])
