"""etcd, its programs, and mv, on a machine in memory.

A database is the JSON of its revision and its number of keys, at STATE_DIR/etcd/member/snap/db.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed, Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_files import host_error
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from tests.unit.fakes import Call, FakeHost, Node, json_answer

DB = "member/snap/db"
NO_SPACE = "Error: write: no space left on device"


def database(revision: int, keys: int) -> bytes:
    return json.dumps({"revision": revision, "keys": keys}).encode()


class Tools:
    """`full` says of which programs the disk is full for them."""

    def __init__(self, host: FakeHost, bin_dir: str) -> None:
        self.full: set[str] = set()
        self.etcdutl_version = "3.6.14"
        self.db: Callable[[], Optional[bytes]] = lambda: None  # what etcd has; None while it does not run
        self._host = host
        for name in ("etcdctl", "etcdutl"):
            host.given(f"{bin_dir}/{name}", "program", mode=0o755)
        vars(host)["write"] = self._write
        host.on("mv", answer=self._mv)
        host.on(f"{bin_dir}/etcdctl", answer=self._etcdctl)
        host.on(f"{bin_dir}/etcdutl", answer=self._etcdutl, reads=lambda words: "restore" not in words)
        host.answer("https://10.97.1.1:2379/", self._gateway, method="POST")

    def _write(self, path: str, data: bytes | Iterable[bytes], *, mode: int = 0o644) -> None:
        if "archive" in self.full and path.endswith(("/archive", "/etcd.db")):
            raise host_error("write", path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        FakeHost.write(self._host, path, data, mode=mode)

    def _mv(self, call: Call) -> Completed | str:
        old, new = call.argv[-2:]
        assert call.argv[1] == "--no-target-directory"
        moved = {path: self._host._nodes[path] for path in self._host.paths(old)}
        assert moved, f"{old} is not there"
        assert self._host.stat(os.path.dirname(new)), f"{new} has no directory"
        there = self._host.stat(new)
        if there is not None and there.kind == "directory":
            assert not self._host.listdir(new), f"{new} is not empty"
        for path, node in moved.items():
            del self._host._nodes[path]
            self._host._nodes[new + path[len(old) :]] = node
        return ""

    def _etcdctl(self, call: Call) -> Completed | str:
        data = self.db()
        if "etcdctl" in self.full:
            return self._failed(call, NO_SPACE)
        if data is None:
            return self._failed(call, "Error: context deadline exceeded")
        self._put(call.argv[-1], data, mode=0o600)
        return ""

    def _etcdutl(self, call: Call) -> Completed | str:
        words = call.argv[1:]
        if words[0] == "version":
            return f"etcdutl version: {self.etcdutl_version}\nAPI version: 3.6\n"
        data = self._host.read(words[2]) or b""
        try:
            found = json.loads(data)
        except ValueError:
            return self._failed(call, "goroutine 1\npanic: freepages: failed to get all reachable pages")
        if words[1] == "status":
            return json.dumps({"hash": len(data), "revision": found["revision"], "totalKey": 7, "version": "3.6.0"})
        given = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
        if "etcdutl" in self.full:
            return self._failed(call, NO_SPACE)
        revision = found["revision"] + int(given["bump-revision"])
        self._put(f"{given['data-dir']}/{DB}", database(revision, found["keys"]), mode=0o600)
        self._host._nodes[given["data-dir"]].mode = 0o700
        return ""

    def _gateway(self, url: str, body: Optional[bytes]) -> Response:
        data = self.db()
        if data is None:
            raise no_answer_error("POST", url, ConnectionRefusedError(111, "Connection refused"))
        found, asked = json.loads(data), json.loads(body or b"")
        header = {"member_id": "7", "revision": str(found["revision"])}
        answers: dict[str, Any] = {
            "maintenance/status": {"header": header, "version": "3.6.14", "dbSize": "20480", "leader": "7"},
            "maintenance/alarm": {"header": header},
            "cluster/member/list": {"members": [{"ID": "7", "name": "ballast", "peerURLs": ["https://x:2380"]}]},
            "kv/range": {"header": header, "count": str(found["keys"])},
        }
        path = url.partition("/v3/")[2]
        if path == "kv/range" and int(asked["revision"]) != found["revision"]:
            return json_answer(400, {"code": 11, "message": "required revision has been compacted"})
        return json_answer(200, answers[path])

    def _put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._host.given_directory(os.path.dirname(path))
        self._host._nodes[path] = Node("file", mode=mode, data=data)

    def _failed(self, call: Call, text: str) -> Completed:
        return Completed(argv=call.argv, status=1, stdout="", stderr=f"{text}\n")
