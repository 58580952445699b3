# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service proxy as a DaemonSet: its objects at a real API server, and its image, whose program runs as its own user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration import adhoc
from tests.integration.confined import is_confined
from tests.integration.containerds import VERSION, bin_dir
from tests.integration.kube_proxy import control_plane
from tests.integration.test_service_proxy import (
    SECONDS,
    Proxy,
    endpoints,
    eventually,
    node_of,
    standing,
    web,
)
from tests.integration.wire import entered

CONFIG = {"clusterCIDR": "10.244.0.0/16", "healthzBindAddress": "0.0.0.0:10356"}
USER = 65532  # of the image
PLACE = Path("/run/ballast-test-service-proxy-image")

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a control plane")]


def test_its_objects_are_taken_by_an_api_server_once_and_all_go(tmp_path: Path) -> None:
    """No Node is there, so that no pod is waited for."""
    with control_plane(VERSION, str(bin_dir()), tmp_path):
        where = {"kubeconfig": str(tmp_path / "admin.kubeconfig"), "server": "https://10.0.0.10:6443"}

        def run(*arguments: str, **options: Any) -> list[str]:
            made = adhoc.module("service_proxy_daemonset", *arguments, **{**where, "config": CONFIG, **options})
            return [f"{step['verb']} {step['kind']}" for step in made["steps"]]

        making = [
            f"make {kind}" for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet")
        ]
        assert run("--check", "--diff") == making
        assert run() == making
        assert run() == []
        assert run(service_proxy_name="ballast", node_selector={"pool": "a"}) == ["change DaemonSet"]
        removing = [row.replace("make", "remove") for row in reversed(making)]
        assert run("--check", state="absent") == ["change DaemonSet", *removing]
        assert run(state="absent") == ["change DaemonSet", *removing]
        assert run(state="absent") == []


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
