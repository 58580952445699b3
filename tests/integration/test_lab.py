# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lab of two nodes on this machine, as its user drives it. The tests of this file run in order, on one lab."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES
from tests.integration import extension_server, journal, processes
from tests.integration.certificates import issue
from tests.integration.extension_objects import CONVERTED, applied, behind_a_service, raw, refusal
from tests.integration.forward_proxy import forward_proxy
from tests.integration.lab import Lab, lab_named, machine, processes_of
from tests.integration.lab_pods import PLACES, SCALED, claim, runs_on_every_node, said_by, writer
from tests.integration.lab_services import address_of_front, answered_to_host, answered_to_pods, patch_front
from tests.integration.registry import TAG, Registry, image, registry
from tests.integration.upstream_tests import TESTS, are_pinned, run_upstream_tests
from tests.integration.wire import namespace

pytestmark = pytest.mark.alone

HERE = os.path.dirname(os.path.abspath(__file__))
TOPOLOGY = {
    "audit": "Metadata",
    "encryption": "secretbox",
    "api_server": {"event-ttl": "3h"},
    "feature_gates": {"AllAlpha": False},
    "defaults": {"kubelet": {"maxPods": 30}},
    "publish": ["18080:30080"],
    "addons": ["dns", "storage", "metrics", "load_balancer", "registry"],
    "nodes": [
        {"name": "first", "labels": {"disk": "fast"}, "memory": "1Gi"},
        {
            "name": "second",
            "proxy_backend": "iptables",
            "mounts": [{"host": HERE, "node": "/data/tests", "read_only": True}],
            "taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}],
        },
    ],
}


@pytest.fixture(scope="module")
def before() -> dict[str, object]:
    return machine()


@pytest.fixture(scope="module")
def lab(before: dict[str, object]) -> Iterator[Lab]:
    with lab_named("it", addons="") as made:
        yield made


@pytest.fixture(scope="module")
def topology(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("topology") / "two.yml"
    path.write_text(json.dumps(TOPOLOGY), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def own_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("home") / "config")


def wait_until(holds: Callable[[], bool], what: str, *, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} seconds: {what}"
        time.sleep(0.2)


def test_a_plan_changes_nothing(lab: Lab, topology: Path, before: dict[str, object]) -> None:
    run = lab.playbook("lab_up", "--check", "--diff", lab_name=lab.name, lab_topology=str(topology))
    assert run.status == 0, run.output
    assert run.changed > 0
    assert not os.path.exists(lab.directory)
    assert machine() == before


def test_up_gives_nodes_that_reach_each_other(lab: Lab, topology: Path) -> None:
    run = lab.up(lab_topology=str(topology))
    assert run.status == 0, run.output
    summary = lab.summary
    assert summary["kubernetes_version"] == lab.record["kubernetes_version"]
    assert summary["connectivity"] == {"pairs": 4, "passed": 4}
    assert [(node["name"], node["proxy_backend"]) for node in summary["nodes"]] == [
        ("first", "nftables"),
        ("second", "iptables"),
    ]
    for node in summary["nodes"]:
        assert node["pods_reached"] == 1
        assert node["service_reached"]
        assert node["pss_bytes"] > 0
    assert summary["control_plane"]["rss_bytes"] > 0
    assert summary["control_plane"]["ready_seconds"] > 0


def test_nodes_are_as_the_topology_says(lab: Lab) -> None:
    nodes = {node["metadata"]["name"]: node for node in json.loads(lab.kubectl("get", "nodes", "-o", "json"))["items"]}
    assert nodes["first"]["metadata"]["labels"]["disk"] == "fast"
    assert {"key": "dedicated", "value": "db", "effect": "NoSchedule"} in nodes["second"]["spec"]["taints"]
    for name, version in ((name, node["status"]["nodeInfo"]["kubeletVersion"]) for name, node in nodes.items()):
        assert version == f"v{lab.record['kubernetes_version']}+lab", name
    limit = Path("/sys/fs/cgroup/memory/ballast-it-first/memory.limit_in_bytes")
    if limit.exists():  # cgroup v1
        assert int(limit.read_text(encoding="ascii")) == 2**30


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (("kubernetes.default.svc.cluster.local",), "Address: {api}"),
        (("-type=srv", "_https._tcp.kubernetes.default.svc.cluster.local"), "443 kubernetes.default.svc.cluster.local"),
        (("{api}",), "name = kubernetes.default.svc.cluster.local"),
        (("echo-pods.ballast-lab.svc.cluster.local",), "Address: 10."),
        (("-type=a", "absent.ballast-lab.svc.cluster.local"), "NXDOMAIN"),
    ],
    ids=["service", "srv", "reverse", "headless", "absent"],
)
def test_pods_resolve_names_of_the_cluster(lab: Lab, question: tuple[str, ...], answer: str) -> None:
    api = str(ipaddress.ip_network(lab.record["service_cidr"])[1])
    question, answer = tuple(word.format(api=api) for word in question), answer.format(api=api)
    if not lab.kubectl("get", "service", "-n", "ballast-lab", "--ignore-not-found", "echo-pods"):
        lab.kubectl("create", "service", "clusterip", "echo-pods", "-n", "ballast-lab", "--clusterip=None", "--tcp=80")
        lab.kubectl("set", "selector", "service", "echo-pods", "app=echo", "-n", "ballast-lab")
    wait_until(lambda: answer in asked_of_dns(lab, *question), f"{question} is answered with {answer}", seconds=60)


def asked_of_dns(lab: Lab, *question: str) -> str:
    words = ("exec", "-n", "ballast-lab", "daemonset/echo", "--", "sh", "-c", 'nslookup "$@" 2>&1 || true', "sh")
    return lab.kubectl(*words, *question)


def test_what_nodes_and_pods_use_is_shown(lab: Lab, tmp_path: Path) -> None:
    lab.kubectl("create", "deployment", "busy", "--image=ballast.local/busybox:1", "--", "sh", "-c", "sleep 3600")
    manifest = tmp_path / "scaled.json"
    manifest.write_text(json.dumps(SCALED), encoding="utf-8")
    lab.kubectl("apply", "-f", str(manifest))
    # Usage is a rate: the server leaves a node or a pod out until it has read two samples of all its containers.
    wait_until(lambda: measured(lab, "nodes") == ["first", "second"], "what both nodes use is shown")
    wait_until(
        lambda: any(name.startswith("coredns-") for name in measured(lab, "pods", "-n", "kube-system")),
        "what a pod uses is shown",
    )


def measured(lab: Lab, *of: str) -> list[str]:
    """The names in a table of ``kubectl top``, which fails where there is nothing to show."""
    try:
        shown = lab.kubectl("top", *of, "--no-headers")
    except subprocess.CalledProcessError:
        return []
    return [line.split()[0] for line in shown.splitlines()]


def test_what_a_pod_writes_another_reads_until_the_claim_is_gone(lab: Lab, tmp_path: Path) -> None:
    assert "(default)" in lab.kubectl("get", "storageclass")
    lab.kubectl("apply", "-f", claim("left", tmp_path / "left.json"))
    manifests = claim("kept", tmp_path / "kept.json")
    for command in ("echo written >/data/file", "grep -x written /data/file"):
        lab.kubectl("apply", "-f", manifests)
        lab.kubectl("wait", "--for=condition=Ready", "pod/kept", "--timeout=60s")
        lab.kubectl("exec", "kept", "--", "sh", "-c", command)
        (volume,) = Path(lab.directory).glob("nodes/*/kubelet/local-path/*_default_kept")
        lab.kubectl("delete", "pod", "kept")
    made = {row["spec"]["claimRef"]["name"]: row for row in json.loads(lab.kubectl("get", "pv", "-o", "json"))["items"]}
    assert volume.parts[-4] in json.dumps(made["kept"]["spec"]["nodeAffinity"]), "it lies with its own node"
    assert (volume / "file").read_text(encoding="utf-8") == "written\n"
    lab.kubectl("delete", "pvc", "kept")
    wait_until(lambda: not volume.exists(), "the directory of the volume is removed", seconds=60)


def test_what_a_pod_writes_to_a_host_path_stays_in_its_node(lab: Lab, tmp_path: Path) -> None:
    manifest = tmp_path / "writers.json"
    items = [writer(node) for node in ("first", "second")]
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    lab.kubectl("apply", "-f", str(manifest))
    lab.kubectl("wait", "--for=condition=Ready", "pod/writer-first", "pod/writer-second", "--timeout=60s")
    for node in ("first", "second"):
        shown = said_by(lab, f"writer-{node}", "ls -d " + " ".join(f"/host/{place}/it-*" for place in PLACES))
        assert sorted(shown.split()) == sorted(f"/host/{place}/it-{node}" for place in PLACES)
        assert not [place for place in PLACES if os.path.exists(f"/{place}/it-{node}")]
        nodes = said_by(lab, f"writer-{node}", f"ls /host{lab.directory}/nodes")
        assert nodes.split() == [node], "keys of other nodes are not shown"
    assert "test_lab.py" in said_by(lab, "writer-second", "ls /host/data/tests")
    assert "Read-only" in said_by(lab, "writer-second", "touch /host/data/tests/x 2>&1 || true")
    lab.kubectl("delete", "pod", "writer-first", "writer-second")


def test_an_autoscaler_scales(lab: Lab) -> None:
    wait_until(
        lambda: lab.kubectl("get", "deployment", "busy", "-o", "jsonpath={.spec.replicas}") == "2",
        "the autoscaler has seen what its pod uses",
    )
    lab.kubectl("delete", "hpa,deployment", "busy")


def test_the_host_and_pods_reach_a_service_of_type_load_balancer(lab: Lab) -> None:
    lab.kubectl("create", "service", "loadbalancer", "front", "-n", "ballast-lab", "--tcp=80:8080")
    lab.kubectl("set", "selector", "service", "front", "app=echo", "-n", "ballast-lab")
    wait_until(lambda: address_of_front(lab) != "", "it has an address")
    network = ipaddress.IPv4Network(lab.record["node_cidr"])
    address = address_of_front(lab)
    assert network[224] <= ipaddress.IPv4Address(address) <= network[254]
    wait_until(lambda: answered_to_host(address) == {"first", "second"}, "pods of both nodes answer the host")
    wait_until(lambda: answered_to_pods(lab, address) <= {"first", "second"}, "they answer a pod of each node")


def test_with_the_local_policy_a_node_answers_with_its_own_pod(lab: Lab) -> None:
    patch_front(lab, externalTrafficPolicy="Local")
    announcing = ("get", "servicel2statuses", "-A", "-o", "jsonpath={.items[*].status.node}")
    address = address_of_front(lab)
    wait_until(lambda: answered_to_host(address) == {lab.kubectl(*announcing)}, "the node that announces it answers")


@pytest.mark.parametrize(("of_host", "of_pods"), [(False, False), (True, False), (False, True)])
def test_clients_outside_of_the_source_ranges_are_not_answered(lab: Lab, *, of_host: bool, of_pods: bool) -> None:
    ranges = [lab.record["control_plane"]["address"] + "/32"] if of_host else ["192.0.2.0/24"]
    patch_front(lab, loadBalancerSourceRanges=[lab.record["pod_cidr"]] if of_pods else ranges)
    address = address_of_front(lab)
    wait_until(lambda: (answered_to_host(address) != {""}) is of_host, "the host is as the ranges say")
    wait_until(lambda: ("" not in answered_to_pods(lab, address)) is of_pods, "pods are as the ranges say")
    patch_front(lab, loadBalancerSourceRanges=None)
    wait_until(lambda: answered_to_host(address) != {""}, "without ranges all are answered")


def test_other_machines_and_this_one_reach_a_published_port(lab: Lab) -> None:
    lab.kubectl("create", "service", "nodeport", "published", "-n", "ballast-lab", "--tcp=80:8080", "--node-port=30080")
    lab.kubectl("set", "selector", "service", "published", "app=echo", "-n", "ballast-lab")
    answer = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())"
    with namespace("lab-client") as client:
        veth = ("type", "veth", "peer", "name", "eth0", "netns", client.namespace)
        with journal.link("ballast-client", *veth):
            client.run(["ip", "address", "add", "198.18.213.2/30", "dev", "eth0"], timeout=60)
            client.run(["ip", "link", "set", "eth0", "up"], timeout=60)
            for words in (["address", "add", "198.18.213.1/30", "dev"], ["link", "set", "up", "dev"]):
                subprocess.run(["ip", *words, "ballast-client"], check=True, timeout=60)
            argv = [sys.executable, "-c", answer, "http://198.18.213.1:18080/"]
            wait_until(
                lambda: client.run(argv, timeout=60, check=False).stdout.strip() in ("first", "second"),
                "another machine is answered",
            )
            assert subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
    assert answered_to_host("127.0.0.1:30080") == {"first", "second"}, "a program of this host, by the node port"
    cluster_ip = lab.kubectl("get", "service", "published", "-n", "ballast-lab", "-o", "jsonpath={.spec.clusterIP}")
    assert answered_to_host(cluster_ip) == {"first", "second"}
    lab.kubectl("delete", "service", "published", "-n", "ballast-lab")


def test_the_control_plane_is_as_the_topology_says(lab: Lab) -> None:
    pid = next(pid for name, pid in lab.services().items() if "kube-apiserver" in name)
    words = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")
    assert {"--event-ttl=3h", "--feature-gates=AllAlpha=false"} < set(words)
    assert any(word.startswith("--encryption-provider-config=") for word in words)
    pods = lab.kubectl("get", "nodes", "-o", "jsonpath={.items[*].status.allocatable.pods}")
    assert pods.split() == ["30", "30"]
    log = Path(lab.directory, "plane/log/audit.log")
    assert '"level":"Metadata"' in log.read_text(encoding="utf-8")
    assert log.stat().st_mode & 0o077 == 0


def test_keys_are_their_owners_alone(lab: Lab) -> None:
    keys = list(Path(lab.directory).glob("**/*.key"))
    assert len(keys) > 10
    assert [str(path) for path in keys if path.stat().st_mode & 0o077] == []


def test_a_second_run_changes_nothing(lab: Lab) -> None:
    pids = lab.services()
    run = lab.up()
    assert run.status == 0, run.output
    assert run.changed == 0, run.output
    assert lab.services() == pids


def test_nodes_pull_from_where_the_user_and_the_topology_say(lab: Lab, tmp_path: Path) -> None:
    pids, gateway = lab.services(), lab.record["gateway"].partition("/")[0]
    with registry(tmp_path / "registry", gateway) as served:
        url = f"http://{gateway}:{served.port}"
        own = Path(lab.directory, "certs.d/own.example:5001/hosts.toml")
        own.parent.mkdir()
        own.write_text(f'[host."{url}"]\n', encoding="utf-8")
        mirrored = tmp_path / "mirrored.yml"
        mirrors = {"mirrored.example": ["http://127.0.0.1:9", url]}
        mirrored.write_text(json.dumps({**TOPOLOGY, "registry_mirrors": mirrors}), encoding="utf-8")
        run = lab.up(lab_topology=str(mirrored))
        assert run.status == 0, run.output
        for name, host in (("own", "own.example:5001"), ("mirrored", "mirrored.example")):
            served.push(image(name, 1000))
            assert runs_on_every_node(lab, name, f"{host}/{name}:{TAG}")
    assert lab.services() == pids


def test_nodes_pull_through_the_proxy_of_the_caller(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids, gateway, secret = lab.services(), lab.record["gateway"].partition("/")[0], "me:a-word-of-a-proxy"
    hosts = Path(lab.directory, "certs.d/far.example/hosts.toml")
    hosts.parent.mkdir()
    hosts.write_text('[host."http://far.example"]\n', encoding="utf-8")
    with (
        registry(tmp_path / "registry") as served,
        forward_proxy(gateway, (served.address, served.port)) as proxy,
    ):
        served.push(image("far", 1000))
        monkeypatch.setenv("HTTP_PROXY", f"http://{secret}@{gateway}:{proxy.port}")
        run = lab.playbook("lab_up", "-vvv", "--diff")
        assert run.status == 0, run.output
        changed = {name for name, pid in lab.services().items() if pids[name] != pid}
        assert changed == {name for name in pids if name.endswith("-containerd")}
        assert runs_on_every_node(lab, "far", f"far.example/far:{TAG}")
        assert proxy.asked == {("far.example", secret)}
    assert secret not in run.output
    assert [path for path in holders_of(secret, lab.directory) if path.stat().st_mode & 0o077] == []
    assert secret not in subprocess.run(["ps", "-eww", "-o", "args"], check=True, capture_output=True, text=True).stdout
    variables = Path(lab.directory, "nodes/first/etc/proxies.env").read_text(encoding="utf-8")
    assert {lab.record["node_cidr"], ".svc", "localhost"} < set(variables.rpartition("NO_PROXY='")[2].split(","))
    monkeypatch.delenv("HTTP_PROXY")
    run = lab.up()
    assert run.status == 0, run.output
    assert holders_of(secret, f"{lab.directory}/nodes/first/etc") == []
    assert {name for name, pid in lab.services().items() if pids[name] != pid} == changed


def holders_of(secret: str, directory: str) -> list[Path]:
    """Files that hold the text."""
    done = subprocess.run(
        ["grep", "-rlF", "--devices=skip", "--exclude-dir=containerd", secret, directory],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return [Path(line) for line in done.stdout.splitlines()]


def test_what_is_pushed_to_the_registry_of_the_lab_runs_on_every_node(lab: Lab) -> None:
    served = registry_of(lab)
    served.push(image("pushed", 1000))
    assert runs_on_every_node(lab, "pushed", f"{served.address}:{served.port}/pushed:{TAG}")
    home = Path(lab.directory, "nodes", lab.record["nodes"][0]["name"], "kubelet/registry")
    assert list(home.glob("**/repositories/pushed"))
    run = lab.playbook("lab_status")
    assert f"registry ready at {served.address}:{served.port}" in run.output


def registry_of(lab: Lab) -> Registry:
    return Registry(lab.record["nodes"][0]["address"], 5000)


def test_status_is_measured_and_changes_nothing(lab: Lab) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path(lab.directory).glob("*") if path.is_file()}
    run = lab.playbook("lab_status", lab_output="json")
    assert run.status == 0, run.output
    assert run.changed == 0
    after = {path: path.stat().st_mtime_ns for path in Path(lab.directory).glob("*") if path.is_file()}
    assert after == before


def test_it_is_in_the_list_of_labs_and_a_context_of_a_users_own_kubeconfig(lab: Lab, own_kubeconfig: str) -> None:
    run = lab.playbook("lab_list")
    assert run.status == 0, run.output
    version = os.environ.get("LAB_KUBERNETES", DEFAULT_KUBERNETES)
    assert f"{lab.directory}  {version}      2 of 2 Ready  running" in run.output
    for changed in (1, 0):
        run = lab.playbook("lab_kubeconfig", lab_kubeconfig_file=own_kubeconfig)
        assert run.status == 0, run.output
        assert run.changed == changed
    context = ["--kubeconfig", own_kubeconfig, "--context", "ballast-it", "get", "nodes", "-o", "name"]
    nodes = subprocess.run([f"{lab.directory}/bin/kubectl", *context], check=True, capture_output=True, text=True)
    assert nodes.stdout.split() == ["node/first", "node/second"]


def test_a_command_runs_inside_a_node(lab: Lab) -> None:
    argv = [sys.executable, "-m", "scripts.lab_shell", lab.directory, "second", "ip", "-br", "addr", "show", "eth0"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    shown = subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stdout
    assert shown.split()[2].partition("/")[0] == lab.record["nodes"][1]["address"]


def test_a_task_of_a_node_never_runs_on_its_host(lab: Lab, tmp_path: Path) -> None:
    """With the become plugin it runs in the node; where that is left out, as by `become: false` or Mitogen, it fails."""
    inventory = tmp_path / "ballast.yml"
    inventory.write_text(json.dumps({"plugin": "ballast.kube.lab", "lab_dir": lab.directory}), encoding="utf-8")
    program = str(Path(sys.executable).with_name("ansible"))
    argv = [
        program,
        "second",
        "-i",
        str(inventory),
        "-m",
        "ansible.builtin.command",
        "-a",
        "readlink /proc/self/ns/net",
    ]
    env = {**os.environ, **journal.COLLECTION}
    inside = os.stat(lab.record["nodes"][1]["netns"]).st_ino
    for pipelining in ("true", "false"):
        entered = subprocess.run(argv, env={**env, "ANSIBLE_PIPELINING": pipelining}, capture_output=True, text=True)
        assert f"net:[{inside}]" in entered.stdout, entered.stdout + entered.stderr
        left_out = [*argv, "-e", "ansible_become=false"]
        refused = subprocess.run(
            left_out, env={**env, "ANSIBLE_PIPELINING": pipelining}, capture_output=True, text=True
        )
        assert refused.returncode != 0
        assert "net:[" not in refused.stdout
        assert "/.ballast-it-second/" in refused.stdout + refused.stderr, "the path that the host does not have"


def test_the_api_server_reaches_webhooks_and_an_extension_api_server_behind_a_service(lab: Lab, tmp_path: Path) -> None:
    ca = issue(str(tmp_path / "ca.crt"), None)
    certificate = issue(str(tmp_path / "serving.crt"), ca, "DNS:wardle.default.svc")
    host, front_proxy = lab.record["control_plane"]["address"], f"{lab.directory}/plane/pki/front-proxy-ca.crt"
    server = processes.started(extension_server.command(f"{host}:8443", certificate, front_proxy), tmp_path / "log")
    manifests = tmp_path / "manifests.json"
    manifests.write_text(json.dumps(behind_a_service(host, Path(ca))), encoding="utf-8")
    try:
        lab.kubectl("apply", "-f", str(manifests))
        wait_until(lambda: "flunders" in raw(lab, "/apis/wardle.example.com/v1"), "the extension API server is asked")
        wait_until(lambda: "it is called refused" in refusal(lab), "the webhook is asked")
        old = tmp_path / "old.json"
        old.write_text(json.dumps({"apiVersion": f"{CONVERTED}/v1", "kind": "Part", "metadata": {"name": "old"}}))
        wait_until(lambda: "old" in applied(lab, old), "an object of the old version is stored")
        path = f"/apis/{CONVERTED}/v2/namespaces/default/parts/old"
        wait_until(lambda: f'"was":"{CONVERTED}/v1"' in raw(lab, path), "the conversion webhook is asked")
    finally:
        lab.kubectl("delete", "--ignore-not-found", "-f", str(manifests))
        processes.ended(server, signal.SIGTERM)


def test_kubernetes_own_tests_pass(lab: Lab) -> None:
    run = run_upstream_tests(lab)
    if not are_pinned(lab.record["kubernetes_version"]):  # of an older version, in `make test-matrix`
        assert (run.status, "are not pinned" in run.output) == (2, True), run.output
        return
    assert run.status == 0, run.output
    assert f"\n{len(TESTS)} tests: {len(TESTS)} passed, 0 failed\n" in run.output


def test_another_node_leaves_the_others_alone(lab: Lab) -> None:
    pids = lab.services()
    run = lab.up(lab_nodes=3)
    assert run.status == 0, run.output
    assert lab.summary["connectivity"] == {"pairs": 9, "passed": 9}
    assert {"name": "load_balancer", "state": "ready"} in lab.summary["addons"]
    speakers = ("get", "daemonset", "metallb-speaker", "-n", "kube-system", "-o", "jsonpath={.status.numberReady}")
    assert lab.kubectl(*speakers) == "3", "a node that came later has one"
    assert {path: pid for path, pid in lab.services().items() if path in pids} == pids


def test_a_node_that_leaves_is_drained_and_gone(lab: Lab) -> None:
    gone = lab.record["nodes"][2]
    addresses = [node["address"] for node in lab.record["nodes"][:2]]
    run = lab.up(lab_nodes=2)
    assert run.status == 0, run.output
    assert [node["address"] for node in lab.record["nodes"]] == addresses
    assert lab.kubectl("get", "nodes", "-o", "name").split() == ["node/first", "node/second"]
    assert not os.path.exists(gone["netns"])
    assert not os.path.exists(f"{lab.directory}/nodes/{gone['name']}")


def test_an_edited_label_reaches_the_node_and_an_add_on_leaves(lab: Lab, topology: Path, tmp_path: Path) -> None:
    assert address_of_front(lab)
    edited = json.loads(topology.read_text(encoding="utf-8"))
    edited["addons"].remove("load_balancer")
    edited["nodes"][0]["labels"] = {"disk": "slow"}
    path = tmp_path / "edited.yml"
    path.write_text(json.dumps(edited), encoding="utf-8")
    run = lab.up(lab_topology=str(path))
    assert run.status == 0, run.output
    labels = json.loads(lab.kubectl("get", "node", "first", "-o", "json"))["metadata"]["labels"]
    assert labels["disk"] == "slow"
    assert address_of_front(lab) == ""
    assert "metallb" not in lab.kubectl("get", "customresourcedefinitions,clusterroles,deployments,daemonsets", "-A")
    lab.kubectl("delete", "service", "front", "-n", "ballast-lab")


@pytest.mark.parametrize("service", ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"])
def test_a_killed_service_of_the_control_plane_comes_back(lab: Lab, service: str) -> None:
    kill_and_wait(lab, service)
    wait_until(lambda: api_answers(lab), f"the API after {service} was killed")


@pytest.mark.parametrize("service", ["containerd", "kubelet", "kube-proxy"])
def test_a_killed_service_of_a_node_comes_back(lab: Lab, service: str) -> None:
    kill_and_wait(lab, f"first-{service}")


def test_the_lab_is_whole_after_all_that(lab: Lab) -> None:
    run = lab.up()
    assert run.status == 0, run.output
    assert lab.summary["connectivity"] == {"pairs": 4, "passed": 4}


def test_a_half_removed_node_is_repaired(lab: Lab) -> None:
    subprocess.run(["ip", "link", "del", link_of(lab, "first")], check=True)
    os.unlink(f"{lab.directory}/nodes/first/etc/cni/10-ballast.conflist")
    run = lab.up()
    assert run.status == 0, run.output
    assert lab.summary["connectivity"] == {"pairs": 4, "passed": 4}


def test_stop_and_start_keep_addresses_and_data(lab: Lab) -> None:
    lab.kubectl("create", "configmap", "kept", "--from-literal=key=value")
    lab.kubectl("exec", "left", "--", "sh", "-c", "echo here >/data/file")
    addresses = [node["address"] for node in lab.record["nodes"]]
    stopped = lab.playbook("lab_stop")
    assert stopped.status == 0, stopped.output
    assert list(processes_of(lab.directory)) == []
    started = lab.up()
    assert started.status == 0, started.output
    assert [node["address"] for node in lab.record["nodes"]] == addresses
    assert lab.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.key}") == "value"
    assert registry_of(lab).has("pushed")
    wait_until(lambda: "here" in said_by(lab, "left", "cat /data/file"), "the volume is in the pod again")
    assert lab.summary["connectivity"] == {"pairs": 4, "passed": 4}


def test_a_restore_brings_objects_and_volumes_of_a_snapshot_back(lab: Lab) -> None:
    taken = lab.playbook("lab_snapshot", lab_snapshot="before")
    assert taken.status == 0, taken.output
    path = Path(lab.directory, "snapshots/before")
    assert path.stat().st_mode & 0o077 == 0
    wait_until(lambda: "here" in said_by(lab, "left", "cat /data/file"), "the pods run again")
    lab.kubectl("exec", "left", "--", "sh", "-c", "echo later >/data/file; echo later >/data/new")
    lab.kubectl("delete", "configmap", "kept")
    lab.kubectl("run", "later", "--image=ballast.local/busybox:1", "--image-pull-policy=Never", "--", "sleep", "12321")
    lab.kubectl("wait", "--for=condition=Ready", "pod/later", "--timeout=60s")
    again = lab.playbook("lab_snapshot", lab_snapshot="before")
    assert (again.status, "lab-snapshot-taken" in again.output) == (2, True), again.output
    restored = lab.playbook("lab_restore", lab_snapshot="before")
    assert restored.status == 0, restored.output
    wait_until(lambda: "here" in said_by(lab, "left", "cat /data/file"), "the volume is as it was")
    assert said_by(lab, "left", "ls /data").split() == ["file"]
    assert lab.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.key}") == "value"
    assert lab.kubectl("get", "pod", "later", "--ignore-not-found") == ""
    assert subprocess.run(["pgrep", "-f", "^sleep 12321"], check=False).returncode == 1, "it was ended"
    assert lab.summary["connectivity"] == {"pairs": 4, "passed": 4}


def test_the_archive_of_logs_tells_much_and_no_secret(lab: Lab) -> None:
    run = lab.playbook("lab_logs")
    assert run.status == 0, run.output
    (path,) = Path(lab.directory, "logs").glob("lab-*.tar.gz")
    with tarfile.open(path) as archive:
        contents = {}
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            contents[member.name.split("/", 1)[1]] = file.read()
    for name in ("events.jsonl", "nodes/first/log/kubelet.log", "api/nodes.json", "ballast-it-first/routes.txt"):
        assert contents[name], name
    assert not [name for name in contents if name.endswith((".key", "kubeconfig"))]
    assert not [name for name, data in contents.items() if b"PRIVATE KEY" in data]


@pytest.mark.parametrize(
    ("variables", "id"),
    [
        ({"lab_nodes": 0}, "lab-value"),
        ({"lab_kubernetes_version": "1.36.4"}, "lab-downgrade"),
        ({"lab_kubernetes_version": "latest"}, "lab-value"),
        ({"lab_target": "vm"}, "lab-fixed"),
    ],
)
def test_a_request_that_cannot_be_changes_nothing(lab: Lab, variables: dict[str, object], id: str) -> None:
    record, pids = lab.record, lab.services()
    run = lab.up(**variables)
    assert run.status != 0
    assert f"{id}   (docs/reference/errors-lab.md" in run.output
    assert lab.record == record
    assert lab.services() == pids


def test_a_name_is_given_to_one_lab(lab: Lab) -> None:
    other = Lab(directory=f"{lab.directory}-other", name=lab.name)
    run = other.up(lab_nodes=1)
    assert run.status != 0
    assert "lab-name-taken" in run.output
    assert not os.path.exists(other.directory)


def test_a_version_that_cannot_be_built_is_not_written_down(lab: Lab) -> None:
    other = Lab(directory=f"{lab.directory}-other", name="it3")
    run = other.up(lab_nodes=1, lab_kubernetes_version="1.2.3")
    assert run.status != 0
    assert "lab-version" in run.output
    assert not os.path.exists(other.directory)


def test_two_labs_stand_side_by_side(lab: Lab) -> None:
    directory = tempfile.mkdtemp(prefix="ballast-it-")
    other = Lab(directory=f"{directory}/lab", name="it2")
    try:
        run = other.up(lab_nodes=1)
        assert run.status == 0, run.output
        assert other.record["node_cidr"] != lab.record["node_cidr"]
        removed = other.down()
        assert removed.status == 0, removed.output
    finally:
        other.down()
        shutil.rmtree(directory)
    assert lab.kubectl("get", "nodes", "-o", "name").split() == ["node/first", "node/second"]


def test_down_leaves_nothing(lab: Lab, own_kubeconfig: str, before: dict[str, object]) -> None:
    run = lab.playbook("lab_down", lab_kubeconfig_file=own_kubeconfig)
    assert run.status == 0, run.output
    assert "ballast-it" not in Path(own_kubeconfig).read_text(encoding="utf-8")
    assert not os.path.exists(lab.directory)
    assert list(processes_of(lab.directory)) == []
    assert machine() == before


def test_down_where_nothing_is_changes_nothing(lab: Lab, before: dict[str, object]) -> None:
    run = lab.down()
    assert run.status == 0, run.output
    assert run.changed == 0
    assert machine() == before


def kill_and_wait(lab: Lab, name: str) -> None:
    """KILL a service by its recorded process, and wait until its supervisor has started it again."""
    (path,) = (path for path in lab.services() if path.endswith(f"-{name}"))
    old = lab.services()[path]
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: lab.services()[path] not in (0, old), f"{name} runs again")


def api_answers(lab: Lab) -> bool:
    try:
        return lab.kubectl("get", "--raw", "/readyz") == "ok"
    except subprocess.CalledProcessError:
        return False


def link_of(lab: Lab, node: str) -> str:
    """The host's end of a node's veth pair: the one whose other end has the node's address."""
    netns = next(one["netns"] for one in lab.record["nodes"] if one["name"] == node).rpartition("/")[2]
    (inner,) = json.loads(subprocess.check_output(["ip", "-j", "-n", netns, "link", "show", "dev", "eth0"]))
    links = json.loads(subprocess.check_output(["ip", "-j", "link"]))
    return str(next(link["ifname"] for link in links if link["ifindex"] == inner["link_index"]))
