# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules and the dashboard that are shipped, against what real parts tell: every expression is answered, and every
alert is fired by its fault.

A lab of two nodes with balloons and their reconciler; a pull proxy before the runtime of the first; a control plane of its
own for the aggregation agent, whose extension API server never comes, in an etcd of its own with a small quota.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent.program import ZipappKind, program
from ansible_collections.ballast.kube.plugins.module_utils._balloon import readiness_answers as balloons
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import LABEL
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.engine import INSTALLATION
from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info import readiness_answers as control_plane
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.pki import CLIENT, PKI_KINDS, Certificate
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._instance import readiness_answers as instance
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import readiness_answers as kube_proxy
from tests.integration.adhoc import module
from tests.integration.cri import Images, images, pull_request
from tests.integration.lab import Lab, lab_named
from tests.integration.plane_client import eventually
from tests.integration.plane_lab import Plane, binaries, place
from tests.integration.processes import ended, running, started
from tests.integration.prometheus import (
    DASHBOARD,
    RULES,
    Prometheus,
    Target,
    alerts,
    expressions,
    free_port,
    metric_names,
    outside,
    prometheus,
)
from tests.integration.pull_proxy import PYTHON, PullProxy, pull_proxy
from tests.integration.told import assert_reported, assert_told
from tests.integration.wire import entered

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a lab")]

_SECONDS = 180
_MOST_PULLS = 1
# Bytes. Of larger ones etcd writes those before anew, each time, and so needs up to twice their size.
_QUOTA, _NEARLY, _CHUNK = 16 * 2**20, 0.85, 2**16
# What a lab does not tell, and the program that does: a failure that is hard to cause, a pull from a registry.
_UNSEEN = {
    "kubeproxy_sync_proxy_rules_iptables_restore_failures_total": "kube-proxy",
    "kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total": "kube-proxy",
    "kubelet_image_pull_duration_seconds_bucket": "kubelet",
}
# rule_cases.yml has cases of what comes from kube-state-metrics; the gauge has no series before the first connection.
_ELSEWHERE = ("kube_", "namespace_pod:", "node_resource:", "resource:", "ballast_aggregation_connections")
# What `_harm_nodes` causes, by failure mode: on which hosts the readiness run finds it.
_REPORTED = {
    kube_proxy.NOT_IN_SYNC: ["n1"],
    kube_proxy.SYNC_FAILS: ["n1"],
    instance.RUNTIME_DOWN: ["localhost"],
    instance.PROXY_UNWELL: ["localhost"],
    balloons.ABSENT: ["localhost"],
    balloons.HOST_OVERSOLD: ["localhost"],
    balloons.NODE_NOT_READY: ["localhost"],
}
# Of kube-proxy alone, when it writes: who reads the node asks nft too.
_SLOW_NFT = """#!/bin/sh
if [ "$1" = -f ] && [ "$(cat /proc/$PPID/comm)" = kube-proxy ]; then
  if [ -e {marks}/slow ]; then rm {marks}/slow; sleep 11; fi
  if [ -e {marks}/failing ]; then echo 'made to fail by a test' >&2; exit 1; fi
fi
exec {place}/nft.real "$@"
"""


@dataclass
class Parts:
    place: Path
    lab: Lab
    plane: Plane
    proxy: PullProxy
    reconciler: subprocess.Popen[bytes]
    etcd: str  # the address of the one with the small quota
    undo: ExitStack
    server: Prometheus = field(init=False)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def node(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(node for node in self.lab.record["nodes"] if node["name"] == name)
        return found

    def service(self, ending: str) -> str:
        """The directory of a service of the lab."""
        return next(path for path in self.lab.services() if path.endswith(ending))

    def pid(self, ending: str) -> int:
        return self.lab.services()[self.service(ending)]

    def freeze(self, pid: int) -> None:
        _tell(pid, signal.SIGSTOP)
        self.undo.callback(_tell, pid, signal.SIGCONT)

    def stop(self, directory: str) -> None:
        """A service: killed, as an API server whose etcd does not answer takes minutes to end, and left so by its supervisor."""
        pid = Path(directory, "supervise/pid").read_text("ascii")
        subprocess.run(["sv", "down", directory], check=True, timeout=60)
        _tell(int(pid), signal.SIGKILL)
        self.undo.callback(subprocess.run, ["sv", "up", directory], check=True, timeout=60)

    def make_service(self) -> None:
        self.lab.kubectl("create", "service", "clusterip", f"stir-{next(self.numbers)}", "--tcp=80")

    def wait_for(self, *names: str, stir: Callable[[], None] = lambda: None) -> None:
        """Until all of these alerts have fired; `stir` goes on with what their faults show by."""
        deadline = time.monotonic() + _SECONDS
        while missing := set(names) - self.server.fired():
            assert time.monotonic() < deadline, f"did not fire: {sorted(missing)}"
            stir()
            time.sleep(1)


def _tell(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):  # it has ended meanwhile
        os.kill(pid, number)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    here = tmp_path_factory.mktemp("metrics")
    with ExitStack() as undo:
        lab = undo.enter_context(lab_named("metrics"))
        topology = here / "topology.yml"
        topology.write_text(json.dumps({"balloons": True, "nodes": [{"name": "n1"}, {"name": "n2"}]}), "utf-8")
        done = lab.up(lab_topology=str(topology))
        assert done.status == 0, done.output
        etcd = undo.enter_context(_small_etcd(here))
        plane, of_plane = undo.enter_context(_aggregating(here, etcd))
        ports = {"proxy": free_port(), "reconciler": free_port()}
        runtime = {"n1": f"/run/ballast/{lab.name}/n1/containerd.sock"}
        told = f"127.0.0.1:{ports['proxy']}"
        proxy = undo.enter_context(pull_proxy(here / "proxy", runtime, max_in_flight=_MOST_PULLS, metrics=told))
        reconciler = undo.enter_context(_reconciler(here, lab, ports["reconciler"]))
        found = Parts(here, lab, plane, proxy, reconciler, etcd, undo)
        targets = [
            *_of_lab(found),
            *of_plane,
            Target("etcd", etcd),
            Target("ballast-pull-proxy", told),
            Target("ballast-balloons", f"127.0.0.1:{ports['reconciler']}"),
        ]
        found.server = undo.enter_context(prometheus(here / "prometheus", targets))
        jobs = {target.job for target in targets}
        eventually(lambda: found.server.up() == jobs, what=f"all of {jobs} are up", seconds=_SECONDS)
        yield found


def _of_lab(parts: Parts) -> list[Target]:
    record, pki = parts.lab.record, f"{parts.lab.directory}/plane/pki"
    address = record["control_plane"]["address"]

    def tls(name: str, ca: str = "ca") -> tuple[str, str, str]:
        return f"{pki}/{ca}.crt", f"{pki}/{name}.crt", f"{pki}/{name}.key"

    found = [
        Target("apiserver", f"{address}:{record['control_plane']['port']}", tls("admin")),
        Target("kube-controller-manager", f"{address}:10257", tls("admin")),
        Target("kube-scheduler", f"{address}:10259", tls("admin")),
        Target("etcd", f"{address}:2379", tls("apiserver-etcd-client", ca="etcd-ca")),
    ]
    for node in record["nodes"]:
        namespace = node["netns"].rpartition("/")[2]
        told = parts.undo.enter_context(outside(namespace, "http://127.0.0.1:10249/metrics"))
        found += [Target("kube-proxy", told), Target("kubelet", f"{node['address']}:10250", tls("admin"))]
    return found


@contextmanager
def _aggregating(here: Path, etcd: str) -> Iterator[tuple[Plane, list[Target]]]:
    """A control plane whose agent finds no extension API server at the address that it is given."""
    ca = _issue(Certificate(path=str(here / "ca.crt"), issuer=None, common_name="ca"))
    told = f"127.0.0.1:{free_port()}"
    with place("hyper-mini", etcd="existing", etcd_endpoints=[f"http://{etcd}"]) as plane:
        entry = {"name": "v1.wardle.example.com", "service": "wardle", "namespace": "default"}
        entry.update(address=f"{plane.address}:8443", ca=ca)
        made = plane.changed(aggregation=[entry], aggregation_metrics=told)
        made.run()
        api = (made.pki("ca.crt"), made.pki("admin.crt"), made.pki("admin.key"))
        yield made, [Target("apiserver", f"{plane.address}:6443", api), Target("ballast-aggregation", told)]


def _issue(certificate: Certificate) -> str:
    made = certificate.resource(group="")
    PKI_KINDS["certificate"].write(Context(None, LocalHost()), made.target, made.value, ABSENT)
    return certificate.path


@contextmanager
def _small_etcd(here: Path) -> Iterator[str]:
    client, peer = (f"127.0.0.1:{free_port()}" for _each in range(2))
    argv = [
        os.path.join(binaries(DEFAULT_KUBERNETES), "etcd"),
        f"--data-dir={here}/etcd",
        f"--listen-client-urls=http://{client}",
        f"--advertise-client-urls=http://{client}",
        f"--listen-peer-urls=http://{peer}",
        f"--initial-advertise-peer-urls=http://{peer}",
        f"--initial-cluster=default=http://{peer}",
        f"--quota-backend-bytes={_QUOTA}",
        "--unsafe-no-fsync",
    ]
    with running(argv, here / "etcd.log"):
        yield client


@contextmanager
def _reconciler(here: Path, lab: Lab, port: int) -> Iterator[subprocess.Popen[bytes]]:
    archive, config = str(here / "ballast-balloons"), here / "balloons.json"
    made = program(archive, packages=INSTALLATION.packages, main=INSTALLATION.main, group="reconciler")
    ZipappKind().write(Context(None, LocalHost()), archive, made.value, ABSENT)
    settings = {
        "kubeconfig": f"{lab.directory}/admin.kubeconfig",
        "interval": "2s",
        "grow_timeout": "2s",
        "retry": {"first": "1s", "most": "2s"},
        "metrics": f"127.0.0.1:{port}",
    }
    config.write_text(json.dumps(settings), encoding="utf-8")
    process = started(
        [PYTHON, "-I", archive, "--config", str(config)],
        here / "balloons.log",
        env={"RUNTIME_DIRECTORY": str(here / "balloons")},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            ended(process)


def test_nothing_is_wrong_with_parts_that_are_well(parts: Parts) -> None:
    """As the alerts are shipped. The extension API server alone is missing from the start."""
    told = alerts(RULES.read_text("utf-8"))

    def wrong() -> set[str]:
        return {name for name, expression in told.items() if parts.server.query(expression)}

    # One sample is no change: what is asked for changes is answered with the second one.
    eventually(lambda: wrong() <= {"BallastApiServiceUnavailable"}, what="silence", seconds=_SECONDS, interval=1)


def test_every_alert_is_fired_by_its_fault(parts: Parts) -> None:
    with ExitStack() as undo, images(parts.proxy.socket("n1")) as pulls:
        parts.undo = undo
        _harm_nodes(parts, pulls)
        _read_the_report(parts)
        _harm_what_others_ask(parts, pulls)
        _harm_programs_of_ours(parts)
        assert parts.server.fired() == set(alerts(RULES.read_text("utf-8")))


def test_rules_and_dashboard_ask_for_what_is_told(parts: Parts) -> None:
    """After the faults: a counter of failures is there from the first one on."""
    asked = [*alerts(RULES.read_text("utf-8")).values(), *expressions(json.loads(DASHBOARD.read_text("utf-8")))]
    for expression in asked:
        parts.server.query(expression)
    named = {name for expression in asked for name in metric_names(expression)}
    missing = {name for name in named - parts.server.names() if not name.startswith(_ELSEWHERE)}
    assert missing <= set(_UNSEEN)
    for name in missing:
        program = Path(binaries(parts.lab.record["kubernetes_version"]), _UNSEEN[name]).read_bytes()
        assert name.partition("_")[2].removesuffix("_bucket").encode() in program


def _harm_nodes(parts: Parts, pulls: Images) -> None:
    """While the control plane of the lab is well."""
    _fill(parts.etcd)
    _break_nft(parts)
    short, none = _short_lived(parts), "127.0.0.1:9/none:1"  # no registry listens there
    overrides = json.dumps({"spec": {"nodeName": "n1"}})
    parts.lab.kubectl("run", "pulls", f"--image={none}", "--overrides", overrides)
    parts.stop(parts.service("-n2-containerd"))
    parts.freeze(parts.pid("-n2-kube-proxy"))
    parts.lab.kubectl(
        *("delete", "pods", "-A", "-l", f"{LABEL}=true", "--field-selector=spec.nodeName=n2"),
        *("--force", "--grace-period=0", "--wait=false"),
    )

    def stir() -> None:
        parts.make_service()
        _pull(pulls, none)
        with parts.plane.client(short) as client:
            client.ask("/version")

    parts.wait_for(
        "BallastEtcdSpaceLow",
        "BallastClientCertificateExpiring",
        "BallastApiServiceUnavailable",
        "BallastKubeProxyDown",
        "BallastKubeProxyNotInSync",
        "BallastKubeProxySyncFailing",
        "BallastKubeProxySyncSlow",
        "BallastImagePullsFailing",
        "BallastInstanceRuntimeAway",
        "BallastBalloonAbsent",
        "BallastBalloonOffTarget",
        "BallastHostOversold",
        "BallastPullsFailing",
        stir=stir,
    )


def _read_the_report(parts: Parts) -> None:
    """Of the lab, by the readiness run, while these faults are there. It does not ask n2, whose kube-proxy stands still: that
    takes half a minute. A kubelet looks for its runtime as long."""
    ready = '--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}'
    eventually(lambda: parts.lab.kubectl("get", "node", "n2", ready) == "False", what="n2 is not Ready")
    inventory = parts.place / "lab.yml"
    inventory.write_text(f"plugin: ballast.kube.lab\nlab_dir: {parts.lab.directory}\n", encoding="utf-8")
    asked = {"readiness_hosts": "localhost,n1", "readiness_dir": str(parts.place / "report")}
    run = parts.lab.playbook("readiness", "-i", str(inventory), **asked)
    assert run.status != 0, run.output
    report = json.loads((parts.place / "report/readiness.json").read_text(encoding="utf-8"))
    assert_reported(report, _REPORTED)
    told = {
        (one["host"], one["feature"]) for one in report["problems"] if one["question"] == "healthy" and one["fails"]
    }
    assert told >= {("n1", kube_proxy.NAME), ("localhost", balloons.NAME), ("localhost", instance.NAME)}


def _harm_what_others_ask(parts: Parts, pulls: Images) -> None:
    """A registry, a kubelet, etcd of one plane and the API server of the other."""
    silent = _silent(parts)
    waiting = [pulls.pulling(pull_request(f"{silent}/{name}:1")) for name in ("a", "b", "c")]
    parts.freeze(parts.pid("-n2-kubelet"))
    parts.freeze(parts.pid("-etcd"))
    parts.stop(next(member.service for member in parts.plane.record.members))
    parts.wait_for(
        "BallastPullQueueStuck",
        "BallastPullQueueStanding",
        "BallastKubeletDown",
        "BallastControlPlaneDown",
        "BallastEtcdErrors",
        "BallastApiServerErrors",
        "BallastAggregationAgentFailing",
    )
    _overfill(parts.etcd)
    read = module("control_plane_info", state_dir=parts.plane.state_dir, readiness=True)["readiness"]
    of_etcd = (control_plane.ETCD_UNWELL, control_plane.ETCD_FULL)
    assert_told(read, control_plane.API_AWAY, *of_etcd, control_plane.AGENT_FAILS)
    parts.proxy.reload(on_full="retry", retry={"attempts": 1, "interval": "1s"})
    parts.wait_for("BallastPullsRefused", stir=lambda: _pull(pulls, f"{silent}/d:1"))
    for pull in waiting:
        pull.cancel()


def _harm_programs_of_ours(parts: Parts) -> None:
    parts.stop(parts.service("-kube-apiserver"))
    parts.wait_for("BallastBalloonReconcilerFailing")
    ended(parts.reconciler)
    parts.proxy.stop()
    lock = f"/run/{parts.plane.desired().mark}-aggregation/lock"
    parts.freeze(int(Path(lock).read_text("ascii")))
    parts.wait_for("BallastPullProxyDown", "BallastBalloonReconcilerDown", "BallastAggregationAgentDown")


def _pull(pulls: Images, image: str) -> None:
    with pytest.raises(grpc.RpcError):
        pulls.pulling(pull_request(image), timeout=30).result()


def _silent(parts: Parts) -> str:
    """Where a registry of the first node takes connections, and never says a word."""
    with entered(parts.node("n1")["netns"].rpartition("/")[2]):
        one = parts.undo.enter_context(socket.socket())
        one.bind(("127.0.0.1", 0))
        one.listen(64)
    return f"127.0.0.1:{one.getsockname()[1]}"


def _fill(etcd: str) -> None:
    """Nearly with as much as its quota lets it have: at the quota it takes nothing more from the control plane either."""
    size = int(_asked(etcd, "maintenance/status", {})["dbSize"])
    for number in range(int(_NEARLY * _QUOTA - size) // _CHUNK):
        _put(etcd, f"filler-{number}")


def _overfill(etcd: str) -> None:
    """Until it raises its alarm, and takes nothing more."""
    for number in range(_QUOTA // _CHUNK):
        try:
            _put(etcd, f"more-{number}")
        except urllib.error.HTTPError:  # 429
            return
    raise AssertionError("it takes more than its quota")


def _put(etcd: str, key: str) -> None:
    named, value = (base64.b64encode(data).decode() for data in (key.encode(), os.urandom(_CHUNK)))
    _asked(etcd, "kv/put", {"key": named, "value": value})


def _asked(etcd: str, path: str, body: dict[str, str]) -> dict[str, Any]:
    request = urllib.request.Request(f"http://{etcd}/v3/{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def _short_lived(parts: Parts) -> str:
    """A client of the second control plane."""
    path, issuer = str(parts.place / "short.crt"), parts.plane.pki("ca.crt")
    asked = Certificate(path=path, issuer=issuer, common_name="short", usages=(CLIENT,), days=2)
    return _issue(asked).removesuffix(".crt")


def _break_nft(parts: Parts) -> None:
    """Of the first node's kube-proxy: the next change takes long, and all after it fail."""
    node, program = parts.node("n1"), shutil.which("nft")
    assert program is not None
    os.chmod(parts.place, 0o755)
    shutil.copy(program, parts.place / "nft.real")
    broken = parts.place / "nft"
    marks = Path(node["mountns"]).parent  # the node has a copy of its own of most other directories
    broken.write_text(_SLOW_NFT.format(place=parts.place, marks=marks), encoding="utf-8")
    broken.chmod(0o755)
    inside = ["nsenter", f"--mount={node['mountns']}"]
    subprocess.run([*inside, "mount", "--bind", str(broken), program], check=True, timeout=60)
    parts.undo.callback(subprocess.run, [*inside, "umount", program], check=True, timeout=60)
    (marks / "slow").touch()
    parts.make_service()
    eventually(lambda: not (marks / "slow").exists(), what="kube-proxy asks nft")
    (marks / "failing").touch()
