# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lab whose cluster kubeadm makes: its record, its images, its files, and how its API server is reached."""

from __future__ import annotations

import base64
import ipaddress
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.identities import LAB_CHECK
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import UserError
from ansible_collections.ballast.kube.plugins.module_utils._images.definitions import (
    NAME,
    PRESETS,
    SERVICE_PROXY,
)
from ansible_collections.ballast.kube.plugins.module_utils._lab.addons.catalog import ADDONS
from ansible_collections.ballast.kube.plugins.module_utils._lab.check import (
    MANIFESTS,
    CheckEngine,
    CheckRequest,
    read_status,
)
from ansible_collections.ballast.kube.plugins.module_utils._lab.cluster import open_cluster
from ansible_collections.ballast.kube.plugins.module_utils._lab.kubeadm import CONFIG, PATCHES, UPGRADES, machine_files
from ansible_collections.ballast.kube.plugins.module_utils._lab.parts import parts
from ansible_collections.ballast.kube.plugins.module_utils._lab.resolve import Lab
from tests.unit.fakes import FakeHost, json_answer
from tests.unit.lab import given as g

ROOT = Path(__file__).resolve().parents[3]
API = "https://10.97.0.201:6443"
KUBECONFIG = f"{g.DIR}/admin.kubeconfig"
VERSIONS = ("1.36.4", "1.37.1")


def lab(**changes: Any) -> Lab:
    return g.lab(**{"target": "vm", "bootstrap": "kubeadm", **changes})


def files(made: Lab, machine: str) -> dict[str, str]:
    return machine_files(made, next(node for node in made["nodes"] if node["name"] == machine))


def script(made: Lab, machine: str) -> str:
    return str(parts(made)["kubeadm"]["machines"][machine]["script"])


def documents(made: Lab) -> dict[str, Any]:
    return {document["kind"]: document for document in yaml.safe_load_all(files(made, "vm1")[CONFIG])}


@given(hosts=st.integers(min_value=1, max_value=16))
def test_each_machine_is_a_node_with_its_own_address_and_the_next_network_of_pods(hosts: int) -> None:
    made = lab(hosts=hosts)
    machines = {host["name"]: host["address"] for host in made["hosts"]}
    assert {node["name"]: node["address"] for node in made["nodes"]} == machines
    networks = list(ipaddress.IPv4Network(made["pod_cidr"]).subnets(new_prefix=24))[:hosts]
    assert [node["pod_cidr"] for node in made["nodes"]] == [str(network) for network in networks]
    assert made["control_plane"] == {"address": machines["vm1"], "port": 6443, "members": 1}
    routes = parts(made)["hosts"]["localhost"]["routes"]
    assert routes == [{"to": node["pod_cidr"], "via": node["address"]} for node in made["nodes"]]
    assert lab(hosts=hosts) == g.lab(json.loads(json.dumps(made)), target="vm", bootstrap="kubeadm", hosts=hosts)


def test_a_lab_of_before_is_no_other_lab() -> None:
    made = g.lab()
    assert made["bootstrap"] == "lab"
    assert parts(made)["kubeadm"] is None
    earlier = {key: value for key, value in made.items() if key != "bootstrap"}
    assert g.lab(earlier) == made
    assert parts(earlier)["kubeadm"] is None


def test_what_made_a_cluster_cannot_change() -> None:
    made = g.lab(target="vm")
    assert ("lab-fixed", "bootstrap") in g.errors_of(lambda: g.lab(made, target="vm", bootstrap="kubeadm", hosts=2))


def test_machines_may_come_and_not_go() -> None:
    made = lab(hosts=2)
    more = g.lab(made, target="vm", bootstrap="kubeadm", hosts=3)
    assert more["nodes"][:2] == made["nodes"]
    fewer = g.errors_of(lambda: g.lab(made, target="vm", bootstrap="kubeadm", hosts=1))
    assert fewer == [("lab-fixed", "hosts")]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"target": "host"}, ("lab-value", "bootstrap")),
        ({"nodes": 3}, ("lab-value", "nodes")),
        ({"sizes": {"vm1": {"cpu": "1"}}}, ("lab-value", "resize")),
        ({"topology": {"nodes": [{"name": "n1"}]}}, ("lab-key", "topology")),
        ({"topology": {"balloons": True}}, ("lab-key", "topology")),
        ({"topology": {"kube_proxy": "service"}}, ("lab-key", "topology")),
        ({"topology": {"defaults": {"cpu": "1"}}}, ("lab-key", "defaults")),
        ({"topology": {"upgrade_to": "1.37.1"}}, ("lab-value", "upgrade_to")),
        ({"topology": {"upgrade_to": "1.36.9"}}, ("lab-value", "upgrade_to")),
        ({"topology": {"upgrade_to": "1.39.0"}}, ("lab-value", "upgrade_to")),
        ({"topology": {"upgrade_to": "2.38.0"}}, ("lab-value", "upgrade_to")),
        ({"topology": {"upgrade_to": 1.38}}, ("lab-value", "upgrade_to")),
        ({"topology": {"defaults": {"proxy_backend": "ebpf"}}}, ("lab-value", "defaults.proxy_backend")),
    ],
)
def test_what_kubeadm_makes_no_use_of_is_refused(changes: dict[str, Any], fault: tuple[str, str]) -> None:
    assert fault in g.faults(**{"target": "vm", "bootstrap": "kubeadm", **changes})


def test_as_many_nodes_as_machines_may_be_said() -> None:
    assert len(lab(nodes=2, hosts=2)["nodes"]) == 2


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", ["iptables", "ipvs", "nftables"])
def test_kubeadm_is_given_version_networks_and_mode(version: str, mode: str) -> None:
    made = lab(kubernetes_version=version, topology={"defaults": {"proxy_backend": mode}})
    found = documents(made)
    assert found["KubeProxyConfiguration"]["mode"] == mode
    cluster = found["ClusterConfiguration"]
    assert cluster["kubernetesVersion"] == f"v{version}"
    assert cluster["networking"] == {"podSubnet": made["pod_cidr"], "serviceSubnet": made["service_cidr"]}
    assert set(found["InitConfiguration"]["timeouts"].values()) == {"10m0s"}
    assert found["InitConfiguration"]["localAPIEndpoint"] == {"advertiseAddress": "10.97.0.201", "bindPort": 6443}
    for program in ("controllerManager", "scheduler"):
        assert cluster[program]["extraArgs"] == [{"name": "leader-elect", "value": "false"}]
    directory = found["InitConfiguration"]["patches"]["directory"]
    patched = [path for path in files(made, "vm1") if path.startswith(f"{directory}/")]
    assert sorted(path.rpartition("/")[2] for path in patched) == [
        f"{name}+strategic.json" for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    ]
    assert not {CONFIG, *patched} & set(files(made, "vm2"))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_image_that_kubeadm_asks_for_is_made_by_that_name(version: str) -> None:
    made = lab(kubernetes_version=version)
    images = parts(made)["kubeadm"]["images"]
    names = {preset: name for archive in images.values() for preset, name in archive.items()}
    of_others = {image for addon in ADDONS.values() for image in addon.images} | {SERVICE_PROXY}
    assert set(names) == set(PRESETS) - of_others | {"coredns"}
    assert all(NAME.fullmatch(name) for name in names.values())
    cluster = documents(made)["ClusterConfiguration"]
    repository, tag = cluster["imageRepository"], cluster["kubernetesVersion"]
    for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"):
        assert names[program] == f"{repository}/{program}:{tag}"
    assert names["etcd"] == f"{repository}/etcd:{cluster['etcd']['local']['imageTag']}"
    assert names["coredns"] == f"{repository}/coredns:{cluster['dns']['imageTag']}"
    assert f'sandbox = "{names["pause"]}"' in files(made, "vm1")["/etc/containerd/config.toml"]


@pytest.mark.parametrize(("version", "later"), [("1.36.4", "1.37.1"), ("1.36.4", "v1.36.5"), ("1.37.1", "1.38.0")])
def test_the_version_to_upgrade_to_has_the_images_that_its_own_lab_has(version: str, later: str) -> None:
    made = lab(kubernetes_version=version, topology={"upgrade_to": later})
    upgrade = parts(made)["kubeadm"]["upgrade"]
    assert upgrade["version"] == later.lstrip("v")
    assert upgrade["images"] == parts(lab(kubernetes_version=later))["kubeadm"]["images"]
    assert upgrade["images"] != parts(made)["kubeadm"]["images"]


def test_without_a_version_to_upgrade_to_there_is_none() -> None:
    made = lab()
    assert parts(made)["kubeadm"]["upgrade"] is None
    earlier = {key: value for key, value in made.items() if key != "upgrade_to"}
    assert parts(earlier)["kubeadm"]["upgrade"] is None


@pytest.mark.parametrize("machine", ["vm1", "vm2"])
def test_a_program_to_upgrade_to_is_installed_as_a_package_manager_would(tmp_path: Path, machine: str) -> None:
    for name in ("kubeadm", "kubelet"):
        program = tmp_path / "opt/ballast/upgrade/bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(mode=0o755)
    status, said = run_script(tmp_path, "install", "kubeadm", "kubelet", machine=machine)
    assert status == 0
    for name in ("kubeadm", "kubelet"):
        assert (tmp_path / "usr/bin" / name).readlink() == tmp_path / "opt/ballast/upgrade/bin" / name
    archives = ["control-plane.tar", "nodes.tar"] if machine == "vm1" else ["nodes.tar"]
    assert [line.rpartition("/")[2] for line in said] == archives  # once, with kubeadm


def test_a_program_that_the_lab_does_not_have_is_not_installed(tmp_path: Path) -> None:
    status, said = run_script(tmp_path, "install", "kubeadm")
    assert (status, said) == (1, [])
    assert not (tmp_path / "usr/bin/kubeadm").is_symlink()


@pytest.mark.parametrize("machine", ["vm1", "vm2"])
def test_the_script_writes_every_file_and_then_says_that_the_machine_is_prepared(tmp_path: Path, machine: str) -> None:
    made = lab(hosts=2)
    mark = tmp_path / "prepared"
    status, said = run_script(tmp_path, "prepare", str(mark), machine=machine)
    assert status == 0
    assert mark.exists()
    for path, text in files(made, machine).items():
        assert (tmp_path / path[1:]).read_text(encoding="utf-8").replace(str(tmp_path), "") == text
    assert [line for line in said if "images import" in line][-1].endswith("/opt/ballast/images/nodes.tar")


def test_a_machine_that_was_prepared_otherwise_is_prepared_again() -> None:
    marks = {parts(lab(kubernetes_version=version))["kubeadm"]["machines"]["vm1"]["prepared"] for version in VERSIONS}
    assert len(marks) == 2


def test_a_machine_whose_runtime_does_not_start_is_not_said_to_be_prepared(tmp_path: Path) -> None:
    mark = tmp_path / "prepared"
    status, _said = run_script(tmp_path, "prepare", str(mark), broken="systemctl")
    assert status != 0
    assert not mark.exists()


def test_the_first_machine_alone_has_the_images_of_the_control_plane() -> None:
    made = lab(hosts=3)
    assert parts(made)["kubeadm"]["first"] == "vm1"
    has = {name: "control-plane.tar" in script(made, name) for name in ("vm1", "vm2", "vm3")}
    assert has == {"vm1": True, "vm2": False, "vm3": False}


def run_script(
    tmp_path: Path, *arguments: str, machine: str = "vm2", interrupted: bool = False, broken: str = ""
) -> tuple[int, list[str]]:
    """The script with every directory below tmp_path, and the commands of programs that it ran."""
    programs, manifests = tmp_path / "programs", tmp_path / "etc/kubernetes/manifests"
    programs.mkdir(exist_ok=True)
    (tmp_path / "usr/bin").mkdir(parents=True)
    said = tmp_path / "said"
    said.touch()
    for name in ("kubeadm", "ctr", "systemctl"):
        program = programs / name
        status = 1 if name == broken else 0
        program.write_text(f'#!/bin/sh\necho "$@" >>{said}\necho printed "$1"\nexit {status}\n', encoding="utf-8")
        program.chmod(0o755)
    if interrupted:
        manifests.mkdir(parents=True)
    text = script(lab(hosts=2), machine)
    for place in ("/var/lib/", "/etc/", "/usr/bin/", "/usr/local/bin/", "/opt/cni", "/opt/ballast/upgrade/bin"):
        text = text.replace(f" {place}", f" {tmp_path}{place}").replace(f">>{place}", f">>{tmp_path}{place}")
    environment = {"PATH": f"{programs}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", text, "sh", *arguments], env=environment, check=False, timeout=30)
    return done.returncode, said.read_text(encoding="utf-8").splitlines()


def test_a_machine_joins_with_what_the_control_plane_said_as_arguments(tmp_path: Path) -> None:
    status, said = run_script(tmp_path, "join", "10.97.0.201:6443", "--token", "a b;reboot")
    assert status == 0
    assert said[0].startswith("join 10.97.0.201:6443 --token a b;reboot --node-name=vm2 ")
    assert (tmp_path / "var/lib/ballast/lab/node").exists()
    log = tmp_path / "var/lib/ballast/lab/nodes/vm2/log/kubeadm.log"
    assert log.read_text(encoding="utf-8") == "printed join\n"


@pytest.mark.parametrize(
    ("typed", "passes_over"),
    [
        ("upgrade apply v1.37.1 --yes", True),
        ("upgrade node", True),
        ("upgrade node --patches /my/own", True),
        ("upgrade node phase kubelet-config", False),
        ("upgrade plan", False),
        ("token create", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("has_patches", [True, False])
def test_an_upgrade_passes_over_what_the_lab_cannot_pass_and_keeps_its_patches(
    tmp_path: Path, typed: str, passes_over: bool, has_patches: bool
) -> None:
    said = tmp_path / "said"
    kubeadm = tmp_path / "kubeadm"
    kubeadm.write_text(f'#!/bin/sh\necho "$@" >{said}\n', encoding="utf-8")
    kubeadm.chmod(0o755)
    text = files(lab(), "vm2")[UPGRADES].replace("/usr/bin/kubeadm", str(kubeadm))
    text = text.replace(PATCHES, str(tmp_path if has_patches else tmp_path / "none"))
    subprocess.run(["sh", "-c", text, "sh", *typed.split()], check=True, timeout=30)
    checks = " --ignore-preflight-errors=NumCPU,SystemVerification,CreateJob" if passes_over else ""
    kept = f" --patches={tmp_path}" if passes_over and has_patches and "--patches" not in typed else ""
    assert said.read_text(encoding="utf-8") == f"{typed}{kept}{checks}\n"


def test_what_an_interrupted_run_began_is_reset_first(tmp_path: Path) -> None:
    _status, said = run_script(tmp_path, "join", "10.97.0.201:6443", interrupted=True)
    assert [line.split()[0] for line in said] == ["reset", "join"]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "lab" / "topologies").glob("kubeadm-*.yml")), ids=lambda path: path.stem
)
def test_the_examples_can_be_made(path: Path) -> None:
    topology = yaml.safe_load(path.read_text(encoding="utf-8"))
    made = lab(topology=topology, kubernetes_version=topology.get("kubernetes_version", "1.37.1"))
    assert path.stem == ("kubeadm-upgrade" if made["upgrade_to"] else f"kubeadm-{made['nodes'][0]['proxy_backend']}")


def kubeconfig(server: str = API) -> str:
    def data(label: str) -> str:
        return base64.b64encode(f"-----BEGIN {label}-----\nAA==\n-----END {label}-----\n".encode()).decode()

    cluster = {"server": server, "certificate-authority-data": data("CERTIFICATE")}
    user = {"client-certificate-data": data("CERTIFICATE"), "client-key-data": data("PRIVATE KEY")}
    content = {
        "current-context": "admin",
        "contexts": [{"name": "admin", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    return yaml.safe_dump(content)


def check_request() -> CheckRequest:
    params = {
        "state_dir": f"{g.DIR}/check",
        "lab_dir": g.DIR,
        "kubectl": "/opt/kubernetes/kubectl",
        "lab": lab(),
        "instances": [],
        "control_plane": {},
        "ready_seconds": 1.0,
        "settle_seconds": 1.0,
        "output": "table",
    }
    return CheckRequest.from_params(params)


def machine() -> FakeHost:
    host = FakeHost()
    host.given_ours(g.DIR, "lab")
    host.given(KUBECONFIG, kubeconfig(), mode=0o600)
    return host


def test_a_cluster_of_kubeadm_is_reached_by_its_kubeconfig() -> None:
    host = machine()
    cluster = open_cluster(host, KUBECONFIG, LAB_CHECK)
    assert cluster is not None
    assert cluster.kubeconfig == KUBECONFIG
    host.answer(f"{API}/api/v1/nodes", json_answer(200, {"items": [], "metadata": {}}))
    assert cluster.reader(host, "/api/v1/nodes").list("/api/v1/nodes").items == ()
    assert open_cluster(FakeHost(), KUBECONFIG, LAB_CHECK) is None


def test_the_check_asks_for_its_pods_at_the_machine_of_the_control_plane() -> None:
    request = check_request()
    targets = [part.target for part in CheckEngine().wanted(Context(request, machine())) if part.kind == "manifest"]
    assert targets == [f"{KUBECONFIG} {path}" for path in MANIFESTS]


def test_the_status_says_which_nodes_are_ready_though_no_pod_runs() -> None:
    host = machine()

    def node(name: str, ready: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}

    listed = {"items": [node("vm1", "True"), node("vm2", "Unknown")], "metadata": {"resourceVersion": "1"}}
    host.answer(f"{API}/api/v1/nodes", json_answer(200, listed))
    host.answer(f"{API}/api/v1/namespaces/ballast-lab/pods", json_answer(200, {"items": []}))
    report = read_status(Context(check_request(), host))
    assert [node["ready"] for node in report["summary"]["nodes"]] == [True, False]
    lines = [line.split() for line in report["ballast_summary"].splitlines()]
    assert ["vm1", "vm1", "yes", "0/1", "no", "nftables", "-", "-"] in lines
    assert "control plane: kubeadm's, on vm1" in report["ballast_summary"]


def test_a_node_that_has_joined_and_is_not_ready_fails_the_check() -> None:
    host = machine()

    def node(name: str, ready: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}

    def listed(ready: str) -> dict[str, Any]:
        return {"items": [node("vm1", "True"), node("vm2", ready)], "metadata": {"resourceVersion": "1"}}

    host.answer(f"{API}/api/v1/nodes", json_answer(200, listed("False")))
    host.answer(f"{API}/api/v1/namespaces/ballast-lab/pods", json_answer(200, {"items": []}))
    found = CheckEngine().verify(Context(check_request(), host))
    assert ["1 of 2 nodes ready, not vm2" in str(finding) for finding in found] == [True]
    host.answer(f"{API}/api/v1/nodes", json_answer(200, listed("True")))
    found = CheckEngine().verify(Context(check_request(), host))
    assert ["pods ready on 0 of 2 nodes" in str(finding) for finding in found] == [True]


def test_the_check_of_a_lab_without_a_kubeconfig_says_that_there_is_none() -> None:
    host = FakeHost()
    host.given_ours(g.DIR, "lab")
    with pytest.raises(UserError) as raised:
        CheckEngine().verify(Context(check_request(), host))
    assert raised.value.id == "lab-none"
