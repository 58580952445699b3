# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory of a lab, from its record."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleParserError

from ansible_collections.ballast.kube.plugins.inventory import lab as lab_plugin
from ansible_collections.ballast.kube.plugins.inventory.lab import InventoryModule, groups_of, read_record
from tests.unit.lab import given as g

PYTHON = "/opt/venv/bin/python"
NODE: dict[str, Any] = {
    "name": "n1",
    "host": "localhost",
    "address": "10.97.0.11",
    "pod_cidr": "10.128.1.0/24",
    "labels": {"zone": "a"},
    "taints": [],
    "cpu": None,
    "memory": None,
    "proxy_backend": "nftables",
    "runtime": "runc",
    "netns": "/run/netns/ballast-lab-n1",
    "mountns": "/run/ballast/lab/n1.mnt",
}
LOCAL: dict[str, Any] = {"name": "localhost", "connection": "local", "address": "10.97.0.1", "state_dir": "/srv/lab"}
MACHINE: dict[str, Any] = {
    "name": "vm1",
    "connection": "ssh",
    "address": "10.97.0.201",
    "user": "root",
    "ssh_key": "/srv/lab/vms/id_ed25519",
    "known_hosts": "/srv/lab/vms/known_hosts",
    "state_dir": "/var/lib/ballast/lab",
}


def record(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "name": "lab",
        "kubernetes_version": "1.37.1",
        "lab_dir": "/srv/lab",
        "bridge": "ballast-lab",
        "node_cidr": "10.97.0.0/24",
        "pod_cidr": "10.128.0.0/16",
        "service_cidr": "10.96.0.0/16",
        "control_plane": {"address": "10.97.0.1", "port": 6443},
        "hosts": [copy.deepcopy(LOCAL)],
        "nodes": [copy.deepcopy(NODE)],
        **changes,
    }


def groups(uid: int = 0, is_systemd: bool = True, **changes: Any) -> dict[str, dict[str, dict[str, Any]]]:
    return groups_of(record(**changes), python=PYTHON, uid=uid, is_systemd=is_systemd)


def test_groups_of_a_lab_on_this_host() -> None:
    found = {group: list(hosts) for group, hosts in groups().items()}
    assert found == {
        "ballast_hosts": ["localhost"],
        "ballast_control_plane": ["localhost"],
        "ballast_nodes": ["n1"],
        "proxy_nftables": ["n1"],
    }


def test_an_instance_is_reached_as_its_host_is_and_entered() -> None:
    node = groups()["ballast_nodes"]["n1"]
    assert node["ansible_connection"] == "local"
    # A path that its host does not have: a task that is not taken into the instance fails.
    assert node["ansible_python_interpreter"] == f"/.ballast-lab-n1{PYTHON}"
    assert node["ansible_become"] is True
    assert node["ansible_become_method"] == "ballast.kube.instance"
    assert node["ballast_instance_netns"] == NODE["netns"]
    assert node["ballast_instance_mountns"] == NODE["mountns"]
    assert node["ballast_instance_sudo"] is False
    assert node["ballast_labels"] == {"zone": "a"}


def test_an_instance_on_a_machine_goes_over_ssh() -> None:
    found = groups(hosts=[MACHINE], nodes=[{**NODE, "host": "vm1"}])
    node = found["ballast_nodes"]["n1"]
    assert node["ansible_host"] == "10.97.0.201"
    assert node["ansible_user"] == "root"
    assert node["ansible_ssh_private_key_file"] == MACHINE["ssh_key"]
    assert "UserKnownHostsFile=/srv/lab/vms/known_hosts" in node["ansible_ssh_common_args"]
    assert list(found["ballast_hosts"]) == ["vm1"]
    assert list(found["ballast_control_plane"]) == ["localhost"]


def test_a_user_who_is_not_root_needs_sudo() -> None:
    assert groups(uid=1000)["ballast_nodes"]["n1"]["ballast_instance_sudo"] is True
    machine = {**MACHINE, "user": "debian"}
    found = groups(hosts=[machine], nodes=[{**NODE, "host": "vm1"}])
    assert found["ballast_nodes"]["n1"]["ballast_instance_sudo"] is True


def test_every_host_knows_its_lab() -> None:
    for hosts in (groups()["ballast_hosts"], groups()["ballast_nodes"]):
        for variables in hosts.values():
            assert variables["ballast_lab"]["api_server"] == "https://10.97.0.1:6443"
            assert variables["ballast_lab"]["kubeconfig"] == "/srv/lab/admin.kubeconfig"


def of_kube_proxy(variables: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in variables.items() if name.startswith("kube_proxy_")}


def test_the_playbooks_of_kube_proxy_are_told_of_each_instance() -> None:
    home = "/srv/lab/nodes/n1"
    unit = {
        "kube_proxy_service": "ballast-lab-n1-kube-proxy",
        "kube_proxy_config_path": f"{home}/etc/kube-proxy.json",
        "kube_proxy_state_dir": f"{home}/kube-proxy",
    }
    assert of_kube_proxy(groups()["ballast_nodes"]["n1"]) == unit
    runit = {**unit, "kube_proxy_service": f"{home}/sv/ballast-lab-n1-kube-proxy"}
    assert of_kube_proxy(groups(is_systemd=False)["ballast_nodes"]["n1"]) == runit
    assert of_kube_proxy(groups(kube_proxy="service")["ballast_control_plane"]["localhost"]) == {}


def of_image_pull_proxy(variables: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in variables.items() if name.startswith("image_pull")}


def test_the_playbook_image_pull_proxy_knows_each_instance() -> None:
    home = "/srv/lab/nodes/n1"
    unit = {
        "image_pull_proxy_kubelet_service": "ballast-lab-n1-kubelet",
        "image_pull_proxy_runtime_service": "ballast-lab-n1-containerd",
        "image_pull_proxy_runtime": "/run/ballast/lab/n1/containerd.sock",
        "image_pull_proxy_node_state_dir": f"{home}/image-pulls",
    }
    assert of_image_pull_proxy(groups()["ballast_nodes"]["n1"]) == unit
    services = {
        f"image_pull_proxy_{name}_service": program
        for name, program in (("kubelet", "kubelet"), ("runtime", "containerd"))
    }
    runit = {**unit, **{name: f"{home}/sv/ballast-lab-n1-{program}" for name, program in services.items()}}
    assert of_image_pull_proxy(groups(is_systemd=False)["ballast_nodes"]["n1"]) == runit
    assert of_image_pull_proxy(groups()["ballast_hosts"]["localhost"]) == {}


def test_the_playbook_of_balloons_is_told_of_each_instance() -> None:
    found = groups(nodes=[{**NODE, "name": "east-1"}], name="my-lab")["ballast_nodes"]["east-1"]
    assert {name: value for name, value in found.items() if name.startswith("balloons_")} == {
        "balloons_slice": "ballast-my_lab-east_1",
        "balloons_kubelet_config": "/srv/lab/nodes/east-1/etc/kubelet.json",
        "balloons_kubelet_config_dir": "/srv/lab/nodes/east-1/etc/kubelet.conf.d",
    }


def test_readiness_is_told_what_runs_on_each_machine() -> None:
    machine = {**MACHINE, "gateway": "10.98.0.1/24"}
    nodes = [{**NODE, "host": "vm1", "cpu": "500m", "memory": "2Gi", "pids": 400}]
    found = groups(hosts=[machine], nodes=nodes, kube_proxy="service")
    (instance,) = found["ballast_hosts"]["vm1"].pop("node_instances_list")
    told = {name: value for name, value in found["ballast_hosts"]["vm1"].items() if name.startswith("node_instances_")}
    assert told == {
        "node_instances_lab": "lab",
        "node_instances_state_dir": "/var/lib/ballast/lab/nodes",
        "node_instances_api_server": "https://10.97.0.1:6443",
        "node_instances_gateway": "10.98.0.1/24",
        "node_instances_kube_proxy": "service",
    }
    assert instance == {
        **{name: NODE[name] for name in ("name", "address", "pod_cidr", "proxy_backend", "runtime")},
        "cpu": "500m",
        "memory": "2Gi",
        "pids": 400,
    }
    assert found["ballast_control_plane"]["localhost"]["control_plane_state_dir"] == "/srv/lab/plane"


def test_a_machine_runs_kube_proxy_as_a_unit_whatever_this_host_has() -> None:
    found = groups(is_systemd=False, hosts=[MACHINE], nodes=[{**NODE, "host": "vm1"}])["ballast_nodes"]["n1"]
    assert found["kube_proxy_service"] == "ballast-lab-n1-kube-proxy"
    assert found["kube_proxy_state_dir"] == "/var/lib/ballast/lab/nodes/n1/kube-proxy"


def test_a_daemonset_is_told_of_on_the_instances_and_where_the_control_plane_is() -> None:
    found = groups(kube_proxy="daemonset")
    told = {"kube_proxy_deployment": "daemonset", "kube_proxy_admin_kubeconfig": "/srv/lab/admin.kubeconfig"}
    assert of_kube_proxy(found["ballast_control_plane"]["localhost"]) == told
    state_dir = {"kube_proxy_state_dir": "/srv/lab/nodes/n1/kube-proxy"}
    assert of_kube_proxy(found["ballast_nodes"]["n1"]) == {**told, **state_dir}


def node(**changes: Any) -> dict[str, Any]:
    return {"nodes": [{**NODE, **changes}]}


DAMAGED: list[tuple[str, Any]] = [
    ("lab", []),
    ("lab.version", record(version="1")),
    ("lab.version", record(version=True)),
    ("lab.hosts", record(hosts=None)),
    ("lab.hosts[0]", record(hosts=["localhost"])),
    ("lab.hosts[0].connection", record(hosts=[{**LOCAL, "connection": "docker"}])),
    ("lab.hosts[0].ssh_key", record(hosts=[{**MACHINE, "ssh_key": "/k -o ProxyCommand=id"}])),
    ("lab.hosts[0].user", record(hosts=[{**MACHINE, "user": "-oProxyCommand=id"}])),
    ("lab.hosts[0].address", record(hosts=[{**MACHINE, "address": "{{ 1 }}"}])),
    ("lab.hosts[0].address", record(hosts=[{**MACHINE, "address": "fe80::1%{{ 1 }}"}])),
    ("lab.hosts[0].address", record(hosts=[{**MACHINE, "address": "fe80::1%{% x %}"}])),
    ("lab.hosts[0].address", record(hosts=[{**MACHINE, "address": "fe80::1%a b"}])),
    ("lab.hosts[0].address", record(hosts=[{**MACHINE, "address": "fe80::1%-oProxyCommand=id"}])),
    ("lab.hosts[0].address", record(hosts=[{**MACHINE, "address": "10.1.1.1\n"}])),
    ("lab.hosts[0].gateway", record(hosts=[{**LOCAL, "gateway": "fe80::1%{{ 1 }}/64"}])),
    ("lab.nodes[0].address", record(**node(address="fe80::1%{{ 1 }}"))),
    ("lab.nodes[0].address", record(**node(address="10.97.0.11,fd00::b,{{ 1 }}"))),
    ("lab.control_plane.address", record(control_plane={"address": "fe80::1%{{ 1 }}", "port": 6443})),
    ("lab.control_plane", record(control_plane=None)),
    ("lab.hosts[0].state_dir", record(hosts=[{**LOCAL, "state_dir": "srv"}])),
    ("lab.kube_proxy", record(kube_proxy="pod")),
    ("lab.nodes[0].name", record(**node(name="N 1"))),
    ("lab.nodes[0].name", record(**node(name="localhost"))),
    ("lab.nodes[0].name", record(**node(name="all"))),
    ("lab.nodes[1].name", record(nodes=[NODE, NODE])),
    ("lab.nodes[0].host", record(**node(host="vm9"))),
    ("lab.nodes[0].netns", record(**node(netns="run/netns/x"))),
    ("lab.nodes[0].netns", record(**node(netns="/run/../etc"))),
    ("lab.nodes[0].mountns", record(**node(mountns="/run/x;id"))),
    ("lab.nodes[0].pod_cidr", record(**node(pod_cidr="10.1/99"))),
    ("lab.nodes[0].cpu", record(**node(cpu="{{ 1 }}"))),
    ("lab.hosts[0].gateway", record(hosts=[{**LOCAL, "gateway": "10.1"}])),
    ("lab.nodes[0].labels", record(**node(labels=["a"]))),
    ("lab.nodes[0].proxy_backend", record(**node(proxy_backend="userspace"))),
]


def test_nodes_without_kube_proxy_have_a_group_of_their_own() -> None:
    found = groups(nodes=[NODE, {**NODE, "name": "n2", "proxy_backend": "ballast"}])
    assert (list(found["proxy_nftables"]), list(found["proxy_ballast"])) == (["n1"], ["n2"])


@pytest.mark.parametrize(("path", "content"), DAMAGED, ids=[f"{path}-{at}" for at, (path, _c) in enumerate(DAMAGED)])
def test_a_damaged_record_is_refused_with_its_place(path: str, content: Any) -> None:
    with pytest.raises(AnsibleParserError) as raised:
        groups_of(content, python=PYTHON, uid=0, is_systemd=True)
    assert str(raised.value).startswith(f"{path}: ")
    assert "inventory-record" in str(raised.value)


def test_a_pipe_in_the_place_of_the_record_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lab.json")
    with pytest.raises(AnsibleParserError, match="inventory-unreadable"):
        read_record(str(tmp_path / "lab.json"))


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5000, "{"])
def test_a_record_that_is_no_json_is_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "lab.json").write_text(text)
    with pytest.raises(AnsibleParserError, match="inventory-record"):
        read_record(str(tmp_path / "lab.json"))


def test_a_record_that_is_too_large_is_damaged(tmp_path: Path) -> None:
    with open(tmp_path / "lab.json", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(AnsibleParserError, match="inventory-record"):
        read_record(str(tmp_path / "lab.json"))


def test_a_record_of_another_version_is_refused() -> None:
    with pytest.raises(AnsibleParserError, match="inventory-version"):
        groups(version=2)


def test_no_lab_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(AnsibleParserError, match="ansible-playbook ballast.kube.lab_up"):
        read_record(str(tmp_path / "lab.json"))


def test_a_record_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lab.json").write_text('{"version": 1')
    with pytest.raises(AnsibleParserError, match="inventory-record"):
        read_record(str(tmp_path / "lab.json"))


def ansible(directory: Path, content: dict[str, Any], *argv: str) -> str:
    """Ansible itself, in a process of its own: it finds collections by ways that pytest's imports spoil."""
    (directory / "lab.json").write_text(json.dumps(content))
    (directory / "ballast.yml").write_text(
        "plugin: ballast.kube.lab\nkeyed_groups: [{key: ballast_labels.zone, prefix: zone}]\n"
    )
    environment = {
        **os.environ,
        "LAB_DIR": str(directory),
        "ANSIBLE_COLLECTIONS_PATH": os.path.abspath(".build/collections"),
        "ANSIBLE_NOCOLOR": "1",
    }
    program = Path(sys.executable).with_name(argv[0])
    command = [str(program), "-i", str(directory / "ballast.yml"), *argv[1:]]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout


def test_ansible_reads_it(tmp_path: Path) -> None:
    found = json.loads(ansible(tmp_path, record(), "ansible-inventory", "--list"))
    assert found["zone_a"]["hosts"] == ["n1"]
    assert found["_meta"]["hostvars"]["n1"]["ansible_become_method"] == "ballast.kube.instance"


def test_what_the_record_holds_is_no_template(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    hostile = "{{ lookup('ansible.builtin.pipe', 'touch " + str(mark) + "') }}"
    content = record(**node(labels={"zone": "a", "note": hostile}))
    said = ansible(tmp_path, content, "ansible", "n1", "-m", "ansible.builtin.debug", "-a", "var=ballast_labels")
    assert "lookup(" in said
    assert not mark.exists()


def test_a_zone_of_an_address_runs_nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python takes any text behind the percent sign for a zone."""
    mark = tmp_path / "ran"
    monkeypatch.setenv("MARK", str(mark))  # a slash is the one sign that Python refuses there
    hostile = "fe80::1%{{ lookup('ansible.builtin.pipe', 'touch ' ~ lookup('ansible.builtin.env', 'MARK')) }}"
    content = record(**node(address=hostile))
    ansible(tmp_path, content, "ansible", "n1", "-m", "ansible.builtin.debug", "-a", "var=ballast_address")
    assert not mark.exists()


def test_a_zone_of_a_link_is_an_address() -> None:
    assert groups(**node(address="fe80::1%eth0.5"))["ballast_nodes"]["n1"]["ballast_address"] == "fe80::1%eth0.5"


def test_a_text_that_could_be_a_template_is_never_marked_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[str] = []
    monkeypatch.setattr(lab_plugin, "trust_as_template", lambda text: marked.append(text) or text)
    texts = ["10.97.0.1", "{{ 1 }}", "{% x %}", "{# x #}", "#jinja2: a", "a\nb", "$(id)", "/srv/lab"]
    assert lab_plugin._plain({"nested": dict(enumerate(texts))})["nested"] == dict(enumerate(texts))
    assert marked == ["10.97.0.1", "/srv/lab"]


@pytest.mark.parametrize(("name", "ours"), [("ballast.yml", True), ("my-lab.yaml", True), ("hosts.yml", False)])
def test_only_files_of_its_name_are_its_own(tmp_path: Path, name: str, ours: bool) -> None:
    path = tmp_path / name
    path.write_text("plugin: ballast.kube.lab\n")
    assert InventoryModule().verify_file(str(path)) is ours


def test_machines_of_kubeadm_are_in_the_groups_of_kubespray_with_what_reaches_them_and_no_more() -> None:
    lab = g.lab(target="vm", bootstrap="kubeadm", hosts=3)
    groups = groups_of(json.loads(json.dumps(lab)), python=PYTHON, uid=0, is_systemd=False)
    assert {group: list(hosts) for group, hosts in groups.items()} == {
        "k8s_cluster": ["vm1", "vm2", "vm3"],
        "kube_control_plane": ["vm1"],
        "kube_node": ["vm2", "vm3"],
    }
    variables = groups["k8s_cluster"]["vm2"]
    assert variables["ansible_host"] == "10.97.0.202"
    assert variables["ballast_lab"]["api_server"] == "https://10.97.0.201:6443"
    assert not [name for name in variables if not name.startswith("ansible_") and name != "ballast_lab"]


@pytest.mark.parametrize("name", ["mitogen_linear", "mitogen_free", "my.mitogen.mitogen_linear"])
def test_a_strategy_that_leaves_the_become_plugin_out_is_refused(name: str) -> None:
    with pytest.raises(AnsibleParserError, match="would run on their host"):
        lab_plugin.refuse_strategy(name)
    lab_plugin.refuse_strategy("linear")
    lab_plugin.refuse_strategy("ansible.builtin.free")
