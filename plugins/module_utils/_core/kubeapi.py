# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The API server of Kubernetes, asked with the credentials of a kubeconfig.

    api = Api(host, credentials(text, base_dir="/etc/kubernetes", name="/etc/kubernetes/admin.conf"))
    listed = api.list("/api/v1/services")
    for event in api.watch("/api/v1/services", {"resourceVersion": listed.resource_version}): ...

What the server answers is untrusted: an answer that is no JSON object is an error. No message holds a secret: neither
a token, nor what was sent, nor the query of a request.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Optional
from urllib.parse import quote, urlencode

from .errors import BallastError, PeerError, last_lines, shorten
from .host import NOTHING, Host, Response
from .kubeconfig import Credentials, credentials

_PAGE = "docs/errors.md"
_SECONDS = 30  # of one request; the server itself gives up after 60 (--request-timeout)
_PAGE_SIZE = 500  # objects, as kubectl asks for them
# A watch hears of its server once a minute at least, by a bookmark (k8s.io/apiserver, cacher). Silence beyond that is a
# server that is gone.
_SILENCE_SECONDS = 90
_EVENTS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
_JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Listed:
    """All objects of a list, as of `resource_version`, from which a watch may go on."""

    items: tuple[dict[str, Any], ...]
    resource_version: str


class Refused(PeerError):
    """The server has answered, with another status than was hoped for."""

    status = 0


class Api:
    """Every method raises PeerError: `core-no-answer`; Refused, by status `core-api-absent` (404), `core-api-conflict`
    (409), `core-api-gone` (410), `core-api-forbidden` (401, 403), else `core-api-refused`; `core-api-answer` for nonsense.

    `path` is that of a resource, as in "/api/v1/nodes/n1"; `params` its query.
    """

    def __init__(self, host: Host, credentials: Credentials, *, timeout: float = _SECONDS) -> None:
        self._host = host
        self._credentials = credentials
        self._timeout = timeout

    def get(self, path: str, params: Mapping[str, str] = NOTHING) -> dict[str, Any]:
        return self._asked("GET", path, params)

    def text(self, path: str) -> str:
        """Of what answers in words of its own, as /metrics does."""
        return self._answer("GET", path, NOTHING, accept="*/*").body.decode(errors="replace")

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

    def pages(self, path: str, params: Mapping[str, str] = NOTHING) -> Iterator[Listed]:
        """As `list`, for who need not have all at once. Each page is asked for when the one before has been dealt with."""
        going_on: dict[str, str] = {}
        while True:
            page = self.get(path, {"limit": str(_PAGE_SIZE), **params, **going_on})
            metadata, found = page.get("metadata"), page.get("items")
            if not isinstance(metadata, dict) or not isinstance(found, list):
                raise _nonsense("GET", path, "no list")
            if not all(isinstance(item, dict) for item in found):
                raise _nonsense("GET", path, "an item that is no object")
            yield Listed(tuple(found), str(metadata.get("resourceVersion", "")))
            if not metadata.get("continue"):
                return
            going_on = {"continue": str(metadata["continue"])}

    def create(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] = NOTHING) -> dict[str, Any]:
        """`path` is that of the collection."""
        return self._asked("POST", path, params, body)

    def replace(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] = NOTHING) -> dict[str, Any]:
        """`core-api-conflict` where somebody else has changed it since `body.metadata.resourceVersion`."""
        return self._asked("PUT", path, params, body)

    def patch(
        self,
        path: str,
        body: object,
        *,
        content_type: str = MERGE_PATCH,
        params: Mapping[str, str] = NOTHING,
    ) -> dict[str, Any]:
        return self._asked("PATCH", path, params, body, content_type=content_type)

    def delete(
        self,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        *,
        params: Mapping[str, str] = NOTHING,
    ) -> None:
        """Absent is well. `body` may be DeleteOptions, with `preconditions` and `propagationPolicy`."""
        try:
            self._asked("DELETE", path, params, body)
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
        too old: list anew then.
        """
        asked = {"watch": "1", "allowWatchBookmarks": "true", **params}
        with self._host.stream(
            self._credentials.server + _target(path, asked),
            headers=self._headers(),
            ca=self._credentials.ca,
            cert=self._credentials.cert,
            key=self._credentials.key,
            timeout=silence_seconds,
        ) as stream:
            if stream.status != 200:
                body = b"".join(stream.lines)
                raise _refused("WATCH", path, Response(status=stream.status, body=body))
            for line in stream.lines:
                yield _event(path, line)

    def _asked(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: object = None,
        *,
        content_type: str = _JSON,
    ) -> dict[str, Any]:
        answer = self._answer(method, path, params, body, content_type=content_type)
        return _object(method, path, answer.body)

    def _answer(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: object = None,
        *,
        content_type: str = _JSON,
        accept: str = _JSON,
    ) -> Response:
        answer = self._host.request(
            self._credentials.server + _target(path, params),
            method=method,
            body=None if body is None else json.dumps(body).encode(),
            headers={**self._headers(), "Accept": accept, "Content-Type": content_type},
            ca=self._credentials.ca,
            cert=self._credentials.cert,
            key=self._credentials.key,
            timeout=self._timeout,
        )
        if answer.status not in (200, 201, 202):
            raise _refused(method, path, answer)
        return answer

    def _headers(self) -> dict[str, str]:
        token = self._credentials.bearer_token(self._host)
        return {"Accept": _JSON, **({"Authorization": f"Bearer {token}"} if token else {})}


def api_by(host: Host, kubeconfig: str, *, timeout: float = _SECONDS) -> Api:
    """With the credentials of that file. UserError or Problems where it is not there, or no kubeconfig."""
    text = (host.read(kubeconfig) or b"").decode(errors="replace")
    return Api(host, credentials(text, base_dir=os.path.dirname(kubeconfig), name=kubeconfig), timeout=timeout)


def _target(path: str, params: Mapping[str, str]) -> str:
    return quote(path, safe="/:") + (f"?{urlencode(params)}" if params else "")


def _object(method: str, path: str, body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _nonsense(method, path, "no JSON") from error
    if not isinstance(found, dict):
        raise _nonsense(method, path, "no object")
    return found


def _event(path: str, line: bytes) -> dict[str, Any]:
    event = _object("WATCH", path, line)
    kind, what = event.get("type"), event.get("object")
    if not isinstance(what, dict):
        raise _nonsense("WATCH", path, "an event without an object")
    if kind == "ERROR":
        code = what.get("code")
        status = code if isinstance(code, int) and not isinstance(code, bool) else 500
        raise _refused("WATCH", path, Response(status=status, body=json.dumps(what).encode()))
    if kind not in _EVENTS:
        raise _nonsense("WATCH", path, "an event of unknown type")
    return {"type": kind, "object": what}


# By status: what distinguishes the error for a program, and what to do about it.
_REFUSALS = {
    401: ("core-api-forbidden", "use a kubeconfig whose client the server knows and allows this"),
    403: ("core-api-forbidden", "use a kubeconfig whose client the server knows and allows this"),
    404: ("core-api-absent", "see whether the name and the namespace are right, and the server serves that version"),
    409: ("core-api-conflict", "run it again: somebody else has changed the object at the same time"),
    410: ("core-api-gone", "list again, then watch from there"),
}


def _refused(method: str, path: str, answer: Response) -> BallastError:
    id, remedy = _REFUSALS.get(answer.status, ("core-api-refused", "see to what the server says"))
    refused = Refused(
        f"{method} {path}: the API server answered with status {answer.status}",
        id=id,
        found=_message(answer.body),
        remedy=remedy,
        page=_PAGE,
    )
    refused.status = answer.status
    return refused


def _message(body: bytes) -> str:
    """That of the Status object which the API server answers with; of another server, what it says, shortened."""
    try:
        status = json.loads(body)
        text = status["message"]
    except (ValueError, RecursionError, KeyError, TypeError):
        text = body.decode(errors="replace")
    return shorten(last_lines(str(text)), limit=500)


def _nonsense(method: str, path: str, what: str) -> BallastError:
    return PeerError(
        f"{method} {path}: the answer is not one of the API server's",
        id="core-api-answer",
        found=what,
        remedy="see what else listens at the address that the kubeconfig names",
        page=_PAGE,
    )
