# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects: made, read, changed in every way, listed in pages, watched, removed."""

from __future__ import annotations

from itertools import islice

from tests.integration.plane_client import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    Client,
    eventually,
)


def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def config_map(name: str, data: dict[str, str] | None = None, **metadata: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {}}


def test_create_read_update_delete(admin: Client, namespace: str) -> None:
    path = f"{config_maps(namespace)}/a"
    made = admin.create(config_maps(namespace), config_map("a", {"k": "1"}))
    assert made["metadata"]["uid"]
    assert admin.ask(config_maps(namespace), "POST", config_map("a")).status == 409
    assert admin.get(path)["data"] == {"k": "1"}
    changed = admin.update(path, {**made, "data": {"k": "2"}})
    assert changed["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    late = admin.ask(path, "PUT", {**made, "data": {"k": "3"}})
    assert (late.status, late.body["reason"]) == (409, "Conflict")
    assert admin.get(path)["data"] == {"k": "2"}
    wrong = admin.ask(path, "DELETE", {"preconditions": {"uid": "another"}})
    assert wrong.status == 409
    admin.delete(path)
    assert admin.ask(path).status == 404


def test_invalid_objects_are_refused(admin: Client, namespace: str) -> None:
    assert admin.ask(config_maps(namespace), "POST", config_map("Not A Name")).status == 422
    assert admin.ask(config_maps("nowhere-at-all"), "POST", config_map("a")).status == 404
    strict = f"{config_maps(namespace)}?fieldValidation=Strict"
    assert admin.ask(strict, "POST", {**config_map("a"), "datum": {}}).status == 400
    dry = admin.ask(f"{config_maps(namespace)}?dryRun=All", "POST", config_map("dry"))
    assert dry.status == 201
    assert admin.ask(f"{config_maps(namespace)}/dry").status == 404


def test_patches_of_every_type(admin: Client, namespace: str) -> None:
    path = f"{config_maps(namespace)}/a"
    admin.create(config_maps(namespace), config_map("a", {"k": "1", "l": "1"}))
    admin.patch(path, [{"op": "replace", "path": "/data/k", "value": "2"}], JSON_PATCH)
    assert admin.get(path)["data"] == {"k": "2", "l": "1"}
    assert admin.ask(path, "PATCH", [{"op": "test", "path": "/data/k", "value": "9"}], JSON_PATCH).status == 422
    admin.patch(path, {"data": {"k": "3", "l": None}}, MERGE_PATCH)
    assert admin.get(path)["data"] == {"k": "3"}
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/worker"
    admin.create(account.rpartition("/")[0], {"metadata": {"name": "worker"}, "secrets": [{"name": "a"}]})
    # A strategic patch merges the list by its key; a merge patch replaces it.
    admin.patch(account, {"secrets": [{"name": "b"}]}, STRATEGIC_MERGE_PATCH)
    assert {each["name"] for each in admin.get(account)["secrets"]} == {"a", "b"}
    admin.patch(account, {"secrets": [{"name": "a", "$patch": "delete"}]}, STRATEGIC_MERGE_PATCH)
    assert [each["name"] for each in admin.get(account)["secrets"]] == ["b"]
    admin.patch(account, {"secrets": [{"name": "c"}]}, MERGE_PATCH)
    assert [each["name"] for each in admin.get(account)["secrets"]] == ["c"]
    assert admin.ask(path, "PATCH", {"data": {}}, "application/x-of-nobody").status == 415


def test_server_side_apply_knows_who_owns_what(admin: Client, namespace: str) -> None:
    path = f"{config_maps(namespace)}/a"
    assert admin.apply(path, config_map("a", {"k": "1", "l": "1"}), manager="one").status == 201
    assert admin.apply(path, config_map("a", {"m": "2"}), manager="two").status == 200
    refused = admin.apply(path, config_map("a", {"k": "2"}), manager="two")
    assert (refused.status, refused.body["details"]["causes"][0]["reason"]) == (409, "FieldManagerConflict")
    assert admin.get(path)["data"] == {"k": "1", "l": "1", "m": "2"}
    # With force the field changes hands, and what "two" no longer applies goes.
    assert admin.apply(path, config_map("a", {"k": "2"}), manager="two", force=True).ok
    assert admin.get(path)["data"] == {"k": "2", "l": "1"}
    assert admin.apply(path, config_map("a"), manager="one").ok
    found = admin.get(path)
    assert found["data"] == {"k": "2"}
    assert {entry["manager"] for entry in found["metadata"]["managedFields"]} == {"one", "two"}
    assert admin.ask(f"{path}?force=true", "PATCH", config_map("a"), APPLY_PATCH).status in (400, 422)  # by nobody


def test_lists_come_in_pages_of_one_moment(admin: Client, namespace: str) -> None:
    names = [f"cm-{number}" for number in range(7)]
    for name in names:
        admin.create(config_maps(namespace), config_map(name, labels={"suite": "pages"}))
    at = f"{config_maps(namespace)}?labelSelector=suite%3Dpages&limit=3"
    first = admin.get(at)
    admin.delete(f"{config_maps(namespace)}/cm-6")
    pages, token = [first], first["metadata"]["continue"]
    while token:
        page = admin.get(f"{at}&continue={token}")
        pages.append(page)
        token = page["metadata"].get("continue", "")
    assert [len(page["items"]) for page in pages] == [3, 3, 1]
    assert [item["metadata"]["name"] for page in pages for item in page["items"]] == names
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1
    assert admin.ask(f"{at}&continue=nonsense").status == 400
    one = admin.get(f"{config_maps(namespace)}?fieldSelector=metadata.name%3Dcm-2")
    assert [item["metadata"]["name"] for item in one["items"]] == ["cm-2"]


def test_a_watch_resumes_where_it_was_left(admin: Client, namespace: str) -> None:
    at = config_maps(namespace)
    start = admin.get(f"{at}?labelSelector=suite%3Dwatch")["metadata"]["resourceVersion"]
    query = f"{at}?watch=1&labelSelector=suite%3Dwatch&allowWatchBookmarks=true"
    with admin.watch(f"{query}&resourceVersion={start}") as events:
        for name in ("a", "b"):
            admin.create(at, config_map(name, labels={"suite": "watch"}))
        admin.create(at, config_map("other"))
        seen = list(islice(events, 2))
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in seen] == [("ADDED", "a"), ("ADDED", "b")]
    left = seen[-1]["object"]["metadata"]["resourceVersion"]
    admin.patch(f"{at}/a", {"data": {"k": "1"}})
    admin.patch(f"{at}/b", {"metadata": {"labels": {"suite": "another"}}})
    admin.delete(f"{at}/a")
    with admin.watch(f"{query}&resourceVersion={left}") as events:
        seen = list(islice(events, 3))
    told = [(event["type"], event["object"]["metadata"]["name"]) for event in seen]
    assert told == [("MODIFIED", "a"), ("DELETED", "b"), ("DELETED", "a")]


def test_a_watch_resumes_from_a_bookmark(admin: Client, namespace: str) -> None:
    at = config_maps(namespace)
    admin.create(at, config_map("a", labels={"suite": "first"}))
    # What is there comes first, and a bookmark says where it ends.
    all_of_it = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with admin.watch(f"{at}?watch=1&labelSelector=suite%3Dfirst&{all_of_it}") as events:
        added, mark = islice(events, 2)
    assert (added["type"], added["object"]["metadata"]["name"]) == ("ADDED", "a")
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    admin.patch(f"{at}/a", {"data": {"k": "1"}})
    left = mark["object"]["metadata"]["resourceVersion"]
    with admin.watch(f"{at}?watch=1&labelSelector=suite%3Dfirst&resourceVersion={left}") as events:
        event = next(events)
    assert (event["type"], event["object"]["data"]) == ("MODIFIED", {"k": "1"})


def test_a_finalizer_keeps_an_object(admin: Client, namespace: str) -> None:
    path = f"{config_maps(namespace)}/a"
    admin.create(config_maps(namespace), config_map("a", finalizers=["suite.example.com/wait"]))
    admin.delete(path)
    assert admin.get(path)["metadata"]["deletionTimestamp"]
    admin.patch(path, {"metadata": {"finalizers": None}})
    eventually(lambda: admin.ask(path).status == 404, what="it is gone without its finalizer")


def test_a_collection_is_deleted_by_selector(admin: Client, namespace: str) -> None:
    for name, kind in (("a", "x"), ("b", "x"), ("c", "y")):
        admin.create(config_maps(namespace), config_map(name, labels={"kind": kind}))
    admin.delete(f"{config_maps(namespace)}?labelSelector=kind%3Dx")
    left = {item["metadata"]["name"] for item in admin.get(config_maps(namespace))["items"]}
    assert left.isdisjoint({"a", "b"})
    assert "c" in left
