# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proxies through which containerd pulls images: variables of its service. Pure.

A proxy's URL may hold a password. So the variables are in `etc/proxies.env` of each instance, which only root can read, and
in no message, record or command line. Source of the variables: golang.org/x/net/http/httpproxy.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Optional

from .._core.text.errors import BallastError
from .messages import MESSAGES

_HOST = r"(?P<host>[A-Za-z0-9](?:[-A-Za-z0-9.]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:]{2,39}\])"
_URL = re.compile(rf"(?:(?:https?|socks5h?)://)?(?:[^\s'\"\\\\/@]+@)?{_HOST}(?::[0-9]{{1,5}})?/?", re.ASCII)
_EXCEPTION = re.compile(r"[-A-Za-z0-9._:*/\[\]]+", re.ASCII)
_VARIABLES = (("http", "HTTP_PROXY"), ("https", "HTTPS_PROXY"))

Proxies = tuple[tuple[str, str], ...]  # (variable, value); empty for none


def check_proxies(given: Optional[Mapping[str, Any]], problems: list[BallastError]) -> None:
    """Add a problem for each URL and exception that is malformed. URLs may have a password, so no message quotes one."""
    for option, _variable in _VARIABLES:
        url = (given or {}).get(option)
        if url and not _URL.fullmatch(url):
            problems.append(MESSAGES.error("instance-proxy-url", path=f"proxies.{option}"))
    for number, entry in enumerate((given or {}).get("no_proxy") or ()):
        if entry.strip() and not _EXCEPTION.fullmatch(entry.strip()):
            problems.append(MESSAGES.error("instance-no-proxy", path=f"proxies.no_proxy[{number}]", value=entry))


def parse_proxies(given: Optional[Mapping[str, Any]]) -> Proxies:
    """Requires that `check_proxies` found no problem. A proxy on loopback is omitted: a network namespace has its own loopback."""
    given = given or {}
    urls = [(variable, given[option]) for option, variable in _VARIABLES if given.get(option)]
    urls = [(variable, url) for variable, url in urls if not _is_on_loopback(url)]
    if not urls:
        return ()
    entries = [entry.strip() for entry in given.get("no_proxy") or () if entry.strip()]
    return (*urls, ("NO_PROXY", ",".join(dict.fromkeys(entries))))


def _is_on_loopback(url: str) -> bool:
    match = _URL.fullmatch(url)
    host = match["host"].strip("[]") if match else ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
