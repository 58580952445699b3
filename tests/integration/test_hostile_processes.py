# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an unprivileged user of a node tries with processes that look like the node's, beside what works there."""

from __future__ import annotations

import base64
import http.server
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.cgroup_paths import cgroup_hierarchies
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import PATH
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.service.daemon import daemon_process
from ansible_collections.ballast.kube.plugins.module_utils._core.service.runit import SupervisorKind, supervisor_pid
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import installation, kubelet
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.health import read_mode
from ansible_collections.ballast.kube.plugins.module_utils._registry.names import list_leftovers
from ansible_collections.ballast.kube.plugins.module_utils._vm.engines import qemu_mark, uml_mark
from ansible_collections.ballast.kube.plugins.module_utils._vm.kinds import end, process_of
from tests.integration.hostile import Attacker

HOST = LocalHost()

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


UID = f"0f1e2d3c-aaaa-4bbb-8ccc-{os.getpid():012}"  # tests may run beside each other
POD = installation.Installation(installation.DAEMONSET, "", "", node_name="n1")
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class Server:
    """An API server with a certificate of its own, which knows one pod of kube-proxy. `heard`: the token of each request."""

    def __init__(self, directory: Path, pods: Sequence[str] = ()) -> None:
        directory.mkdir()
        self.ca, key = str(directory / "crt"), str(directory / "key")
        request = ["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        names = ["-subj", "/CN=api", "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run([*request, *names, "-keyout", key, "-out", self.ca], check=True, capture_output=True)
        self.heard: list[str] = []
        heard = self.heard
        owner = {"kind": "DaemonSet", "name": "kube-proxy", "controller": True}
        items = [
            {"metadata": {"uid": uid, "ownerReferences": [owner]}, "spec": {"nodeName": "n1", "hostNetwork": True}}
            for uid in pods
        ]

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                heard.append(self.headers.get("Authorization", ""))
                body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_words: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.ca, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def kubeconfig(self, **user: str) -> str:
        cluster = {
            "server": f"https://127.0.0.1:{self._server.server_address[1]}",
            "certificate-authority-data": base64.b64encode(Path(self.ca).read_bytes()).decode(),
        }
        return json.dumps(
            {
                "current-context": "it",
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
                "clusters": [{"name": "it", "cluster": cluster}],
                "users": [{"name": "it", "user": user}],
            }
        )

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def evil(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "evil")
    yield made
    made.end()


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The one that the node's own kubelet speaks to."""
    made = Server(tmp_path / "api", pods=[UID])
    path = tmp_path / "kubelet.conf"
    path.write_text(made.kubeconfig(token="of-the-kubelet"))
    monkeypatch.setattr(kubelet, "KUBECONFIG", str(path))
    yield made
    made.end()


@pytest.mark.parametrize("way", ["calls itself", "has a program", "is root in a namespace"])
def test_a_process_named_kube_proxy_is_not_the_node_s_and_gets_no_file_sent_to_its_server(
    mallory: Attacker, evil: Server, api: Server, tmp_path: Path, way: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of-the-node")
    secret.chmod(0o600)
    mallory.write({"kubeconfig": evil.kubeconfig(tokenFile=str(secret))})
    mallory.write({"config.conf": json.dumps({"clientConnection": {"kubeconfig": f"{mallory.home}/kubeconfig"}})})
    words = ["-c", "sleep 60; :", "sh", f"--config={mallory.home}/config.conf"]
    if way == "calls itself":
        mallory.start(["kube-proxy", *words], executable="/bin/sh")
    elif way == "has a program":
        shutil.copy("/bin/sh", mallory.home / "kube-proxy")
        mallory.start([f"{mallory.home}/kube-proxy", *words])
    else:
        shutil.copy("/bin/sh", mallory.home / "kube-proxy")
        mallory.start(["unshare", "--user", "--map-root-user", f"{mallory.home}/kube-proxy", *words])
        time.sleep(0.5)
    config = {"clientConnection": {"kubeconfig": f"{mallory.home}/kubeconfig"}}
    assert installation.process(HOST, POD) is None
    assert installation.iptables_variant(HOST, POD) == ""
    for ask in (
        lambda: installation.config_text(HOST, POD),
        lambda: installation.api(HOST, POD, config).get("/api"),
    ):
        with pytest.raises(BallastError) as caught:
            ask()
        assert caught.value.id == "migrate-no-process"
    assert evil.heard == []


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A kube-proxy of root's in the cgroup of the pod that the API knows; and the directory that is its root."""
    root = tmp_path / "root"
    root.mkdir()
    program = tmp_path / "kube-proxy"
    shutil.copy(os.path.realpath(sys.executable), program)
    code = "import os, sys, time; os.chroot(sys.argv[1]); os.chdir('/'); print('up', flush=True); time.sleep(300)"
    group = Path(cgroup_hierarchies(HOST)[-1], f"ballast-hostile-{os.getpid()}")
    place = group / "kubepods" / "besteffort" / f"pod{UID}" / "1"
    place.mkdir(parents=True)
    argv = [str(program), "-c", code, str(root), "--config=/etc/config.conf"]
    process = subprocess.Popen(argv, env={"PYTHONHOME": sys.base_prefix}, stdout=subprocess.PIPE, text=True)
    try:
        (place / "cgroup.procs").write_text(str(process.pid))
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process.pid, root
    finally:
        process.kill()
        process.communicate()
        for directory in (place, *place.parents):
            if group in (directory, *directory.parents):
                directory.rmdir()


def test_what_a_pod_links_to_is_not_read_on_the_host(pod: tuple[int, Path], api: Server, tmp_path: Path) -> None:
    pid, root = pod
    secret = tmp_path / "secret"
    secret.write_text("secret: of the host\n")
    (root / "etc").mkdir()
    found = installation.process(HOST, POD)
    assert found is not None
    assert found.pid == pid
    for to in (str(secret), "../" * 20 + str(secret)[1:]):
        (root / "etc/config.conf").symlink_to(to)
        assert installation.config_text(HOST, POD) is None
        (root / "etc/config.conf").unlink()
    os.mkfifo(root / "etc/config.conf")
    with pytest.raises(BallastError) as caught:
        installation.config_text(HOST, POD)
    assert caught.value.id == "core-below-root"
    (root / "etc/config.conf").unlink()
    with open(root / "etc/config.conf", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(BallastError) as caught:
        installation.config_text(HOST, POD)
    assert caught.value.id == "core-below-root"
    (root / "etc/config.conf").write_text("mode: nftables\n")
    assert installation.config_text(HOST, POD) == "mode: nftables\n"


def test_a_pod_s_token_goes_to_the_kubelet_s_server_and_to_no_other(
    pod: tuple[int, Path], api: Server, evil: Server, tmp_path: Path
) -> None:
    _pid, root = pod
    account = root / ACCOUNT[1:]
    account.mkdir(parents=True)
    (account / "token").write_text("of-the-pod")
    (root / "kubeconfig").write_text(evil.kubeconfig(tokenFile=f"{ACCOUNT}/token"))
    config = {"clientConnection": {"kubeconfig": "/kubeconfig"}}
    installation.api(HOST, POD, config).get("/api")
    assert evil.heard == []
    assert api.heard[-1] == "Bearer of-the-pod"
    (account / "token").unlink()
    secret = tmp_path / "secret"
    secret.write_text("of-the-host")
    (account / "token").symlink_to(secret)
    with pytest.raises(BallastError):
        installation.api(HOST, POD, config).get("/api")
    (root / "kubeconfig").write_text(evil.kubeconfig(tokenFile=str(secret)))
    with pytest.raises(BallastError) as caught:
        installation.api(HOST, POD, config).get("/api")
    assert caught.value.id == "migrate-pod-credentials"
    assert "Bearer of-the-host" not in api.heard
    assert evil.heard == []


def test_somebody_s_runsvdir_is_not_our_supervisor(mallory: Attacker, tmp_path: Path) -> None:
    sv_dir = f"{tmp_path}/sv"
    pid = mallory.start(["runsvdir", "-c", "sleep 60; :", "-P", sv_dir], executable="/bin/sh")
    Path(f"{sv_dir}.pid").write_text(f"{pid}\n")
    assert supervisor_pid(HOST, sv_dir) is None
    SupervisorKind().remove(Context(None, HOST), sv_dir, None)
    assert HOST.read(f"/proc/{pid}/cmdline"), "it got no signal from us"
    assert SupervisorKind().read(Context(None, HOST), sv_dir) is None
    os.mkdir(sv_dir)
    try:
        SupervisorKind().write(Context(None, HOST), sv_dir, {"running": True}, None)
        assert supervisor_pid(HOST, sv_dir) not in (None, pid)
    finally:
        SupervisorKind().remove(Context(None, HOST), sv_dir, None)
    assert HOST.read(f"/proc/{pid}/cmdline")


def test_somebody_s_process_is_no_service_by_its_number(mallory: Attacker, tmp_path: Path) -> None:
    """As when runsv was killed, and its service's pid came to another process."""
    pid = mallory.start(["kubelet", "-c", "sleep 60; :", "--kubeconfig=/evil"], executable="/bin/sh")
    supervise = tmp_path / "kubelet" / "supervise"
    supervise.mkdir(parents=True)
    (supervise / "stat").write_text("run\n")
    (supervise / "pid").write_text(f"{pid}\n")
    assert daemon_process(HOST, str(supervise.parent)) is None


def test_somebody_s_process_is_no_virtual_machine_and_nothing_that_a_lab_left(
    mallory: Attacker, tmp_path: Path
) -> None:
    directory = f"{tmp_path}/vms/vm1"
    pid = mallory.start(
        ["linux.uml", "-c", "sleep 60; :", uml_mark(directory), qemu_mark(directory)], executable="/bin/sh"
    )
    assert process_of(HOST, directory) is None
    end(HOST, directory)
    assert HOST.read(f"/proc/{pid}/cmdline"), "it got no signal from us"
    assert [
        one for one in list_leftovers(HOST, name="hostile-none", directory=str(tmp_path)) if one.startswith("process")
    ] == []


def test_what_somebody_says_at_kube_proxy_s_port_is_not_its_mode(mallory: Attacker, tmp_path: Path) -> None:
    code = (
        "import http.server as h, sys\n"
        "class H(h.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.end_headers(); self.wfile.write(b'nftables')\n"
        "h.HTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = {"metricsBindAddress": f"127.0.0.1:{port}"}
    mallory.start([os.path.realpath(shutil.which("python3", path=PATH) or ""), "-IS", "-c", code, str(port)])
    deadline = time.monotonic() + 20
    while not answers(port):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert HOST.request(f"http://127.0.0.1:{port}/proxyMode").body == b"nftables"
    assert read_mode(HOST, config) == ""


def answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0
