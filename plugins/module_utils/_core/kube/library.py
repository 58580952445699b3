# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Access to an API server with the Python package kubernetes, for what the standard library does not offer: credential
plugins (`exec`), `auth-provider`, proxies, `tls-server-name`, and no verification at all.

The library reads the context and refreshes the token; its connection pool sends the requests. This module adds what it
lacks: one deadline for a whole request, size limits, an error if a plugin returns no credentials (the library logs that and
continues without), and verification of the issuer of OIDC tokens. A refreshed token is not written back to the kubeconfig.
"""

from __future__ import annotations

import logging
import os
import queue
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional, TypeVar, Union
from urllib.parse import unquote, urlsplit

from ..host.bounded import PIECE, Deadline
from ..host.host import BODY_LIMIT, Host, Response, Stream
from ..host.web import LINE_LIMIT, answer_too_large, no_answer_error
from ..text.errors import BallastError, HostError, UserError, last_lines
from ..text.kube_messages import MESSAGES
from ..text.packages import names_everywhere
from .kubeconfig import Kubeconfig

_T = TypeVar("_T")
_LOAD_SECONDS = 60  # for a plugin to return credentials, or an issuer to refresh a token
# The packages of pip and of Debian, by the missing module.
_PACKAGES = {"socks": ("PySocks", "python3-socks")}
_LIBRARY = ("kubernetes", "python3-kubernetes")


class LibraryAccess:
    """An `Access` of client.py."""

    def __init__(self, kubeconfig: Kubeconfig, *, name: str) -> None:
        """Runs the credential plugin. HostError if the library is missing or too old, UserError if it gets no
        credentials."""
        cluster, user = kubeconfig.sections()
        self._server = cluster["server"]
        self._configuration, self._pool, self._failures = _load(cluster, user, name, ", ".join(kubeconfig.by_library))

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
        url, deadline = self._server + target, Deadline(timeout)

        def work() -> Response:
            answer = self._send(method, url, body, headers, timeout)
            data = bytearray()
            try:
                for piece in answer.stream(PIECE, decode_content=False):
                    data += piece
                    if len(data) > limit:
                        raise answer_too_large(method, url, limit)
            finally:
                answer.close()
            return Response(status=answer.status, body=bytes(data))

        with self._report_failures(method, url):
            return _within(deadline, work)

    @contextmanager
    def stream(self, host: Host, target: str, *, headers: Mapping[str, str], timeout: float) -> Iterator[Stream]:
        url, deadline = self._server + target, Deadline(timeout)
        with self._report_failures("GET", url):
            answer = _within(deadline, lambda: self._send("GET", url, None, headers, timeout))
        try:
            yield Stream(status=answer.status, lines=self._lines(answer, url, timeout))
        finally:
            answer.close()

    def elsewhere(self, server: str) -> None:
        """None: another server has another name and network path, and must not get a token."""

    def _send(self, method: str, url: str, body: Optional[bytes], headers: Mapping[str, str], timeout: float) -> Any:
        with _capture_log():  # this may renew a token that is about to expire
            tokens = {row["key"]: row["value"] for row in self._configuration.auth_settings().values()}
        return self._pool.request(
            method,
            url,
            body=body,
            headers={**headers, **tokens},
            timeout=timeout,
            retries=False,
            redirect=False,
            preload_content=False,
        )

    def _lines(self, answer: Any, url: str, timeout: float) -> Iterator[bytes]:
        pieces, rest = answer.stream(PIECE, decode_content=False), bytearray()
        while True:
            deadline = Deadline(timeout)
            while b"\n" not in rest:
                with self._report_failures("GET", url):
                    piece = _within(deadline, lambda: next(pieces, b""))
                if not piece:
                    if rest:
                        yield bytes(rest)
                    return
                rest += piece
                if len(rest) > LINE_LIMIT:
                    raise answer_too_large("a line of GET", url, LINE_LIMIT)
            line, _end, rest = rest.partition(b"\n")
            yield bytes(line) + b"\n"

    @contextmanager
    def _report_failures(self, method: str, url: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, *self._failures) as error:
            raise no_answer_error(method, url, error) from error


def _within(deadline: Deadline, work: Callable[[], _T]) -> _T:
    """Run `work` in a thread: the library limits single reads, but not a whole request. At the deadline the thread is
    abandoned; its read ends with the timeout of its socket."""
    outcome: queue.SimpleQueue[Union[tuple[_T], Exception]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((work(),))
        except Exception as error:  # raised again in the caller's thread
            outcome.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        result = outcome.get(timeout=deadline.seconds_left())
    except queue.Empty:
        raise TimeoutError("timed out") from None
    if isinstance(result, Exception):
        raise result
    return result[0]


def _load(
    cluster: dict[str, Any], user: dict[str, Any], name: str, needed_for: str
) -> tuple[Any, Any, tuple[Any, ...]]:
    """The library's configuration, its connection pool, and the exceptions that those raise."""
    try:
        import kubernetes  # takes 0.3 s
        import urllib3
        from kubernetes.client.rest import RESTClientObject
        from kubernetes.config.kube_config import KubeConfigLoader
    except ImportError as error:
        raise _missing(error, name, needed_for) from error
    _verify_issuer(user)
    document = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": user}],
    }
    configuration = kubernetes.client.Configuration()
    with _capture_log() as lines:
        try:
            # The directory in which the plugin is run; paths are absolute already.
            loader = KubeConfigLoader(document, config_base_path=os.getcwd())
            _within(Deadline(_LOAD_SECONDS), lambda: loader.load_and_set(configuration))
        except Exception as error:  # any exception: the library assumes a well-formed kubeconfig
            raise _unusable(name, needed_for, str(error) or type(error).__name__) from error
    if not configuration.auth_settings() and not configuration.cert_file:
        raise _unusable(
            name, needed_for, last_lines("\n".join(lines)) or "it returned neither a token nor a certificate"
        )
    if cluster.get("tls-server-name") and not hasattr(configuration, "tls_server_name"):
        raise _too_old(name, "cluster.tls-server-name", kubernetes.__version__)
    urllib3.disable_warnings()  # that a server is not verified, at each request
    try:
        if cluster.get("proxy-url"):
            configuration.proxy = cluster["proxy-url"]  # loaders before version 34 take no notice of it
            configuration.proxy_headers = _proxy_headers(cluster["proxy-url"])
            configuration.no_proxy = None  # that of the environment is for its own proxy
        pool = RESTClientObject(configuration).pool_manager
    except ImportError as error:
        raise _missing(error, name, needed_for) from error
    except Exception as error:  # of a proxy, which may have a password: what the library says of it is not repeated
        reason = "it is not an address of a proxy like http://10.0.0.1:3128"
        raise _unusable(name, "cluster.proxy-url", reason) from error
    return configuration, pool, (urllib3.exceptions.HTTPError,)


def _verify_issuer(user: dict[str, Any]) -> None:
    """Without a CA for the issuer of OIDC tokens, the library would send the refresh token without verifying the issuer."""
    provider = user.get("auth-provider")
    config = provider.get("config") if isinstance(provider, Mapping) else None
    if not isinstance(config, Mapping) or not isinstance(provider, Mapping):
        return
    if config.get("idp-certificate-authority-data") or config.get("idp-certificate-authority"):
        return
    paths = ssl.get_default_verify_paths()
    authority = paths.cafile or paths.openssl_cafile
    user["auth-provider"] = {**provider, "config": {**config, "idp-certificate-authority": authority}}


def _proxy_headers(proxy: str) -> Optional[dict[str, str]]:
    import urllib3

    parts = urlsplit(proxy)
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return dict(urllib3.make_headers(proxy_basic_auth=pair))


@contextmanager
def _capture_log() -> Iterator[list[str]]:
    """The errors that the library logs instead of raising them."""
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler = Handler(logging.ERROR)
    logging.getLogger().addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger().removeHandler(handler)


def _missing(error: ImportError, name: str, needed_for: str) -> BallastError:
    package, of_debian = _PACKAGES.get(error.name or "", _LIBRARY)
    command = f"pip install {package}, or the distribution's package ({names_everywhere(of_debian)})"
    what = f"the Python package {package} on the machine where this runs"
    fields = {"path": name, "needed_for": needed_for, "package": what, "command": command}
    return HostError(**MESSAGES.texts("core-kubeconfig-library", found=f"{error}", **fields))


def _too_old(name: str, needed_for: str, version: str) -> BallastError:
    command = "pip install --upgrade kubernetes"
    fields = {"needed_for": needed_for, "package": "a newer Python package kubernetes", "command": command}
    reason = f"version {version}, which lacks it"
    return HostError(**MESSAGES.texts("core-kubeconfig-library", found=reason, path=name, **fields))


def _unusable(name: str, needed_for: str, reason: str) -> BallastError:
    return UserError(**MESSAGES.texts("core-kubeconfig-plugin", found=reason, path=name, needed_for=needed_for))
