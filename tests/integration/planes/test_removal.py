# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes with what: owners and dependents, namespaces and what they hold, quota on how much there may be."""

from __future__ import annotations

from typing import Any

from tests.integration.plane_client import Answer, Client, eventually
from tests.integration.planes.promise import of_all
from tests.integration.planes.slow import DOOMED, GROUP, WIDGETS, make_widget
from tests.integration.planes.test_objects import config_map, config_maps


def owned_by(owner: dict[str, Any]) -> dict[str, object]:
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "blockOwnerDeletion": True}
    return {"ownerReferences": [{**reference, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]}


def test_dependents_follow_their_owner_in_the_background(admin: Client, namespace: str) -> None:
    at = config_maps(namespace)
    owner = admin.create(at, config_map("owner"))
    admin.create(at, config_map("dependent", **owned_by(owner)))
    admin.delete(f"{at}/owner", {"propagationPolicy": "Background"})
    assert admin.ask(f"{at}/owner").status == 404
    eventually(lambda: admin.ask(f"{at}/dependent").status == 404, what="the dependent is collected")


def test_an_owner_waits_for_its_dependents_in_the_foreground(admin: Client, namespace: str) -> None:
    at = config_maps(namespace)
    owner = admin.create(at, config_map("owner"))
    admin.create(at, config_map("dependent", finalizers=["suite.example.com/wait"], **owned_by(owner)))
    admin.delete(f"{at}/owner", {"propagationPolicy": "Foreground"})
    assert admin.get(f"{at}/owner")["metadata"]["finalizers"] == ["foregroundDeletion"]
    eventually(
        lambda: "deletionTimestamp" in admin.get(f"{at}/dependent")["metadata"], what="the dependent is being removed"
    )
    assert admin.ask(f"{at}/owner").status == 200
    admin.patch(f"{at}/dependent", {"metadata": {"finalizers": None}})
    for name in ("dependent", "owner"):
        eventually(lambda name=name: admin.ask(f"{at}/{name}").status == 404, what=f"{name} is gone")


def test_orphans_stay_and_forget_their_owner(admin: Client, namespace: str) -> None:
    at = config_maps(namespace)
    owner = admin.create(at, config_map("owner"))
    admin.create(at, config_map("dependent", **owned_by(owner)))
    admin.delete(f"{at}/owner", {"propagationPolicy": "Orphan"})
    eventually(lambda: admin.ask(f"{at}/owner").status == 404, what="the owner is gone")
    assert "ownerReferences" not in admin.get(f"{at}/dependent")["metadata"]


def test_a_dependent_whose_owner_never_was_is_collected(admin: Client, namespace: str) -> None:
    at = config_maps(namespace)
    nobody = {**config_map("nobody"), "metadata": {"name": "nobody", "uid": "8d4cf6a5-0000-4000-8000-000000000000"}}
    admin.create(at, config_map("dependent", **owned_by(nobody)))
    eventually(lambda: admin.ask(f"{at}/dependent").status == 404, what="it is collected")


def test_custom_resources_own_and_are_owned(admin: Client, namespace: str) -> None:
    at = WIDGETS.format(namespace=namespace)
    owner = make_widget(admin, namespace, "owner")
    assert owner is not None
    assert make_widget(admin, namespace, "dependent", **owned_by(owner)) is not None
    admin.create(config_maps(namespace), config_map("dependent", **owned_by(owner)))
    admin.delete(f"{at}/owner", {"propagationPolicy": "Background"})
    for path in (f"{at}/dependent", f"{config_maps(namespace)}/dependent"):
        eventually(lambda path=path: admin.ask(path).status == 404, what=f"{path} is collected")


@of_all("resourcequotas")
def test_quota_counts_custom_resources(admin: Client, namespace: str) -> None:
    count = f"count/widgets.{GROUP}"
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {count: "1", "count/secrets": "2"}}}

    def counted() -> bool:
        found = admin.ask(f"{quotas}/few")
        if found.ok and count in found.body.get("status", {}).get("used", {}):
            return True
        # A quota that the controller saw before it knew the resource is looked at again after five minutes only.
        admin.ask(f"{quotas}/few", "DELETE")
        admin.create(quotas, quota)
        return False

    eventually(counted, what="quota is counted", interval=1)
    assert make_widget(admin, namespace, "first") is not None
    # What admits learns of the quota when it learns of it: the first may have been counted later.
    eventually(lambda: second_widget(admin, namespace, dry=True).status == 403, what="the quota is enforced")
    refused = second_widget(admin, namespace)
    assert refused.status == 403
    assert f"exceeded quota: few, requested: {count}=1, used: {count}=1, limited: {count}=1" in refused.body["message"]
    assert admin.get(f"{quotas}/few")["status"]["used"][count] == "1"
    admin.delete(f"{WIDGETS.format(namespace=namespace)}/first")
    eventually(lambda: second_widget(admin, namespace).status == 201, what="what was deleted no longer counts")


def second_widget(admin: Client, namespace: str, *, dry: bool = False) -> Answer:
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "second"}}
    return admin.ask(WIDGETS.format(namespace=namespace) + ("?dryRun=All" if dry else ""), "POST", body)


def test_a_removed_namespace_takes_everything_along(admin: Client) -> None:
    eventually(lambda: admin.ask(f"/api/v1/namespaces/{DOOMED}").status == 404, what="the namespace is gone")
    admin.create("/api/v1/namespaces", {"metadata": {"name": DOOMED}})
    for path in (config_maps(DOOMED), f"/api/v1/namespaces/{DOOMED}/secrets", WIDGETS.format(namespace=DOOMED)):
        assert "lost" not in [item["metadata"]["name"] for item in admin.get(path)["items"]], path


def test_the_namespaces_of_the_system_stay(admin: Client) -> None:
    there = {item["metadata"]["name"] for item in admin.get("/api/v1/namespaces")["items"]}
    assert there >= {"default", "kube-public", "kube-system"}
    assert admin.ask("/api/v1/namespaces/default", "DELETE").status == 403
