# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The option jwt: what becomes of it in the API server's file, and what is refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.processes.components import (
    config_files,
    services,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.unit.control_plane.given import STATE_DIR, Machine, desired

FILE = f"{STATE_DIR}/config/authentication.json"
URL = "https://issuer.example.org/realm"
AUTHENTICATOR: dict[str, Any] = {
    "issuer": {
        "url": URL,
        "discoveryURL": "https://192.0.2.7/realm/.well-known/openid-configuration",
        "audiences": ["kubernetes", "ci"],
        "audienceMatchPolicy": "MatchAny",
    },
    "claimValidationRules": [{"claim": "hd", "requiredValue": "example.org"}, {"expression": "claims.exp > 0"}],
    "claimMappings": {
        "username": {"claim": "sub", "prefix": "oidc:"},
        "groups": {"expression": "claims.roles"},
        "uid": {"claim": "sub"},
        "extra": [{"key": "example.org/tenant", "valueExpression": "claims.tenant"}],
    },
    "userValidationRules": [{"expression": "!user.username.startsWith('system:')", "message": "not of the system"}],
}
MANY = [
    {"profile": "full"},
    {"profile": "full", "members": 3},
    {"profile": "generic"},
    {"profile": "minimal"},
    {"profile": "hyper-mini"},
    {"profile": "generic", "deployment_mode": "all_in_one"},
]


def changed(path: str, value: Any = None) -> dict[str, Any]:
    """AUTHENTICATOR with another value at the path; without it when the value is None."""
    made = copy.deepcopy(AUTHENTICATOR)
    place: Any = made
    *above, last = (int(key) if key.isdigit() else key for key in path.split("."))
    for key in above:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return made


def refused(*authenticators: Any, **changes: Any) -> list[tuple[str, str]]:
    """(id, option) of each problem."""
    with pytest.raises(BallastError) as caught:
        desired(profile="generic", jwt=list(authenticators), **changes)
    problems = caught.value.problems if isinstance(caught.value, Problems) else [caught.value]
    return [(problem.id, problem.text.partition(": ")[0]) for problem in problems]


@pytest.fixture(scope="module")
def pki() -> Machine:
    machine = Machine()
    machine.run(profile="generic")
    return machine


@pytest.mark.parametrize("options", MANY)
def test_every_api_server_reads_the_issuers_beside_the_rule_for_anonymous_requests(options):
    plain, made = desired(**options), desired(**options, jwt=[AUTHENTICATOR])
    config = json.loads(config_files(made)[FILE])
    assert config.pop("jwt") == [AUTHENTICATOR]
    # Without issuers the file is as it was before there was the option: no API server starts again for it.
    assert config == json.loads(config_files(plain)[FILE])
    digests = {service.name: service.config_digest for service in services(plain)}
    started_again = {service.name for service in services(made) if service.config_digest != digests[service.name]}
    assert started_again == {name for name in digests if "apiserver" in name or name.endswith("hyper-mini")}
    assert len(started_again) == made.members


def test_a_change_of_issuers_starts_the_api_server_again_and_nothing_else():
    machine = Machine()
    machine.run(profile="generic")
    targets = [step.target for step in machine.run(profile="generic", jwt=[AUTHENTICATOR])]
    assert FILE in targets
    assert [target for target in targets if "/sv/" in target] == [f"{STATE_DIR}/sv/ballast-lab-generic-apiserver"]
    assert machine.run(profile="generic", jwt=[AUTHENTICATOR]) == []


@pytest.mark.parametrize(
    ("path", "value", "id"),
    [
        ("issuers", {}, "plane-jwt-key"),
        ("issuer.egressSelectorType", "cluster", "plane-jwt-key"),
        ("issuer", None, "plane-jwt-missing"),
        ("issuer", "https://issuer.example.org", "plane-jwt-form"),
        ("issuer.url", None, "plane-jwt-missing"),
        ("issuer.url", 7, "plane-jwt-form"),
        ("issuer.url", "http://issuer.example.org", "plane-jwt-url"),
        ("issuer.url", "https://u:p@issuer.example.org", "plane-jwt-url"),
        ("issuer.url", "https://issuer.example.org/?a=b", "plane-jwt-url"),
        ("issuer.url", "https://issuer.example.org#a", "plane-jwt-url"),
        ("issuer.url", "https://[::1", "plane-jwt-url"),
        ("issuer.url", "https:///realm", "plane-jwt-url"),
        ("issuer.url", "", "plane-jwt-url"),
        ("issuer.discoveryURL", "issuer.example.org", "plane-jwt-url"),
        ("issuer.discoveryURL", URL, "plane-jwt-discovery"),
        ("issuer.audiences", None, "plane-jwt-missing"),
        ("issuer.audiences", [], "plane-jwt-form"),
        ("issuer.audiences", [""], "plane-jwt-form"),
        ("issuer.audiences", "kubernetes", "plane-jwt-form"),
        ("issuer.audienceMatchPolicy", "", "plane-jwt-audience-policy"),
        ("issuer.audienceMatchPolicy", "MatchAll", "plane-jwt-audience-policy"),
        ("issuer.certificateAuthority", "/etc/issuer/ca.crt", "plane-jwt-authority"),
        ("issuer.certificateAuthority", "", "plane-jwt-authority"),
        ("claimValidationRules", {}, "plane-jwt-form"),
        ("claimValidationRules.0", "hd", "plane-jwt-form"),
        ("claimValidationRules.0.requiredValue", True, "plane-jwt-form"),
        ("claimValidationRules.1.value", "x", "plane-jwt-key"),
        ("claimMappings", None, "plane-jwt-missing"),
        ("claimMappings.name", {}, "plane-jwt-key"),
        ("claimMappings.username", None, "plane-jwt-missing"),
        ("claimMappings.username", {}, "plane-jwt-claim"),
        ("claimMappings.username", {"claim": "sub"}, "plane-jwt-claim"),
        ("claimMappings.username", {"claim": "sub", "prefix": "", "expression": "claims.sub"}, "plane-jwt-claim"),
        ("claimMappings.username", {"expression": "claims.sub", "prefix": "a"}, "plane-jwt-claim"),
        ("claimMappings.groups", {"claim": "groups"}, "plane-jwt-claim"),
        ("claimMappings.uid.prefix", "a", "plane-jwt-key"),
        ("claimMappings.uid", {}, "plane-jwt-claim"),
        ("claimMappings.extra.0.value", "x", "plane-jwt-key"),
        ("userValidationRules.0.message", 7, "plane-jwt-form"),
    ],
)
def test_what_the_api_server_would_not_start_with_is_refused_with_its_place(path, value, id):
    indexed = [f"[{part}]" if part.isdigit() else f".{part}" for part in path.split(".")]
    place = "jwt[1]" + "".join(indexed)
    unknown = "jwt[1]" + "".join(indexed[:-1])
    other = {**AUTHENTICATOR, "issuer": {**AUTHENTICATOR["issuer"], "url": "https://other.example.org"}}
    assert refused(other, changed(path, value)) == [(id, unknown if id == "plane-jwt-key" else place)]


def test_an_entry_is_a_mapping():
    assert refused("https://issuer.example.org") == [("plane-jwt-form", "jwt[0]")]


def test_an_authenticator_of_one_audience_needs_no_policy_and_no_more_than_a_user_name():
    least = {"issuer": {"url": URL, "audiences": ["a"]}, "claimMappings": {"username": {"claim": "sub", "prefix": ""}}}
    assert desired(jwt=[least]).jwt == (least,)


def test_an_issuer_is_named_once_and_is_not_that_of_service_accounts():
    own = "https://kubernetes.default.svc.lab.example"
    found = refused(AUTHENTICATOR, AUTHENTICATOR, changed("issuer.url", own), cluster_domain="lab.example")
    assert found == [
        ("plane-jwt-issuer-twice", "jwt[1].issuer.url"),
        ("plane-jwt-issuer-twice", "jwt[2].issuer.url"),
    ]


def test_an_authority_is_certificates_and_nothing_else(pki):
    certificate, key = (pki.host.text(f"{STATE_DIR}/pki/ca.{ending}") for ending in ("crt", "key"))
    where = "issuer.certificateAuthority"
    for text in (certificate, certificate * 2, f"# of the issuer\n{certificate}"):
        assert desired(jwt=[changed(where, text)]).jwt[0]["issuer"]["certificateAuthority"] == text
    damaged = certificate.replace(certificate.splitlines()[3], "")
    for text in (key, certificate + key, damaged, "certificate\u00e4"):
        assert refused(changed(where, text)) == [("plane-jwt-authority", f"jwt[0].{where}")]
    with pytest.raises(BallastError) as caught:
        desired(jwt=[changed(where, certificate + key)])
    assert "PRIVATE KEY" not in str(caught.value)
