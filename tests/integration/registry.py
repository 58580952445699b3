# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Debian's docker-registry on loopback or a bridge, and images for it: made here, always the same, pushed over plain HTTP.

Runtimes reach it through registry_front.py, which records what they ask.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import random
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration.debian import unpacked
from tests.integration.processes import running

TAG = "1"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_CHUNK = 2**20
_START_SECONDS = 30


@dataclass(frozen=True)
class Layer:
    """`size` bytes that do not compress, always the same for one name, and programs of this machine by their path in the image."""

    name: str
    size: int = 0
    programs: tuple[tuple[str, str], ...] = ()

    def tar(self) -> bytes:
        """Not compressed: the bytes of a compressed one depend on the compressor."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            if self.size:
                content = random.Random(self.name).randbytes(self.size)
                archive.addfile(_entry(f"content/{self.name}", len(content), 0o644), io.BytesIO(content))
            for path, source in self.programs:
                data = Path(source).read_bytes()
                archive.addfile(_entry(path, len(data), 0o755), io.BytesIO(data))
        return buffer.getvalue()


@dataclass(frozen=True)
class Image:
    """The same layer may be of several images."""

    name: str
    layers: tuple[Layer, ...]
    command: tuple[str, ...] = ()


PAUSE = Image("pause", (Layer("pause", programs=(("pause", "/usr/bin/catatonit"),)),), ("/pause", "-P"))
BUSYBOX = Layer("busybox", programs=(("bin/busybox", "/bin/busybox"), ("bin/sh", "/bin/busybox")))


def image(name: str, size: int, *, shared: tuple[Layer, ...] = (), parts: int = 1) -> Image:
    """`size` bytes in as many layers of its own, above the shared ones. A container of it sleeps for ever."""
    own = tuple(Layer(f"{name}-{number}", size // parts) for number in range(parts))
    return Image(name, (BUSYBOX, *shared, *own), ("/bin/busybox", "sleep", "2147483647"))


class Registry:
    """Answers on ADDRESS:PORT; its log tells the port."""

    def __init__(self, address: str, port: int) -> None:
        self.address, self.port = address, port
        self._digests: dict[Layer, str] = {}

    def push(self, one: Image) -> str:
        """The digest of its manifest."""
        layers = [(_LAYER, *self._push_layer(one.name, layer)) for layer in one.layers]
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Cmd": list(one.command)},
                "rootfs": {"type": "layers", "diff_ids": [digest for _kind, digest, _size in layers]},
            },
            sort_keys=True,
        ).encode()
        self._upload(one.name, _digest(config), config)
        described = [_descriptor(*layer) for layer in layers]
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": _descriptor(_CONFIG, _digest(config), len(config)),
                "layers": described,
            },
            sort_keys=True,
        ).encode()
        self._ask("PUT", f"/v2/{one.name}/manifests/{TAG}", manifest, 201, {"Content-Type": MANIFEST})
        return _digest(manifest)

    def push_archive(self, archive: Path, host: str) -> None:
        """The images of an archive of image_archive whose names begin with `host`, by the rest of their names."""
        with tarfile.open(archive) as tar:
            index = json.loads(_blob(tar, "index.json"))
            for described in index["manifests"]:
                name, _colon, tag = described["annotations"]["io.containerd.image.name"].rpartition(":")
                if name.startswith(f"{host}/"):
                    self._push_manifest(tar, name.removeprefix(f"{host}/"), tag, described["digest"])

    def _push_manifest(self, tar: tarfile.TarFile, name: str, tag: str, digest: str) -> None:
        manifest = _blob(tar, _path(digest))
        content = json.loads(manifest)
        for part in (content["config"], *content["layers"]):
            self._upload(name, part["digest"], _blob(tar, _path(part["digest"])))
        self._ask("PUT", f"/v2/{name}/manifests/{tag}", manifest, 201, {"Content-Type": content["mediaType"]})

    def has(self, name: str) -> bool:
        """Whether an image of the name was pushed."""
        return self._get(f"/v2/{name}/manifests/{TAG}", {"Accept": MANIFEST}) == 200

    def _get(self, path: str, headers: Mapping[str, str]) -> int:
        with closing(http.client.HTTPConnection(self.address, self.port, timeout=120)) as connection:
            connection.request("GET", path, headers=dict(headers))
            return connection.getresponse().status

    def _push_layer(self, name: str, layer: Layer) -> tuple[str, int]:
        data = layer.tar()
        digest = self._digests.setdefault(layer, _digest(data))
        self._upload(name, digest, data)
        return digest, len(data)

    def _upload(self, name: str, digest: str, data: bytes) -> None:
        place = self._ask("POST", f"/v2/{name}/blobs/uploads/", b"", 202, {})
        kind = {"Content-Type": "application/octet-stream"}
        self._ask("PUT", f"{place}{'&' if '?' in place else '?'}digest={digest}", data, 201, kind)

    def _ask(self, method: str, path: str, body: bytes, expected: int, headers: Mapping[str, str]) -> str:
        """The Location that it answers."""
        with closing(http.client.HTTPConnection(self.address, self.port, timeout=120)) as connection:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == expected, f"{method} {path}: {answer.status} {text!r}"
            return answer.headers.get("Location", "").removeprefix(f"http://{self.address}:{self.port}")


@contextmanager
def registry(place: Path, address: str = "127.0.0.1") -> Iterator[Registry]:
    """Its images lie in `place`, and stay there when it has ended."""
    place.mkdir(parents=True, exist_ok=True)
    config = {
        "version": 0.1,
        "log": {"level": "info", "formatter": "json", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(place / "storage")}, "delete": {"enabled": False}},
        "http": {"addr": f"{address}:0", "secret": "of a test"},
    }
    (place / "config.yml").write_text(json.dumps(config), encoding="utf-8")
    log = place / "registry.log"
    log.unlink(missing_ok=True)  # tells the port
    argv = [str(unpacked("docker-registry") / "usr/bin/docker-registry"), "serve", str(place / "config.yml")]
    with running(argv, log) as process:
        yield Registry(address, _port(process, log, address))


def _port(process: subprocess.Popen[bytes], log: Path, address: str) -> int:
    """Where it listens, as its log says: the port is the kernel's choice."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        text = log.read_text(encoding="utf-8")
        for line in text.splitlines():
            if f"listening on {address}:" in line:
                return int(json.loads(line)["msg"].rpartition(":")[2])
        assert process.poll() is None, f"docker-registry has ended: {text}"
        assert time.monotonic() < deadline, f"docker-registry does not listen: {text}"
        time.sleep(0.05)


def _path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _blob(tar: tarfile.TarFile, path: str) -> bytes:
    file = tar.extractfile(path)
    assert file is not None, f"no file {path}"
    return file.read()


def _entry(path: str, size: int, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = size, mode
    return entry


def _descriptor(kind: str, digest: str, size: int) -> dict[str, object]:
    return {"mediaType": kind, "digest": digest, "size": size}


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
