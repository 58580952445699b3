# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where programs come from when nobody says: the cache, a site on loopback with a certificate of its own, Go modules."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given as generated
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._binaries import auto, golang, release, request
from ansible_collections.ballast.kube.plugins.module_utils._binaries.auto import Choice, Chooser, Places, describe
from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import FAMILIES
from ansible_collections.ballast.kube.plugins.module_utils._binaries.manifest import add_program
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.unit.binaries.given import CACHE, GO, SMALL, TOOLCHAIN, machine, run
from tests.unit.fakes import FakeHost

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
KUBERNETES = FAMILIES["kubernetes"].default_version


class Site:
    """A release site by https, in a directory."""

    def __init__(self, root: Path) -> None:
        self.root, self.heads = root / "site", list[str]()
        self.root.mkdir()
        self.authority, key = str(root / "site.crt"), str(root / "site.key")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
            + ["-keyout", key, "-out", self.authority, "-subj", "/CN=site", "-addext", "subjectAltName=IP:127.0.0.1"],
            check=True,
            capture_output=True,
        )
        heads = self.heads

        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, *_arguments: object) -> None:
                heads.append(f"{self.command} {self.path}")

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(self.root)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def publish(self, family: str, content: bytes = b"x" * 1000, version: str = "") -> list[Path]:
        paths = []
        for url in auto.release_files(FAMILIES[family], version or FAMILIES[family].default_version, ""):
            path = self.root / url.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            paths.append(path)
        return paths


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


def chooser(site: Site, tmp_path: Path, **urls: str) -> Chooser:
    addresses = {name: urls.get(name, site.url) for name, family in FAMILIES.items() if family.release.base}
    places = Places(str(tmp_path / "cache"), str(tmp_path / "toolchain"), addresses)
    return Chooser(LocalHost(), places, {"CURL_CA_BUNDLE": site.authority})


def closed_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"https://127.0.0.1:{free.getsockname()[1]}"


def test_what_the_site_has_is_downloaded_with_its_size(site: Site, tmp_path: Path) -> None:
    files = site.publish("kubernetes")
    choice = chooser(site, tmp_path).choose("kubernetes", KUBERNETES)
    assert (choice.source, choice.reason) == ("release", auto.REACHED)
    assert choice.size == 1000 * len(files)
    assert len(files) == 6
    assert {head.split()[0] for head in site.heads} == {"HEAD"}, "nothing is downloaded to decide"


def test_a_file_that_is_missing_makes_its_family_a_build_and_says_so(site: Site, tmp_path: Path) -> None:
    site.publish("kubernetes")[3].unlink()
    site.publish("cni")
    found = chooser(site, tmp_path)
    choice = found.choose("kubernetes", KUBERNETES)
    assert (choice.source, choice.reason) == ("go", auto.MISSING)
    assert found.choose("cni", KUBERNETES).source == "release"
    assert describe([choice])[-1] == "because   the release site lacks it: kubernetes"


def test_a_site_that_is_not_reached_is_asked_once_and_the_other_is_used(site: Site, tmp_path: Path) -> None:
    site.publish("kubernetes")
    others = dict.fromkeys(("etcd", "cni", "containerd", "cri-tools"), closed_port())
    found, start = chooser(site, tmp_path, **others), time.monotonic()
    choices = {name: found.choose(name, KUBERNETES) for name in ("kubernetes", *others)}
    assert {name: choice.source for name, choice in choices.items() if choice.source == "release"} == {
        "kubernetes": "release"
    }
    assert {choices[name].reason for name in others} == {auto.UNREACHED}
    assert time.monotonic() - start < 20


def test_a_site_that_takes_a_connection_and_says_nothing_costs_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "_ANSWER_SECONDS", 1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        places = Places(str(tmp_path), "", {"kubernetes": url, "etcd": url})
        found, start = Chooser(LocalHost(), places, {}), time.monotonic()
        assert found.choose("kubernetes", KUBERNETES).reason == auto.UNREACHED
        between = time.monotonic()
        assert found.choose("etcd", KUBERNETES).reason == auto.UNREACHED
    assert between - start < 10
    assert time.monotonic() - between < 0.5, "it is not asked again"


def test_a_certificate_that_nobody_trusts_is_no_site(site: Site, tmp_path: Path) -> None:
    site.publish("cni")
    places = Places(str(tmp_path / "cache"), "", {"cni": site.url})
    assert Chooser(LocalHost(), places, {}).choose("cni", KUBERNETES).reason == auto.UNREACHED


def test_a_download_with_another_checksum_than_the_pinned_one_is_an_error_and_no_reason_to_build(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.publish("cni", b"not upstream's")
    version = FAMILIES["cni"].default_version
    assert chooser(site, tmp_path).choose("cni", KUBERNETES).source == "release"
    monkeypatch.setattr(release, "PINNED", {("cni", version, golang.architecture()): "0" * 64})
    downloads = release.Downloads(
        LocalHost(), checksums={}, environment={"CURL_CA_BUNDLE": site.authority}, work=str(tmp_path)
    )
    with pytest.raises(BallastError) as caught:
        downloads.program(
            FAMILIES["cni"], name="ptp", version=version, base=site.url, architecture=golang.architecture()
        )
    assert caught.value.id == "binaries-download-checksum"


def test_without_curl_nothing_is_downloaded() -> None:
    host, _go = machine()
    assert local(host).choose("cni", KUBERNETES) == Choice(
        "cni", FAMILIES["cni"].default_version, "go", auto.UNREACHED, seconds=60
    )


# The cache, on a machine in memory. Its curl fails the test.


def local(host: FakeHost, **urls: str) -> Chooser:
    return Chooser(host, Places(CACHE, TOOLCHAIN, urls, GO), {})


def cached(host: FakeHost, family: str, source: str, *, without: str = "", **changes: str) -> None:
    """As the module kubernetes_binaries makes it, but for the changes of its recipe."""
    version = FAMILIES[family].default_version
    made = request.release_recipe(version, FAMILIES[family].release.base)
    if source == "go":
        pinned = request.read_pinned(host, FAMILIES[family], version, root=TOOLCHAIN)
        assert pinned
        toolchain = golang.Toolchain("go1.26.8", "linux/amd64", ())
        made = request.go_recipe(host, FAMILIES[family], version, pinned, toolchain, root=TOOLCHAIN)
    directory = f"{CACHE}/{family}-{version}-{'release-' if source == 'release' else ''}{len(changes)}"
    for part in FAMILIES[family].components:
        if part.name != without and not part.optional and (part.released or source == "go"):
            path = f"{directory}/{part.name}"
            add_program(host, path, b"x", recipe={**made, **changes}, version=version, seconds=10)


def offline() -> FakeHost:
    host, _go = machine()
    host.on("curl", answer=AssertionError("a site was asked"))
    return host


@pytest.mark.parametrize("source", ["go", "release"])
def test_what_the_cache_has_is_taken_and_no_site_is_asked(source: str) -> None:
    host = offline()
    for family in ("kubernetes", "cni"):
        cached(host, family, source)
        choice = local(host).choose(family, KUBERNETES)
        assert (choice.source, choice.reason, choice.is_made) == (source, auto.CACHED, False)
    assert describe([choice]) == []


def test_a_build_is_preferred_to_a_download_in_the_cache() -> None:
    host = offline()
    cached(host, "cni", "go")
    cached(host, "cni", "release")
    assert local(host).choose("cni", KUBERNETES).source == "go"
    assert local(host).choose("cni", KUBERNETES, source="release").source == "release", "as it was decided before"


def test_what_the_module_has_built_is_what_the_cache_has() -> None:
    host, _go = machine()
    run(host)
    assert {local(host).choose(row["name"], KUBERNETES).reason for row in SMALL} == {auto.CACHED}


def test_a_build_counts_for_nothing_without_the_go_that_made_it() -> None:
    """The module asks Go for its version, and builds again with another."""
    host, go = machine()
    cached(host, "cni", "go")
    cached(host, "etcd", "go")
    host.on("curl", answer="HTTP/1.1 200 OK\r\n\r\n", reads=True)
    go.version = "go1.26.9"
    assert local(host).choose("cni", KUBERNETES).source == "release"
    without = Chooser(host, Places(CACHE, TOOLCHAIN, {}), {})
    assert without.choose("cni", KUBERNETES).source == "release"
    go.version = "go1.26.8"
    host.commands.clear()
    again = local(host)
    assert {again.choose(name, KUBERNETES).reason for name in ("cni", "etcd")} == {auto.CACHED}
    assert len(host.commands) == 1, "modules that ask for the same Go are one question"


def test_a_download_from_another_mirror_is_not_what_is_needed() -> None:
    host, _go = machine()
    cached(host, "cni", "release")
    host.on("curl", answer="HTTP/1.1 200 OK\r\n\r\n", reads=True)
    choice = local(host, cni="https://mirror.example").choose("cni", KUBERNETES, source="release")
    assert choice.is_made
    assert describe([choice])[0].endswith("of mirror.example")


@pytest.mark.parametrize("status", ["200 OK", "503 Service Unavailable", "404 Not Found"])
def test_a_page_in_the_place_of_a_program_is_no_release(status: str) -> None:
    """Of a portal that wants a password. What it answers for a program would be an error of its checksum, in this run and each later."""
    host, _go = machine()
    head = f"HTTP/1.1 302 Found\r\nLocation: https://portal.example\r\n\r\nHTTP/1.1 {status}\r\n"
    host.on("curl", answer=f"{head}Content-Type: text/html; charset=utf-8\r\nContent-Length: 9\r\n\r\n", reads=True)
    choice = local(host).choose("cni", KUBERNETES)
    assert (choice.source, choice.reason) == ("go", auto.MISSING if "404" in status else auto.UNREACHED)


@pytest.mark.parametrize("changes", [{"modules": "another"}, {"without": "ptp"}])
def test_a_build_of_other_modules_or_of_a_part_is_not_what_is_needed(changes: dict[str, str]) -> None:
    host = offline()
    cached(host, "cni", "go", **changes)
    choice = local(host).choose("cni", KUBERNETES, source="go")
    assert choice.is_made
    assert choice.measured
    assert choice.seconds == pytest.approx(10 * (4 if "without" in changes else 5)), "it says how long it took"


def test_a_damaged_manifest_is_not_what_is_needed() -> None:
    host = offline()
    cached(host, "cni", "go")
    (path,) = [path for path in host._nodes if path.endswith("manifest.json")]
    host.given(path, "{")
    assert local(host).choose("cni", KUBERNETES, source="go").is_made


def test_a_family_without_a_release_is_built() -> None:
    choice = local(offline()).choose("metallb", KUBERNETES)
    assert (choice.source, choice.reason, choice.measured) == ("go", auto.UNRELEASED, False)


@generated(st.lists(st.sampled_from(sorted(FAMILIES)), unique=True), st.sampled_from([0, 5, 2**20, 2**29]))
def test_everything_that_is_made_is_said(names: list[str], size: int) -> None:
    choices = [
        Choice(name, "1.2.3", source, auto.REACHED, size=size, seconds=100.0)
        for name, source in zip(names, ["go", "release"] * len(names))
    ]
    lines = describe(choices)
    assert len(lines) <= 3
    for choice in choices:
        assert any(f"{choice.family} 1.2.3" in line for line in lines)


def test_a_mirror_is_named_without_its_password() -> None:
    host, _go = machine()
    host.on("curl", answer="HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", reads=True)
    for source in ("", "release"):
        places = Places(CACHE, TOOLCHAIN, {"cni": "https://me:c4n4ry@mirror.example/github/"})
        (line,) = describe([Chooser(host, places, {}).choose("cni", KUBERNETES, source=source)])
        assert " of mirror.example" in line
        assert "c4n4ry" not in line


def test_sizes_and_times_are_for_people() -> None:
    lines = describe(
        [
            Choice("kubernetes", "1.37.1", "release", auto.REACHED, size=400 * 2**20, site="dl.k8s.io"),
            Choice("cni", "1.9.1", "release", auto.REACHED, size=50 * 2**20, site="github.com"),
            Choice("coredns", "1.14.6", "go", auto.MISSING, seconds=172, measured=True),
            Choice("metallb", "0.15.3", "go", auto.ASKED_FOR, seconds=200),
            Choice("etcd", "3.7.3", "go", auto.CACHED),
        ]
    )
    assert lines == [
        "download: kubernetes 1.37.1 of dl.k8s.io (400 MiB), cni 1.9.1 of github.com (50 MiB): 450 MiB in all",
        "build:    coredns 1.14.6 (172 s last time), metallb 0.15.3 (about 3 min): about 6 min",
        "because   the release site lacks it: coredns",
    ]
