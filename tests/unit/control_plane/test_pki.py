"""Certificates: what is asked of one is read back, and each thing that can be wrong with it is told."""

from __future__ import annotations

import builtins
from dataclasses import replace

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki import pki
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.pki import (
    CLIENT,
    SERVER,
    Certificate,
    CertificateKind,
    KeyPairKind,
    issue_client_certificate,
    key_pair,
    sans,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from tests.unit.fakes import FakeHost, Killed

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
    KIND.write(Context(None, host), wanted.target, wanted.value, ABSENT)


def read(host: FakeHost, asked: Certificate = LEAF):
    return KIND.read(Context(None, host), asked.resource(group="").target)


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
    assert read(host) == {"fault": "not a certificate that this collection makes"}
    host.remove("/pki/kubelet.key")
    assert read(host) == ABSENT


@pytest.mark.parametrize(
    "text", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_a_damaged_certificate_is_told(host, text):
    host.given("/pki/kubelet.crt", text)
    assert read(host)["fault"] == "not a certificate that this collection makes"


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


@pytest.mark.parametrize("asked", [CA, LEAF])
@pytest.mark.parametrize("number", [1, 2])
def test_a_pair_that_was_half_written_is_seen_and_made_again(host, asked, number):
    """Whichever half is the new one; `number` is the effect that a kill prevents."""
    host.fail_at(number)
    with pytest.raises(Killed):
        make(host, asked)
    host.calm()
    assert (read(host, asked)["fault"] == "") is (number == 1), "nothing was written, or one of the two"
    make(host, asked)
    assert read(host, asked) == asked.resource(group="").value


@pytest.mark.parametrize("asked", [CA, LEAF])
@pytest.mark.parametrize("half", ["crt", "key"])
def test_either_half_of_a_new_pair_is_seen(host, asked, half):
    """So the order in which they are written does not matter."""
    path = asked.path.replace("crt", half)
    old = host.text(path)
    make(host, asked)
    new = host.text(path)
    host.given(path, old, mode=0o600)
    assert read(host, asked)["fault"].endswith("is not the key of this certificate")
    host.remove(path)
    assert read(host, asked) != ABSENT
    assert read(host, asked)["fault"] != ""
    host.given(path, new, mode=0o600)
    assert read(host, asked)["fault"] == ""


def test_the_requests_of_a_run_share_a_client_certificate_for_half_of_its_life(host):
    def issued(**changes):
        options = {"user": "ballast:a", "group": "", "seconds": 600, **changes}
        return issue_client_certificate(host, CA.path, **options)

    first = issued()
    assert issued() == first
    assert issued(user="ballast:b") != first
    assert issued(group="system:masters") != first
    assert issued(seconds=60) != first
    host.sleep(299)
    assert issued() == first
    host.sleep(2)
    second = issued()
    assert second != first
    make(host, CA)  # with another key
    assert issued() != second


def test_the_end_is_told_in_utc(host):
    assert pki.read_not_after(host, LEAF.path) == "2024-11-13T21:30:00Z"
    assert pki.read_not_after(host, "/pki/none.crt") is None


class TestKeyPair:
    def test_it_is_read_back_and_its_halves_must_fit(self, host):
        wanted = key_pair("/pki/sa.key", group="")
        KeyPairKind().write(Context(None, host), wanted.target, wanted.value, ABSENT)
        assert KeyPairKind().read(Context(None, host), wanted.target) == wanted.value
        assert (host.mode("/pki/sa.key"), host.mode("/pki/sa.pub")) == (0o600, 0o644)
        host.sleep(9999 * DAY)
        assert KeyPairKind().read(Context(None, host), wanted.target) == wanted.value
        host.given("/pki/sa.pub", "another")
        assert (
            KeyPairKind().read(Context(None, host), wanted.target)["fault"]
            == "/pki/sa.pub does not belong to /pki/sa.key"
        )
        host.given("/pki/sa.key", "")
        assert KeyPairKind().read(Context(None, host), wanted.target)["fault"] == "/pki/sa.key holds no private key"


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
