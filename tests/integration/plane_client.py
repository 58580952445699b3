# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of an API server for tests: one kept connection, JSON in and out, no retries."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Found = TypeVar("Found")


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any  # parsed JSON, or text

    @property
    def ok(self) -> bool:
        return self.status in (200, 201, 202)


class Client:
    """Opened at the first question and after an error. One thread may use it at a time."""

    def __init__(
        self, endpoint: str, *, ca: str, certificate: str = "", token: str = "", key: str = "", timeout: float = 30
    ) -> None:
        """`ca`, `certificate` and `key` are paths; without `key` it lies beside the certificate."""
        self._at = urlsplit(endpoint).netloc
        self._timeout = timeout
        self.headers = {"Accept": JSON, **({"Authorization": f"Bearer {token}"} if token else {})}
        self._context = ssl.create_default_context(cafile=ca)
        if certificate:
            self._context.load_cert_chain(certificate, key or certificate.removesuffix(".crt") + ".key")
        self._connection: http.client.HTTPSConnection | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, path: str, method: str = "GET", body: object = None, content_type: str = JSON) -> Answer:
        """OSError or HTTPException when there is no answer."""
        if self._connection is None:
            self._connection = self._new()
        data = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, path, body=data, headers={**self.headers, "Content-Type": content_type})
            answer = self._connection.getresponse()
            return Answer(answer.status, _parsed(answer.read()))
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def get(self, path: str) -> Any:
        return self._wanted(self.ask(path), "GET", path)

    def create(self, path: str, body: object) -> Any:
        return self._wanted(self.ask(path, "POST", body), "POST", path)

    def update(self, path: str, body: object) -> Any:
        return self._wanted(self.ask(path, "PUT", body), "PUT", path)

    def patch(self, path: str, body: object, content_type: str = MERGE_PATCH) -> Any:
        return self._wanted(self.ask(path, "PATCH", body, content_type), "PATCH", path)

    def apply(self, path: str, body: object, *, manager: str, force: bool = False) -> Answer:
        """Server-side apply."""
        question = f"{path}?fieldManager={manager}&force={str(force).lower()}"
        return self.ask(question, "PATCH", body, APPLY_PATCH)

    def delete(self, path: str, body: object = None) -> Any:
        return self._wanted(self.ask(path, "DELETE", body), "DELETE", path)

    @contextmanager
    def watch(self, path: str) -> Iterator[Iterator[dict[str, Any]]]:
        """Events of `PATH?watch=1...` on a connection of its own, until the server ends it or the block is left."""
        connection = self._new()
        try:
            connection.request("GET", path, headers=self.headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise AssertionError(f"watch {path}: {answer.status} {answer.read()!r}")
            yield (json.loads(line) for line in answer)
        finally:
            connection.close()

    def _new(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._at, timeout=self._timeout, context=self._context)

    @staticmethod
    def _wanted(answer: Answer, method: str, path: str) -> Any:
        assert answer.ok, f"{method} {path}: {answer.status} {answer.body}"
        return answer.body


def eventually(probe: Callable[[], Found | None], *, what: str, seconds: float = 120, interval: float = 0.1) -> Found:
    """The first answer that is not None or False."""
    deadline = time.monotonic() + seconds
    while True:
        found = probe()
        if found is not None and found is not False:
            return found
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(interval)


def _parsed(data: bytes) -> Any:
    text = data.decode(errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        return text
