# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file tree of FakeHost: paths to nodes, symbolic links followed."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.host.bounded import too_large_error
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import READ_LIMIT, Stat
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_files import host_error
from ansible_collections.ballast.kube.plugins.module_utils._core.host.safe_path import (
    OF_GROUPS,
    file_open_error,
    hard_link_error,
    not_a_file_error,
    open_error,
    owner_error,
)
from tests.unit.fake_parts import Node

_NO_NODE = Node("")


class FakePaths:
    _nodes: dict[str, Node]
    _kernel: dict[str, dict[str, str]]  # root: the files that each new directory under it has

    def now(self) -> float:
        raise NotImplementedError

    def text(self, path: str) -> str:
        return self._nodes[self._resolve(path)].data.decode()

    def mode(self, path: str) -> int:
        return self._nodes[path].mode

    def read(self, path: str, *, limit: int = READ_LIMIT) -> Optional[bytes]:
        data = self._data(path)
        if data is not None and len(data) > limit:
            raise too_large_error(path, limit)
        return data

    def read_trusted(self, path: str, *, limit: int = READ_LIMIT) -> Optional[bytes]:
        self._safe(path, follow=True)
        node = self._find(path)
        if node is not None and node.uid:
            raise owner_error(path, self._resolve(path), node.uid)
        if node is not None and (node.mode & 0o002 or (node.mode & 0o020 and node.gid)):
            raise file_open_error(path, self._resolve(path))
        return self.read(path, limit=limit)

    def read_end(self, path: str, limit: int) -> Optional[bytes]:
        node = self._nodes.get(self._real_parent_or_none(path) or "")
        return node.data[max(0, len(node.data) - limit) :] if node is not None and node.kind == "file" else None

    @contextmanager
    def reading(self, path: str) -> Iterator[Optional[IO[bytes]]]:
        data = self._data(path)
        yield None if data is None else io.BytesIO(data)

    def _data(self, path: str) -> Optional[bytes]:
        node = self._find(path)
        if node is None:
            return self._of_process(path)
        if node.kind == "directory":
            raise host_error("read", path, OSError(errno.EISDIR, "Is a directory"))
        if node.kind != "file":
            raise host_error("read", path, OSError(errno.EINVAL, "it is no file"))
        return node.data

    def _of_process(self, path: str) -> Optional[bytes]:
        raise NotImplementedError

    def readlink(self, path: str) -> Optional[str]:
        node = self._nodes.get(self._real_parent_or_none(path) or "")
        return node.data.decode() if node is not None and node.kind == "symlink" else None

    def stat(self, path: str) -> Optional[Stat]:
        place = self._resolve(path) if path.endswith("/.") else self._real_parent_or_none(path)
        node = self._nodes.get(place or "")
        if node is None:
            return None
        version = f"{hash((node.data, node.mode, node.uid, node.gid))}:{node.mtime}"
        return Stat(node.kind, node.mode, node.uid, node.gid, size=len(node.data), mtime=node.mtime, version=version)

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

    def _real_below(self, root: str, path: str) -> Optional[str]:
        """With every link followed inside `root`; None where there is nothing."""
        left, names = path.split("/"), list[str]()
        for _step in range(1000):
            if not left:
                found = "/".join([root, *names])
                return found if found in self._nodes else None
            name = left.pop(0)
            if name == "..":
                names = names[:-1]
            elif name not in ("", "."):
                node = self._nodes.get("/".join([root, *names, name]))
                if node is None:
                    return None
                if node.kind == "symlink":
                    to = node.data.decode()
                    left, names = to.split("/") + left, [] if to.startswith("/") else names
                else:
                    names = [*names, name]
        return None

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
        of_kernel = (
            path.startswith("/proc/") and "/root/" not in path
        )  # what a process has for its root is a directory of files
        if of_kernel or self._kernel_root(path) is not None:
            raise host_error(verb, path, OSError(errno.EPERM, os.strerror(errno.EPERM)))

    def _make_directories(self, path: str) -> None:
        if path in self._nodes:
            return
        self._make_directories(os.path.dirname(path))
        self._nodes[path] = Node("directory", mode=0o755, mtime=self.now())
        for name, content in self._kernel.get(self._kernel_root(path) or "", {}).items():
            self._nodes[os.path.join(path, name)] = Node("file", data=content.encode())

    def _safe(self, path: str, *, follow: bool = False) -> None:
        """Refuses, as the real machine does for root, a path that other users could point elsewhere."""
        left, links = [part for part in path.split("/") if part], 0
        where = ""
        while left and not f"{where}/".startswith(("/proc/", "/sys/")):
            above, real = self._nodes.get(where or "/", _NO_NODE), f"{where}/{left[0]}"
            if above.uid:
                raise owner_error(path, where or "/", above.uid)
            shared = bool(above.mode & 0o002 or (above.mode & 0o020 and above.gid))
            if shared and not above.mode & 0o1000 and (where not in OF_GROUPS or above.mode & 0o002):
                raise open_error(path, where or "/")
            node = self._nodes.get(real)
            if node is None:
                return
            if shared and node.uid:
                raise owner_error(path, real, node.uid)
            if node.kind == "symlink" and (follow or len(left) > 1) and links < 40:
                to, links = node.data.decode(), links + 1
                left = [part for part in to.split("/") if part] + left[1:]
                where = "" if to.startswith("/") else where
                continue
            where, left = os.path.normpath(real), left[1:]

    def _own_file(self, path: str) -> None:
        """Refuses what is no file, or is not only ours."""
        node = self._nodes.get(path)
        if node is None:
            return
        if node.kind == "directory":
            raise host_error("write", path, OSError(errno.EISDIR, os.strerror(errno.EISDIR)))
        if node.kind != "file":
            raise not_a_file_error(path, node.kind)
        if node.uid:
            raise owner_error(path, path, node.uid)
        if node.names > 1:
            raise hard_link_error(path, node.names)

    def _is(self, path: str, kind: str) -> bool:
        node = self._nodes.get(path)
        return node is not None and node.kind == kind
