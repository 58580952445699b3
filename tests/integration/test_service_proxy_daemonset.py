# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service proxy as a DaemonSet: its image, whose program runs as its own user, and a pod of it in a lab."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration import adhoc
from tests.integration.confined import is_confined
from tests.integration.lab import Lab, lab_named
from tests.integration.test_service_proxy import (
    SECONDS,
    TABLE,
    Proxy,
    endpoints,
    eventually,
    node_of,
    standing,
    web,
)
from tests.integration.wire import entered

USER = 65532  # of the image
PLACE = Path("/run/ballast-test-service-proxy-image")

WEB: list[dict[str, Any]] = [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "web",
                    "image": "ballast.local/busybox:1",
                    "command": ["sh", "-c", "echo yes >/tmp/index.html; exec httpd -f -p 8080 -h /tmp"],
                }
            ],
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "labels": {"service.kubernetes.io/service-proxy-name": "ballast"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    },
]

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a control plane")]


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(mode=0o755)
    try:
        with standing(PLACE, "service-proxy-image") as made:
            made.api.put("Node", node_of("192.168.1.10"))
            made.api.put("Service", web("a"))
            made.api.put("EndpointSlice", endpoints("a", "10.1.2.3"))
            yield made
    finally:
        shutil.rmtree(PLACE)


def test_its_image_has_all_that_the_program_needs(proxy: Proxy, tmp_path: Path) -> None:
    """Run as in a container: in the image's root file system, as root with the capabilities that the DaemonSet gives."""
    root = PLACE / "root"
    command = _unpack(tmp_path, root)
    for name in ("kubeconfig", "ca.crt", "config.json"):
        (root / "etc/ballast").mkdir(exist_ok=True)
        shutil.copy(PLACE / name, root / "etc/ballast" / name)
    config = json.loads((PLACE / "config.json").read_text())
    config["clientConnection"]["kubeconfig"] = "/etc/ballast/kubeconfig"
    (root / "etc/ballast/config.json").write_text(json.dumps(config))
    for name in ("proc", "dev"):
        (root / name).mkdir()
    mounts = ["unshare", "--mount", "sh", "-c", 'for at in proc dev; do mount --bind "/$at" "$0/$at"; done; exec "$@"']
    # A container's, and the one that its runtime makes its root with.
    capabilities = "-all,+net_admin,+setgid,+setuid,+sys_chroot"
    confine = ["setpriv", "--no-new-privs", "--inh-caps=-all", f"--bounding-set={capabilities}", "--"]
    inside = [*mounts, str(root), *confine, "chroot", str(root), *command]
    words = [*inside, "--config", "/etc/ballast/config.json", "--user", "ballast-service-proxy"]
    log = (PLACE / "log").open("wb")
    with log, entered(proxy.host.namespace):
        process = subprocess.Popen(words, env={"PATH": "/usr/sbin:/usr/bin"}, stderr=log)
    try:
        proxy.agrees()
        is_confined(process.pid, USER, USER)
        proxy.nft("flush", "ruleset")
        assert eventually(lambda: proxy.tables() == proxy.expected(), seconds=SECONDS)
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0, (PLACE / "log").read_text()
    with entered(proxy.host.namespace):
        done = subprocess.run([*inside, "--cleanup"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, proxy.tables()) == (0, {4: None, 6: None}), done.stderr


def test_a_pod_serves_a_labelled_service_on_its_node_and_takes_its_rules_with_it(tmp_path: Path) -> None:
    """In a lab with kube-proxy on both nodes; the DaemonSet is on one of them."""
    archive = tmp_path / "service-proxy.tar"
    adhoc.module("image_archive", path=str(archive), images=["service-proxy"])
    topology = tmp_path / "topology.yml"
    topology.write_text(json.dumps({"nodes": [{"name": name} for name in ("n1", "n2")]}))
    with lab_named("spds") as lab:
        up = lab.up(lab_topology=str(topology), lab_archive=str(archive))
        assert up.status == 0, up.output
        (tmp_path / "web.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": WEB}))
        lab.kubectl("apply", "-f", str(tmp_path / "web.json"))
        lab.kubectl("wait", "--for=condition=Ready", "--timeout=100s", "pod/web")
        server = json.loads(lab.kubectl("config", "view", "-o", "json"))["clusters"][0]["cluster"]["server"]
        where = {"kubeconfig": f"{lab.directory}/admin.kubeconfig", "server": server}
        wanted = {
            "service_proxy_name": "ballast",
            "node_selector": {"kubernetes.io/hostname": "n2"},
            "config": {"healthzBindAddress": "0.0.0.0:10356", "metricsBindAddress": "127.0.0.1:10349"},
        }
        assert adhoc.module("service_proxy_daemonset", **where, **wanted)["changed"]
        assert not adhoc.module("service_proxy_daemonset", **where, **wanted)["changed"]
        address = lab.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
        assert eventually(lambda: _answers(lab, "n2", address), seconds=SECONDS)
        assert not _answers(lab, "n1", address), "kube-proxy leaves a Service with the label alone"
        adhoc.module("service_proxy_daemonset", **where, state="absent")
        assert not _answers(lab, "n2", address)
        assert TABLE not in _in_node(lab, "n2", "nft", "list", "tables").stdout
        # The cluster removes the pods after their DaemonSet.
        objects = ("get", "all,configmap,serviceaccount", "-n", "kube-system")
        assert eventually(lambda: "ballast-service-proxy" not in lab.kubectl(*objects), seconds=SECONDS)


def _answers(lab: Lab, node: str, address: str) -> bool:
    request = f"import urllib.request as u; u.urlopen('http://{address}:80/', timeout=2)"
    return _in_node(lab, node, sys.executable, "-c", request).returncode == 0


def _in_node(lab: Lab, node: str, *words: str) -> subprocess.CompletedProcess[str]:
    inside = ["ip", "netns", "exec", f"ballast-{lab.name}-{node}"]
    return subprocess.run([*inside, *words], capture_output=True, text=True, timeout=60)


def _unpack(place: Path, root: Path) -> list[str]:
    """The root file system of the image below `root`; its entry point."""
    archive = place / "service-proxy.tar"
    adhoc.module("image_archive", path=str(archive), images=["service-proxy"])
    with tarfile.open(archive) as opened:
        opened.extractall(place / "image", filter="fully_trusted")
    (row,) = json.loads((place / "image/manifest.json").read_text())
    root.mkdir(mode=0o755)
    for layer in row["Layers"]:
        with tarfile.open(place / "image" / layer) as opened:
            opened.extractall(root, filter="fully_trusted")
    command: list[str] = json.loads((place / "image" / row["Config"]).read_text())["config"]["Entrypoint"]
    return command
