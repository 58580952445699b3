# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses a kubeconfig: one context of one file, or of several files merged as kubectl does.

`Kubeconfig.credentials` supports client certificates and tokens, with the standard library alone. The keys in `BY_LIBRARY`
require the Python package kubernetes (library.py). Passwords and impersonation are refused.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Optional, Union
from urllib.parse import urlsplit

from ..host.host import BODY_LIMIT, Host, ProcessId, Response, Stream
from ..text.document import parse_document
from ..text.errors import BallastError, Problems, UserError
from ..text.kube_messages import MESSAGES

BY_LIBRARY = {
    "cluster": ("insecure-skip-tls-verify", "proxy-url", "tls-server-name"),
    "user": ("exec", "auth-provider"),
}
_REFUSED = {"cluster": (), "user": ("username", "password", "as", "as-uid", "as-groups", "as-user-extra")}
_GROUPS = {"contexts": "context", "clusters": "cluster", "users": "user"}
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_TOKEN_BYTES = 64 * 2**10


@dataclass(frozen=True)
class Credentials:
    """An `Access` of client.py. `ca`, `cert` and `key` are as `Host.request` takes them: PEM data, or a path that is read
    for each request, so that a renewed certificate takes effect."""

    server: str  # https://HOST:PORT, without a trailing slash
    ca: Union[str, bytes, None] = field(default=None, repr=False)
    cert: Union[str, bytes, None] = field(default=None, repr=False)
    key: Union[str, bytes, None] = field(default=None, repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    token_of: Optional[ProcessId] = None  # `token_file` is below this process's root; None: below /
    peer: Union[str, bytes, None] = None  # the exact certificate that the server must have, instead of `ca`

    def request(
        self,
        host: Host,
        target: str,
        *,
        method: str,
        body: Optional[bytes],
        headers: Mapping[str, str],
        timeout: float,
        limit: int = BODY_LIMIT,
    ) -> Response:
        return host.request(
            self.server + target,
            method=method,
            body=body,
            headers={**headers, **self._authorization(host)},
            ca=self.ca,
            cert=self.cert,
            key=self.key,
            peer=self.peer,
            timeout=timeout,
            limit=limit,
        )

    def stream(
        self, host: Host, target: str, *, headers: Mapping[str, str], timeout: float
    ) -> AbstractContextManager[Stream]:
        return host.stream(
            self.server + target,
            headers={**headers, **self._authorization(host)},
            ca=self.ca,
            cert=self.cert,
            key=self.key,
            timeout=timeout,
        )

    def elsewhere(self, server: str) -> Optional[Credentials]:
        if self.cert is None or self.token or self.token_file:
            return None
        return replace(self, server=server)

    def bearer_token(self, host: Host) -> str:
        """The bearer token; "" if there is none. A token file is read each time, because the kubelet renews a
        ServiceAccount's."""
        if not self.token_file:
            return self.token
        if self.token_of is None:
            data = host.read(self.token_file)
        else:
            data = host.read_below(self.token_of, self.token_file, limit=_TOKEN_BYTES)
        text = (data or b"").decode(errors="replace").strip()
        if not text or not text.isascii() or not text.isprintable():
            raise kubeconfig_error(self.token_file, "contains no token")
        return text

    def _authorization(self, host: Host) -> Mapping[str, str]:
        token = self.bearer_token(host)
        return {"Authorization": f"Bearer {token}"} if token else {}


class Document(NamedTuple):
    """A parsed kubeconfig, and the directory to which its paths are relative."""

    base_dir: str
    content: object


def parse_credentials(text: str, *, base_dir: str, name: str, context: str = "") -> Credentials:
    """The credentials of a kubeconfig. `base_dir` is the directory of the file, to which its paths are relative; messages
    call the file `name`. UserError or Problems, with everything that is wrong."""
    return Kubeconfig([Document(base_dir, parse_document(text, name=name))], name=name, context=context).credentials()


class Kubeconfig:
    """The context named `context`, or the current one. If several documents have an entry, the first one wins."""

    def __init__(self, documents: Iterable[Document], *, name: str, context: str = "") -> None:
        self._name = name
        self._problems: list[BallastError] = []
        merged = _merge(documents)
        selected = context or self._text(merged, "current-context", "kubeconfig")
        chosen = self._entry_named(merged, "contexts", selected)
        self._sections = {
            "cluster": self._entry_named(merged, "clusters", self._text(chosen, "cluster", "context")),
            "user": self._entry_named(merged, "users", self._text(chosen, "user", "context")),
        }
        self._server()
        self._refuse(_REFUSED)

    @property
    def by_library(self) -> tuple[str, ...]:
        """Its keys that need the library, such as "user.exec"."""
        return self._present(BY_LIBRARY)

    def sections(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The cluster and the user, with absolute paths. UserError or Problems as for `credentials`."""
        Problems.raise_if(self._problems)
        cluster, user = self._sections.values()
        return {**cluster, "server": self._server()}, dict(user)

    def credentials(self) -> Credentials:
        """The credentials of the context. All problems are raised together, also keys in `BY_LIBRARY`."""
        cluster, user = self._sections.values()
        credentials = Credentials(
            server=self._server(),
            ca=self._file_or_data(cluster, "certificate-authority"),
            cert=self._file_or_data(user, "client-certificate"),
            key=self._file_or_data(user, "client-key"),
            token=self._token(user),
            token_file=self._optional(user, "tokenFile"),
        )
        self._refuse(BY_LIBRARY)
        if not self._problems and (credentials.cert is None) != (credentials.key is None):
            self._fault("user", "has only one of client-certificate and client-key")
        if not self._problems and credentials.cert is None and not credentials.token and not credentials.token_file:
            self._fault("user", "has neither a client certificate nor a token")
        Problems.raise_if(self._problems)
        return credentials

    def _entry_named(self, merged: Mapping[str, Any], group: str, name: str) -> Mapping[str, Any]:
        for row in merged[group]:
            if row.get("name") == name:
                section: Mapping[str, Any] = row[_GROUPS[group]]
                return section
        if name:
            self._fault(group, f"has no entry named {name}")
        return {}

    def _present(self, keys: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        return tuple(
            f"{section}.{key}" for section, values in self._sections.items() for key in keys[section] if values.get(key)
        )

    def _refuse(self, keys: Mapping[str, tuple[str, ...]]) -> None:
        for path in self._present(keys):
            self._fault(path, "is not supported here")

    def _text(self, values: Mapping[str, Any], key: str, section: str) -> str:
        text = values.get(key)
        if isinstance(text, str) and text:
            return text
        if values or section == "kubeconfig":  # an absent section has been reported already
            self._fault(f"{section}.{key}", "is missing")
        return ""

    def _optional(self, values: Mapping[str, Any], key: str) -> str:
        text = values.get(key)
        if text is None or isinstance(text, str):
            return text or ""
        self._fault(key, "is not text")
        return ""

    def _server(self) -> str:
        text = self._text(self._sections["cluster"], "server", "cluster")
        try:
            parts = urlsplit(text)
            # A blank or a control character would end the request line.
            plain = text.isascii() and text.isprintable() and " " not in text and not parts.query and not parts.fragment
            well = plain and parts.scheme == "https" and bool(parts.hostname) and parts.username is None
            well = well and (parts.port is None or parts.port > 0)
        except ValueError:
            well = False
        if text and not well:
            self._fault("cluster.server", "is not an address like https://192.0.2.1:6443")
        return text.rstrip("/")

    def _file_or_data(self, values: Mapping[str, Any], key: str) -> Union[str, bytes, None]:
        """The PEM data or the path of a file. If both are given, the data wins, as in client-go."""
        data = self._optional(values, f"{key}-data")
        if not data:
            return self._optional(values, key) or None
        try:
            pem = base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            pem = b""
        if pem.isascii() and b"-----BEGIN " in pem:
            return pem
        self._fault(f"{key}-data", "is not base64-encoded PEM")
        return None

    def _token(self, user: Mapping[str, Any]) -> str:
        token = self._optional(user, "token")
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            self._fault("user.token", "is not a token")
            return ""
        return token

    def _fault(self, path: str, what: str) -> None:
        error = kubeconfig_error(self._name, f"{path} {what}")
        if error.text not in [problem.text for problem in self._problems]:
            self._problems.append(error)


def _merge(documents: Iterable[Document]) -> dict[str, Any]:
    """The entries of all documents in order, with absolute paths, and the first current context."""
    merged: dict[str, Any] = {"current-context": "", **{group: [] for group in _GROUPS}}
    for base_dir, content in documents:
        whole = content if isinstance(content, Mapping) else {}
        merged["current-context"] = merged["current-context"] or whole.get("current-context")
        for group, key in _GROUPS.items():
            rows = whole.get(group)
            for row in rows if isinstance(rows, list) else []:
                if isinstance(row, Mapping) and isinstance(row.get(key), Mapping):
                    merged[group].append({"name": row.get("name"), key: _resolve_paths(row[key], base_dir)})
    return merged


def _resolve_paths(section: Mapping[str, Any], base_dir: str) -> dict[str, Any]:
    located = {key: value for key, value in section.items() if value not in (None, "")}  # absent, as in Go
    for key in _PATHS:
        if isinstance(section.get(key), str) and section[key]:
            located[key] = os.path.join(base_dir, section[key])
    plugin = section.get("exec")
    command = plugin.get("command") if isinstance(plugin, Mapping) else None
    if isinstance(plugin, Mapping) and isinstance(command, str) and "/" in command:  # else PATH is searched
        located["exec"] = {**plugin, "command": os.path.join(base_dir, command)}
    return located


def named_files(data: bytes, path: str) -> tuple[str, ...]:
    """The files that the current context of the kubeconfig `path` refers to; empty if the context cannot be used."""
    try:
        content = parse_document(data.decode(errors="replace"), name=path)
        sections = Kubeconfig([Document(os.path.dirname(path), content)], name=path).sections()
    except BallastError:
        return ()
    return tuple(
        section[key] for section in sections for key in _PATHS if section.get(key) and f"{key}-data" not in section
    )


def kubeconfig_error(name: str, what: str) -> BallastError:
    return UserError(**MESSAGES.texts("core-kubeconfig", path=name, problem=what))
