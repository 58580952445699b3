# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Configurations that kube-proxy 1.37.1 accepts and refuses. tests/integration/test_service_proxy_faces.py asks the real one."""

from __future__ import annotations

HEAD = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n"

ACCEPTED = (
    "",
    "bindAddress: '::'",
    "bindAddress: 'fd00::1'",
    "bindAddress: 10.1.1.1",
    "bindAddressHardFail: true",
    "healthzBindAddress: 10.1.1.1",
    "healthzBindAddress: '::1'",
    "healthzBindAddress: '[::1]:99'",
    "metricsBindAddress: 0.0.0.0",
    "metricsBindAddress: ''",
    "metricsBindAddress: 127.0.0.1:65535",
    "nftables: {syncPeriod: 0s}",
    "nftables: {minSyncPeriod: 40s, syncPeriod: 1m}",
    "nftables: {syncPeriod: 1.5h0.5us}",
    "nftables: {minSyncPeriod: 0.25s}",
    "nftables: {minSyncPeriod: 0s, masqueradeBit: 3, masqueradeAll: true}",
    "nftables: {masqueradeBit: null}",
    "configSyncPeriod: 0s",
    "configSyncPeriod: 1h1ms",
    "clientConnection: {qps: -3, burst: 20, kubeconfig: /etc/kubernetes/proxy.conf}",
    "conntrack: {maxPerCore: 0, min: null, tcpEstablishedTimeout: 1h, tcpBeLiberal: true}",
    "detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: cni0}",
    "clusterCIDR: '10.0.0.0/8,fd00::/64'",
    "nodePortAddresses: [primary, 10.0.0.0/8]",
    "nodePortAddresses: []",
    "hostnameOverride: ' FOO '",
    "oomScoreAdj: 0",
    "portRange: x",
    "logging: {format: json}",
    "ipvs: {strictARP: true, scheduler: lc, excludeCIDRs: [10.0.0.0/8]}",
    "iptables: {syncPeriod: 5s, localhostNodePorts: false}",
    "ipvs: {syncPeriod: 5s, minSyncPeriod: 1s, udpTimeout: 5s}",
)
REFUSED = {  # by configuration, the paths that we name
    "healthzBindAddress: 127.0.0.1:0": ["healthzBindAddress"],
    "healthzBindAddress: localhost:99": ["healthzBindAddress"],
    "metricsBindAddress: 127.0.0.1:70000": ["metricsBindAddress"],
    "metricsBindAddress: 127.0.0.1:http": ["metricsBindAddress"],
    "metricsBindAddress: '[::1]'": ["metricsBindAddress"],
    "metricsBindAddress: ':10249'": ["metricsBindAddress"],
    "bindAddress: foo": ["bindAddress"],
    "bindAddress: 10.0.0.0/8": ["bindAddress"],
    "nftables: {syncPeriod: -1s}": ["nftables.syncPeriod"],
    "nftables: {minSyncPeriod: -1s}": ["nftables.minSyncPeriod"],
    "nftables: {minSyncPeriod: 40s}": ["nftables.syncPeriod"],
    "nftables: {syncPeriod: 1}": ["nftables.syncPeriod"],
    "nftables: {masqueradeBit: 32}": ["nftables.masqueradeBit"],
    "configSyncPeriod: -1s": ["configSyncPeriod"],
    "oomScoreAdj: 1001": ["oomScoreAdj"],
    "clientConnection: {burst: -1}": ["clientConnection.burst"],
    "conntrack: {maxPerCore: -1}": ["conntrack.maxPerCore"],
    "conntrack: {tcpEstablishedTimeout: -1s}": ["conntrack.tcpEstablishedTimeout"],
    "detectLocalMode: foo": ["detectLocalMode"],
    "clusterCIDR: '10.0.0.0/8,10.1.0.0/16'": ["clusterCIDR"],
    "nodePortAddresses: [10.0.0.1]": ["nodePortAddresses[0]"],
    "bindAddress: foo\noomScoreAdj: 1001\nnftables: {syncPeriod: -1s}": [
        *("bindAddress", "oomScoreAdj", "nftables.syncPeriod"),
    ],
}
# What kube-proxy takes, and we do not: it ignores keys that it does not know, and schedulers are the kernel's.
STRICTER = {
    "foo: 1": ["foo"],
    "ipvs: {scheduler: foo}": ["ipvs.scheduler"],
    "nftables: {bit: 1}": ["nftables.bit"],
    "hostnameOverride: ' '": ["hostnameOverride"],  # which kube-proxy refuses only when it runs
}
