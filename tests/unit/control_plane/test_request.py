"""What a request may be: every fault has its own id, and all are told at once."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.unit.control_plane.given import desired, params


def ids(**changes) -> list[str]:
    with pytest.raises(BallastError) as caught:
        desired(**changes)
    error = caught.value
    return [problem.id for problem in (error.problems if isinstance(error, Problems) else [error])]


@pytest.mark.parametrize(
    ("id", "changes"),
    [
        ("plane-path", {"state_dir": "lab"}),
        ("plane-path", {"state_dir": "/var/lib/../etc"}),
        ("plane-path", {"kubeconfig": "/home/a user/config"}),
        ("plane-path", {"bin_dir": "/opt/$(id)"}),
        ("plane-option-missing", {"address": None}),
        ("plane-option-missing", {"bin_dir": None, "state": "stopped"}),
        ("plane-name", {"name": "Lab"}),
        ("plane-name", {"name": "a/b"}),
        ("plane-version", {"kubernetes_version": "1.37"}),
        ("plane-version", {"kubernetes_version": "latest"}),
        ("plane-version-too-old", {"kubernetes_version": "1.33.9"}),
        ("plane-address", {"address": "fd00:0::1"}),
        ("plane-address-family", {"address": "fd00::1"}),
        ("plane-address-family", {"service_cidr": "fd00:96::/112,10.96.0.0/16"}),
        ("plane-cidr", {"service_cidr": "10.96.0.0/16,10.97.0.0/16"}),
        ("plane-cidr-size", {"service_cidr": "10.96.0.0/16,fd00:96::/107"}),
        (
            "plane-cidr-overlap",
            {"service_cidr": "10.96.0.0/16,fd00:96::/112", "pod_cidr": "10.244.0.0/16,fd00:96::/56"},
        ),
        ("plane-address", {"address": "localhost"}),
        ("plane-port", {"secure_port": 0}),
        ("plane-port", {"scheduler_port": 65536}),
        ("plane-port-twice", {"etcd_peer_port": 2379}),
        ("plane-cidr", {"service_cidr": "10.96.0.1/16"}),
        ("plane-cidr", {"pod_cidr": "pods"}),
        ("plane-cidr-size", {"service_cidr": "10.96.0.0/29"}),
        ("plane-cidr-size", {"service_cidr": "10.0.0.0/11", "pod_cidr": "172.16.0.0/16", "address": "192.0.2.1"}),
        ("plane-cidr-overlap", {"pod_cidr": "10.96.128.0/17"}),
        ("plane-cidr-overlap", {"address": "10.96.0.1"}),
        ("plane-domain", {"cluster_domain": "cluster..local"}),
        ("plane-domain", {"extra_sans": ["api.example", "*.example"]}),
        ("plane-name", {"nodes": [{"name": "N1", "addresses": []}]}),
        ("plane-node-twice", {"nodes": [{"name": "n1", "addresses": []}, {"name": "n1", "addresses": []}]}),
        ("plane-address", {"nodes": [{"name": "n1", "addresses": ["n1.example"]}]}),
        ("plane-certificate-days", {"certificate_days": 0}),
        ("plane-certificate-days", {"certificate_days": 3651}),
    ],
)
def test_a_fault_has_its_id(id, changes):
    assert ids(**changes) == [id]


def test_all_faults_are_told_at_once():
    assert ids(name="", kubernetes_version="x", address="y", certificate_days=0) == [
        "plane-name",
        "plane-version",
        "plane-address",
        "plane-certificate-days",
    ]


def test_the_message_names_option_value_and_remedy():
    with pytest.raises(BallastError) as caught:
        desired(nodes=[{"name": "n1", "addresses": []}, {"name": "n2", "addresses": ["10.97.1.300"]}])
    text = str(caught.value)
    assert text.startswith("nodes[1].addresses: '10.97.1.300' is not an IP address")
    assert "do:    write it like 10.97.1.1" in text
    assert "docs/reference/errors-control-plane.md#plane-address" in text


def test_a_removal_needs_the_state_directory_only():
    found = desired(
        **{
            **dict.fromkeys(params()),
            "state_dir": "/x",
            "state": "absent",
            "name": "lab",
            "extra_sans": [],
            "nodes": [],
            "certificate_days": 365,
            **dict.fromkeys(
                (
                    *("secure_port", "etcd_client_port", "etcd_peer_port", "controller_manager_port", "scheduler_port"),
                    "members",
                ),
                1,
            ),
        }
    )
    assert found.state_dir == "/x"


def test_both_families_and_ipv6_alone_are_taken():
    both = desired(service_cidr="10.96.0.0/16,fd00:96::/112", pod_cidr="10.244.0.0/16,fd00:1::/56")
    assert both.service_addresses == ["10.96.0.1", "fd00:96::1"]
    alone = desired(address="fd00::1", service_cidr="fd00:96::/112", pod_cidr="fd00:1::/56")
    assert (alone.endpoint, alone.service_addresses) == ("https://[fd00::1]:6443", ["fd00:96::1"])


def test_lists_without_order_compare_equal():
    one = desired(extra_sans=["b.example", "a.example"], nodes=[{"name": "n", "addresses": ["10.97.1.3", "10.97.1.2"]}])
    other = desired(
        extra_sans=["a.example", "b.example"], nodes=[{"name": "n", "addresses": ["10.97.1.2", "10.97.1.3"]}]
    )
    assert one == other


def test_the_kubeconfig_is_in_the_state_directory_unless_said():
    assert desired().kubeconfig == "/var/lib/ballast/lab/plane/admin.kubeconfig"
    assert desired(kubeconfig="/x/y").kubeconfig == "/x/y"
