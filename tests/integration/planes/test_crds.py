# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resources of one's own: defined, served in two versions, checked, defaulted, with status and scale."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.plane_client import APPLY_PATCH, STRATEGIC_MERGE_PATCH, Client, eventually
from tests.integration.plane_lab import Plane
from tests.integration.planes.definitions import CRDS, GROUP, definition


def gadget(name: str, version: str = "v1", /, **spec: object) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Gadget", "metadata": {"name": name}, "spec": spec}


def gadgets(namespace: str, version: str = "v1") -> str:
    return f"/apis/{GROUP}/{version}/namespaces/{namespace}/gadgets"


@pytest.fixture(scope="package")
def defined(admin: Client) -> None:
    """The resource is served, and on kubectl's list, which knows it only when it is established."""
    eventually(lambda: conditions(admin).get("Established") == "True", what="the definition is established")
    for version in ("v1", "v1beta1"):
        eventually(lambda version=version: admin.ask(gadgets("default", version)).status == 200, what="it is served")


def conditions(admin: Client) -> dict[str, str]:
    found = admin.get(f"{CRDS}/gadgets.{GROUP}")["status"]["conditions"]
    return {each["type"]: each["status"] for each in found}


def test_a_definition_is_established_and_discovered(admin: Client, defined: None) -> None:
    assert conditions(admin)["NamesAccepted"] == "True"
    resources = {each["name"] for each in admin.get(f"/apis/{GROUP}/v1")["resources"]}
    assert resources >= {"gadgets", "gadgets/scale", "gadgets/status"}
    eventually(lambda: f"apis/{GROUP}/v1" in admin.get("/openapi/v3")["paths"], what="it is described")


def test_what_is_made_in_one_version_is_read_in_the_other(admin: Client, namespace: str, defined: None) -> None:
    made = admin.create(gadgets(namespace, "v1beta1"), gadget("a", "v1beta1", size=2))
    assert made["apiVersion"] == f"{GROUP}/v1beta1"
    found = admin.get(f"{gadgets(namespace)}/a")
    assert found["apiVersion"] == f"{GROUP}/v1"
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert found["spec"] == {"size": 2, "limit": 10}
    admin.update(f"{gadgets(namespace)}/a", {**found, "spec": {"size": 3, "limit": 4}})
    assert admin.get(f"{gadgets(namespace, 'v1beta1')}/a")["spec"] == {"size": 3, "limit": 4}
    assert admin.get(f"{CRDS}/gadgets.{GROUP}")["status"]["storedVersions"] == ["v1"]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"size": 0}, "should be greater than or equal to 1"),
        ({"size": "many"}, "must be of type integer"),
        ({}, "spec.size: Required value"),
        ({"size": 1, "color": "green"}, 'supported values: "red", "blue"'),
        ({"size": 11}, "size may not be above limit"),
    ],
)
def test_the_schema_is_enforced(admin: Client, defined: None, spec: dict[str, object], told: str) -> None:
    refused = admin.ask(gadgets("default"), "POST", gadget("wrong", **spec))
    assert refused.status == 422
    assert told in refused.body["message"]


def test_what_the_schema_does_not_know_is_dropped_or_refused(admin: Client, namespace: str, defined: None) -> None:
    body = gadget("a", size=1, weight=3)
    assert admin.ask(f"{gadgets(namespace)}?fieldValidation=Strict", "POST", body).status == 400
    assert admin.create(gadgets(namespace), body)["spec"] == {"size": 1, "limit": 10}


def test_rules_compare_with_what_was_there(admin: Client, namespace: str, defined: None) -> None:
    path = f"{gadgets(namespace)}/a"
    admin.create(gadgets(namespace), gadget("a", size=1, color="red"))
    assert admin.patch(path, {"spec": {"size": 2}})["metadata"]["generation"] == 2
    refused = admin.ask(path, "PATCH", {"spec": {"color": "blue"}}, "application/merge-patch+json")
    assert (refused.status, "color may not change" in refused.body["message"]) == (422, True)
    strategic = admin.ask(path, "PATCH", {"spec": {"size": 3}}, STRATEGIC_MERGE_PATCH)
    assert strategic.status == 415  # only types that are compiled in have strategies


def test_status_and_spec_are_written_apart(admin: Client, namespace: str, defined: None) -> None:
    path = f"{gadgets(namespace)}/a"
    made = admin.create(gadgets(namespace), {**gadget("a", size=2), "status": {"size": 9}})
    assert "status" not in made
    both = {**made, "spec": {"size": 5}, "status": {"size": 2, "selector": "app=a"}}
    after = admin.update(f"{path}/status", both)
    assert (after["spec"]["size"], after["status"]["size"]) == (2, 2)
    assert after["metadata"]["generation"] == 1
    again = admin.update(path, {**after, "spec": {"size": 5}, "status": {"size": 7}})
    assert (again["spec"]["size"], again["status"]["size"]) == (5, 2)
    assert again["metadata"]["generation"] == 2


def test_scale_reads_and_writes_the_size(admin: Client, namespace: str, defined: None) -> None:
    path = f"{gadgets(namespace)}/a"
    made = admin.create(gadgets(namespace), gadget("a", size=2))
    admin.update(f"{path}/status", {**made, "status": {"size": 1, "selector": "app=a"}})
    scale = admin.get(f"{path}/scale")
    assert scale["kind"] == "Scale"
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "app=a"})
    admin.update(f"{path}/scale", {**scale, "spec": {"replicas": 4}})
    assert admin.get(path)["spec"]["size"] == 4
    assert admin.ask(f"{path}/scale", "PUT", {**admin.get(f"{path}/scale"), "spec": {"replicas": 0}}).status == 422


def test_fields_have_owners(admin: Client, namespace: str, defined: None) -> None:
    path = f"{gadgets(namespace)}/a"
    assert admin.apply(path, gadget("a", size=1), manager="one").status == 201
    assert admin.apply(path, gadget("a", size=2), manager="two").status == 409
    assert admin.apply(path, gadget("a", size=2), manager="two", force=True).status == 200
    assert admin.get(path)["spec"]["size"] == 2
    status = {**gadget("a"), "status": {"size": 2}}
    del status["spec"]
    applied = admin.ask(f"{path}/status?fieldManager=three", "PATCH", status, APPLY_PATCH)
    assert applied.status == 200, applied.body


def test_instances_are_watched(admin: Client, namespace: str, defined: None) -> None:
    start = admin.get(gadgets(namespace))["metadata"]["resourceVersion"]
    with admin.watch(f"{gadgets(namespace)}?watch=1&resourceVersion={start}") as events:
        admin.create(gadgets(namespace), gadget("a", size=1))
        admin.delete(f"{gadgets(namespace)}/a")
        assert [next(events)["type"] for _each in range(2)] == ["ADDED", "DELETED"]


def test_a_definition_that_goes_takes_its_objects_along(admin: Client, namespace: str) -> None:
    admin.create(CRDS, definition("shortlived", "Shortlived"))
    at = f"/apis/{GROUP}/v1/namespaces/{namespace}/shortlived"
    eventually(lambda: admin.ask(at).status == 200, what="it is served")
    admin.create(at, {**gadget("a", size=1), "kind": "Shortlived"})
    admin.delete(f"{CRDS}/shortlived.{GROUP}")
    eventually(lambda: admin.ask(f"{CRDS}/shortlived.{GROUP}").status == 404, what="the definition is gone")
    eventually(lambda: admin.ask(at).status == 404, what="it is served no more")


def test_a_wrong_definition_is_refused(admin: Client) -> None:
    wrong = definition("wrong", "Wrong")
    del wrong["spec"]["versions"][0]["schema"]
    wrong["spec"]["versions"][1]["storage"] = True
    refused = admin.ask(CRDS, "POST", wrong)
    assert refused.status == 422
    causes = {cause["field"] for cause in refused.body["details"]["causes"]}
    assert {"spec.versions", "spec.versions[0].schema.openAPIV3Schema"} <= causes


def test_kubectl_knows_the_resource(plane: Plane, defined: None) -> None:
    described = plane.kubectl("explain", f"gadgets.{GROUP}.spec.size").stdout
    assert "How many there are." in described
