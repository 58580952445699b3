"""Certificates: what is asked of one is read back, and each thing that can be wrong with it is told."""

from __future__ import annotations

import builtins
from dataclasses import replace

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.errors import HostError
from ansible_collections.ballast.kube.plugins.module_utils._core.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._plane import pki
from ansible_collections.ballast.kube.plugins.module_utils._plane.pki import (
    CLIENT,
    SERVER,
    Certificate,
    CertificateKind,
    KeyPairKind,
    key_pair,
    sans,
)
from tests.unit.fakes import FakeHost

CA = Certificate(path="/pki/ca.crt", issuer=None, common_name="ballast-lab-ca")
LEAF = Certificate(
    path="/pki/kubelet.crt",
    issuer=CA.path,
    common_name="system:node:n1",
    organization="system:nodes",
    usages=(SERVER, CLIENT),
    names=sans("n1", "10.97.1.11", "n1", "localhost"),
    days=365,
)
KIND = CertificateKind()
DAY = 86400


@pytest.fixture
def host():
    machine = FakeHost()
    machine.given_directory("/pki")
    make(machine, CA)
    make(machine, LEAF)
    return machine


def make(host: FakeHost, asked: Certificate) -> None:
    wanted = asked.resource(group="")
    KIND.write(host, wanted.target, wanted.value, ABSENT)


def read(host: FakeHost, asked: Certificate = LEAF):
    return KIND.read(host, asked.resource(group="").target)


@pytest.mark.parametrize("asked", [CA, LEAF, replace(LEAF, organization="", names=(), usages=(CLIENT,), days=1)])
def test_what_is_made_is_read_back_as_asked(host, asked):
    make(host, asked)
    assert read(host, asked) == asked.resource(group="").value


def test_names_are_sorted_and_each_is_there_once():
    assert LEAF.names == ("DNS:localhost", "DNS:n1", "IP:10.97.1.11")


@pytest.mark.parametrize(
    "other",
    [
        replace(LEAF, common_name="system:node:n2"),
        replace(LEAF, organization="system:masters"),
        replace(LEAF, usages=(CLIENT,)),
        replace(LEAF, names=sans("n1", "10.97.1.12")),
        replace(LEAF, days=90),
    ],
)
def test_another_certificate_than_asked_for_is_seen(host, other):
    assert read(host, other) != other.resource(group="").value
    assert read(host, other)["fault"] == ""


def test_it_is_absent_only_without_both_files(host):
    host.remove("/pki/kubelet.crt")
    assert read(host) == {"fault": "not a certificate of ours"}
    host.remove("/pki/kubelet.key")
    assert read(host) == ABSENT


@pytest.mark.parametrize(
    "text", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_a_damaged_certificate_is_told(host, text):
    host.given("/pki/kubelet.crt", text)
    assert read(host)["fault"] == "not a certificate of ours"


def test_a_damaged_key_is_told(host):
    host.given("/pki/kubelet.key", "no key", mode=0o600)
    assert read(host)["fault"] == "/pki/kubelet.key holds no private key"


def test_a_key_of_another_certificate_is_told(host):
    host.given("/pki/kubelet.key", host.text("/pki/ca.key"), mode=0o600)
    assert read(host)["fault"] == "/pki/kubelet.key is not the key of this certificate"


def test_keys_are_for_root_alone(host):
    assert {host.mode(path) for path in host.paths("/pki") if path.endswith(".key")} == {0o600}
    host.given("/pki/kubelet.key", host.text("/pki/kubelet.key"), mode=0o640)
    assert read(host)["fault"] == "/pki/kubelet.key has mode 0640"


def test_an_authority_of_the_same_name_with_another_key_is_told(host):
    make(host, CA)
    assert read(host)["fault"] == "not signed by the present ca.crt"
    host.remove("/pki/ca.crt")
    assert read(host)["fault"] == "not signed by the present ca.crt"


@pytest.mark.parametrize(
    ("days", "age_days", "fault"),
    [
        # 30 days before the end; the life begins an hour before it is made.
        (365, 334, ""),
        (365, 335.5, "ends in 29 days"),
        # A third of a shorter life.
        (30, 19.5, ""),
        (30, 20.5, "ends in 9 days"),
        (1, 0.5, ""),
        (1, 0.7, "ends in 0 days"),
        (1, 2, "has ended"),
        (365, -2.5, "begins in 2 days"),
        (365, -0.01, ""),
    ],
)
def test_it_is_renewed_when_it_nears_its_end(host, days, age_days, fault):
    asked = replace(LEAF, days=days)
    make(host, asked)
    host.sleep(age_days * DAY)
    assert read(host, asked)["fault"] == fault


def test_a_renewed_certificate_has_a_new_key(host):
    before = host.text("/pki/kubelet.key")
    make(host, LEAF)
    assert host.text("/pki/kubelet.key") != before


def test_a_pair_that_was_half_written_is_seen(host):
    host.fail_at(2)
    with pytest.raises(BaseException, match="at effect 2"):
        make(host, LEAF)
    host.calm()
    assert read(host)["fault"] == "/pki/kubelet.key is not the key of this certificate"


def test_the_end_is_told_in_utc(host):
    assert pki.not_after(host, LEAF.path) == "2024-11-13T21:30:00Z"
    assert pki.not_after(host, "/pki/none.crt") is None


class TestKeyPair:
    def test_it_is_read_back_and_its_halves_must_fit(self, host):
        wanted = key_pair("/pki/sa.key", group="")
        KeyPairKind().write(host, wanted.target, wanted.value, ABSENT)
        assert KeyPairKind().read(host, wanted.target) == wanted.value
        assert (host.mode("/pki/sa.key"), host.mode("/pki/sa.pub")) == (0o600, 0o644)
        host.sleep(9999 * DAY)
        assert KeyPairKind().read(host, wanted.target) == wanted.value
        host.given("/pki/sa.pub", "another")
        assert KeyPairKind().read(host, wanted.target)["fault"] == "/pki/sa.pub does not belong to /pki/sa.key"
        host.given("/pki/sa.key", "")
        assert KeyPairKind().read(host, wanted.target)["fault"] == "/pki/sa.key holds no private key"


def test_without_cryptography_the_package_is_named(host, monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **named):
        if name == "cryptography":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(HostError) as caught:
        read(host)
    assert caught.value.id == "plane-cryptography-missing"
    assert "apt-get install python3-cryptography" in caught.value.remedy
