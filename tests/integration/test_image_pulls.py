# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module image_pulls on an instance of a lab, with its real kubelet and containerd. The tests of this file run in order."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.host.names import MARKER
from ansible_collections.ballast.kube.plugins.module_utils._core.service.daemon import restart_daemon
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import service_pid
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment import readiness_answers as of_proxy
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.info import read_params
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.installation import INSTALLATION
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node import readiness_answers as of_node
from tests.integration import journal
from tests.integration.adhoc import module
from tests.integration.killed_run import killed
from tests.integration.kube_proxy import eventually
from tests.integration.lab import Lab, lab_named, stopped
from tests.integration.prometheus import free_port
from tests.integration.pull_faults import LONG, a_pull_that_waits, nearly_out_of_files, standing_still, without_packages
from tests.integration.told import assert_told

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 120
PROXY_SOCKET = f"{INSTALLATION.sockets}/n1.sock"
KUBELET_FILE, CONTAINERD_FILE = "90-ballast-image-pulls.conf", "90-ballast-image-pulls.toml"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make node instances")


@dataclass(frozen=True)
class Node:
    lab: Lab
    inventory: str

    @property
    def home(self) -> Path:
        return Path(self.lab.directory, "nodes", "n1")

    @property
    def kubelet_file(self) -> Path:
        return self.home / "etc/kubelet.conf.d" / KUBELET_FILE

    @property
    def containerd_file(self) -> Path:
        return self.home / "etc/containerd.conf.d" / CONTAINERD_FILE

    @property
    def where(self) -> dict[str, Any]:
        return {
            "kubelet_service": self._service("kubelet"),
            "runtime_service": self._service("containerd"),
            "kubeconfig": f"{self.lab.directory}/admin.kubeconfig",
            "state_dir": str(self.home / "image-pulls"),
        }

    @property
    def inside(self) -> list[str]:
        """What runs a command in its namespaces."""
        (row,) = self.lab.record["nodes"]
        return ["nsenter", f"--net={row['netns']}", f"--mount={row['mountns']}", "--"]

    def module(self, name: str, *words: str, **options: Any) -> dict[str, Any]:
        argv = [
            str(Path(sys.executable).with_name("ansible")),
            "n1",
            "-i",
            self.inventory,
            "-m",
            f"ballast.kube.{name}",
        ]
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build/collections"),
            "ANSIBLE_FORCE_COLOR": "0",
        }
        argv += ["-a", json.dumps({**self.where, **options}), *words]
        done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False)
        head, arrow, text = done.stdout.partition(" => ")
        assert arrow, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(text[: text.rindex("}") + 1])
        return {**found, "ok": "FAILED" not in head, "printed": head}

    def pulls(self, *words: str, **options: Any) -> dict[str, Any]:
        found = self.module("image_pulls", *words, **options)
        assert found["ok"], found["msg"]
        return found

    def info(self, **options: Any) -> dict[str, Any]:
        found = self.module("image_pulls_info", **options)
        assert found["ok"], found["msg"]
        return found

    def reading(self) -> tuple[dict[str, str], dict[str, Any]]:
        """Verdicts by name, and the whole, of its production readiness."""
        return judged(self.info(readiness=True)["readiness"])

    def configz(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.lab.kubectl("get", "--raw", "/api/v1/nodes/n1/proxy/configz"))
        return dict(found["kubeletconfig"])

    def pids(self) -> dict[str, int]:
        return {path.rpartition("-n1-")[2]: pid for path, pid in self.lab.services().items() if "-n1-" in path}

    def _service(self, name: str) -> str:
        return str(self.home / "sv" / f"ballast-{self.lab.name}-n1-{name}")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with lab_named("pulls") as lab:
        run = lab.up(lab_nodes=1)
        assert run.status == 0, run.output
        inventory = tmp_path_factory.mktemp("inventory") / "lab.yml"
        inventory.write_text(json.dumps({"plugin": "ballast.kube.lab", "lab_dir": lab.directory}), encoding="utf-8")
        yield Node(lab=lab, inventory=str(inventory))


LIMITS = {
    "max_parallel_image_pulls": 5,
    "registry_pull_qps": 0,
    "runtime": {"max_concurrent_downloads": 8, "max_concurrent_unpacks": 2},
}


def judged(reading: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    return {name: answer["verdict"] for name, answer in reading["answers"].items()}, reading


def titles(result: dict[str, Any]) -> list[str]:
    return [f"{step['verb']} {step['kind']}" for step in result["steps"]]


def test_before_it_everything_is_the_default(node: Node) -> None:
    found = node.info()
    assert found["kubelet"]["settings"] == {
        "maxParallelImagePulls": {"value": None, "source": "default"},
        "serializeImagePulls": {"value": True, "source": "default"},
        "registryPullQPS": {"value": 5, "source": "default"},
        "registryBurst": {"value": 10, "source": "default"},
        "imageServiceEndpoint": {"value": None, "source": "default"},
    }
    assert found["kubelet"]["read_back"]
    assert found["runtime"]["table"] == "io.containerd.transfer.v1.local"
    assert found["runtime"]["settings"]["max_concurrent_downloads"] == {"value": 3, "source": "default"}
    assert node.reading()[0] == {"enabled": "no"}


def test_check_mode_says_what_would_be_and_changes_nothing(node: Node) -> None:
    pids = node.pids()
    found = node.pulls("--check", "--diff", **LIMITS)
    assert titles(found) == ["make containerd-drop-in", "make kubelet-drop-in"]
    assert "+maxParallelImagePulls: 5" in found["printed"]
    assert node.pids() == pids
    assert not node.kubelet_file.exists()
    left = node.home / "image-pulls"
    assert not left.exists(), os.listdir(left)


def test_the_limits_are_in_effect_and_only_those_services_started_anew(node: Node) -> None:
    pids = node.pids()
    found = node.pulls(**LIMITS)
    assert titles(found) == ["make containerd-drop-in", "make kubelet-drop-in"]
    assert found["findings"] == []
    config = node.configz()
    assert (config["maxParallelImagePulls"], config["serializeImagePulls"]) == (5, False)
    assert (config["registryPullQPS"], config["registryBurst"]) == (0, 10)
    settings = found["runtime"]["settings"]
    assert settings["max_concurrent_downloads"] == {"value": 8, "source": str(node.containerd_file)}
    assert settings["max_concurrent_unpacks"]["value"] == 2
    assert found["kubelet"]["settings"]["maxParallelImagePulls"] == {"value": 5, "source": str(node.kubelet_file)}
    after = node.pids()
    assert {name for name in pids if pids[name] != after[name]} == {"containerd", "kubelet"}


def test_a_second_run_changes_nothing(node: Node) -> None:
    pids = node.pids()
    found = node.pulls(**LIMITS)
    assert (found["changed"], found["steps"]) == (False, [])
    assert node.pids() == pids


def test_its_readiness_is_read_from_the_real_ones(node: Node) -> None:
    pids = node.pids()
    verdicts, found = node.reading()
    assert {name for name, verdict in verdicts.items() if verdict != "yes"} <= {"in_use"}, found
    assert found["present"] == []
    version = json.loads(node.lab.kubectl("get", "node", "n1", "-o", "json"))["status"]["nodeInfo"]["kubeletVersion"]
    assert found["versions"]["kubelet"] == version
    files = found["answers"]["scale"]["figures"][0]
    assert 0 < files["value"] < files["limit"]
    assert found["answers"]["in_use"]["figures"][0]["value"] is not None
    assert found["answers"]["disabling"]["lines"][0] == f"remove the kubelet's drop-in {node.kubelet_file}"
    assert node.pids() == pids


def test_a_limit_that_is_no_longer_in_effect_and_a_kubelet_that_is_down_turn_their_answers(node: Node) -> None:
    """By a file that is read later, and by a flag."""
    other, run = node.kubelet_file.with_name("99-other.conf"), Path(node.where["kubelet_service"], "run")
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    other.write_text(f"{head}maxParallelImagePulls: 9\nserializeImagePulls: false\n", encoding="utf-8")
    before = run.read_text(encoding="utf-8")
    run.write_text(f"{before.rstrip()} --registry-qps=7\n", encoding="utf-8")
    try:
        os.kill(node.pids()["kubelet"], signal.SIGTERM)
        assert eventually(lambda: _parallel(node) == 9, seconds=_SECONDS)
        found = node.reading()[1]
    finally:
        other.unlink()
        run.write_text(before, encoding="utf-8")
    assert found["present"] == [of_node.FLAG_WINS, of_node.NOT_IN_EFFECT]
    assert_told(found, of_node.FLAG_WINS, of_node.NOT_IN_EFFECT)
    assert "maxParallelImagePulls of the kubelet is 9, and was set to 5" in found["answers"]["healthy"]["text"]
    assert "registryPullQPS is set by --registry-qps of process" in found["answers"]["failures"]["lines"][0]
    with stopped(node.where["kubelet_service"]):
        assert_told(node.reading()[1], of_node.KUBELET_UNHEALTHY, no=("healthy", "dependencies"))
    assert eventually(lambda: _parallel(node) == 5, seconds=_SECONDS)
    assert node.reading()[1]["present"] == []


def _parallel(node: Node) -> Any:
    """None while its kubelet starts."""
    try:
        return node.configz().get("maxParallelImagePulls")
    except subprocess.CalledProcessError:
        return None


def test_a_change_of_the_kubelet_leaves_containerd_alone(node: Node) -> None:
    pids = node.pids()
    found = node.pulls(**{**LIMITS, "max_parallel_image_pulls": 2})
    assert titles(found) == ["change kubelet-drop-in"]
    after = node.pids()
    assert {name for name in pids if pids[name] != after[name]} == {"kubelet"}
    assert node.configz()["maxParallelImagePulls"] == 2


def test_parallel_without_a_limit_takes_the_limit_of_other_files_away(node: Node) -> None:
    other = node.kubelet_file.with_name("10-other.conf")
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    other.write_text(f"{head}maxParallelImagePulls: 7\nserializeImagePulls: false\n", encoding="utf-8")
    try:
        node.pulls(serialize_image_pulls=False, runtime=LIMITS["runtime"])
        config = node.configz()
        assert (config.get("maxParallelImagePulls"), config["serializeImagePulls"]) == (None, False)
    finally:
        other.unlink()


def test_what_is_asked_for_no_more_goes_back(node: Node) -> None:
    found = node.pulls(max_parallel_image_pulls=2)
    assert titles(found) == ["remove containerd-drop-in", "change kubelet-drop-in"]
    assert found["runtime"]["settings"]["max_concurrent_downloads"] == {"value": 3, "source": "default"}
    assert not node.containerd_file.exists()


def test_a_kubelet_that_does_not_come_back_gets_its_file_back(node: Node) -> None:
    node.pulls(max_parallel_image_pulls=1)
    left = node.kubelet_file.read_text(encoding="utf-8")
    other = node.kubelet_file.with_name("99-other.conf")
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    other.write_text(f"{head}serializeImagePulls: true\n", encoding="utf-8")
    try:
        found = node.module("image_pulls", max_parallel_image_pulls=9, ready_seconds=60)
        assert not found["ok"]
        assert found["id"] == "pulls-node-kubelet-failed"
        assert "undone: 1 of 1 steps; left: nothing" in found["msg"], found["msg"]
        assert node.kubelet_file.read_text(encoding="utf-8") == left
        assert node.configz()["maxParallelImagePulls"] == 1
    finally:
        other.unlink()


def test_a_later_file_that_wins_is_told_and_what_was_there_is_there_again(node: Node) -> None:
    left = node.kubelet_file.read_text(encoding="utf-8")
    other = node.kubelet_file.with_name("99-other.conf")
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    other.write_text(f"{head}registryBurst: 77\n", encoding="utf-8")
    try:
        found = node.module("image_pulls", max_parallel_image_pulls=1, registry_burst=20)
        assert (found["ok"], found["id"]) == (False, "pulls-node-not-in-effect")
        assert "registryBurst: 77 in /configz" in found["msg"]
        assert node.kubelet_file.read_text(encoding="utf-8") == left
    finally:
        other.unlink()


def test_the_number_that_makes_containerd_pull_another_way_is_refused(node: Node) -> None:
    other = node.containerd_file.with_name("10-other.toml")
    other.write_text('version = 3\n[plugins."io.containerd.cri.v1.images"]\nmax_concurrent_downloads = 5\n', "utf-8")
    pids = node.pids()
    try:
        found = node.module("image_pulls", max_parallel_image_pulls=1, runtime={"max_concurrent_downloads": 8})
        assert (found["ok"], found["id"]) == (False, "pulls-node-local-pull")
        assert node.pids() == pids
        assert_told(node.reading()[1], of_node.OTHER_WAY, no=())
    finally:
        other.unlink()


def test_a_containerd_that_runs_on_without_its_cri_plugin_is_told(node: Node) -> None:
    other, host = node.containerd_file.with_name("10-other.toml"), LocalHost()
    table = '[plugins."io.containerd.cri.v1.runtime"]\ndrain_exec_sync_io_timeout = "no duration"\n'
    other.write_text(f"version = 3\n{table}", encoding="utf-8")
    try:
        restart_daemon(host, node.where["runtime_service"])
        found = eventually(lambda: _without_cri(node), seconds=_SECONDS)
    finally:
        other.unlink()
        restart_daemon(host, node.where["runtime_service"])
    assert_told(found, of_node.RUNTIME_UNHEALTHY)
    assert eventually(lambda: node.reading()[1]["present"] == [], seconds=_SECONDS)


def _without_cri(node: Node) -> dict[str, Any]:
    """The reading; empty while containerd starts."""
    found = node.reading()[1]
    return found if "plugin io.containerd.grpc.v1.cri: error" in str(found["answers"]["failures"]["lines"]) else {}


@pytest.mark.skipif(os.path.exists("/etc/ballast/pull-proxy.json"), reason="this machine has a pull proxy of its own")
def test_the_readiness_of_the_pull_proxy_of_the_host(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not in tmp_path, which the node has a copy of its own of.
    state_dir, runtime = str(node.home / "pull-proxy"), f"/run/ballast/{node.lab.name}/n1/containerd.sock"
    rows = [{"name": "n1", "socket": PROXY_SOCKET, "runtime": runtime}]
    wanted = {"state_dir": state_dir, "listeners": rows, "max_in_flight": 3, "metrics": f"127.0.0.1:{free_port()}"}

    def proxy() -> tuple[dict[str, str], dict[str, Any]]:
        found: Any = read_params(LocalHost(), {"state_dir": state_dir, "readiness": True})["readiness"]
        return judged(found)

    assert judged(module("image_pull_proxy_info", state_dir=state_dir, readiness=True)["readiness"])[0] == {
        "enabled": "no"
    }
    with journal.undone_by(*journal.module("image_pull_proxy", {"state": "absent", "state_dir": state_dir})):
        module("image_pull_proxy", **wanted)
        node.pulls(image_service_endpoint=PROXY_SOCKET, serialize_image_pulls=False, registry_pull_qps=0)
        assert eventually(lambda: set(proxy()[0].values()) == {"yes"}, seconds=_SECONDS), proxy()[1]
        verdicts, found = node.reading()
        assert {name for name, verdict in verdicts.items() if verdict != "yes"} <= {"in_use"}, found
        is_exercised_and_is_what_it_was(node, tmp_path, state_dir)
        each_fault_of_the_pull_proxy_is_told(node, proxy, state_dir, monkeypatch)
        with without_packages(node.inside, tmp_path):
            asked = module("image_pull_proxy_info", inside=node.inside, state_dir=state_dir, readiness=True)
        assert asked["readiness"]["present"] == [of_proxy.PACKAGES_MISSING]
        assert_told(asked["readiness"], of_proxy.PACKAGES_MISSING, no=("dependencies",))
        killed("image_pull_proxy", {**wanted, "max_in_flight": 5})
        assert proxy()[1]["present"] == (of_proxy.BROKEN_OFF,)
        assert_told(proxy()[1], of_proxy.BROKEN_OFF, no=())
        node.pulls(image_service_endpoint=PROXY_SOCKET)
        killed("image_pulls", {**node.where, "max_parallel_image_pulls": 3}, inside=node.inside)
        found = node.reading()[1]
        assert found["present"] == [of_node.BROKEN_OFF, of_node.SERIAL_BEHIND_PROXY]
        assert_told(found, of_node.BROKEN_OFF, of_node.SERIAL_BEHIND_PROXY)
        node.pulls(state="absent")


def each_fault_of_the_pull_proxy_is_told(
    node: Node,
    proxy: Callable[[], tuple[dict[str, str], dict[str, Any]]],
    state_dir: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its own reading, and where no image can be pulled by that of the node too."""
    pid, file = service_pid(LocalHost(), INSTALLATION.target(state_dir)), Path(INSTALLATION.config)
    assert pid is not None
    with standing_still(node.pids()["containerd"]), a_pull_that_waits(PROXY_SOCKET), monkeypatch.context() as hastened:
        hastened.setattr(of_proxy, "WAITS_LONG_SECONDS", LONG)
        found = proxy()[1]
    assert found["present"] == (of_proxy.RUNTIME_AWAY, of_proxy.WAITS_LONG)
    assert_told(found, of_proxy.RUNTIME_AWAY, of_proxy.WAITS_LONG, no=("healthy", "dependencies"))
    assert any(figure["buckets"] for figure in found["answers"]["healthy"]["figures"])
    before = file.read_bytes()
    file.write_text(json.dumps({**json.loads(before), "max_in_flight": 4}), encoding="utf-8")
    found = proxy()[1]
    file.write_bytes(before)
    assert found["present"] == (of_proxy.SETTINGS_REFUSED,)
    assert_told(found, of_proxy.SETTINGS_REFUSED)
    assert "its values of max_in_flight differ" in found["answers"]["healthy"]["text"]
    with nearly_out_of_files(pid, PROXY_SOCKET):
        found = proxy()[1]
    assert found["present"] == (of_proxy.OUT_OF_FILES,)
    assert_told(found, of_proxy.OUT_OF_FILES, no=("scale",))
    with stopped(INSTALLATION.target(state_dir)):
        found, of_kubelet = proxy()[1], node.reading()[1]
    assert (found["present"], of_kubelet["present"]) == ((of_proxy.DOWN,), [of_node.PROXY_AWAY])
    assert_told(found, of_proxy.DOWN)
    assert_told(of_kubelet, of_node.PROXY_AWAY, no=("healthy", "dependencies"))


def is_exercised_and_is_what_it_was(node: Node, place: Path, state_dir: str) -> None:
    """With a kubelet behind it. Not where its file is not what its options make."""
    file = Path(INSTALLATION.config)
    before = file.read_bytes(), file.stat().st_mode, Path(state_dir, "ledger.jsonl").read_bytes()
    file.write_bytes(before[0] + b"\n")
    done, told = exercised(node, place, state_dir)
    assert done == {}
    assert "image_pull_proxy is not drilled" in told
    file.write_bytes(before[0])
    done, told = exercised(node, place, state_dir)
    assert "is not drilled" not in told
    assert {kind: len(steps) for kind, steps in done.items()} == {"enable": 2, "setting": 4}
    assert all(step["ok"] for steps in done.values() for step in steps), done
    assert (file.read_bytes(), file.stat().st_mode, Path(state_dir, "ledger.jsonl").read_bytes()) == before
    (started,) = re.findall("started .* settings=.max_in_flight ([0-9]+)", Path(INSTALLATION.log).read_text("utf-8"))
    reloaded = re.findall("reloaded .* settings=.max_in_flight ([0-9]+)", Path(INSTALLATION.log).read_text("utf-8"))
    assert (started, reloaded) == ("3", ["4", "3", "4", "3"])
    status = module("image_pull_proxy_info", state_dir=state_dir)["status"]
    assert (status["connections"], status["max_in_flight"]) == (1, 3)


def exercised(node: Node, place: Path, state_dir: str) -> tuple[dict[str, Any], str]:
    """The steps of each exercise of the proxy that the playbook did, and what it printed."""
    asked = {"readiness_dir": str(place), "readiness_features": ["image_pull_proxy"], "readiness_exercise": True}
    hosts = {"readiness_hosts": "all"}
    chosen = {"readiness_canary": ["localhost"], "image_pull_proxy_state_dir": state_dir}
    run = node.lab.playbook("readiness", "-i", node.inventory, **asked, **hosts, **chosen)
    assert run.status == 0, run.output
    report = json.loads((place / "readiness.json").read_text(encoding="utf-8"))
    return {one["kind"]: one["steps"] for one in report["exercises"]}, run.output


def test_a_node_in_one_task_is_sent_the_engines_once_and_keeps_them_until_all_is_taken_away(
    node: Node,
) -> None:
    place = node.home / "machine"  # the node has a copy of its own of most other directories
    cache, library, programs = place / "cache", place / "lib", "/var/cache/ballast/binaries"
    (cache / "ballast/binaries").mkdir(parents=True)
    library.mkdir()  # as on a machine that has nothing else of ours
    mounts = [
        f"--bind {programs} {cache}/ballast/binaries",
        f"--rbind {cache} /var/cache",
        f"--bind {library} /var/lib",
    ]
    mounted = " && ".join([*(f"mount {one}" for one in mounts), 'exec "$@"'])
    inside = [*node.inside, "unshare", "--mount", "sh", "-c", mounted, "sh"]

    def ran(*flags: str, **options: Any) -> tuple[dict[str, Any], bool]:
        """What it returned of image_pulls, and whether the engines were sent."""
        found = module("node", "-vvv", *flags, inside=inside, image_pulls={**node.where, **options})
        return found["image_pulls"], "/engines.zip" in found["printed"]

    kept = cache / "ballast/engines"
    found, sent = ran("--check", **LIMITS)
    assert (titles(found), sent, kept.exists()) == (["make containerd-drop-in", "make kubelet-drop-in"], True, False)
    found, sent = ran(**LIMITS)
    assert (titles(found), sent, len(list(kept.iterdir()))) == (
        ["make containerd-drop-in", "make kubelet-drop-in"],
        True,
        1,
    )
    assert node.configz()["maxParallelImagePulls"] == 5
    for flags in (("--check",), ()):
        found, sent = ran(*flags, **LIMITS)
        assert (found["changed"], sent) == (False, False)
    found, sent = ran(state="absent")
    assert (found["changed"], sent, kept.exists()) == (True, False, False)
    assert not node.kubelet_file.exists()


def test_removed_nothing_is_left(node: Node) -> None:
    node.pulls(state="absent")
    for file in (node.kubelet_file, node.containerd_file):
        assert os.listdir(file.parent) == [MARKER], "the directories are the lab's"
    assert not (node.home / "image-pulls").exists()
    config = node.configz()
    assert (config.get("maxParallelImagePulls"), config["serializeImagePulls"]) == (None, True)
    assert not node.pulls(state="absent")["changed"]
