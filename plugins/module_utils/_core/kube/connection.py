# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which API server to use, and with which identity: the options `kubeconfig` and `context`, and their defaults.

Sources in order: the option, K8S_AUTH_KUBECONFIG, KUBECONFIG, the ServiceAccount of the pod that the module runs in, and
~/.kube/config. The variables K8S_AUTH_* are those of the collection kubernetes.core. Since a kubeconfig decides which
programs run and who gets a secret, a file that other users could have written is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from ..host.host import Host
from ..text.document import parse_document
from ..text.errors import UserError
from ..text.kube_messages import MESSAGES
from .client import REQUEST_SECONDS, Access, Api
from .kubeconfig import Credentials, Document, Kubeconfig, kubeconfig_error

SPEC: dict[str, Any] = {"kubeconfig": {"type": "path"}, "context": {"type": "str"}}
_HOME = "~/.kube/config"
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def connect(
    host: Host,
    kubeconfig: str,
    context: str = "",
    *,
    timeout: float = REQUEST_SECONDS,
    environ: Optional[Mapping[str, str]] = None,
) -> Api:
    """The client that a module's options ask for. UserError, Problems or HostError if there is no usable kubeconfig."""
    environ = os.environ if environ is None else environ
    paths = kubeconfig or environ.get("K8S_AUTH_KUBECONFIG") or environ.get("KUBECONFIG") or ""
    context = context or environ.get("K8S_AUTH_CONTEXT") or ""
    access: Optional[Access] = None if paths or context else _account(host, environ)
    if access is None:
        files = _split(paths or _HOME, lambda path: host.stat(path) is not None)
        access = access_by(host, files, context, named=bool(paths))
    return Api(host, access, timeout=timeout)


def is_missing(kubeconfig: Optional[str], is_file: Callable[[str], bool] = os.path.isfile) -> bool:
    """Whether the option names files of which none exists."""
    return bool(kubeconfig) and not any(map(is_file, _split(kubeconfig or "", is_file)))


def access_by(host: Host, paths: Sequence[str], context: str = "", *, named: bool = True) -> Access:
    """Access by the files `paths`, merged as kubectl does; absent files are skipped. `named` is False if the user has not
    asked for these files."""
    documents, name = [], os.pathsep.join(paths)
    for path in paths:
        data = host.read_trusted(path)
        if data is not None:
            content = parse_document(data.decode(errors="replace"), name=path)
            documents.append(Document(os.path.dirname(path), content))
    if not documents:
        raise kubeconfig_error(name, "the file does not exist") if named else _none()
    kubeconfig = Kubeconfig(documents, name=name, context=context)
    if not kubeconfig.by_library:
        return kubeconfig.credentials()
    from .library import LibraryAccess

    return LibraryAccess(kubeconfig, name=name)


def _split(paths: str, is_file: Callable[[str], bool]) -> list[str]:
    """Split a list of paths. A single path may itself contain a colon."""
    whole = os.path.abspath(os.path.expanduser(paths))
    if is_file(whole):
        return [whole]
    return [os.path.abspath(os.path.expanduser(part)) for part in paths.split(os.pathsep) if part]


def _account(host: Host, environ: Mapping[str, str]) -> Optional[Credentials]:
    """The ServiceAccount credentials that the kubelet mounts into a pod; None outside of a pod."""
    address, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    token = f"{_ACCOUNT}/token"
    if not address or not port or not host.read(token):
        return None
    server = f"https://[{address}]:{port}" if ":" in address else f"https://{address}:{port}"
    return Credentials(server=server, ca=f"{_ACCOUNT}/ca.crt", token_file=token)


def _none() -> UserError:
    reason = f"no option kubeconfig, no K8S_AUTH_KUBECONFIG, no KUBECONFIG, no ServiceAccount of a pod, no {_HOME}"
    return UserError(**MESSAGES.texts("core-kubeconfig-none", found=reason))
