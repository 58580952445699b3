# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real kube-proxy changes its mode under load, and whatever is killed or taken away meanwhile, Services are served and
the node ends clean."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.service.cgroup import CgroupKind
from ansible_collections.ballast.kube.plugins.module_utils._core.service.runit import SupervisorKind
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import SERVICE_PROXY_TABLE
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.messages import AGENT
from tests.bench import rules_cluster as cluster
from tests.bench.migrate import ACKNOWLEDGE, Sizes
from tests.bench.migrate import Bench as Cluster
from tests.bench.rules import binaries
from tests.integration import adhoc
from tests.integration.kube_proxy import BRIDGE, NODE, Api, control_plane
from tests.integration.loaded_node import LoadedNode, Rates, loaded_node
from tests.integration.supervised_proxy import LEGACY, SupervisedProxy, supervised
from tests.integration.wire import entered
from tests.load.running import Load, load

VERSION = os.environ.get("LAB_KUBERNETES", DEFAULT_KUBERNETES)
ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / ".build/collections"), str(ROOT)])}
NFTABLES, IPTABLES, BALLAST = "nftables", "iptables", "ballast"
RATES = Rates(new=20, outside=20, held=16)  # the machine has other work too
CONFIRM_SECONDS = 3
_AWAY_SECONDS = 12  # longer than a kube-proxy that was started is asked for the mode that it is in
OTHER = {NFTABLES: IPTABLES, IPTABLES: NFTABLES}

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can make network namespaces")]


@dataclass(frozen=True)
class Node:
    made: LoadedNode
    proxy: SupervisedProxy
    running: Load
    api: Api
    steps_from: dict[str, list[tuple[int, str]]] = field(default_factory=dict)  # by mode

    @property
    def state_dir(self) -> Path:
        return self.proxy.place / "state"

    @property
    def options(self) -> dict[str, Any]:
        return {
            "service": self.proxy.service,
            "config_path": str(self.proxy.config_path),
            "state_dir": str(self.state_dir),
            "acknowledge": ACKNOWLEDGE,
        }

    def start(self, *, kill_at: int = 0, **options: Any) -> subprocess.Popen[str]:
        given = {**self.options, **options}
        argv = [sys.executable, "-m", "tests.integration.killed_run", "kube_proxy", json.dumps(given), str(kill_at)]
        with entered(self.made.host.namespace):
            pipe = subprocess.PIPE
            return subprocess.Popen(argv, cwd=ROOT, env=ENVIRONMENT, text=True, stdout=pipe, stderr=pipe)

    def run(self, **options: Any) -> list[dict[str, str]]:
        started = self.start(**options)
        out, err = started.communicate(timeout=300)
        assert started.returncode == 0, err
        steps: list[dict[str, str]] = json.loads(out)
        return steps

    def clear(self) -> None:
        """End the guard of a test that failed, which would try to help the node for ever."""
        machine, sv_dir = LocalHost(), self.state_dir / "guard/sv"
        if sv_dir.exists():
            (name,) = [one.name.removesuffix("-guard") for one in sv_dir.iterdir() if one.is_dir()]
            SupervisorKind().remove(Context(None, machine), str(sv_dir), {"running": True})
            CgroupKind().remove(Context(None, machine), name, ABSENT)

    def bridged(self) -> bool:
        listed = self.made.host.run(["nft", "list", "chains"], timeout=60).stdout
        return "ballast-bridge" in listed

    def bridge(self) -> str:
        return self.made.host.run(["nft", "list", "table", "ip", "ballast-bridge"], timeout=60).stdout

    def wait(self, what: str, holds: Callable[[], bool], *, seconds: float = 120, interval: float = 0.1) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
            time.sleep(interval)

    def check_clean(self, mode: str) -> None:
        """In that mode, with neither bridge nor guard, its journal closed."""
        assert self.proxy.mode() == mode
        assert not self.bridged()
        assert not (self.state_dir / "guard").exists()
        journal = self.state_dir / "ledger.jsonl"
        lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
        assert [json.loads(line)["op"] for line in lines if '"op": "recorded"' not in line] == []

    @contextmanager
    def served(self) -> Iterator[None]:
        """No connection fails and none breaks while the block runs. Where the load itself was late by as much as it waits
        for an answer, it says nothing."""
        began = time.monotonic()
        yield
        found = self.running.summary(since=began, until=time.monotonic())
        assert found.total.attempts > 0
        if found.lag_seconds < 0.5:
            assert found.total.failures == 0, (found.total.errors, found.total.outage_seconds)
            assert found.held.broken == 0, found.held


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    place = tmp_path_factory.mktemp("change")
    bin_dir, version = binaries(VERSION)
    with control_plane(version, bin_dir, place) as api, ExitStack() as undo:
        numbers = Cluster(api, bin_dir, place, Sizes(services=50)).fill()
        made = undo.enter_context(loaded_node("change"))
        program, kubeconfig = f"{bin_dir}/kube-proxy", api.kubeconfig(f"nodes/{NODE}/kube-proxy")
        began = time.time()
        proxy = undo.enter_context(
            supervised(made.host, program, kubeconfig, place / "proxy", mode=IPTABLES, variant=LEGACY)
        )
        proxy.wait_for_sync(IPTABLES, since=began, timeout=120)
        running = undo.enter_context(load(made.clients(numbers, RATES), place))
        running.wait_for_held()
        node = Node(made, proxy, running, api)
        undo.callback(node.clear)
        yield node


def test_a_change_and_the_way_back_fail_no_connection_and_a_second_run_changes_nothing(node: Node) -> None:
    with node.served():
        steps = node.run(mode=NFTABLES)
        assert [step["kind"] for step in steps if step["kind"] in ("bridge", "kube-proxy")] == [
            "bridge",
            "kube-proxy",
            "bridge",
        ]
        node.check_clean(NFTABLES)
        assert node.run(mode=NFTABLES) == []
        node.run(state="previous")
        node.check_clean(IPTABLES)
        assert node.run(state="previous") == []


def _steps_of_a_change(node: Node) -> list[tuple[int, str]]:
    """Number in the journal and name of the first step of each kind and direction."""
    config = json.loads(node.proxy.config_path.read_text(encoding="utf-8"))
    assert config["mode"] == node.proxy.mode()
    steps = node.run(mode=OTHER[config["mode"]])
    first: dict[str, int] = {}
    for number, step in enumerate(steps):
        first.setdefault(f"{step['verb']} {step['kind']}", 2 * number + 1)
    return [(number, name) for name, number in first.items()]


def test_a_run_that_is_killed_at_any_step_is_ended_by_the_next_one(node: Node) -> None:
    points = _steps_of_a_change(node)
    assert {"make bridge", "change kube-proxy", "remove bridge", "remove service"} <= {name for _at, name in points}
    for at, name in points:
        mode = OTHER[node.proxy.mode()]
        with node.served():
            killed = node.start(mode=mode, kill_at=at)
            killed.communicate(timeout=300)
            assert killed.returncode == -signal.SIGKILL, name
            node.run(mode=mode)
            node.check_clean(mode)


@pytest.mark.parametrize("name", ["make bridge", "change kube-proxy", "remove bridge"])
def test_where_no_run_follows_the_guard_takes_the_node_back(node: Node, name: str) -> None:
    before = node.proxy.mode()
    # Armed, the guard is not removed by the run itself: the journal ends with the bridge.
    at = next(number for number, found in _steps_there_and_back(node) if found == name)
    with node.served():
        killed = node.start(mode=OTHER[before], confirm_within=CONFIRM_SECONDS, kill_at=at)
        killed.communicate(timeout=300)
        assert killed.returncode == -signal.SIGKILL
        node.wait("the guard has gone", lambda: not (node.state_dir / "guard").exists())
        node.wait("what it did is told", (node.state_dir / "outcome.json").exists)
        node.check_clean(before)


def _steps_there_and_back(node: Node) -> list[tuple[int, str]]:
    """Those of a change from the mode that it is in, which stays; asked once for each mode."""
    mode = node.proxy.mode()
    if mode not in node.steps_from:
        node.steps_from[mode] = _steps_of_a_change(node)
        node.run(state="previous")
    return node.steps_from[mode]


def test_the_bridge_follows_the_api_also_when_the_run_that_laid_it_is_gone(node: Node) -> None:
    mode = OTHER[node.proxy.mode()]
    at = next(number for number, found in _steps_there_and_back(node) if found == "change kube-proxy")
    with node.served():
        node.start(mode=mode, confirm_within=600, kill_at=at).communicate(timeout=300)
        for address in ("10.244.2.77", "10.244.2.78"):
            changed = [{"addresses": [address], "conditions": {"ready": True}}]
            path = f"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{cluster.name(5)}"
            kind = "application/merge-patch+json"
            node.api.ask(path, method="PATCH", body={"endpoints": changed}, kind=kind)
            node.wait(f"{address} is in the bridge", lambda one=address: one in node.bridge())  # type: ignore[misc]
        assert "10.244.2.77" not in node.bridge()
        node.run(mode=mode)
        node.check_clean(mode)


def test_a_change_that_nobody_confirms_is_taken_back_and_a_confirmed_one_stays(node: Node) -> None:
    before = node.proxy.mode()
    with node.served():
        node.run(mode=OTHER[before], confirm_within=CONFIRM_SECONDS)
        assert node.proxy.mode() == OTHER[before]
        node.wait("it has gone back", (node.state_dir / "outcome.json").exists)
        node.check_clean(before)
        node.run(mode=OTHER[before], confirm_within=60)
        assert (node.state_dir / "guard").exists()
        node.run(state="confirmed")
        node.check_clean(OTHER[before])
        assert not (node.state_dir / "outcome.json").exists()


def _task(node: Node, *flags: str, fails: bool = False, **options: Any) -> dict[str, Any]:
    """What a task of an operator returns: `kube_proxy_change`, with the node's options."""
    with entered(node.made.host.namespace):
        return adhoc.module("kube_proxy_change", *flags, fails=fails, **node.options, **options)


def test_one_task_changes_confirms_and_judges(node: Node) -> None:
    before = node.proxy.mode()
    with node.served():
        plan = _task(node, "--check", "--diff", mode=OTHER[before])
        assert (plan["outcome"], plan["changed"], node.proxy.mode()) == ("unchanged", True, before)
        done = _task(node, mode=OTHER[before])
        assert (done["outcome"], done["confirmed"], done["in_order"]) == ("confirmed", True, True)
        assert (done["differences"], done["reasons"], done["node_name"]) == ([], [], NODE)
        assert (done["mode"], done["previous_mode"]) == (OTHER[before], before)
        assert [step["title"] for step in plan["steps"]] == [step["title"] for step in done["steps"]]
        node.check_clean(OTHER[before])
        again = _task(node, mode=OTHER[before])
        assert (again["outcome"], again["changed"], again["steps"]) == ("unchanged", False, [])
        back = _task(node, state="previous")
        assert (back["outcome"], back["mode"]) == ("confirmed", before)
        node.check_clean(before)


@pytest.mark.parametrize("kind", ["bridge", "kube-proxy"])
def test_a_task_whose_module_is_killed_says_that_the_node_went_back(node: Node, kind: str) -> None:
    before = node.proxy.mode()
    with node.served(), ThreadPoolExecutor() as pool:
        task = pool.submit(_task, node, fails=True, mode=OTHER[before])
        node.wait(f"the change is at its {kind}", lambda: _step_at_work(node) == kind, interval=0.01)
        os.kill(int((node.state_dir / "lock").read_text(encoding="utf-8")), signal.SIGKILL)  # who holds it
        found = task.result(timeout=300)
    assert (found["outcome"], found["mode"], found["confirmed"]) == ("went_back", before, False)
    assert found["id"] == "migrate-went-back"
    node.check_clean(before)


def _step_at_work(node: Node) -> str:
    """Its kind, by the journal; "" where none is."""
    journal = node.state_dir / "ledger.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    last = json.loads(lines[-1]) if lines else {}
    return str(last["kind"]) if last.get("op") == "doing" else ""


def test_a_guard_that_the_api_fails_leaves_what_serves_and_goes_back_when_it_is_there_again(node: Node) -> None:
    before = node.proxy.mode()
    tried = node.state_dir / "guard/bridge.json"  # the first that it makes on its way back
    with node.served():
        node.run(mode=OTHER[before], confirm_within=CONFIRM_SECONDS)
        with _api_away():
            node.wait("it has tried to go back", tried.exists)
            node.wait("the try has failed", lambda: not tried.exists())
            assert node.proxy.mode() == OTHER[before]
            assert not node.bridged()
            assert not (node.state_dir / "outcome.json").exists()
        node.wait("it has gone back", (node.state_dir / "outcome.json").exists)
        node.check_clean(before)


@contextmanager
def _api_away() -> Iterator[None]:
    subprocess.run(["ip", "link", "set", BRIDGE, "down"], check=True)
    try:
        yield
    finally:
        subprocess.run(["ip", "link", "set", BRIDGE, "up"], check=True)


def test_a_kube_proxy_that_is_killed_while_it_starts_is_waited_for(node: Node) -> None:
    mode, pid = OTHER[node.proxy.mode()], node.proxy.pid
    with node.served():
        started = node.start(mode=mode)
        node.wait("another kube-proxy runs", lambda: _pid(node) not in (None, pid))
        os.kill(node.proxy.pid, signal.SIGKILL)
        _out, err = started.communicate(timeout=300)
        assert started.returncode == 0, err
        node.check_clean(mode)


def _pid(node: Node) -> int | None:
    try:
        return node.proxy.pid
    except AssertionError:
        return None


def test_an_api_that_is_away_while_kube_proxy_starts_is_waited_for(node: Node) -> None:
    mode = OTHER[node.proxy.mode()]
    with node.served():
        started = node.start(mode=mode)
        node.wait("the bridge is there", node.bridged)
        with _api_away():
            time.sleep(_AWAY_SECONDS)
        _out, err = started.communicate(timeout=300)
        assert started.returncode == 0, err
        node.check_clean(mode)


def test_a_kube_proxy_that_does_not_start_is_put_back(node: Node) -> None:
    before = node.proxy.mode()
    text = node.proxy.config_path.read_text(encoding="utf-8")
    with node.served():
        started = node.start(mode=OTHER[before], config={"featureGates": {"NoSuchGate": True}}, verify_seconds=30)
        _out, err = started.communicate(timeout=300)
        assert started.returncode == 1
        assert "migrate-gate" in err
        assert "left: nothing" in err, err
        node.check_clean(before)
    assert node.proxy.config_path.read_text(encoding="utf-8") == text


def test_a_full_disk_leaves_the_node_as_it_was(node: Node) -> None:
    before = node.proxy.mode()
    node.state_dir.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "ballast", str(node.state_dir)], check=True)
    try:
        with node.served():
            started = node.start(mode=OTHER[before])
            _out, err = started.communicate(timeout=300)
            assert started.returncode == 1
            assert "core-enospc" in err
            assert node.proxy.mode() == before
            assert not node.bridged()
    finally:
        subprocess.run(["umount", str(node.state_dir)], check=True)


def test_without_nft_nothing_is_changed(node: Node) -> None:
    before = node.proxy.mode()
    if before == NFTABLES:
        node.run(mode=IPTABLES)
    nft = subprocess.run(["readlink", "-f", "/usr/sbin/nft"], check=True, capture_output=True, text=True).stdout.strip()
    given = {"service": node.proxy.service, "config_path": str(node.proxy.config_path), "mode": NFTABLES}
    given |= {"state_dir": str(node.state_dir), "acknowledge": ACKNOWLEDGE}  # type: ignore[dict-item]
    hidden = f'mount --bind /dev/null {nft} && exec {sys.executable} -m tests.integration.killed_run kube_proxy "$1" 0'
    argv = ["unshare", "--mount", "sh", "-c", hidden, "sh", json.dumps(given)]
    with entered(node.made.host.namespace):
        done = subprocess.run(argv, cwd=ROOT, env=ENVIRONMENT, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout
    assert "nft" in done.stderr
    assert "Traceback" not in done.stderr
    node.check_clean(IPTABLES)


# Mode ballast


def _check_replaced(node: Node, before: str) -> None:
    """Our service proxy serves, kube-proxy is down and held, its rules are gone, and so are watchdog and takeover table."""
    assert _pid(node) is None
    assert os.path.realpath(f"{node.proxy.service}/down") == f"/run/{AGENT.name}"
    assert node.proxy.mode() == NFTABLES  # which it says too, as its rules are those
    listed = node.made.host.run(["nft", "list", "chains"], timeout=60).stdout
    assert f"table ip {SERVICE_PROXY_TABLE} " in listed
    assert "table ip kube-proxy " not in listed
    assert node.proxy.chains(LEGACY) == 0
    assert json.loads(node.proxy.config_path.read_text(encoding="utf-8"))["mode"] == before
    assert not node.bridged()
    assert not (node.state_dir / "guard").exists()


def _check_gone(node: Node, mode: str) -> None:
    node.check_clean(mode)
    assert SERVICE_PROXY_TABLE not in node.made.host.run(["nft", "list", "chains"], timeout=60).stdout
    left = [
        f"/usr/local/bin/{AGENT.name}",
        f"/usr/local/lib/{AGENT.name}",
        f"/run/{AGENT.name}",
        "/etc/ballast/service-proxy.json",
    ]
    assert [path for path in (*left, f"{node.proxy.service}/down") if os.path.lexists(path)] == []
    assert not (node.state_dir / "sv").exists()


@pytest.fixture
def _given_back(node: Node) -> Iterator[None]:
    """Also where a test fails: our service proxy is installed on the machine itself."""
    yield
    if (node.state_dir / "held.json").exists():
        node.run(state="previous")


@pytest.mark.usefixtures("_given_back")
def test_our_service_proxy_takes_its_place_and_gives_it_back(node: Node) -> None:
    before = node.proxy.mode()
    with node.served():
        steps = node.run(mode=BALLAST)
        assert [step["kind"] for step in steps if step["kind"] in ("bridge", "kube-proxy")] == [
            "bridge",
            "kube-proxy",
            "bridge",
        ]
        _check_replaced(node, before)
        assert node.run(mode=BALLAST) == []
        node.run(state="previous")
        _check_gone(node, before)


@pytest.mark.usefixtures("_given_back")
@pytest.mark.parametrize("name", ["make supervisor", "change kube-proxy", "remove bridge", "remove service"])
def test_a_replacement_that_is_killed_is_ended_by_the_next_run(node: Node, name: str) -> None:
    before = node.proxy.mode()
    with node.served():
        first: dict[str, int] = {}
        for number, step in enumerate(node.run(mode=BALLAST)):
            first.setdefault(f"{step['verb']} {step['kind']}", 2 * number + 1)
        node.run(state="previous")
        for wanted in ({"mode": BALLAST}, {"state": "previous"}):
            killed = node.start(mode=BALLAST, kill_at=first[name])
            killed.communicate(timeout=300)
            assert killed.returncode == -signal.SIGKILL, name
            node.run(**wanted)
            if "mode" in wanted:
                _check_replaced(node, before)
                node.run(state="previous")
            _check_gone(node, before)


@pytest.mark.usefixtures("_given_back")
def test_a_replacement_that_nobody_confirms_is_taken_back_and_so_is_a_way_back(node: Node) -> None:
    before = node.proxy.mode()
    with node.served():
        node.run(mode=BALLAST, confirm_within=CONFIRM_SECONDS)
        node.wait("kube-proxy serves again", (node.state_dir / "outcome.json").exists)
        _check_gone(node, before)
        node.run(mode=BALLAST)
        other = {**node.options, "acknowledge": [*ACKNOWLEDGE, "preflight-version-unknown"]}
        node.run(**{**other, "mode": OTHER[before], "confirm_within": CONFIRM_SECONDS})
        node.wait("our service proxy serves again", (node.state_dir / "outcome.json").exists)
        _check_replaced(node, before)
        node.run(state="previous")
        _check_gone(node, before)
