# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An OIDC issuer for tests: its discovery document and keys over https on loopback, and tokens that it signs."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from tests.integration.certificates import issue

_KEY_ID = "test"
_SECONDS = 600  # life of a token


@dataclass(frozen=True)
class Issuer:
    url: str
    authority: str  # PEM text
    key: rsa.RSAPrivateKey

    def token(self, **claims: object) -> str:
        """Of this issuer, valid from now on, unless the claims say otherwise."""
        now = int(time.time())
        parts = ({"alg": "RS256", "kid": _KEY_ID}, {"iss": self.url, "iat": now, "exp": now + _SECONDS, **claims})
        signed = ".".join(_base64(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{_base64(self.key.sign(signed.encode(), padding.PKCS1v15(), SHA256()))}"


@contextmanager
def issuer(directory: Path) -> Iterator[Issuer]:
    """One that serves until the block ends. Its certificates are below the directory."""
    authority = issue(str(directory / "issuer-ca.crt"), None)
    certificate = issue(str(directory / "issuer.crt"), authority, "IP:127.0.0.1")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.removesuffix(".crt") + ".key")
    documents: dict[str, object] = {}
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(documents)) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        found = Issuer(f"https://127.0.0.1:{server.server_address[1]}", Path(authority).read_text("ascii"), key)
        documents.update(_documents(found))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


def _documents(of: Issuer) -> dict[str, object]:
    numbers = of.key.public_key().public_numbers()
    key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID, "n": _number(numbers.n), "e": _number(numbers.e)}
    discovery = {
        "issuer": of.url,
        "jwks_uri": f"{of.url}/keys",
        "authorization_endpoint": f"{of.url}/authorize",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }
    return {"/.well-known/openid-configuration": discovery, "/keys": {"keys": [key]}}


def _handler(documents: dict[str, object]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = documents.get(self.path)
            body = json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            """Not into the output of tests."""

    return Handler


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
