# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of the Kubernetes API server, with the credentials of a kubeconfig.

    api = connect(host, "/etc/kubernetes/admin.conf")  # see connection.py
    listed = api.list("/api/v1/services")
    for event in api.watch("/api/v1/services", {"resourceVersion": listed.resource_version}): ...

Responses are untrusted: anything but a JSON object is an error. No error message contains a secret: neither a token, nor a
request body, nor the query of a request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Optional, Protocol
from urllib.parse import quote, urlencode

from ..host.host import BODY_LIMIT, NOTHING, Host, Response, Stream
from ..host.names import MARK
from ..text.errors import BallastError, PeerError, last_lines, shorten
from ..text.json_text import parse_json
from ..text.kube_messages import MESSAGES

REQUEST_SECONDS = 30  # the server itself gives up after 60 (--request-timeout)
_PAGE_SIZE = 500  # objects per page; kubectl uses the same
_PAGES_MOST = 2000  # a million objects; Kubernetes supports 150,000 pods
_MESSAGE_LIMIT = 500  # characters of a server's error message: admission may list every violated rule
# A watch receives at least a bookmark once a minute (k8s.io/apiserver, cacher). If it is silent for longer, the server is
# gone.
_SILENCE_SECONDS = 90
_EVENTS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
_TEMPORARY = (410, 429, 500, 502, 503, 504)  # 410: the list expired between two pages
_JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Listed:
    """All objects of a list as of `resource_version`, from which a watch can start."""

    items: tuple[dict[str, Any], ...]
    resource_version: str


class Access(Protocol):
    """How to reach a server, and with which identity. Methods raise PeerError as those of `Host` do."""

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
        """See `Host.request`; `target` is the path and query."""

    def stream(
        self, host: Host, target: str, *, headers: Mapping[str, str], timeout: float
    ) -> AbstractContextManager[Stream]:
        """See `Host.stream`."""

    def elsewhere(self, server: str) -> Optional[Access]:
        """The same client for another `server`, verified by the same CA. None for a client with a token, which that server
        could use in our name."""


class Refused(PeerError):
    """The server answered with an error status."""

    status = 0


def is_temporary(error: BallastError) -> bool:
    """Whether a later retry may succeed: there was no answer, or the server is overloaded or failing."""
    return error.id == "core-no-answer" or (isinstance(error, Refused) and error.status in _TEMPORARY)


class Api:
    """A client of one server. Every method raises PeerError: `core-no-answer`; Refused, which by status is `core-api-absent`
    (404), `core-api-conflict` (409), `core-api-gone` (410), `core-api-forbidden` (401, 403) or else `core-api-refused`;
    `core-api-answer` for an invalid response.

    `path` is that of a resource, such as "/api/v1/nodes/n1"; `params` is the query."""

    def __init__(
        self, host: Host, access: Access, *, timeout: float = REQUEST_SECONDS, who: str = "the API server"
    ) -> None:
        """`who` is how messages refer to the server."""
        self._who = who
        self._host = host
        self._access = access
        self._timeout = timeout

    def elsewhere(self, server: str, *, timeout: float, who: str) -> Optional[Api]:
        """See `Access.elsewhere`."""
        access = self._access.elsewhere(server)
        return None if access is None else Api(self._host, access, timeout=timeout, who=who)

    def get(self, path: str, params: Mapping[str, str] = NOTHING) -> dict[str, Any]:
        return self._ask("GET", path, params)

    def text(self, path: str, params: Mapping[str, str] = NOTHING) -> str:
        """The response as plain text, for endpoints such as /metrics."""
        return self._answer("GET", path, params, accept="*/*").body.decode(errors="replace")

    def ask_program(self, path: str, text: str, *, timeout: float, limit: int) -> str:
        """POST `text` to a program behind the API server's proxy, such as a pod's at `.../pods/NAME:PORT/proxy/PATH`, and
        return its response. `core-too-large` if that exceeds `limit` bytes."""
        body = text.encode()
        return self._answer(
            "POST", path, NOTHING, body, content_type="text/plain", accept="*/*", timeout=timeout, limit=limit
        ).body.decode(errors="replace")

    def find(self, path: str) -> Optional[dict[str, Any]]:
        """The object; None if it does not exist."""
        try:
            return self.get(path)
        except PeerError as error:
            if error.id == "core-api-absent":
                return None
            raise

    def list(self, path: str, params: Mapping[str, str] = NOTHING) -> Listed:
        """All pages of a list. `core-api-gone` if the list expires on the server between two pages."""
        items: list[dict[str, Any]] = []
        version = ""
        for page in self.pages(path, params):
            items.extend(page.items)
            version = page.resource_version
        return Listed(tuple(items), version)

    def pages(
        self, path: str, params: Mapping[str, str] = NOTHING, *, objects: Optional[int] = None
    ) -> Iterator[Listed]:
        """`list` for callers that can process one page at a time. A page is requested when the previous one has been
        processed. Each has at most `objects` items, or fewer where those exceed the size limit of a response."""
        going_on: dict[str, str] = {}
        most = objects or _PAGE_SIZE
        for _page in range(_PAGES_MOST):
            page, most = self._page(path, {**params, **going_on}, most)
            metadata, items = page.get("metadata"), page.get("items")
            if not isinstance(metadata, dict) or not isinstance(items, list):
                raise _nonsense("GET", path, "no list")
            if not all(isinstance(item, dict) for item in items):
                raise _nonsense("GET", path, "an item that is not an object")
            yield Listed(tuple(items), str(metadata.get("resourceVersion", "")))
            if not metadata.get("continue"):
                return
            going_on = {"continue": str(metadata["continue"])}
        raise _nonsense("GET", path, f"a list of more than {_PAGES_MOST} pages")

    def _page(self, path: str, params: Mapping[str, str], objects: int) -> tuple[dict[str, Any], int]:
        """A page, and the number of objects that were requested for it."""
        while True:
            try:
                return self.get(path, {"limit": str(objects), **params}), objects
            except PeerError as error:
                if error.id != "core-too-large" or objects == 1:
                    raise
            objects //= 2

    def create(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] = NOTHING) -> dict[str, Any]:
        """Create an object; `path` is that of the collection."""
        return self._ask("POST", path, params, body)

    def replace(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] = NOTHING) -> dict[str, Any]:
        """`core-api-conflict` if the object has changed since `body.metadata.resourceVersion`."""
        return self._ask("PUT", path, params, body)

    def patch(
        self,
        path: str,
        body: object,
        *,
        content_type: str = MERGE_PATCH,
        params: Mapping[str, str] = NOTHING,
    ) -> dict[str, Any]:
        """Change an object and return it. `content_type` says what kind of patch `body` is."""
        return self._ask("PATCH", path, params, body, content_type=content_type)

    def apply(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Server-side apply with our field manager: create the object or set these fields; all others keep their values."""
        return self.patch(path, body, content_type=APPLY_PATCH, params={"fieldManager": MARK, "force": "true"})

    def delete(self, path: str, body: Optional[Mapping[str, Any]] = None) -> None:
        """Delete an object; no error if it is absent. `body` may be DeleteOptions, with `preconditions` and
        `propagationPolicy`."""
        try:
            self._ask("DELETE", path, NOTHING, body)
        except PeerError as error:
            if error.id != "core-api-absent":
                raise

    def watch(
        self,
        path: str,
        params: Mapping[str, str] = NOTHING,
        *,
        silence_seconds: float = _SILENCE_SECONDS,
    ) -> Iterator[dict[str, Any]]:
        """The events `{"type": ..., "object": {...}}` as they arrive, until the server closes the watch, which it does every
        few minutes. The type is ADDED, MODIFIED, DELETED or BOOKMARK; the object of a bookmark only has a resourceVersion to
        resume from.

        `core-no-answer` after `silence_seconds` without an event; `core-api-gone` if the requested resourceVersion is too
        old, in which case the caller lists again.
        """
        query = {"watch": "1", "allowWatchBookmarks": "true", **params}
        target, headers = _target(path, query), {"Accept": _JSON}
        with self._access.stream(self._host, target, headers=headers, timeout=silence_seconds) as stream:
            if stream.status != 200:
                raise _refusal("WATCH", path, Response(status=stream.status, body=next(stream.lines, b"")))
            for line in stream.lines:
                yield _event(path, line)

    def _ask(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: object = None,
        *,
        content_type: str = _JSON,
    ) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        answer = self._answer(method, path, params, data, content_type=content_type)
        return _object(method, path, answer.body)

    def _answer(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: Optional[bytes] = None,
        *,
        content_type: str = _JSON,
        accept: str = _JSON,
        timeout: Optional[float] = None,
        limit: int = BODY_LIMIT,
    ) -> Response:
        answer = self._access.request(
            self._host,
            _target(path, params),
            method=method,
            body=body,
            headers={"Accept": accept, "Content-Type": content_type},
            timeout=timeout or self._timeout,
            limit=limit,
        )
        if answer.status not in (200, 201, 202):
            raise _refusal(method, path, answer, who=self._who)
        return answer


def _target(path: str, params: Mapping[str, str]) -> str:
    return quote(path, safe="/:") + (f"?{urlencode(params)}" if params else "")


def _object(method: str, path: str, body: bytes) -> dict[str, Any]:
    try:
        body_object = parse_json(body)
    except ValueError as error:
        raise _nonsense(method, path, "no JSON") from error
    if not isinstance(body_object, dict):
        raise _nonsense(method, path, "no object")
    return body_object


def _event(path: str, line: bytes) -> dict[str, Any]:
    event = _object("WATCH", path, line)
    kind, what = event.get("type"), event.get("object")
    if not isinstance(what, dict):
        raise _nonsense("WATCH", path, "an event without an object")
    if kind == "ERROR":
        code = what.get("code")
        status = code if isinstance(code, int) and not isinstance(code, bool) else 500
        raise _refusal("WATCH", path, Response(status=status, body=json.dumps(what).encode()))
    if kind not in _EVENTS:
        raise _nonsense("WATCH", path, "an event of unknown type")
    return {"type": kind, "object": what}


# The error id for each status.
_REFUSALS = {
    401: "core-api-forbidden",
    403: "core-api-forbidden",
    404: "core-api-absent",
    409: "core-api-conflict",
    410: "core-api-gone",
}


def _refusal(method: str, path: str, answer: Response, *, who: str = "the API server") -> BallastError:
    id = _REFUSALS.get(answer.status, "core-api-refused")
    fields = {"method": method, "path": path, "server": who, "status": answer.status}
    refused = Refused(**MESSAGES.texts(id, found=_message(answer.body), **fields))
    refused.status = answer.status
    return refused


def _message(body: bytes) -> str:
    """The message of a Status object, or, from another server, the text of the response; shortened."""
    try:
        status = parse_json(body)
        text = status["message"]
    except (ValueError, KeyError, TypeError):
        text = body.decode(errors="replace")
    return shorten(last_lines(str(text), width=_MESSAGE_LIMIT), limit=_MESSAGE_LIMIT)


def _nonsense(method: str, path: str, what: str) -> BallastError:
    return PeerError(**MESSAGES.texts("core-api-answer", found=what, method=method, path=path))
