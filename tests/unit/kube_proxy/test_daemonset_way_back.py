# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The way back to the mode before, where a DaemonSet runs kube-proxy: its configuration is as it was."""

from __future__ import annotations

from typing import Any

import yaml

from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.objects import FORMER
from tests.unit.kube_proxy.daemonset_cluster import MAPS, Cluster
from tests.unit.kube_proxy.daemonset_runs import ORIGINAL, config_of, make, moved, refused


def test_and_back_again_by_canaries_of_the_mode_before() -> None:
    cluster = Cluster()
    before = cluster.state()
    make(cluster, "canary")
    moved(cluster, "n1", "n2", "n3")
    make(cluster, "final")
    make(cluster, "canary", mode="iptables")
    for node in ("n1", "n2", "n3"):
        cluster.label(node, "iptables")
    make(cluster, "final", mode="iptables")
    assert config_of(cluster, ORIGINAL) == yaml.safe_load(before[f"{MAPS}/{ORIGINAL}"]["data"]["config.conf"])
    assert cluster.state().keys() == before.keys()


def go_back(cluster: Cluster, **changes: Any) -> None:
    make(cluster, "canary", mode="iptables", **changes)
    for node in ("n1", "n2", "n3"):
        cluster.label(node, "iptables")
    make(cluster, "final", mode="iptables")


def finished(cluster: Cluster, **config: Any) -> None:
    make(cluster, "canary", config=config)
    moved(cluster, "n1", "n2", "n3")
    make(cluster, "final")


def test_a_way_back_after_final_puts_back_the_whole_configuration() -> None:
    """To the byte, comments and form included, with the keys that the change added or removed."""
    cluster = Cluster()
    config_map = cluster.objects[f"{MAPS}/{ORIGINAL}"]
    config_map["metadata"]["annotations"] = {"of": "others"}
    config_map["data"]["config.conf"] = (
        "# ours\nkind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1alpha1\n"
        "mode: iptables   # for now\nclusterCIDR: 10.0.0.0/8\niptables: {syncPeriod: 9s}\n"
    )
    before = cluster.state()
    finished(cluster, nftables={"syncPeriod": "1s"}, clusterCIDR=None)
    assert config_of(cluster, ORIGINAL)["nftables"] == {"syncPeriod": "1s"}
    go_back(cluster)
    assert cluster.state()[f"{MAPS}/{ORIGINAL}"] == before[f"{MAPS}/{ORIGINAL}"]
    finished(cluster)
    assert config_of(cluster, ORIGINAL)["clusterCIDR"] == "10.0.0.0/8"


def test_a_way_back_keeps_what_others_have_changed_since_final() -> None:
    cluster = Cluster()
    finished(cluster, nftables={"syncPeriod": "1s"})
    data = cluster.objects[f"{MAPS}/{ORIGINAL}"]["data"]
    data["config.conf"] += "metricsBindAddress: 127.0.0.1:1\n"
    go_back(cluster)
    found = config_of(cluster, ORIGINAL)
    assert (found["mode"], found["metricsBindAddress"]) == ("iptables", "127.0.0.1:1")
    assert found["nftables"] == {"syncPeriod": "1s"}


def test_a_configuration_without_a_mode_gets_its_own_back_with_the_mode() -> None:
    cluster = Cluster()
    data = cluster.objects[f"{MAPS}/{ORIGINAL}"]["data"]
    data["config.conf"] = (
        "kind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nclusterCIDR: 10.0.0.0/8\n"
    )
    before = config_of(cluster, ORIGINAL)
    finished(cluster, clusterCIDR=None)
    go_back(cluster)
    assert config_of(cluster, ORIGINAL) == {**before, "mode": "iptables"}


def test_a_record_of_the_former_configuration_that_is_no_json_is_refused() -> None:
    cluster = Cluster()
    cluster.objects[f"{MAPS}/{ORIGINAL}"]["metadata"]["annotations"] = {FORMER: "{"}
    assert refused(cluster, "canary").id == "daemonset-changed"
