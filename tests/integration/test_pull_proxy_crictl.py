# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every command of crictl, through the proxy and past it, at containerds of two versions: it makes no difference.

A pod on the network of its runtime, with a container in it, both of cgroups of this test.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration import journal
from tests.integration.containerds import NEW, OLD, bin_dir
from tests.integration.kube_proxy import eventually
from tests.integration.pull_place import Place, named, place
from tests.integration.pull_proxy import pull_proxy
from tests.integration.registry import PAUSE, image

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run containers")

RUNTIMES = {"a": NEW, "old": OLD}
CGROUP = "ballast-test-crictl"
POD_PORT, LOCAL_PORT = 8081, 8082
_NO_CALL = {"completion", "config", "help"}  # of these crictl alone knows
_SECONDS = 60
_WATCH_SECONDS = 3


@dataclass
class Crictl:
    """At one endpoint. `outcomes`: what became of each command, by its name and words without what differs by chance."""

    endpoint: str
    namespace: str
    place: Path
    outcomes: dict[str, str] = field(default_factory=dict)

    def __call__(self, *words: str, called: str = "") -> str:
        """What it prints; its errors too where it fails. It is ended after some seconds where it watches."""
        command = called or words[0]
        done = subprocess.run(self.argv(*words), capture_output=True, text=True, timeout=_SECONDS, check=False)
        self.outcomes[command] = "works" if done.returncode == 0 else _without_ids(done.stderr)
        return done.stdout if done.returncode == 0 else done.stderr

    def watched(self, *words: str) -> str:
        """What it prints within some seconds, by one that would go on."""
        argv = ["timeout", "--signal=KILL", str(_WATCH_SECONDS), *self.argv(*words)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=False)
        self.outcomes[words[0]] = "goes on" if done.returncode in (124, 137, -9) else _without_ids(done.stderr)
        return done.stdout

    def argv(self, *words: str) -> list[str]:
        inside = ["nsenter", f"--net=/run/netns/{self.namespace}"]  # the runtime's own streams are there
        ends = [f"--runtime-endpoint=unix://{self.endpoint}", f"--image-endpoint=unix://{self.endpoint}"]
        return [*inside, str(bin_dir() / "crictl"), "--config=/dev/null", "--timeout=20s", *ends, *words]

    def write(self, name: str, document: object) -> str:
        path = self.place / f"{name}.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return str(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with ExitStack() as undo:
        for path in _cgroups():
            undo.enter_context(journal.directory(path))
        yield undo.enter_context(place(tmp_path_factory.mktemp("crictl"), RUNTIMES, [PAUSE, image("one", 1000)]))


@pytest.mark.parametrize("name", RUNTIMES)
def test_every_command_of_crictl_is_the_same_through_the_proxy(whole: Place, tmp_path: Path, name: str) -> None:
    runtime = whole.runtimes[name]
    with pull_proxy(tmp_path / "proxy", {name: runtime.socket}, max_in_flight=1) as proxy:
        found = {}
        for way, endpoint in (("past", runtime.socket), ("through", proxy.socket(name))):
            (tmp_path / way).mkdir()
            crictl = Crictl(endpoint, runtime.namespace, tmp_path / way)
            use_every_command(crictl)
            found[way] = crictl.outcomes
    assert found["through"] == found["past"]
    assert {command.split()[0] for command in found["past"]} == commands() - _NO_CALL
    for command in ("pull", "runp", "create", "start", "exec", "stats", "images", "inspecti", "rmi", "rmp"):
        assert found["through"][command] == "works", found["through"]


def use_every_command(crictl: Crictl) -> None:
    for command in ("version", "info", "imagefsinfo", "runtime-config", "metricdescs"):
        crictl(command)
    crictl("update-runtime-config", "--pod-cidr=10.99.0.0/24")
    assert "sha256:" in crictl("pull", named("one"))
    crictl("pull", named("none"), called="pull of what is not there")
    crictl("images", "-o", "json")
    crictl("inspecti", named("one"))
    with pod(crictl) as made:
        use_pod(crictl, *made)
    crictl("rmp", "--force", _first(crictl("pods", "-q", "--name", "run")))
    crictl("rmi", named("one"))
    crictl("inspecti", named("one"), called="inspecti of what is not there")


@contextmanager
def pod(crictl: Crictl) -> Iterator[tuple[str, str]]:
    """The ids of a running pod and its container. Removed by the commands that remove."""
    logs = crictl.place / "logs"
    logs.mkdir()
    config = crictl.write("pod", _pod("pod", logs))
    command = ["/bin/busybox", "sh", "-c", f"echo begun; exec /bin/busybox httpd -f -p {POD_PORT} -h /content"]
    content = {"metadata": {"name": "one"}, "image": {"image": named("one")}, "command": command, "log_path": "one.log"}
    sandbox = _first(crictl("runp", config))
    container = _first(crictl("create", sandbox, crictl.write("container", {**content, "linux": {}}), config))
    crictl("start", container)
    yield sandbox, container
    crictl("stop", "--timeout=0", container)
    crictl("rm", container)
    crictl("stopp", sandbox)
    crictl("rmp", sandbox)


def use_pod(crictl: Crictl, sandbox: str, container: str) -> None:
    assert eventually(lambda: "begun" in crictl("logs", container), seconds=20)
    assert sandbox in crictl("pods", "-q", "--no-trunc")
    assert container in crictl("ps", "-q", "--no-trunc")
    for command, id in (("inspectp", sandbox), ("inspect", container), ("stats", container), ("statsp", sandbox)):
        crictl(command, id)
    crictl("metricsp")
    assert crictl("exec", container, "/bin/busybox", "echo", "heard").strip() == "heard"
    assert crictl("exec", "--sync", container, "/bin/busybox", "echo", "heard", called="exec --sync").strip() == "heard"
    crictl("exec", "--sync", container, "/bin/busybox", "false", called="exec --sync of what fails")
    crictl("update", "--cpu-share=512", container)
    crictl("checkpoint", f"--export={crictl.place}/checkpoint.tar", container)
    crictl.watched("attach", container)
    with events(crictl):
        run_another(crictl)
    forward(crictl, sandbox)


def run_another(crictl: Crictl) -> None:
    run = crictl.write("run-container", {"metadata": {"name": "run"}, "image": {"image": named("one")}, "linux": {}})
    crictl("run", run, crictl.write("run-pod", _pod("run", crictl.place / "logs")))


@contextmanager
def events(crictl: Crictl) -> Iterator[None]:
    """They are watched while the block makes some. The watch goes on until it is ended."""
    process = subprocess.Popen(crictl.argv("events"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(_WATCH_SECONDS)
        yield
        time.sleep(_WATCH_SECONDS)
    finally:
        process.kill()
        told, error = process.communicate()
    crictl.outcomes["events"] = "works" if "CONTAINER_STARTED_EVENT" in told else _without_ids(error)


def forward(crictl: Crictl, sandbox: str) -> None:
    """A request to the container's server, by a port that crictl forwards. It goes on until it is ended."""
    argv = crictl.argv("port-forward", sandbox, f"{LOCAL_PORT}:{POD_PORT}")
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    fetch = ["ip", "netns", "exec", crictl.namespace, "/bin/busybox", "wget", "-q", "-O", "-"]
    url = f"http://127.0.0.1:{LOCAL_PORT}/one-0"
    try:
        arrived = eventually(lambda: subprocess.run([*fetch, url], capture_output=True, check=False).stdout, seconds=20)
    finally:
        process.kill()
        process.wait()
    crictl.outcomes["port-forward"] = "works" if arrived else "nothing arrived"


def commands() -> set[str]:
    """As its help lists them, by the first of their names."""
    told = subprocess.run([str(bin_dir() / "crictl"), "--help"], capture_output=True, text=True, check=True).stdout
    listed = told.partition("COMMANDS:")[2].partition("GLOBAL OPTIONS:")[0]
    return {line.split()[0].rstrip(",") for line in listed.splitlines() if line.strip()}


def _pod(name: str, logs: Path) -> dict[str, object]:
    host_network = {"security_context": {"namespace_options": {"network": 2}}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "attempt": 0},
        "log_directory": str(logs),
        "linux": {"cgroup_parent": f"/{CGROUP}", **host_network},
    }


def _cgroups() -> Sequence[str]:
    """Where runc makes those of the pods: one below each hierarchy."""
    top = Path("/sys/fs/cgroup")
    if (top / "cgroup.controllers").exists():
        return [str(top / CGROUP)]
    return sorted({str(path.resolve() / CGROUP) for path in top.iterdir() if path.is_dir()})


def _first(printed: str) -> str:
    assert re.fullmatch(r"[0-9a-f]{64}", printed.strip().splitlines()[0]), printed
    return printed.split()[0]


def _without_ids(error: str) -> str:
    """The last line, less its time, ids and ports."""
    lines = error.strip().splitlines() or [""]
    return re.sub(r"[0-9a-f]{12,64}|\d{4}-\S+T\S+|\d+(\.\d+)?", "#", lines[-1])
