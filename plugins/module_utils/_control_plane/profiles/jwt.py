# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The option jwt: issuers whose tokens the API server accepts, and the users that the tokens name. Pure.

The API server does not start with a configuration that it refuses, so everything that needs no CEL is checked here.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ..._core.text.errors import BallastError
from .options_messages import MESSAGES

_NAMED = ("claim", "prefix", "expression")
# Keys of JWTAuthenticator of apiserver.config.k8s.io/v1 by path; [] is each entry of a list. Without egressSelectorType: the only
# egress of these API servers leads to extension API servers.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "": ("issuer", "claimValidationRules", "claimMappings", "userValidationRules"),
    ".issuer": ("url", "discoveryURL", "certificateAuthority", "audiences", "audienceMatchPolicy"),
    ".claimValidationRules[]": ("claim", "requiredValue", "expression", "message"),
    ".claimMappings": ("username", "groups", "uid", "extra"),
    ".claimMappings.username": _NAMED,
    ".claimMappings.groups": _NAMED,
    ".claimMappings.uid": ("claim", "expression"),
    ".claimMappings.extra[]": ("key", "valueExpression"),
    ".userValidationRules[]": ("expression", "message"),
}
_AUDIENCES = ".issuer.audiences"
_REQUIRED: Mapping[str, str] = {  # path: example
    ".issuer": "{url: https://issuer.example.org, audiences: [kubernetes]}",
    ".issuer.url": "https://issuer.example.org",
    _AUDIENCES: "[kubernetes]",
    ".claimMappings": "{username: {claim: sub, prefix: 'oidc:'}}",
    ".claimMappings.username": "{claim: sub, prefix: 'oidc:'}",
}
_MATCH_ANY = "MatchAny"
_PEM_BLOCK = re.compile(r"-----BEGIN ([^-\n]*)-----")


def service_account_issuer(cluster_domain: str) -> str:
    """The issuer of the control plane's own tokens."""
    return f"https://kubernetes.default.svc.{cluster_domain}"


def find_jwt_problems(authenticators: Sequence[Any], *, cluster_domain: str) -> list[BallastError]:
    """Input errors of the option."""
    problems: list[BallastError] = []
    issuers = {service_account_issuer(cluster_domain): "the ServiceAccounts of this control plane"}
    for number, authenticator in enumerate(authenticators):
        where = f"jwt[{number}]"
        wrong = list(_form_problems(authenticator, "", where))
        problems += wrong
        if wrong:
            continue
        problems += [
            *_issuer_problems(authenticator["issuer"], f"{where}.issuer"),
            *_claim_problems(authenticator, where),
        ]
        url = authenticator["issuer"]["url"]
        if url in issuers:
            problems.append(
                MESSAGES.error("plane-jwt-issuer-twice", option=f"{where}.issuer.url", value=url, other=issuers[url])
            )
        issuers.setdefault(url, where)
    return problems


def _form_problems(value: Any, path: str, where: str) -> Iterator[BallastError]:
    """Errors of the mapping at `path`, whose place in the option is `where`, and of everything below it."""
    allowed = _KEYS[path]
    if not isinstance(value, Mapping):
        yield MESSAGES.error("plane-jwt-form", option=where, value=value, form=f"a mapping of {', '.join(allowed)}")
        return
    for key in value:
        if key not in allowed:
            yield MESSAGES.error("plane-jwt-key", option=where, value=key, allowed=", ".join(allowed))
    for key in allowed:
        below, place = f"{path}.{key}", f"{where}.{key}"
        if key in value:
            yield from _value_problems(value[key], below, place)
        elif below in _REQUIRED:
            yield MESSAGES.error("plane-jwt-missing", option=place, example=_REQUIRED[below])


def _value_problems(value: Any, path: str, where: str) -> Iterator[BallastError]:
    entries = f"{path}[]"
    if path in _KEYS:
        yield from _form_problems(value, path, where)
    elif path == _AUDIENCES:
        if not isinstance(value, list) or not value or not all(isinstance(each, str) and each for each in value):
            yield MESSAGES.error("plane-jwt-form", option=where, value=value, form="a list of at least one text")
    elif entries not in _KEYS:
        if not isinstance(value, str):
            yield MESSAGES.error(
                "plane-jwt-form", option=where, value=value, form="a text, in quotes where YAML reads another type"
            )
    elif not isinstance(value, list):
        yield MESSAGES.error("plane-jwt-form", option=where, value=value, form="a list of mappings")
    else:
        for number, entry in enumerate(value):
            yield from _form_problems(entry, entries, f"{where}[{number}]")


def _issuer_problems(issuer: Mapping[str, Any], where: str) -> Iterator[BallastError]:
    for key in ("url", "discoveryURL"):
        if key in issuer and not _is_https(issuer[key]):
            yield MESSAGES.error("plane-jwt-url", option=f"{where}.{key}", value=issuer[key])
    if issuer.get("discoveryURL") == issuer["url"]:
        yield MESSAGES.error("plane-jwt-discovery", option=f"{where}.discoveryURL", value=issuer["url"])
    policy = issuer.get("audienceMatchPolicy", "")
    allowed = (_MATCH_ANY,) if len(issuer["audiences"]) > 1 else ("", _MATCH_ANY)
    if policy not in allowed:
        yield MESSAGES.error("plane-jwt-audience-policy", option=f"{where}.audienceMatchPolicy", value=policy)
    if "certificateAuthority" in issuer and not _are_certificates(issuer["certificateAuthority"]):
        yield MESSAGES.error("plane-jwt-authority", option=f"{where}.certificateAuthority")


def _claim_problems(authenticator: Mapping[str, Any], where: str) -> Iterator[BallastError]:
    mappings = authenticator["claimMappings"]
    for key in ("username", "groups", "uid"):
        mapping = mappings.get(key)
        if mapping is None:
            continue
        has_claim, has_expression = bool(mapping.get("claim")), bool(mapping.get("expression"))
        # The API server requires a prefix, maybe an empty one: without it an issuer could name groups that have rights here.
        has_prefix = "prefix" in mapping or key == "uid"
        is_fit = has_prefix if has_claim else "prefix" not in mapping
        if has_claim == has_expression or not is_fit:
            yield MESSAGES.error("plane-jwt-claim", option=f"{where}.claimMappings.{key}", value=dict(mapping))


def _is_https(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _port = parts.port  # ValueError where it is no number
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment or parts.username or parts.password) and url.isprintable()
    return plain and parts.scheme == "https" and bool(parts.hostname)


def _are_certificates(text: str) -> bool:
    """False also for text with a private key: the file is not secret, and readers of the record see it."""
    if set(_PEM_BLOCK.findall(text)) != {"CERTIFICATE"}:
        return False
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError, TypeError):
        return False
    return True
