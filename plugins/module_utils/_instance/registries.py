# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From where a host's instances pull the images of a registry: containerd's directory `certs.d`. Pure.

    CERTS_DIR/docker.io/hosts.toml     written for a mirror, or by the user
    CERTS_DIR/localhost:5001/...       a directory is named after the host in the images' names, with its port

containerd reads the files at each pull (docs/hosts.md of its repository), so changing them restarts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .._core.engine.kinds import directory, file
from .._core.engine.plan import Resource
from .._core.text.errors import BallastError
from .._core.text.toml_text import toml_string
from .messages import MESSAGES

_GROUP = "registry mirrors"
_HOST = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9.]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:]{2,39}\])(?::[0-9]{1,5})?"
_REGISTRY = re.compile(rf"{_HOST}|_default", re.ASCII)
_URL = re.compile(rf"https?://{_HOST}(?:/[-A-Za-z0-9._~/]*)?", re.ASCII)
_USER = re.compile(r"//[^/]*@")

Mirrors = tuple[tuple[str, tuple[str, ...]], ...]  # (registry, URLs)


def check_mirrors(mirrors: Any, path: str, problems: list[BallastError]) -> None:
    """Check a mapping from registry hosts to lists of URLs, as the user wrote it."""
    if not isinstance(mirrors, Mapping):
        problems.append(MESSAGES.error("instance-mirrors", path=path))
        return
    for registry, urls in mirrors.items():
        if not isinstance(registry, str) or not _REGISTRY.fullmatch(registry) or ".." in registry:
            problems.append(MESSAGES.error("instance-registry", path=path, value=registry))
        elif not isinstance(urls, list) or not urls:
            problems.append(MESSAGES.error("instance-mirrors", path=f"{path}.{registry}"))
        else:
            for number, url in enumerate(urls):
                _check_url(url, f"{path}.{registry}[{number}]", problems)


def _check_url(url: object, path: str, problems: list[BallastError]) -> None:
    """Messages never repeat a password."""
    if isinstance(url, str) and _USER.search(url):
        problems.append(MESSAGES.error("instance-mirror-user", path=path))
    elif not isinstance(url, str) or not _URL.fullmatch(url):
        problems.append(MESSAGES.error("instance-mirror", path=path, value=url))


def parse_mirrors(mirrors: Mapping[str, Sequence[str]]) -> Mirrors:
    """Requires that `check_mirrors` found no problem."""
    return tuple((registry, tuple(urls)) for registry, urls in sorted(mirrors.items()))


def mirror_resources(certs_dir: str, mirrors: Mirrors) -> list[Resource]:
    """The directory exists without mirrors too, as it holds the user's files."""
    return [
        directory(certs_dir, group=_GROUP),
        *(
            resource
            for registry, urls in mirrors
            for resource in (
                directory(f"{certs_dir}/{registry}", group=_GROUP),
                file(f"{certs_dir}/{registry}/hosts.toml", hosts_toml(urls), group=_GROUP),
            )
        ),
    ]


def hosts_toml(urls: Sequence[str]) -> str:
    """Without the key `server`: after the mirrors containerd asks the registry itself."""
    return "\n".join(f'[host.{toml_string(url)}]\ncapabilities = ["pull", "resolve"]\n' for url in urls)
