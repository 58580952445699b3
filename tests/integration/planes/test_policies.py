# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Admission: what policies in the API server refuse and change."""

from __future__ import annotations

from tests.integration.plane_client import MERGE_PATCH, Client, eventually
from tests.integration.planes.promise import of_all
from tests.integration.planes.test_objects import config_map, config_maps

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_ON_CONFIG_MAPS = {
    "resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    ]
}


def only_in(namespace: str) -> dict[str, object]:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}


@of_all("validatingadmissionpolicies.admissionregistration.k8s.io")
def test_a_policy_refuses_what_its_rule_says(admin: Client, namespace: str) -> None:
    rule = {"expression": "!('secret' in object.data)", "message": "no secrets in config maps"}
    policy = {
        "metadata": {"name": "no-secrets"},
        "spec": {"failurePolicy": "Fail", "matchConstraints": _ON_CONFIG_MAPS, "validations": [rule]},
    }
    binding = {
        "metadata": {"name": "no-secrets"},
        "spec": {"policyName": "no-secrets", "validationActions": ["Deny"], "matchResources": only_in(namespace)},
    }
    admin.create(f"{ADMISSION}/validatingadmissionpolicies", policy)
    admin.create(f"{ADMISSION}/validatingadmissionpolicybindings", binding)
    tried = f"{config_maps(namespace)}?dryRun=All"
    body = config_map("a", {"secret": "1"})
    eventually(lambda: admin.ask(tried, "POST", body).status == 422, what="the policy is in force")
    refused = admin.ask(config_maps(namespace), "POST", body)
    assert "no secrets in config maps" in refused.body["message"]
    assert admin.ask(config_maps(namespace), "POST", config_map("a", {"k": "1"})).status == 201
    assert admin.ask(config_maps("default"), "POST", body).status == 201
    assert admin.ask(f"{config_maps(namespace)}/a", "PATCH", {"data": {"secret": "1"}}, MERGE_PATCH).status == 422
    at = f"{ADMISSION}/validatingadmissionpolicies/no-secrets"
    # A controller checks the expressions against the types of what the policy matches.
    eventually(lambda: "typeChecking" in admin.get(at).get("status", {}), what="the policy's types are checked")
    admin.delete(f"{ADMISSION}/validatingadmissionpolicybindings/no-secrets")
    eventually(lambda: admin.ask(tried, "POST", config_map("b", {"secret": "1"})).status == 201, what="it is lifted")


@of_all("mutatingadmissionpolicies.admissionregistration.k8s.io")
def test_a_policy_changes_what_its_rule_says(admin: Client, namespace: str) -> None:
    change = "Object{metadata: Object.metadata{labels: {'marked': 'yes'}}}"
    policy = {
        "metadata": {"name": "mark"},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": _ON_CONFIG_MAPS,
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": change}}],
        },
    }
    binding = {"metadata": {"name": "mark"}, "spec": {"policyName": "mark", "matchResources": only_in(namespace)}}
    admin.create(f"{ADMISSION}/mutatingadmissionpolicies", policy)
    admin.create(f"{ADMISSION}/mutatingadmissionpolicybindings", binding)
    tried = f"{config_maps(namespace)}?dryRun=All"
    eventually(lambda: "labels" in admin.create(tried, config_map("a"))["metadata"], what="the policy is in force")
    assert admin.create(config_maps(namespace), config_map("a"))["metadata"]["labels"] == {"marked": "yes"}


@of_all("validatingwebhookconfigurations.admissionregistration.k8s.io")
def test_a_webhook_that_does_not_answer_refuses(admin: Client, namespace: str) -> None:
    hook = {
        "name": "nobody.suite.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
        "clientConfig": {"url": "https://127.0.0.1:1/nobody"},
        "rules": _ON_CONFIG_MAPS["resourceRules"],
        **only_in(namespace),
    }
    at = f"{ADMISSION}/validatingwebhookconfigurations"
    admin.create(at, {"metadata": {"name": "nobody"}, "webhooks": [hook]})
    tried = f"{config_maps(namespace)}?dryRun=All"
    eventually(lambda: admin.ask(tried, "POST", config_map("a")).status == 500, what="the webhook is asked")
    admin.delete(f"{at}/nobody")
    eventually(lambda: admin.ask(tried, "POST", config_map("a")).status == 201, what="it is asked no more")
