# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kubeconfig to what is needed to speak with its API server.

Its current context counts. What would run a program (`exec`, `auth-provider`), send a password or leave the server
unverified is refused, and so is what we cannot do (`proxy-url`, `tls-server-name`, impersonation).
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union
from urllib.parse import urlsplit

from .document import parse_document
from .errors import BallastError, Problems, UserError
from .host import Host

_PAGE = "docs/errors.md"
_REFUSED = {
    "cluster": ("insecure-skip-tls-verify", "proxy-url", "tls-server-name"),
    "user": ("exec", "auth-provider", "username", "password", "as", "as-uid", "as-groups", "as-user-extra"),
}


@dataclass(frozen=True)
class Credentials:
    """`ca`, `cert` and `key` as `Host.request` takes them: a path, which is read for each request, so that a renewed
    certificate counts, or the PEM itself."""

    server: str  # https://HOST:PORT, without a slash at its end
    ca: Union[str, bytes, None] = field(default=None, repr=False)
    cert: Union[str, bytes, None] = field(default=None, repr=False)
    key: Union[str, bytes, None] = field(default=None, repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""

    def bearer_token(self, host: Host) -> str:
        """ "" where there is none. A file of it is read each time: the kubelet renews that of a ServiceAccount."""
        if not self.token_file:
            return self.token
        text = (host.read(self.token_file) or b"").decode(errors="replace").strip()
        if not text or not text.isascii() or not text.isprintable():
            raise _wrong(self.token_file, "holds no token")
        return text


def credentials(text: str, *, base_dir: str, name: str) -> Credentials:
    """`base_dir` is that of the file, to which its paths are relative; `name` what messages call it. UserError or
    Problems, with everything that is wrong."""
    return _Reading(name, base_dir).credentials(parse_document(text, name=name))


class _Reading:
    def __init__(self, name: str, base_dir: str) -> None:
        self._name = name
        self._base_dir = base_dir
        self._problems: list[BallastError] = []

    def credentials(self, config: object) -> Credentials:
        whole = config if isinstance(config, Mapping) else {}
        context = self._named(whole, "contexts", "context", self._text(whole, "current-context", "kubeconfig"))
        cluster = self._named(whole, "clusters", "cluster", self._text(context, "cluster", "context"))
        user = self._named(whole, "users", "user", self._text(context, "user", "context"))
        found = Credentials(
            server=self._server(cluster),
            ca=self._file_or_data(cluster, "certificate-authority"),
            cert=self._file_or_data(user, "client-certificate"),
            key=self._file_or_data(user, "client-key"),
            token=self._token(user),
            token_file=self._path(self._optional(user, "tokenFile")),
        )
        for section, values in (("cluster", cluster), ("user", user)):
            for key in _REFUSED[section]:
                if values.get(key):
                    self._fault(f"{section}.{key}", "is not supported here")
        if not self._problems and (found.cert is None) != (found.key is None):
            self._fault("user", "has one of client-certificate and client-key, and not the other")
        if not self._problems and found.cert is None and not found.token and not found.token_file:
            self._fault("user", "has neither a client certificate nor a token")
        Problems.raise_if(self._problems)
        return found

    def _named(self, whole: Mapping[str, Any], group: str, key: str, name: str) -> Mapping[str, Any]:
        rows = whole.get(group)
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, Mapping) and row.get("name") == name and isinstance(row.get(key), Mapping):
                found: Mapping[str, Any] = row[key]
                return found
        if name:
            self._fault(group, f"has no entry of the name {name}")
        return {}

    def _text(self, values: Mapping[str, Any], key: str, section: str) -> str:
        found = values.get(key)
        if isinstance(found, str) and found:
            return found
        if values or section == "kubeconfig":  # what is not there at all has been told
            self._fault(f"{section}.{key}", "is not given")
        return ""

    def _optional(self, values: Mapping[str, Any], key: str) -> str:
        found = values.get(key)
        if found is None or isinstance(found, str):
            return found or ""
        self._fault(key, "is not text")
        return ""

    def _server(self, cluster: Mapping[str, Any]) -> str:
        text = self._text(cluster, "server", "cluster")
        try:
            parts = urlsplit(text)
            # A blank or a control sign would end the line of a request.
            plain = text.isascii() and text.isprintable() and " " not in text and not parts.query and not parts.fragment
            well = plain and parts.scheme == "https" and bool(parts.hostname) and parts.username is None
            well = well and (parts.port is None or parts.port > 0)
        except ValueError:
            well = False
        if text and not well:
            self._fault("cluster.server", "is not an address as in https://192.0.2.1:6443")
        return text.rstrip("/")

    def _file_or_data(self, values: Mapping[str, Any], key: str) -> Union[str, bytes, None]:
        """The data wins, as in client-go."""
        data = self._optional(values, f"{key}-data")
        if not data:
            return self._path(self._optional(values, key)) or None
        try:
            pem = base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            pem = b""
        if pem.isascii() and b"-----BEGIN " in pem:
            return pem
        self._fault(f"{key}-data", "is not PEM in base64")
        return None

    def _token(self, user: Mapping[str, Any]) -> str:
        token = self._optional(user, "token")
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            self._fault("user.token", "is no token")
            return ""
        return token

    def _path(self, path: str) -> str:
        return os.path.join(self._base_dir, path) if path else ""

    def _fault(self, path: str, what: str) -> None:
        self._problems.append(_wrong(self._name, f"{path} {what}"))


def _wrong(name: str, what: str) -> BallastError:
    return UserError(
        f"{name}: {what}",
        id="core-kubeconfig",
        remedy="name a kubeconfig whose current context has a server, its authority, and a client certificate or a token",
        page=_PAGE,
    )
