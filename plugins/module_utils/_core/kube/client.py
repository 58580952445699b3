# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The API server of Kubernetes, asked with the credentials of a kubeconfig.

    api = connect(host, "/etc/kubernetes/admin.conf")  # see connection.py
    listed = api.list("/api/v1/services")
    for event in api.watch("/api/v1/services", {"resourceVersion": listed.resource_version}): ...

What the server answers is untrusted: an answer that is no JSON object is an error. No message holds a secret: neither
a token, nor what was sent, nor the query of a request.
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
_PAGE_SIZE = 500  # objects, as kubectl asks for them
_PAGES_MOST = 2000  # a million objects; Kubernetes is made for 150,000 pods
_MESSAGE_LIMIT = 500  # characters of what a server says: admission lists each resource, or each rule that is broken
# A watch hears of its server once a minute at least, by a bookmark (k8s.io/apiserver, cacher). Silence beyond that is a
# server that is gone.
_SILENCE_SECONDS = 90
_EVENTS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
_TEMPORARY = (410, 429, 500, 502, 503, 504)  # 410: a list expired between two pages
_JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Listed:
    """All objects of a list, as of `resource_version`, from which a watch may go on."""

    items: tuple[dict[str, Any], ...]
    resource_version: str


class Access(Protocol):
    """How to reach a server, and as whom. Methods raise PeerError as those of `Host` do."""

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
        """See `Host.request`; `target` is path and query."""

    def stream(
        self, host: Host, target: str, *, headers: Mapping[str, str], timeout: float
    ) -> AbstractContextManager[Stream]:
        """See `Host.stream`."""

    def elsewhere(self, server: str) -> Optional[Access]:
        """The same client at another server, for which the same authority has to vouch. None for one that has a token: that
        server could use it in our name."""


class Refused(PeerError):
    """The server has answered, with another status than was hoped for."""

    status = 0


def is_temporary(error: BallastError) -> bool:
    """Worth another try after a while: no answer, or the server is overloaded or failing."""
    return error.id == "core-no-answer" or (isinstance(error, Refused) and error.status in _TEMPORARY)


class Api:
    """Every method raises PeerError: `core-no-answer`; Refused, by status `core-api-absent` (404), `core-api-conflict`
    (409), `core-api-gone` (410), `core-api-forbidden` (401, 403), else `core-api-refused`; `core-api-answer` for nonsense.

    `path` is that of a resource, as in "/api/v1/nodes/n1"; `params` its query.
    """

    def __init__(
        self, host: Host, access: Access, *, timeout: float = REQUEST_SECONDS, who: str = "the API server"
    ) -> None:
        """`who` is what messages call the server."""
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
        """Of what answers in words of its own, as /metrics does."""
        return self._answer("GET", path, params, accept="*/*").body.decode(errors="replace")

    def ask_program(self, path: str, text: str, *, timeout: float, limit: int) -> str:
        """What a program behind the server's proxy answers to `text`: that of a pod, at `.../pods/NAME:PORT/proxy/PATH`.
        `core-too-large` where that is more than `limit` bytes."""
        body = text.encode()
        return self._answer(
            "POST", path, NOTHING, body, content_type="text/plain", accept="*/*", timeout=timeout, limit=limit
        ).body.decode(errors="replace")

    def find(self, path: str) -> Optional[dict[str, Any]]:
        """None where there is no such object."""
        try:
            return self.get(path)
        except PeerError as error:
            if error.id == "core-api-absent":
                return None
            raise

    def list(self, path: str, params: Mapping[str, str] = NOTHING) -> Listed:
        """Every page. `core-api-gone` where the server has forgotten, between two pages, what the first was of."""
        items: list[dict[str, Any]] = []
        version = ""
        for page in self.pages(path, params):
            items.extend(page.items)
            version = page.resource_version
        return Listed(tuple(items), version)

    def pages(
        self, path: str, params: Mapping[str, str] = NOTHING, *, objects: Optional[int] = None
    ) -> Iterator[Listed]:
        """As `list`, for who need not have all at once. Each page is asked for when the one before has been dealt with. It has so
        many `objects`, or fewer where these are too large for one answer."""
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
        """With how many objects it was asked for."""
        while True:
            try:
                return self.get(path, {"limit": str(objects), **params}), objects
            except PeerError as error:
                if error.id != "core-too-large" or objects == 1:
                    raise
            objects //= 2

    def create(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] = NOTHING) -> dict[str, Any]:
        """`path` is that of the collection."""
        return self._ask("POST", path, params, body)

    def replace(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] = NOTHING) -> dict[str, Any]:
        """`core-api-conflict` where somebody else has changed it since `body.metadata.resourceVersion`."""
        return self._ask("PUT", path, params, body)

    def patch(
        self,
        path: str,
        body: object,
        *,
        content_type: str = MERGE_PATCH,
        params: Mapping[str, str] = NOTHING,
    ) -> dict[str, Any]:
        return self._ask("PATCH", path, params, body, content_type=content_type)

    def apply(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Server-side apply as our field manager: make the object, or set these fields; others keep theirs."""
        return self.patch(path, body, content_type=APPLY_PATCH, params={"fieldManager": MARK, "force": "true"})

    def delete(self, path: str, body: Optional[Mapping[str, Any]] = None) -> None:
        """Absent is well. `body` may be DeleteOptions, with `preconditions` and `propagationPolicy`."""
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
        """Each event, `{"type": ..., "object": {...}}`, as it comes, until the server closes, which it does every few
        minutes. Type is ADDED, MODIFIED, DELETED or BOOKMARK, whose object has but a resourceVersion to go on from.

        `core-no-answer` after `silence_seconds` without an event; `core-api-gone` where the resourceVersion asked for is
        too old: list again then.
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


# By status, what distinguishes the error for a program.
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
    """That of the Status object which the API server answers with; of another server, what it says, shortened."""
    try:
        status = parse_json(body)
        text = status["message"]
    except (ValueError, KeyError, TypeError):
        text = body.decode(errors="replace")
    return shorten(last_lines(str(text), width=_MESSAGE_LIMIT), limit=_MESSAGE_LIMIT)


def _nonsense(method: str, path: str, what: str) -> BallastError:
    return PeerError(**MESSAGES.texts("core-api-answer", found=what, method=method, path=path))
