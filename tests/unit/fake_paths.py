# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file tree of FakeHost: paths to nodes, symbolic links followed."""

from __future__ import annotations

import errno
import os
from typing import Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.host import Stat
from ansible_collections.ballast.kube.plugins.module_utils._core.local import host_error
from tests.unit.fake_parts import Node

_NO_NODE = Node("")


class FakePaths:
    _nodes: dict[str, Node]
    _kernel: dict[str, dict[str, str]]  # root: the files that each new directory under it has

    def now(self) -> float:
        raise NotImplementedError

    def text(self, path: str) -> str:
        return self._nodes[path].data.decode()

    def mode(self, path: str) -> int:
        return self._nodes[path].mode

    def readlink(self, path: str) -> Optional[str]:
        node = self._nodes.get(self._real_parent_or_none(path) or "")
        return node.data.decode() if node is not None and node.kind == "symlink" else None

    def stat(self, path: str) -> Optional[Stat]:
        node = self._nodes.get(self._real_parent_or_none(path) or "")
        if node is None:
            return None
        return Stat(kind=node.kind, mode=node.mode, uid=node.uid, gid=0, size=len(node.data), mtime=node.mtime)

    def paths(self, under: str = "/") -> list[str]:
        return sorted(path for path in self._nodes if path == under or path.startswith(under.rstrip("/") + "/"))

    def _forget(self, real: str) -> None:
        """The node and all below it."""
        for path in self.paths(real):
            del self._nodes[path]

    def _resolve(self, path: str, *, depth: int = 0) -> str:
        """The path with every symbolic link in it followed. Nothing is asked more often, so it adds texts and joins no paths."""
        assert path.startswith("/"), f"a path is absolute: {path!r}"
        if self._nodes.get(path, _NO_NODE).kind in ("file", "directory"):
            return path  # nodes stand under their real paths
        real = ""
        for part in os.path.normpath(path).split("/")[1:]:
            real = f"{real}/{part}" if real != "/" else f"/{part}"
            node = self._nodes.get(real)
            if node is not None and node.kind == "symlink" and depth < 40:
                real = self._resolve(os.path.join(os.path.dirname(real), node.data.decode()), depth=depth + 1)
        return os.path.normpath(real)

    def _find(self, path: str) -> Optional[Node]:
        return self._nodes.get(self._resolve(path))

    def _real_parent_or_none(self, path: str) -> Optional[str]:
        assert path.startswith("/"), f"a path is absolute: {path!r}"
        if path == "/":
            return path
        parent = self._resolve(os.path.dirname(path))
        node = self._nodes.get(parent)
        if node is None or node.kind != "directory":
            return None
        return os.path.join(parent, os.path.basename(path))

    def _real_parent(self, verb: str, path: str) -> str:
        found = self._real_parent_or_none(path)
        if found is None:
            self._need_parent(verb, path)
        return found or path

    def _need_parent(self, verb: str, path: str) -> None:
        parent = self._find(os.path.dirname(path))
        if parent is None:
            raise host_error(verb, path, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
        if parent.kind != "directory":
            raise host_error(verb, path, OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))

    def _kernel_root(self, path: str) -> Optional[str]:
        fits = [root for root in self._kernel if path.startswith(root + "/")]
        return max(fits, key=len) if fits else None

    def _refuse_kernel(self, verb: str, path: str) -> None:
        if path.startswith("/proc/") or self._kernel_root(path) is not None:
            raise host_error(verb, path, OSError(errno.EPERM, os.strerror(errno.EPERM)))

    def _make_directories(self, path: str) -> None:
        if path in self._nodes:
            return
        self._make_directories(os.path.dirname(path))
        self._nodes[path] = Node("directory", mode=0o755, mtime=self.now())
        for name, content in self._kernel.get(self._kernel_root(path) or "", {}).items():
            self._nodes[os.path.join(path, name)] = Node("file", data=content.encode())

    def _is(self, path: str, kind: str) -> bool:
        node = self._nodes.get(path)
        return node is not None and node.kind == kind
