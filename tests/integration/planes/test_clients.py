# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clients that nobody here wrote: kubectl, the client for Python, and Ansible's module k8s."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.plane_lab import ROOT, Plane
from tests.integration.planes import kubernetes_core
from tests.integration.planes.definitions import GROUP, definition
from tests.integration.planes.test_objects import config_map

PLAYBOOK = Path(__file__).with_name("clients_k8s.yml")
of_kubectl = pytest.mark.parametrize("plane", ["generic", "hyper-mini"], indirect=True)
of_generic = pytest.mark.parametrize("plane", ["generic"], indirect=True)


def manifest(*objects: object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


@of_kubectl
def test_kubectl_applies_compares_and_gets(plane: Plane, namespace: str) -> None:
    here = f"--namespace={namespace}"
    first = config_map("a", {"k": "1"}, labels={"suite": "kubectl"})
    assert "created" in plane.kubectl("apply", here, "-f", "-", stdin=manifest(first)).stdout
    assert "unchanged" in plane.kubectl("apply", here, "-f", "-", stdin=manifest(first)).stdout
    second = {**first, "data": {"k": "2"}}
    differs = plane.kubectl("diff", here, "-f", "-", stdin=manifest(second), check=False)
    assert (differs.returncode, '+  k: "2"' in differs.stdout) == (1, True), differs
    assert "configured" in plane.kubectl("apply", here, "-f", "-", stdin=manifest(second)).stdout
    assert plane.kubectl("diff", here, "-f", "-", stdin=manifest(second)).stdout == ""
    applied = plane.kubectl("apply", here, "--server-side", "--force-conflicts", "-f", "-", stdin=manifest(second))
    assert "serverside-applied" in applied.stdout
    got = plane.kubectl("get", here, "configmaps", "-l", "suite=kubectl", "-o", "jsonpath={.items[*].data.k}").stdout
    assert got == "2"
    assert "a" in plane.kubectl("get", here, "configmaps").stdout
    assert "deleted" in plane.kubectl("delete", here, "configmap", "a").stdout


@of_kubectl
def test_kubectl_waits_and_explains_custom_resources(plane: Plane, namespace: str) -> None:
    here = f"--namespace={namespace}"
    plane.kubectl("apply", "-f", "-", stdin=manifest(definition("tools", "Tool")))
    plane.kubectl("wait", "--for=condition=Established", f"crd/tools.{GROUP}", "--timeout=60s")
    plane.kubectl("wait", here, "--for=create", "serviceaccount/default", "--timeout=60s")
    tool = {"apiVersion": f"{GROUP}/v1", "kind": "Tool", "metadata": {"name": "a"}, "spec": {"size": 2}}
    plane.kubectl("apply", here, "-f", "-", stdin=manifest(tool))
    plane.kubectl("wait", here, "--for=jsonpath={.spec.limit}=10", "tools/a", "--timeout=60s")
    plane.kubectl("scale", here, "--replicas=5", "tools/a")
    table = plane.kubectl("get", here, "tools").stdout.split()
    assert table == ["NAME", "SIZE", "a", "5"]
    assert "How many there are." in plane.kubectl("explain", "tools.spec.size").stdout
    assert "ConfigMap holds configuration data" in plane.kubectl("explain", "configmaps").stdout


@of_kubectl
def test_kubectl_says_what_may_be_done(plane: Plane, namespace: str) -> None:
    def may(*words: str) -> str:
        return plane.kubectl("auth", "can-i", *words, check=False).stdout.strip()

    assert may("create", "secrets") == "yes"
    assert may("create", "secrets", "--as=nobody") == "no"
    here = f"--namespace={namespace}"
    plane.kubectl("create", "role", here, "readers", "--verb=get", "--resource=secrets")
    plane.kubectl("create", "rolebinding", here, "readers", "--role=readers", "--user=nobody")
    plane.kubectl("wait", here, "--for=create", "rolebinding/readers", "--timeout=60s")
    assert may("get", "secrets", here, "--as=nobody") == "yes"
    assert may("list", "secrets", here, "--as=nobody") == "no"
    assert "ballast:admin" in plane.kubectl("auth", "whoami").stdout


@of_generic
def test_the_client_for_python(plane: Plane, namespace: str) -> None:
    from kubernetes import client, config, dynamic, watch

    with ExitStack() as stack:
        api = config.new_client_from_config(plane.kubeconfig)
        stack.callback(api.rest_client.pool_manager.clear)
        core = client.CoreV1Api(api)
        made = core.create_namespaced_config_map(namespace, config_map("a", {"k": "1"}))
        assert made.metadata.uid
        events = watch.Watch().stream(
            core.list_namespaced_config_map, namespace, field_selector="metadata.name=a", timeout_seconds=60
        )
        stack.callback(events.close)
        assert next(events)["object"].data == {"k": "1"}
        core.patch_namespaced_config_map("a", namespace, {"data": {"k": "2"}})
        changed = next(event for event in events if event["type"] == "MODIFIED")
        assert changed["object"].data == {"k": "2"}
        with pytest.raises(client.ApiException) as refused:
            core.create_namespaced_config_map(namespace, config_map("a"))
        assert refused.value.status == 409
        gadgets = dynamic.DynamicClient(api).resources.get(api_version=f"{GROUP}/v1", kind="Gadget")
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": "py"}, "spec": {"size": 3}}
        gadgets.create(body=body, namespace=namespace)
        assert [item.spec.limit for item in gadgets.get(namespace=namespace).items] == [10]
        core.delete_namespaced_config_map("a", namespace)
        assert "a" not in [item.metadata.name for item in core.list_namespaced_config_map(namespace).items]


@of_generic
def test_the_module_k8s_of_ansible(plane: Plane, namespace: str) -> None:
    others = kubernetes_core.collections()
    variables = {"kubeconfig": plane.kubeconfig, "place": namespace, "group": GROUP}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), str(PLAYBOOK), "-e", json.dumps(variables)],
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(others),
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
