"""Programs from a release site: a real one on loopback, with upstream's layout, asked by the real curl."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import ssl
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries import golang, release
from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import FAMILIES
from ansible_collections.ballast.kube.plugins.module_utils._binaries.pinned import PINNED
from ansible_collections.ballast.kube.plugins.module_utils._binaries.release import (
    archive_member,
    parse_checksum,
    setting,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
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


@pytest.fixture(autouse=True)
def _nothing_pinned(monkeypatch) -> None:
    """The programs here are not upstream's."""
    monkeypatch.setattr(release, "PINNED", {})


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


@needs_curl
def test_a_password_in_the_address_of_a_site_is_on_no_command_line_and_in_no_error(site, tmp_path, monkeypatch):
    commands = []
    run_as_it_is = LocalHost.run

    def noted(self, argv, **rest):
        commands.append(" ".join(argv))
        return run_as_it_is(self, argv, **rest)

    monkeypatch.setattr(LocalHost, "run", noted)
    site.publish("etcd")
    with_password = site.url.replace("http://", "http://user:c4n4ry-Xy7@")
    params = {**released(site, tmp_path / "cache", "etcd"), "release_urls": {"etcd": with_password}}
    run(LocalHost(), params)
    assert [command for command in commands if command.startswith("curl ")]
    assert [command for command in commands if "c4n4ry" in command] == []
    next(site.root.rglob("SHA256SUMS")).unlink()
    found = error({**params, "cache_dir": str(tmp_path / "other")})
    assert "c4n4ry" not in str(found)


def test_an_address_is_one_setting_of_curls():
    assert setting("url", 'http://h/"\noutput = "/etc/x') == b'url = "http://h/\\"\\noutput = \\"/etc/x"\n'


@needs_curl
def test_a_pinned_checksum_wins_over_the_published_one(site, tmp_path, monkeypatch):
    site.publish("etcd")
    key = ("etcd", FAMILIES["etcd"].default_version, golang.architecture())
    monkeypatch.setattr(release, "PINNED", {key: "0" * 64})
    found = error(released(site, tmp_path / "cache", "etcd"))
    assert found.id == "binaries-download-checksum"
    assert "0" * 64 in found.found
    data = next(site.root.rglob("*.tar.gz")).read_bytes()
    monkeypatch.setattr(release, "PINNED", {key: hashlib.sha256(data).hexdigest()})
    next(site.root.rglob("SHA256SUMS")).unlink()
    run(LocalHost(), released(site, tmp_path / "cache", "etcd"))


def test_what_is_pinned_is_of_a_release_that_is_known():
    names = {name for name, family in FAMILIES.items() if family.release.archive}
    names |= {component.name for family in FAMILIES.values() for component in family.components}
    for (name, version, architecture), digest in PINNED.items():
        assert name in names
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert architecture in ("amd64", "arm64")
        assert re.fullmatch(r"[0-9a-f]{64}", digest)


class Redirecting:
    """An https site, by a certificate of its own, that sends everything on to another address."""

    def __init__(self, directory: Path, to: str) -> None:
        self.ca = str(directory / "ca.crt")
        key = str(directory / "ca.key")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
            + ["-keyout", key, "-out", self.ca, "-subj", "/CN=mirror", "-addext", "subjectAltName=IP:127.0.0.1"],
            check=True,
            capture_output=True,
        )

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(302)
                self.send_header("Location", f"{to}{self.path}")
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.ca, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@needs_curl
def test_https_that_is_redirected_to_plain_http_is_refused(site, tmp_path, monkeypatch):
    """Whoever is on the way there could send another file, and the checksum of that one."""
    site.publish("etcd")
    mirror = Redirecting(tmp_path, site.url)
    wanted = desired(LocalHost(), released(site, tmp_path / "cache", "etcd"))
    try:
        downloads = release.Downloads(
            LocalHost(), checksums={}, environment={"CURL_CA_BUNDLE": mirror.ca}, work=str(tmp_path)
        )
        with pytest.raises(BallastError) as caught:
            downloads.program(
                FAMILIES["etcd"],
                name="etcd",
                version=wanted.builds[0].version,
                base=mirror.url,
                architecture=golang.architecture(),
            )
    finally:
        mirror.stop()
    assert caught.value.id == "binaries-download-plain"
    assert site.asked == []


@needs_curl
@pytest.mark.parametrize("announced", [True, False])
def test_a_download_that_is_larger_than_a_release_is_ended(tmp_path, monkeypatch, announced):
    sent = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if announced:
                self.send_header("Content-Length", str(2**40))
            self.end_headers()
            try:
                while len(sent) < 1000:
                    self.wfile.write(bytes(2**20))
                    sent.append(1)
            except OSError:
                return

        def log_message(self, *_arguments: object) -> None:
            pass

    monkeypatch.setattr(release, "_FILE_LIMIT", 4 * 2**20)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        downloads = release.Downloads(LocalHost(), checksums={"etcd": SUM}, environment={}, work=str(tmp_path))
        with pytest.raises(BallastError) as caught:
            downloads.program(
                FAMILIES["etcd"],
                name="etcd",
                version="3.6.14",
                base=f"http://127.0.0.1:{server.server_address[1]}",
                architecture="amd64",
            )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert caught.value.id == "binaries-download-large"
    assert len(sent) < 900
