# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an unprivileged user of a node tries, beside what works there. docs/security.md says what such a user can and cannot do."""

from __future__ import annotations

import asyncio
import base64
import http.server
import json
import os
import resource
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.cgroup_paths import cgroup_hierarchies
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import PATH
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.service.daemon import daemon_process
from ansible_collections.ballast.kube.plugins.module_utils._core.service.runit import SupervisorKind, supervisor_pid
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, HostError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import installation, kubelet
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.health import read_mode
from ansible_collections.ballast.kube.plugins.module_utils._registry.names import list_leftovers
from ansible_collections.ballast.kube.plugins.module_utils._vm.engines import qemu_mark, uml_mark
from ansible_collections.ballast.kube.plugins.module_utils._vm.kinds import end, process_of
from tests.fake_runtime.runtime import FakeRuntime
from tests.integration import adhoc, journal
from tests.integration.cri import OPTIONS
from tests.integration.hostile import Attacker, attacker
from tests.integration.pull_proxy import PYTHON, PullProxy, pull_proxy

HOST = LocalHost()

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def mallory() -> Iterator[Attacker]:
    with attacker() as made:
        yield made


# Whose process is this?

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
    assert HOST.read(f"/proc/{pid}/cmdline"), "it got no signal of ours"
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
    assert HOST.read(f"/proc/{pid}/cmdline"), "it got no signal of ours"
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


# Files, directories and locks.

WAITING_SECONDS = 20  # for something that must not wait for anybody


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory as /tmp is: everybody may make entries, and change only their own."""
    with tempfile.TemporaryDirectory(prefix="ballast-shared-") as name:
        os.chmod(name, 0o1777)
        yield Path(name)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of root's that nobody else may read."""
    path = tmp_path / "shadow"
    path.write_text("4711")
    path.chmod(0o600)
    return path


def untouched(path: Path) -> bool:
    found = path.stat()
    return (path.read_text(), found.st_mode & 0o777, found.st_uid, found.st_nlink) == ("4711", 0o600, 0, 1)


WRITES: dict[str, Callable[[str], object]] = {
    "write": lambda path: HOST.write(path, b"key", mode=0o600),
    "replace": lambda path: HOST.replace(path, b"key"),
    "append": lambda path: HOST.append(path, b"key", mode=0o600, sync=False),
    "spawn": lambda path: HOST.spawn(["sleep", "0"], log=path),
    "lock": lambda path: HOST.lock(path).__enter__(),
    "make_directory": lambda path: HOST.make_directory(path, mode=0o700),
    "symlink": lambda path: HOST.symlink(path, "elsewhere"),
    "remove": lambda path: HOST.remove(path),
}
writes = pytest.mark.parametrize("act", WRITES.values(), ids=WRITES)


@writes
@pytest.mark.parametrize("way", ["its name", "a directory above"])
def test_a_link_that_was_planted_leads_nowhere(
    mallory: Attacker, shared: Path, precious: Path, act: Callable[[str], object], way: str
) -> None:
    planted, used = shared / "ballast", shared / "ballast"
    to = precious
    if way == "a directory above":
        to, used = precious.parent, planted / precious.name
    assert mallory.run(["ln", "-s", str(to), str(planted)]).returncode == 0
    with pytest.raises(HostError) as caught:
        act(str(used))
    assert caught.value.id == "core-place-owner"
    assert untouched(precious)
    assert sorted(os.listdir(precious.parent)) == [precious.name]


@writes
def test_a_directory_of_the_attackers_is_not_used(
    mallory: Attacker, precious: Path, act: Callable[[str], object]
) -> None:
    mallory.write({"lab/config.toml": "theirs", "lab/deep/config.toml": "theirs"})
    for used in (mallory.home / "lab/config.toml", mallory.home / "lab/deep/new"):
        with pytest.raises(HostError) as caught:
            act(str(used))
        assert caught.value.id == "core-place-owner"
    assert (mallory.home / "lab/config.toml").read_text() == "theirs"
    assert sorted(os.listdir(mallory.home / "lab/deep")) == ["config.toml"]


def test_a_link_of_roots_into_the_attackers_directory_is_not_written_through(mallory: Attacker, tmp_path: Path) -> None:
    """config.toml -> a directory that its reader owns."""
    mallory.write({"config.toml": "theirs"})
    config = tmp_path / "config.toml"
    config.symlink_to(mallory.home / "config.toml")
    with pytest.raises(HostError) as caught:
        HOST.replace(str(config), b"password")
    assert caught.value.id == "core-place-owner"
    assert (mallory.home / "config.toml").read_text() == "theirs"


@pytest.mark.parametrize("act", [WRITES[name] for name in ("append", "spawn", "lock", "replace")])
@pytest.mark.parametrize("kind", ["fifo", "fifo that is read", "hard link", "file"])
def test_what_was_planted_in_place_of_a_file_is_neither_written_nor_waited_for(
    mallory: Attacker, shared: Path, act: Callable[[str], object], kind: str
) -> None:
    planted = shared / "ballast.log"
    make = f"mkfifo {planted}" if kind.startswith("fifo") else f"echo theirs > {planted}"
    assert mallory.run(["sh", "-c", f"umask 0; {make}"]).returncode == 0
    if kind == "hard link":
        assert mallory.run(["ln", str(planted), str(shared / "other")]).returncode == 0
    elif kind == "fifo that is read":
        mallory.start(["sh", "-c", f"exec cat {planted} > {mallory.home}/read"])
    with in_time(), pytest.raises(HostError) as caught:
        act(str(planted))
    assert caught.value.id in ("core-place-owner", "core-not-a-file")


def test_a_value_is_not_poked_into_a_pipe(mallory: Attacker, shared: Path) -> None:
    pipe = shared / "cpu.max"
    assert mallory.run(["mkfifo", "-m", "666", str(pipe)]).returncode == 0
    with in_time(), pytest.raises(HostError):
        HOST.write_kernel_file(str(pipe), "max")


# Is there first with each name that can be guessed, and tries to take or to read what root makes.
RACER = """
import os, sys
shared, guessed = sys.argv[1:]

def tried(act, *arguments):
    try:
        act(*arguments)
        return True
    except OSError:
        return False

while True:
    for name in [guessed, *os.listdir(shared)]:
        path = os.path.join(shared, name)
        tried(os.mkdir, path, 0o777)
        tried(os.rename, path, path + ".taken")
        if tried(os.listdir, path) and os.stat(path).st_uid == 0:
            tried(os.mkdir, os.path.join(shared, "entered"))
        tried(os.rmdir, path)
        tried(os.rmdir, path + ".taken")
"""


def test_a_race_in_a_sticky_directory_gives_the_attacker_no_directory_of_ours(shared: Path, mallory: Attacker) -> None:
    """Fixtures end in reverse order: the attacker before the directory, which it would fill again. Before the fix,
    nobody owned the work directory of a backup in 315 of 3,206 tries."""
    fixed = str(shared / ".ballast-backup.tar")
    mallory.start(["/usr/bin/python3", "-c", RACER, str(shared), ".ballast-backup.tar"])
    deadline, tries, taken, refused = time.monotonic() + 10, 0, 0, 0
    while tries < 3000 and time.monotonic() < deadline:
        tries += 1
        with HOST.work_directory(str(shared), "backup.tar") as work:
            HOST.write(os.path.join(work, "key"), b"secret", mode=0o600)
            found = os.lstat(work)
            taken += found.st_uid != 0 or not stat.S_ISDIR(found.st_mode) or stat.S_IMODE(found.st_mode) != 0o700
        try:
            HOST.make_directory(fixed, mode=0o700)  # a name that can be guessed
            taken += os.lstat(fixed).st_uid != 0
            HOST.remove_directory(fixed)
        except HostError as error:
            refused += error.id == "core-place-owner"
    assert tries > 100
    assert taken == 0
    assert refused > 0, "the attacker was never there first"
    assert not os.path.lexists(shared / "entered")


@contextmanager
def in_time() -> Iterator[None]:
    def give_up(_number: int, _frame: object) -> None:
        raise AssertionError("it waits for the attacker")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(WAITING_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# The pull proxy's metrics port, which every user of the machine may connect to.

_FLOOD = """
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
while True:
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(("127.0.0.1", int(sys.argv[1])))
    held.append(one)
    if len(held) > 1500:
        held.pop(0).close()
    time.sleep(0.0005)
"""
_FILES = 250  # that the proxy may open here


def test_a_flood_of_the_metrics_port_starves_no_kubelet(mallory: Attacker, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with FakeRuntime(str(tmp_path / "runtime.sock")) as runtime:
            settings = {"max_in_flight": 1, "metrics": f"127.0.0.1:{port}"}
            made = pull_proxy(tmp_path / "proxy", {"a": runtime.path}, **settings)
            await used(await asyncio.to_thread(stack.enter_context, made))

    async def used(proxy: PullProxy) -> None:
        assert proxy.process is not None
        resource.prlimit(proxy.process.pid, resource.RLIMIT_NOFILE, (_FILES, _FILES))
        mallory.start([PYTHON, "-c", _FLOOD, str(port)])
        slowest, until = 0.0, time.monotonic() + 12
        while time.monotonic() < until:
            # A connection of its own for each call, as a kubelet that starts has: it needs a descriptor.
            async with grpc.aio.insecure_channel(f"unix:{proxy.socket('a')}", options=OPTIONS) as channel:
                begun = time.monotonic()
                assert await channel.unary_unary("/x/Echo")(b"x", timeout=10) == b"x"
                slowest = max(slowest, time.monotonic() - begun)
        assert slowest < 3
        assert "out-of-files" not in proxy.log.read_text(encoding="utf-8")
        assert len(os.listdir(f"/proc/{proxy.process.pid}/fd")) < _FILES / 2
        mallory.end()
        # A scrape is answered again at once.
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b"ballast_pull_max_in_flight 1" in answer.read()

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ExitStack() as stack:
        asyncio.run(scenario())


def test_the_sockets_of_the_pull_proxy_are_closed_to_others(mallory: Attacker, tmp_path: Path) -> None:
    """Those for kubelets and the one for its status, in a directory that somebody has opened since, too."""
    connect = (
        "import socket, sys\none = socket.socket(socket.AF_UNIX)\none.settimeout(5)\none.connect(sys.argv[1])\n"
        "one.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0')\nprint(one.recv(100))\n"
    )
    with pull_proxy(tmp_path / "proxy", {"a": str(tmp_path / "none.sock")}, max_in_flight=1) as proxy:
        sockets = [proxy.socket("a"), str(proxy.place / "run" / "control")]
        for path in sockets:
            assert "PermissionError" in mallory.run([PYTHON, "-c", connect, path]).stderr
        for place in (*tmp_path.parents, tmp_path, proxy.place, *(Path(path).parent for path in sockets)):
            if place.is_relative_to(Path(tempfile.gettempdir())) and place != Path(tempfile.gettempdir()):
                place.chmod(0o755)
        for path in sockets:
            os.chmod(path, 0o666)
            done = mallory.run([PYTHON, "-c", connect, path])
            assert done.stdout in ("b''\n", ""), done.stdout
            assert done.stdout or "ConnectionResetError" in done.stderr or "BrokenPipe" in done.stderr


# Is this object ours?


PROJECT = (
    "api/main.py",
    "logs/app.log",
    "archives/2024.tar",
    "check/test.py",
    "kube-proxy/x",
    "summary.json",
    "bin/tool",
)
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
}
FIREWALL = """
table ip filter {
  chain input { type filter hook input priority 0; policy drop; tcp dport 22 accept; }
}
table ip ballast-bridge {
  chain services { accept; }
}
"""


def tree(path: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below a directory: inode, mode and content."""
    found = {}
    for one in sorted([path, *path.rglob("*")]):
        seen = one.lstat()
        data = one.read_bytes() if stat.S_ISREG(seen.st_mode) else b""
        found[str(one)] = (seen.st_ino, seen.st_mode, data)
    return found


@pytest.fixture
def project() -> Iterator[Path]:
    """Of a user who names it by mistake. Its path is short, as that of a lab has to be."""
    directory = tempfile.mkdtemp(prefix="ballast-h-")
    with journal.directory(directory):
        place = Path(directory, "p")
        for name in PROJECT:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text("precious")
        yield place


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lab_record", {"lab_dir": "{}"}),
        ("plane", {"plane_dir": "{}"}),
        ("control_plane", {"state_dir": "{}"}),
        ("kubelet_instance", {"state_dir": "{}"}),
        ("instance_network", {"state_dir": "{}"}),
        ("lab_vm", {"state_dir": "{}"}),
        ("image_pull_proxy", {"state_dir": "{}"}),
        ("balloon_reconciler", {"state_dir": "{}"}),
        ("kubernetes_binaries", {"cache_dir": "{}"}),
    ],
)
def test_no_module_removes_anything_of_a_project(project: Path, name: str, options: dict[str, str]) -> None:
    before = tree(project)
    asked = {option: value.format(project) for option, value in options.items()}
    failed = adhoc.module(name, fails=True, state="absent", **asked)
    assert failed["id"] in ("core-not-ours", "lab-directory")
    assert tree(project) == before


def test_a_project_that_carries_a_lab_s_files_is_not_touched(project: Path) -> None:
    """As when somebody copied a lab into it, with its mark, record and journal."""
    for name, text in {
        ".ballast": '{"owner": "lab", "path": "/var/lib/ballast/lab", "made": true}',
        "ledger.jsonl": '{"op": "recorded", "kind": "file", "target": "/var/lib/ballast/lab/lab.json"}',
        "lab.json": '{"version": 1, "name": "lab", "nodes": []}',
    }.items():
        (project / name).write_text(text)
        (project / name).chmod(0o600)
        before = tree(project)
        assert adhoc.module("lab_record", fails=True, state="absent", lab_dir=str(project))["id"] == "lab-directory"
        assert adhoc.module("lab_record", fails=True, lab_dir=str(project))["id"] == "lab-directory"
        assert tree(project) == before
    (project / ".ballast").unlink()
    before = tree(project)
    failed = adhoc.module("lab_record", fails=True, state="absent", lab_dir=str(project))
    assert failed["id"] == "lab-directory"
    assert tree(project) == before


def test_lab_down_says_what_it_did(project: Path) -> None:
    def down(path: Path) -> subprocess.CompletedProcess[str]:
        argv = [str(Path(sys.executable).with_name("ansible-playbook")), "ballast.kube.lab_down"]
        return subprocess.run(
            [*argv, "-e", json.dumps({"lab_dir": str(path)})],
            env={**os.environ, **journal.COLLECTION},
            capture_output=True,
            text=True,
            timeout=300,
        )

    before = tree(project)
    done = down(project)
    assert done.returncode != 0
    assert "lab-directory" in done.stdout + done.stderr
    assert tree(project) == before
    empty, absent = project.parent / "empty", project.parent / "absent"
    empty.mkdir()
    for path in (empty, absent):
        done = down(path)
        assert done.returncode == 0, done.stdout
        assert "is removed" not in done.stdout
    assert list(empty.iterdir()) == []
    assert not absent.exists()


def test_a_state_directory_that_the_attacker_made_is_refused(mallory: Attacker) -> None:
    mark = json.dumps({"owner": "lab", "path": str(mallory.home / "lab"), "made": True})
    mallory.write({"lab/.ballast": mark, "lab/lab.json": "{}", "empty/.keep": ""})
    (mallory.home / "empty/.keep").unlink()
    for name in ("lab", "empty"):
        failed = adhoc.module("control_plane", fails=True, state="absent", state_dir=str(mallory.home / name))
        assert failed["id"].startswith(("core-not-ours", "core-place-"))
    assert sorted(os.listdir(mallory.home / "lab")) == [".ballast", "lab.json"]


@contextmanager
def firewall() -> Iterator[str]:
    name = f"ballast-test-hostile-{os.getpid()}"
    with journal.network_namespace(name):
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        subprocess.run(["ip", "netns", "exec", name, "nft", "-f", "-"], input=FIREWALL, text=True, check=True)
        yield name


def rules_of(name: str) -> str:
    argv = ["ip", "netns", "exec", name, "nft", "list", "ruleset"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is needed")
def test_the_firewall_s_table_is_neither_replaced_nor_removed() -> None:
    snapshot = {"apiVersion": "v1", "kind": "List", "items": [NODE]}
    with firewall() as name:
        before, inside = rules_of(name), ("ip", "netns", "exec", name)
        for table in ("filter", "ballast-bridge"):
            asked = {"backend": "nftables", "table": table}
            present = {**asked, "node_name": "n1", "node_ips": ["192.0.2.1"], "snapshot": snapshot}
            assert adhoc.module("service_rules", fails=True, inside=inside, **present)["id"] == "rules-nft-others"
            assert (
                adhoc.module("service_rules", "--check", fails=True, inside=inside, **present)["id"]
                == "rules-nft-others"
            )
            failed = adhoc.module("service_rules", fails=True, inside=inside, state="absent", **asked)
            assert failed["id"] == "rules-nft-others"
            assert rules_of(name) == before
        ours = {"backend": "nftables", "table": "ours"}
        made = {**ours, "node_name": "n1", "node_ips": ["192.0.2.1"], "snapshot": snapshot}
        assert adhoc.module("service_rules", inside=inside, **made)["changed"]
        assert not adhoc.module("service_rules", inside=inside, **made)["changed"]
        assert adhoc.module("service_rules", inside=inside, state="absent", **ours)["changed"]
        assert rules_of(name) == before


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_file_at_the_path_of_an_image_archive_stays(tmp_path: Path, mallory: Attacker, state: str) -> None:
    theirs = tmp_path / "thesis.tar"
    theirs.write_text("precious")
    (tmp_path / "link.tar").symlink_to(theirs)
    os.mkfifo(tmp_path / "pipe.tar")
    mallory.write({"theirs.tar": "bait"})
    for path in (theirs, tmp_path / "link.tar", tmp_path / "pipe.tar", mallory.home / "theirs.tar"):
        failed = adhoc.module("image_archive", fails=True, state=state, path=str(path), seconds=60)
        assert failed["id"] in ("image-archive-others", "core-place-owner")
        assert os.path.lexists(path)
    assert theirs.read_text() == "precious"


def test_a_kernel_object_with_a_name_of_ours_is_not_taken(tmp_path: Path) -> None:
    """A link that another program made, under the name that our bridge would have."""
    name = f"ballast-h{os.getpid() % 10000}"
    with journal.network_namespace(name):
        inside = ("ip", "netns", "exec", name)
        subprocess.run(["ip", "-n", name, "link", "add", name, "type", "bridge"], check=True)
        asked = {"state_dir": str(tmp_path / "state"), "lab": "x", "bridge": name, "address": "10.97.9.1/24"}
        failed = adhoc.module("instance_network", fails=True, inside=inside, **asked)
        assert failed["id"] == "core-taken"
        assert not (tmp_path / "state").exists()
