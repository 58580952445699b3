# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A PullImage request: its caller, and the key that is equal for requests of the same pull. Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

# The kubelet passes all annotations of the pod as the image's (pkg/kubelet/images, EnsureImageExists), including these of its own
# (pkg/kubelet/types, pod_update.go), such as the time when it first saw the pod. With them no two pods would have equal keys.
_KUBELETS_OWN = frozenset(f"kubernetes.io/config.{name}" for name in ("hash", "mirror", "seen", "source"))


class PullKey(NamedTuple):
    """Requests with equal keys ask the runtime for the same image in the same way, and can share an answer."""

    image: str
    credentials: bytes
    handler: str
    annotations: tuple[tuple[str, str], ...]
    runtime: str


@dataclass(frozen=True)
class PullRequest:
    """Fields of the CRI's PullImageRequest, and its listener. Texts are "" if the request omits them."""

    listener: str  # its name
    runtime: str  # the path of its socket
    image: str
    handler: str  # ImageSpec.runtime_handler
    annotations: tuple[tuple[str, str], ...]  # ImageSpec.annotations, sorted
    credentials: bytes  # from `credentials_digest`; b"" for none
    namespace: str
    pod: str
    pod_annotations: Mapping[str, str]

    @property
    def key(self) -> PullKey:
        """Includes the credentials but not the pod: a caller that joins gets the registry's answer to its own credentials."""
        annotations = tuple(pair for pair in self.annotations if pair[0] not in _KUBELETS_OWN)
        return PullKey(self.image, self.credentials, self.handler, annotations, self.runtime)


def credentials_digest(fields: Mapping[str, str], salt: bytes) -> bytes:
    """A digest of an AuthConfig's fields, which does not reveal them; b"" if all are empty.

    `salt` is random and used for one run of the proxy. Texts that are not UTF-8 hold `surrogateescape` bytes.
    """
    given = sorted((name, value) for name, value in fields.items() if value)
    if not given:
        return b""
    digest = hmac.new(salt, digestmod=hashlib.sha256)
    for part in (text for pair in given for text in pair):
        data = part.encode(errors="surrogateescape")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()
