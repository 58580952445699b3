# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys that a worker cannot use are refused before anything is made."""

from __future__ import annotations

from base64 import b64decode, b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.request import FleetRunRequest
from tests.unit.fakes import FakeHost
from tests.unit.fleet_run.test_run import PARAMS

FORMS = [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL]


def refused(key: bytes) -> str:
    """What is said of it; every other option is wrong too."""
    host = FakeHost()
    host.given("/root/key", key, mode=0o600)
    with pytest.raises(BallastError) as caught:
        FleetRunRequest.from_params({**PARAMS, "namespace": "No"}, host)
    return str(caught.value)


@pytest.mark.parametrize("form", FORMS)
def test_a_key_with_a_passphrase_is_refused(form: PrivateFormat) -> None:
    """The workers would get no answer from any node."""
    key = generate_private_key(65537, 1024)
    encrypted = key.private_bytes(Encoding.PEM, form, BestAvailableEncryption(b"secret"))
    assert "/root/key has a passphrase" in refused(encrypted)
    assert "passphrase" not in refused(key.private_bytes(Encoding.PEM, form, NoEncryption()))


def test_a_key_of_openssh_says_by_which_cipher_it_is_encrypted() -> None:
    plain = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    assert "passphrase" not in refused(plain)
    head, body, *rest = plain.split(b"\n")
    begin = b64encode(b64decode(body[:44]).replace(b"\4none", b"\naes256-ctr"))
    assert "/root/key has a passphrase" in refused(b"\n".join([head, begin, body, *rest]))
    assert "passphrase" not in refused(head + b"\nnonsense\n")


@pytest.mark.parametrize("text", [b"", b"ssh-ed25519 AAAAC3Nza me@example.com\n", b"$ANSIBLE_VAULT;1.1;AES256\n6231\n"])
def test_a_file_that_is_no_private_key_is_refused(text: bytes) -> None:
    """A public key, or one of a vault, which nobody decrypts for ssh. No worker would reach a node."""
    assert "ssh_key: /root/key is not a private key that OpenSSH reads" in refused(text)
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    assert "ssh_key" not in refused(key)
