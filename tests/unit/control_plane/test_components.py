"""The command lines: nothing is open that should be closed, and what they read is known."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.certificates import (
    authorities,
    certificates,
    node_certificates,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.processes.components import (
    config_files,
    credentials,
    services,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.profiles import (
    FULL,
    PROFILES,
)
from tests.unit.control_plane.given import ADDRESS, API_SERVERS, COMPONENTS, STATE_DIR, desired, flags


def commands(**changes):
    return dict(zip(COMPONENTS, [service.argv for service in services(desired(**changes))]))


def test_requests_are_authorized_by_node_and_rbac_only():
    found = flags(commands()["kube-apiserver"])
    assert found["authorization-mode"] == "Node,RBAC"
    assert found["enable-admission-plugins"] == "NodeRestriction"
    assert not any("AlwaysAllow" in word for argv in commands().values() for word in argv)


def test_everything_listens_on_the_address_and_nowhere_else():
    found = {name: flags(argv) for name, argv in commands().items()}
    assert {found[name]["bind-address"] for name in COMPONENTS if name != "etcd"} == {ADDRESS}
    assert found["etcd"]["listen-client-urls"] == f"https://{ADDRESS}:2379"
    assert found["etcd"]["listen-peer-urls"] == f"https://{ADDRESS}:2380"


@pytest.mark.parametrize("version", ["1.35.8", "1.36.4", "1.37.1"])
@pytest.mark.parametrize("profile", PROFILES)
def test_where_services_are_served_webhooks_and_extension_api_servers_behind_them_are_reached(profile, version):
    """At their endpoints: no kube-proxy runs where an API server does."""
    plane = desired(profile=profile, kubernetes_version=version)
    (found,) = [flags(one.argv) for one in services(plane) if one.name.endswith(API_SERVERS)]
    assert ("service-cluster-ip-range" in found) is (profile == FULL)
    assert found.get("enable-aggregator-routing") == ("true" if profile == FULL else None)


def test_an_ipv6_address_is_in_brackets_where_a_port_follows():
    ipv6 = {"address": "fd00::1", "service_cidr": "fd00:96::/112", "pod_cidr": "fd00:1::/56"}
    found = {name: flags(argv) for name, argv in commands(**ipv6).items()}
    assert {found[name]["bind-address"] for name in COMPONENTS if name != "etcd"} == {"fd00::1"}
    assert found["etcd"]["listen-client-urls"] == "https://[fd00::1]:2379"
    assert found["etcd"]["listen-peer-urls"] == "https://[fd00::1]:2380"
    assert found["kube-apiserver"]["etcd-servers"] == "https://[fd00::1]:2379"
    (serving,) = [made for made in certificates(desired(**ipv6)) if made.path.endswith("/apiserver.crt")]
    assert {"IP:fd00::1", "IP:fd00:96::1"} <= {*serving.names}


def test_etcd_asks_for_client_certificates_of_an_authority_of_its_own():
    found = flags(commands()["etcd"])
    assert (found["client-cert-auth"], found["peer-client-cert-auth"]) == ("true", "true")
    assert found["trusted-ca-file"] == found["peer-trusted-ca-file"] == f"{STATE_DIR}/pki/etcd-ca.crt"


def test_those_without_credentials_may_ask_for_health_only():
    text = config_files(desired())[f"{STATE_DIR}/config/authentication.json"]
    assert [line.strip() for line in text.splitlines() if '"path"' in line] == [
        '"path": "/healthz"',
        '"path": "/livez"',
        '"path": "/readyz"',
    ]
    assert "anonymous-auth" not in flags(commands()["kube-apiserver"])  # the two exclude each other


def test_etcd_waits_for_the_disk_unless_told_not_to():
    assert "unsafe-no-fsync" not in flags(commands()["etcd"])
    assert flags(commands(etcd_fsync=False)["etcd"])["unsafe-no-fsync"] == "true"


def test_every_file_that_a_command_names_is_made():
    plane = desired()
    made = {certificate.path for certificate in [*authorities(plane), *certificates(plane)]}
    pairs = made | {path[: -len(".crt")] + ".key" for path in made}
    keys = {f"{STATE_DIR}/pki/sa.key", f"{STATE_DIR}/pki/sa.pub"}
    for argv in commands().values():
        assert set(credentials(argv)) <= pairs | keys
        assert len(credentials(argv)) > 3


def test_a_change_of_a_file_that_a_command_names_changes_its_digest():
    plain = {service.name: service.config_digest for service in services(desired())}
    moved = {service.name: service.config_digest for service in services(desired(secure_port=7443))}
    changed = {name for name in plain if plain[name] != moved[name]}
    assert changed == {"ballast-lab-kube-controller-manager", "ballast-lab-kube-scheduler"}


@pytest.mark.parametrize("profile", ["full", "generic", "hyper-mini"])
def test_a_machine_that_goes_down_ends_each_before_what_it_needs(profile):
    """systemd ends in the reverse of the order in which it starts."""
    units: list[str] = []
    for service in services(desired(profile=profile)):
        assert service.after == tuple(units)
        units.append(f"{service.name}.service")


def test_the_api_server_is_known_by_all_its_names():
    plane = desired(extra_sans=["api.example", "192.0.2.7"], cluster_domain="lab.example", service_cidr="10.50.0.0/20")
    (found,) = [certificate for certificate in certificates(plane) if certificate.path.endswith("/apiserver.crt")]
    assert found.names == (
        "DNS:api.example",
        "DNS:kubernetes",
        "DNS:kubernetes.default",
        "DNS:kubernetes.default.svc",
        "DNS:kubernetes.default.svc.lab.example",
        "IP:10.50.0.1",
        "IP:10.97.1.1",
        "IP:192.0.2.7",
    )


def test_a_node_gets_what_the_node_authorizer_expects():
    found = {certificate.path.rpartition("/")[2]: certificate for certificate in node_certificates(desired())}
    assert set(found) == {"kubelet.crt", "kubelet-serving.crt", "kube-proxy.crt"}
    kubelet = found["kubelet.crt"]
    assert (kubelet.common_name, kubelet.organization) == ("system:node:n1", "system:nodes")
    assert kubelet.usages == ("client",)
    assert found["kubelet-serving.crt"].names == ("DNS:n1", "IP:10.97.1.11")
    assert found["kubelet-serving.crt"].usages == ("server",)
    assert (found["kube-proxy.crt"].common_name, found["kube-proxy.crt"].organization) == ("system:kube-proxy", "")


def test_a_node_with_a_service_proxy_of_ours_gets_a_certificate_for_it():
    made = node_certificates(desired(nodes=[{"name": "n1", "addresses": [], "service_proxy": True}]))
    [found] = [certificate for certificate in made if certificate.path.endswith("/nodes/n1/service-proxy.crt")]
    assert (found.common_name, found.organization, found.usages) == ("ballast:service-proxy", "", ("client",))


def test_no_certificate_that_is_kept_is_a_masters():
    kept = [*certificates(desired()), *node_certificates(desired())]
    assert {cert.organization for cert in kept} == {"", "system:nodes"}
    assert {cert.common_name for cert in kept if cert.path.endswith("/admin.crt")} == {"ballast:admin"}


def test_names_with_a_hyphen_do_not_nest_slices():
    assert desired(name="two-labs").cgroup == "ballast-two_labs-plane"
