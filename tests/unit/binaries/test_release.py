"""Programs from a release site: a real one on loopback, with upstream's layout, asked by the real curl."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries import golang
from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import FAMILIES
from ansible_collections.ballast.kube.plugins.module_utils._binaries.release import archive_member, parse_checksum
from ansible_collections.ballast.kube.plugins.module_utils._core.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._core.host import LocalHost
from tests.unit.binaries.given import desired, request, run

SUM = "a" * 64
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (SUM, SUM),
        (f"{SUM}\n", SUM),
        (SUM.upper(), SUM),
        (f"{SUM}  x.tgz\n", SUM),
        (f"{SUM} *x.tgz\n", SUM),
        (f"{'b' * 64}  other\n{SUM}  release/x.tgz\n", SUM),
        (f"{SUM}  other.tgz\n", None),
        ("", None),
        ("<html>not found</html>", None),
        (f"{'a' * 63}  x.tgz", None),
        (f"{SUM} {SUM}", None),
    ],
)
def test_a_checksum_file_is_read_strictly(text, wanted):
    assert parse_checksum(text, file="x.tgz") == wanted


def archive(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return packed.getvalue()


@pytest.mark.parametrize(("name", "wanted"), [("ptp", b"1"), ("dir/etcd", b"2"), ("link", None), ("absent", None)])
def test_only_a_regular_member_is_taken_from_an_archive(name, wanted):
    assert archive_member(archive({"./ptp": b"1", "dir/etcd": b"2"}), name) == wanted


class Site:
    """A release site in a directory. It counts what was asked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[str] = []
        site = self

        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, *_arguments: object) -> None:
                site.asked.append(self.path)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(root)))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def put(self, path: str, content: bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def publish(self, family_name: str) -> None:
        """A family in its default version, with its checksum files."""
        family = FAMILIES[family_name]
        fields = {"base": "", "version": family.default_version, "arch": golang.architecture()}
        programs = {
            component.name: f"#!/bin/sh\necho {component.name} v{family.default_version}\n".encode()
            for component in family.components
            if component.released
        }
        if family.release.archive:
            members = {family.release.member.format(**fields, name=name): data for name, data in programs.items()}
            programs = {"": archive(members)}
        for name, data in programs.items():
            url = family.release.url.format(**fields, name=name).lstrip("/")
            checksum = family.release.checksum.format(**fields, name=name).lstrip("/")
            self.put(url, data)
            found = hashlib.sha256(data).hexdigest()
            self.put(checksum, (f"{found}  {url.rsplit('/', 1)[1]}\n" if family.release.archive else found).encode())


@pytest.fixture
def site(tmp_path) -> Iterator[Site]:
    found = Site(tmp_path / "site")
    found.root.mkdir()
    found.start()
    yield found
    found.stop()


def released(site: Site, cache: Path, name: str, **changes):
    return request(
        families=[{"name": name}],
        source="release",
        release_urls={name: site.url},
        cache_dir=str(cache),
        toolchain_dir=None,
        **changes,
    )


@needs_curl
@pytest.mark.parametrize("name", sorted(name for name, family in FAMILIES.items() if family.release.base))
def test_each_family_comes_from_upstreams_layout(site, tmp_path, name):
    site.publish(name)
    params = released(site, tmp_path / "cache", name)
    run(LocalHost(), params)
    wanted = desired(LocalHost(), params)
    names = [component.name for component in FAMILIES[name].components if component.released]
    assert sorted(wanted.paths) == sorted(names)
    assert sorted(path.name for path in Path(wanted.bin_dir).iterdir()) == sorted(names)
    archives = 2 if FAMILIES[name].release.archive else 2 * len(names)
    assert len(site.asked) == archives, "an archive is fetched once"
    site.asked.clear()
    assert run(LocalHost(), params) == ()
    assert site.asked == []


def error(params) -> BallastError:
    with pytest.raises(BallastError) as caught:
        run(LocalHost(), params)
    return caught.value


@needs_curl
def test_a_download_with_another_checksum_is_thrown_away(site, tmp_path):
    site.publish("etcd")
    file = next(site.root.rglob("*.tar.gz"))
    data = bytearray(file.read_bytes())
    data[20] ^= 1
    file.write_bytes(data)
    cache = tmp_path / "cache"
    found = error(released(site, cache, "etcd"))
    assert found.id == "binaries-download-checksum"
    assert hashlib.sha256(data).hexdigest() in str(found)
    assert list(cache.rglob("etcd*/etcd")) == []
    site.publish("etcd")
    run(LocalHost(), released(site, cache, "etcd"))


@needs_curl
def test_a_checksum_of_the_operators_is_used_instead_of_the_published_one(site, tmp_path):
    site.publish("etcd")
    next(site.root.rglob("SHA256SUMS")).unlink()
    data = next(site.root.rglob("*.tar.gz")).read_bytes()
    cache = tmp_path / "cache"
    assert error(released(site, cache, "etcd")).id == "binaries-download"
    assert error(released(site, cache, "etcd", checksums={"etcd": "0" * 64})).id == "binaries-download-checksum"
    run(LocalHost(), released(site, cache, "etcd", checksums={"etcd": hashlib.sha256(data).hexdigest()}))


@needs_curl
def test_a_checksum_file_without_the_file_is_refused(site, tmp_path):
    site.publish("etcd")
    next(site.root.rglob("SHA256SUMS")).write_text(f"{SUM}  something-else\n")
    assert error(released(site, tmp_path / "cache", "etcd")).id == "binaries-no-checksum"


@needs_curl
def test_an_archive_without_the_program_is_refused(site, tmp_path):
    site.publish("etcd")
    file, sums = next(site.root.rglob("*.tar.gz")), next(site.root.rglob("SHA256SUMS"))
    file.write_bytes(archive({"README": b""}))
    sums.write_text(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n")
    assert error(released(site, tmp_path / "cache", "etcd")).id == "binaries-archive-member"


@needs_curl
def test_a_program_for_another_machine_is_told(site, tmp_path):
    site.publish("cri-tools")
    file = next(site.root.rglob("*.tar.gz"))
    file.write_bytes(archive({"crictl": b"\x7fELF of another architecture"}))
    sums = next(site.root.rglob("*.sha256"))
    sums.write_text(hashlib.sha256(file.read_bytes()).hexdigest())
    assert error(released(site, tmp_path / "cache", "cri-tools")).id == "binaries-version-output"
