# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What comes with a lab: which add-ons, what they need of its other parts, and the objects of each."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import FAMILIES
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.identities import (
    LAB_ADDONS,
    reader_of,
    writer_of,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._images.definitions import PRESETS
from ansible_collections.ballast.kube.plugins.module_utils._instance.config import KUBELET_ROOT
from ansible_collections.ballast.kube.plugins.module_utils._lab.addons.catalog import ADDONS, ENGINE, AddonsRequest
from ansible_collections.ballast.kube.plugins.module_utils._lab.addons.dns import IMAGE, manifests, read_resolvers
from ansible_collections.ballast.kube.plugins.module_utils._lab.parts import parts
from tests.unit.fakes import FakeHost
from tests.unit.lab import given as g

_SERVICE = "/api/v1/namespaces/kube-system/services/kube-dns"
_DEPLOYMENT = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
_CONFIG = "/api/v1/namespaces/kube-system/configmaps/coredns"


def test_dns_is_the_tenth_address_of_the_service_network_for_pods_and_for_the_service() -> None:
    lab = g.lab(addons=["dns"], topology={"service_cidr": "10.40.0.0/20"})
    assert parts(lab)["cluster_dns"] == ["10.40.0.10"]
    assert manifests(lab, FakeHost())[_SERVICE]["spec"]["clusterIP"] == "10.40.0.10"
    assert parts(g.lab())["cluster_dns"] == []


@pytest.mark.parametrize("addon", ADDONS.values(), ids=lambda addon: addon.name)
def test_an_add_on_is_made_of_what_there_is(addon: Any) -> None:
    programs = {component.name for family in addon.families for component in FAMILIES[family["name"]].components}
    assert {file.program for image in addon.images for file in PRESETS[image].files if file.program} <= programs
    images = {PRESETS[image].name for image in addon.images}
    text = json.dumps(addon.manifests(g.lab(addons=[addon.name]), FakeHost()))
    assert all(f'"{image}"' in text for image in images)
    assert IMAGE in images or addon.name != "dns"


@pytest.mark.parametrize(
    ("files", "resolvers"),
    [
        (
            {"/etc/resolv.conf": "search a\nnameserver 192.0.2.1\nnameserver 2001:db8::1\n"},
            ["192.0.2.1", "2001:db8::1"],
        ),
        (
            {
                "/etc/resolv.conf": "nameserver 127.0.0.53\noptions edns0\n",
                "/run/systemd/resolve/resolv.conf": "nameserver 192.0.2.7\n",
            },
            ["192.0.2.7"],
        ),
        ({"/etc/resolv.conf": "nameserver 127.0.0.1\nnameserver ::1\n"}, []),
        (  # dnsmasq of NetworkManager
            {
                "/etc/resolv.conf": "nameserver 127.0.1.1\n",
                "/run/NetworkManager/no-stub-resolv.conf": "nameserver 192.0.2.7\n",
            },
            ["192.0.2.7"],
        ),
        ({"/etc/resolv.conf": "nameserver fe80::1%eth0\nnameserver 169.254.169.254\n"}, ["169.254.169.254"]),
        ({"/etc/resolv.conf": "nameserver 0.0.0.0\nnameserver nonsense\nnameserver\n"}, []),
        (
            {"/etc/resolv.conf": "".join(f"nameserver 192.0.2.{n}\n" for n in range(1, 30))},
            [f"192.0.2.{n}" for n in range(1, 16)],
        ),
        ({}, []),
    ],
)
def test_names_of_the_world_are_asked_of_resolvers_that_a_pod_reaches(
    files: dict[str, str], resolvers: list[str]
) -> None:
    host = FakeHost(files=files)
    assert read_resolvers(host) == resolvers
    of_ipv4 = [address for address in resolvers if "." in address]
    of_ipv6 = [address for address in resolvers if ":" in address]
    for family, reached in (("ipv4", of_ipv4), ("ipv6", of_ipv6), ("dual", resolvers)):
        corefile = manifests(g.lab(addons=["dns"], ip_family=family), host)[_CONFIG]["data"]["Corefile"]
        asked = [line.split()[2:] for line in corefile.splitlines() if "forward" in line]
        assert asked == ([reached] if reached else []), family


def test_coredns_runs_also_where_every_node_has_a_taint() -> None:
    taint = {"key": "only", "value": "db", "effect": "NoSchedule"}
    nodes: list[dict[str, Any]] = [{"name": "n1", "taints": [taint]}, {"name": "n2"}]

    def tolerated(nodes: list[dict[str, Any]]) -> set[str]:
        made = manifests(g.lab(addons=["dns"], topology={"nodes": nodes}), FakeHost())
        return {row["key"] for row in made[_DEPLOYMENT]["spec"]["template"]["spec"]["tolerations"]}

    assert tolerated(nodes) == {"CriticalAddonsOnly"}, "the other node takes it"
    assert tolerated(nodes[:1]) == {"CriticalAddonsOnly", "only"}


@pytest.mark.parametrize("value", [["dns", "none"], ["storag"], "dns,none", 5, [["dns"]]])
def test_what_is_no_add_on_is_refused_with_those_there_are(value: object) -> None:
    assert g.faults(topology={"addons": value}) == [("lab-value", "addons")]


@pytest.mark.parametrize("addon", ADDONS.values(), ids=lambda addon: addon.name)
def test_the_objects_come_and_go_with_the_add_on(addon: Any) -> None:
    host, kept = g.machine(), dict[str, Any]()
    g.keep_objects(host, kept)

    def run(*addons: str) -> list[str]:
        options = {"state_dir": f"{g.DIR}/addons", "plane_dir": f"{g.DIR}/plane", "lab": g.lab(addons=list(addons))}
        ctx = Context(AddonsRequest.from_params(options), host)
        return [step.verb for step in ENGINE.apply(ENGINE.plan(ctx.desired, ENGINE.observe(ctx)), ctx).steps]

    paths = addon.manifests(g.lab(addons=[addon.name]), host)
    assert run(addon.name) == ["make"] * len(paths)
    assert set(paths) <= set(kept)
    for path, manifest in paths.items():
        assert manifest["metadata"].get("annotations", {}).items() <= kept[path]["metadata"]["annotations"].items()
    assert set(addon.workloads) <= set(paths)
    assert run(addon.name) == []
    assert run() == ["remove"] * len(paths)
    assert set(paths) & set(kept) == set()
    assert host.stat(f"{g.DIR}/addons") is None


def test_a_run_makes_sure_of_its_rights_once() -> None:
    host, kept, asked = g.machine(), dict[str, Any](), list[str]()
    g.keep_objects(host, kept)
    request = host.request

    def counted(url: str, **options: Any) -> Any:
        asked.append(url)
        return request(url, **options)

    host.request = counted  # type: ignore[method-assign]
    options = {"state_dir": f"{g.DIR}/addons", "plane_dir": f"{g.DIR}/plane", "lab": g.lab(addons=["dns", "storage"])}
    desired = AddonsRequest.from_params(options)
    role = g.API + LAB_ADDONS.role_path
    for times in (1, 2):
        ctx = Context(desired, host)
        ENGINE.apply(ENGINE.plan(desired, ENGINE.observe(ctx)), ctx)
        assert asked.count(role) == times
        kept.clear()


def test_its_identity_may_make_each_object_that_is_not_about_rights_and_read_those_that_are() -> None:
    allowed = {
        (rule.group, resource, name, verb, bool(namespaced))
        for rules, namespaced in ((LAB_ADDONS.rules, LAB_ADDONS.namespace), (LAB_ADDONS.cluster_rules, ""))
        for rule in rules
        for resource in rule.resources
        for name in rule.names
        for verb in rule.verbs
    }
    for addon in ADDONS.values():
        for path in addon.manifests(g.lab(addons=[addon.name]), FakeHost()):
            words = path.strip("/").split("/")
            group = "" if words[0] == "api" else words[1]
            needed = set[str]()
            if reader_of(path, LAB_ADDONS) is LAB_ADDONS:
                needed.add("get")
            if writer_of(path, LAB_ADDONS) is LAB_ADDONS:
                needed |= {"get", "create", "patch", "delete"}
            for verb in needed:
                assert (group, words[-2], words[-1], verb, "namespaces" in words) in allowed, path


def test_the_default_class_gives_each_volume_a_directory_of_its_node() -> None:
    made = ADDONS["storage"].manifests(g.lab(addons=["storage"]), FakeHost())
    (storage_class,) = (row for row in made.values() if row["kind"] == "StorageClass")
    assert storage_class["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert storage_class["volumeBindingMode"] == "WaitForFirstConsumer"
    (data,) = (row["data"] for row in made.values() if row["kind"] == "ConfigMap")
    (row,) = json.loads(data["config.json"])["nodePathMap"]
    assert all(path.startswith(f"{KUBELET_ROOT}/") for path in row["paths"]), (
        "the only directory that each node has for itself"
    )
    (helper,) = json.loads(data["helperPod.yaml"])["spec"]["containers"]
    assert (helper["image"], helper["imagePullPolicy"]) == (PRESETS["busybox"].name, "Never")
    assert helper["name"] == "helper-pod", "whose log local-path-provisioner reads"


def test_the_registry_is_at_an_address_of_the_bridge_and_every_node_asks_it_by_http() -> None:
    taint = {"key": "only", "value": "x", "effect": "NoSchedule"}
    lab = g.lab(addons=["registry"], topology={"nodes": [{"name": "a", "taints": [taint]}, {"name": "b"}]})
    made = ADDONS["registry"].manifests(lab, FakeHost())
    pod = made[ADDONS["registry"].workloads[0]]["spec"]["template"]["spec"]
    (config,) = (json.loads(row["data"]["config.yml"]) for row in made.values() if row["kind"] == "ConfigMap")
    address = f"{lab['nodes'][0]['address']}:5000"
    assert config["http"]["addr"] == address
    assert parts(lab)["registry_mirrors"] == {address: [f"http://{address}"]}
    assert parts(g.lab())["registry_mirrors"] == {}
    assert (pod["hostNetwork"], pod["nodeSelector"]) == (True, {"kubernetes.io/hostname": "a"})
    assert [toleration["key"] for toleration in pod["tolerations"]] == ["only"]
    images = config["storage"]["filesystem"]["rootdirectory"]
    assert images.startswith(f"{KUBELET_ROOT}/"), "which ends with the node"
    assert images in {volume.get("hostPath", {}).get("path") for volume in pod["volumes"]}


def test_a_mirror_of_the_topology_goes_before_that_of_the_registry() -> None:
    address = f"{g.lab()['nodes'][0]['address']}:5000"
    mirrors = {address: ["http://192.0.2.1"]}
    lab = g.lab(addons=["registry"], topology={"registry_mirrors": mirrors})
    assert parts(lab)["registry_mirrors"] == mirrors


def test_kubelets_are_known_by_the_authority_that_pods_are_given() -> None:
    made = ADDONS["metrics"].manifests(g.lab(addons=["metrics"]), FakeHost())
    (container,) = made[ADDONS["metrics"].workloads[0]]["spec"]["template"]["spec"]["containers"]
    authority = "--kubelet-certificate-authority=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    assert authority in container["args"]
    assert not [word for word in container["args"] if "insecure" in word]


@pytest.mark.parametrize("directory", ["one", "with blanks in it"])
def test_the_directory_of_a_volume_is_made_for_any_user_and_removed(tmp_path: Path, directory: str) -> None:
    made = ADDONS["storage"].manifests(g.lab(addons=["storage"]), FakeHost())
    (data,) = (row["data"] for row in made.values() if row["kind"] == "ConfigMap")
    volume = tmp_path / directory

    def run(script: str) -> None:
        environment = {"PATH": os.environ["PATH"], "VOL_DIR": str(volume)}
        subprocess.run(["sh", "-c", data[script]], env=environment, check=True, umask=0o077)

    run("setup")
    assert volume.stat().st_mode & 0o7777 == 0o777
    (volume / "file").write_text("kept", encoding="utf-8")
    run("setup")
    assert (volume / "file").exists()
    run("teardown")
    assert list(tmp_path.iterdir()) == []
