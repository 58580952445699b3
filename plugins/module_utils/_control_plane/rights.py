# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""RBAC objects of the collection's identities in a control plane, made before an identity first changes something there.

Code that only reads makes none: without rights it sees nothing until the next change makes the objects. That change also
repairs them after a restore of older data, and after somebody removed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TypeVar, Union

from .._core.engine.events import NullSink, Progress
from .._core.engine.wait import Pending, Ready, wait
from .._core.host.host import Host
from .._core.host.names import MARK
from .._core.kube.client import Refused, is_temporary
from .._core.text.errors import BallastError, PeerError
from .messages import MESSAGES
from .pki.identities import BOOTSTRAP, Identity
from .pki.kubeconfig import temporary_kubeconfig
from .record import Record

LABELS = {"app.kubernetes.io/managed-by": MARK}
_SECONDS = 30  # until the authorizer knows new objects, which takes milliseconds
_ANSWER_SECONDS = 60  # for an API server that is ready while its etcd is not
_SILENT = Progress(NullSink(), feature="plane")

T = TypeVar("T")


def ensure_rights(host: Host, record: Record, identity: Identity) -> None:
    """Make the objects unless they exist. PeerError: `plane-api-refused`, or that of an API server that does not answer."""
    if identity == BOOTSTRAP or _has_rights(host, record, identity):
        return
    for path, body in identity.objects().items():
        write_object(host, record, path, {**body, "metadata": {"name": identity.user, "labels": LABELS}}, BOOTSTRAP)

    def probe() -> Union[Ready[None], Pending]:
        return Ready(None) if _has_rights(host, record, identity) else Pending("they are not in force yet")

    wait(host, _SILENT, f"rights of {identity.user}", probe, deadline_seconds=_SECONDS, interval=0.05)


def write_object(host: Host, record: Record, path: str, body: Mapping[str, object], identity: Identity) -> None:
    """Server-side apply. PeerError `plane-api-refused` when the API server refuses, `core-wait-deadline` when it keeps giving
    no answer."""
    try:
        _ask(host, lambda: record.api(host, identity).apply(path, body))
    except Refused as error:
        raise refusal_error(record, "PATCH", path, error) from error


def refusal_error(record: Record, method: str, path: str, error: Refused) -> BallastError:
    """`plane-api-refused` for an answer of the API server with an error status."""
    return MESSAGES.error(
        "plane-api-refused",
        method=method,
        path=path,
        status=error.status,
        log_dir=f"{record.state_dir}/log",
        found=error.found,
    )


@contextmanager
def kubeconfig_of(host: Host, record: Record, identity: Identity) -> Iterator[str]:
    """The path of a kubeconfig for kubectl. It exists for the block, and its certificate is valid for minutes."""
    certificate, key = record.client(host, identity)
    with temporary_kubeconfig(
        host,
        f"{record.state_dir}/pki",
        name=identity.user,
        server=record.endpoint,
        authority=record.authority,
        certificate=certificate,
        key=key,
    ) as path:
        yield path


def _has_rights(host: Host, record: Record, identity: Identity) -> bool:
    """Whether the identity can read its own roles, with the expected rules."""
    api = record.api(host, identity)
    try:
        return all(
            _ask(host, partial(api.get, path)).get("rules") == role["rules"] for path, role in identity.roles().items()
        )
    except Refused:
        return False


def _ask(host: Host, request: Callable[[], T]) -> T:
    """The answer to a request that may be repeated. An API server reports ready while its etcd has just been restarted."""

    def probe() -> Union[Ready[T], Pending]:
        try:
            return Ready(request())
        except PeerError as error:
            if not is_temporary(error):
                raise
            return Pending(error.found or error.text)

    return wait(host, _SILENT, "API server", probe, deadline_seconds=_ANSWER_SECONDS)
