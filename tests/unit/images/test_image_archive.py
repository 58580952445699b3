# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Building archives: from a machine whose packages are a table, on a real file system."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Plan
from ansible_collections.ballast.kube.plugins.module_utils._core.host.directories import WORK_MARK
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import NOTHING, Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    BallastError,
    CommandFailed,
    Problems,
)
from ansible_collections.ballast.kube.plugins.module_utils._images import engine as engine_module
from ansible_collections.ballast.kube.plugins.module_utils._images.archive import (
    ArchiveFacts,
    image_references,
    inspect,
)
from ansible_collections.ballast.kube.plugins.module_utils._images.definitions import (
    PRESETS,
    ImageArchiveRequest,
    _problems_of,
)
from ansible_collections.ballast.kube.plugins.module_utils._images.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._images.layout import DEFINITIONS_ANNOTATION

REQUEST: dict[str, Any] = {
    "images": ["busybox", "pause"],
    "names": {},
    "definitions": [],
    "state": "present",
}
DEFINITION: dict[str, Any] = {
    "name": "example.local/tool:1",
    "packages": ["tool"],
    "whole": [],
    "files": [{"path": "/tool", "source": "/usr/bin/tool", "content": None}],
    "directories": [],
    "links": [],
    "entrypoint": ["/tool"],
    "cmd": [],
    "env": {},
    "user": "",
    "working_dir": "",
}


class DebianHost(LocalHost):
    """Answers for apt and dpkg out of a table of packages; refuses every other command."""

    def __init__(self, *, installed: Sequence[str] = (), umask: int = 0o022) -> None:
        self.commands: list[str] = []
        self.installed = installed
        self.umask = umask
        self.sources: list[str] = []
        self.fetched_by: set[str] = set()
        self.packages = {
            "catatonit": ("0.1.7-1", {"usr/bin/catatonit": b"ELF catatonit"}),
            # Debian 12 has it in /bin, Debian 13 in /usr/bin.
            "busybox-static": ("1:1.35.0-4", {"bin/busybox": b"ELF busybox"}),
            "tool": ("2", {"usr/bin/tool": b"tool", "usr/share/doc/tool/copyright": b"GPL"}),
        }

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        env: Mapping[str, str] = NOTHING,
        check: bool = True,
        cwd: Optional[str] = None,
    ) -> Completed:
        self.commands.append(" ".join(argv[:2]))
        name = argv[-1].partition("=")[0]
        if argv[:2] == ["dpkg", "--print-architecture"]:
            return self._said(argv, "amd64\n")
        if argv[:2] == ["dpkg-query", "--show"]:
            return self._said(argv, f"installed {self.packages[name][0]}" if name in self.installed else "")
        if argv[:2] == ["dpkg-query", "--listfiles"]:
            return self._said(argv, "\n".join(f"/{path}" for path in self.packages[name][1]))
        if argv[0] == "apt-get":
            self._note_source(argv)
            if "update" in argv:
                return self._said(argv, "")
            assert cwd is not None
            for word in argv[argv.index("download") + 1 :]:
                name = word.partition("=")[0]
                if name not in self.packages:
                    raise CommandFailed(argv, status=100, output=f"E: Unable to locate package {name}")
                version = self.packages[name][0].replace(":", "%3a")
                Path(cwd, f"{name}_{version}_amd64.deb").write_bytes(b"")
            return self._said(argv, "")
        if argv[:2] == ["dpkg-deb", "--extract"]:
            for path, data in self.packages[Path(argv[2]).name.partition("_")[0]][1].items():
                file = Path(argv[3], path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
                file.chmod(0o777 & ~self.umask)
            return self._said(argv, "")
        raise AssertionError(f"unexpected command {argv}")

    def _note_source(self, argv: Sequence[str]) -> None:
        """Which lists a command of apt-get uses: those that a file names, or this machine's own."""
        options = dict(word.split("=", 1) for word in argv if word.startswith(("Dir::", "APT::")))
        listed = options.get("Dir::Etc::SourceList")
        if listed is None:
            self.fetched_by.add("")
            return
        line = Path(listed).read_text(encoding="utf-8").rstrip()
        assert Path(listed).stat().st_mode & 0o077 == 0, "an address may hold a password"
        assert options["Dir::Etc::SourceParts"] == "/dev/null"
        assert Path(options["Dir::State::Lists"]).is_dir()
        if "update" in argv:
            self.sources.append(re.sub(r"https?://\S+", "URL", line))
        else:
            self.fetched_by.add(line.split()[-2])

    def _said(self, argv: Sequence[str], text: str) -> Completed:
        return Completed(argv=tuple(argv), status=0, stdout=text, stderr="")


class ProxyHost(DebianHost):
    """Has what kube-proxy runs in two packages, of which one is asked for by name and the other comes with it."""

    def __init__(self) -> None:
        super().__init__()
        self.packages = {
            "netbase": ("6.4", {"etc/protocols": b"tcp 6 TCP\n", "etc/services": b"http 80/tcp\n"}),
            "nftables": ("1.0.6-2", {"usr/sbin/nft": b"ELF nft", "usr/lib/systemd/system/nftables.service": b"unit"}),
            "libnft": (
                "1:2",
                {"lib/x86_64-linux-gnu/libnft.so.1.0": b"ELF lib", "usr/lib/x86_64-linux-gnu/gconv/X.so": b"set"},
            ),
        }

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        if argv[0] == "apt-get" and "--simulate" in argv:
            assert argv[-6:] == ["install", "nftables", "iptables", "conntrack", "ipset", "kmod"]
            assert Path(argv[-7].partition("=")[2]).read_bytes() == b""
            return self._said(
                argv, "NOTE: a simulation\nInst nftables (1.0.6-2 Debian:12 [amd64])\nInst libnft (1:2)\n"
            )
        done = super().run(argv, **options)
        if argv[:2] == ["dpkg-deb", "--extract"] and "libnft_" in argv[2]:
            Path(argv[3], "lib/x86_64-linux-gnu/libnft.so.1").symlink_to("libnft.so.1.0")
        return done


class Events:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def emit(self, event: Event) -> None:
        self.told.append((event.kind, event.subject))


def desired(path: Path, **changes: Any) -> ImageArchiveRequest:
    return ImageArchiveRequest.from_params({"path": str(path), **REQUEST, **changes})


def bring_about(wanted: ImageArchiveRequest, host: LocalHost) -> Plan:
    """One run of the module; the second of two has an empty plan."""
    plan = ENGINE.plan(wanted, ENGINE.observe(Context(wanted, host)))
    progress = Progress(Events(), feature="images")
    ENGINE.apply(plan, Context(wanted, host, progress))
    assert ENGINE.verify(Context(wanted, host, progress)) == []
    return plan


def layer_of(path: Path, name: str) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as archive:

        def load(member: str) -> bytes:
            found = archive.extractfile(member)
            assert found is not None
            return found.read()

        docker = json.loads(load("manifest.json"))
        wanted = next(entry for entry in docker if entry["RepoTags"] == [name])
        with tarfile.open(fileobj=io.BytesIO(load(wanted["Layers"][0]))) as layer:
            return {member.name: member for member in layer}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "lab.tar"


def test_two_builds_give_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    bring_about(desired(archive), DebianHost())
    other = tmp_path / "other.tar"
    bring_about(desired(other), DebianHost(umask=0o027))
    # Modes differ as the packages' do: the second build's differ by what others may do.
    first = image_references(str(archive))
    assert [reference.name for reference in first] == ["ballast.local/busybox:1", "ballast.local/pause:1"]
    third = tmp_path / "third.tar"
    bring_about(desired(third), DebianHost())
    assert third.read_bytes() == archive.read_bytes()
    assert image_references(str(other)) != first


def test_only_the_archive_is_left(archive: Path) -> None:
    bring_about(desired(archive), DebianHost())
    assert os.listdir(archive.parent) == [archive.name]


def test_an_archive_that_is_there_costs_no_command(archive: Path) -> None:
    bring_about(desired(archive), DebianHost())
    host = DebianHost()
    assert bring_about(desired(archive), host).steps == ()
    assert host.commands == []


def test_an_archive_that_is_there_is_hashed_once_in_a_run(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring_about(desired(archive), DebianHost())
    hashed: list[int] = []

    def counted(file: Any, *, size: int) -> ArchiveFacts:
        hashed.append(size)
        return inspect(file, size=size)

    monkeypatch.setattr(engine_module, "inspect", counted)
    ctx = Context(desired(archive), DebianHost())
    assert ENGINE.apply(ENGINE.plan(ctx.desired, ENGINE.observe(ctx)), ctx).steps == ()
    report: Any = ENGINE.report(ctx)
    assert hashed == [archive.stat().st_size]
    assert {image["name"]: image["digest"] for image in report["images"]} == dict(image_references(str(archive)))
    assert ENGINE.is_verified_by_plan
    os.utime(archive)
    assert ENGINE.report(ctx) == report
    assert len(hashed) == 2


def test_an_installed_package_is_not_fetched(archive: Path, tmp_path: Path) -> None:
    host = DebianHost(installed=["tool"])
    tool = tmp_path / "usr/bin/tool"
    host.packages["tool"] = ("2", {str(tool).lstrip("/"): b""})
    tool.parent.mkdir(parents=True)
    tool.write_bytes(b"tool")
    tool.chmod(0o755)
    file = {"path": "/tool", "source": str(tool), "content": None}
    bring_about(desired(archive, images=[], definitions=[{**DEFINITION, "files": [file]}]), host)
    assert "apt-get --quiet" not in host.commands
    assert layer_of(archive, DEFINITION["name"])["tool"].size == 4


def test_a_file_of_another_package_is_not_taken_from_the_machine(archive: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "secret"
    foreign.write_bytes(b"x")
    file = {"path": "/tool", "source": str(foreign), "content": None}
    wanted = desired(archive, images=[], definitions=[{**DEFINITION, "files": [file]}])
    with pytest.raises(BallastError) as raised:
        bring_about(wanted, DebianHost(installed=["tool"]))
    assert raised.value.id == "image-source-missing"


def test_another_version_than_the_installed_one_is_fetched(archive: Path) -> None:
    host = DebianHost(installed=["tool"])
    bring_about(desired(archive, images=[], definitions=[{**DEFINITION, "packages": ["tool=3"]}]), host)
    assert "apt-get --quiet" in host.commands


def test_packages_of_a_suite_come_from_its_lists_alone(archive: Path) -> None:
    host = DebianHost(installed=["catatonit", "busybox-static"])
    bring_about(desired(archive, suite="trixie"), host)
    assert host.sources == ["deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] URL trixie main"]
    assert host.fetched_by == {"trixie"}
    assert "dpkg-query --show" not in host.commands
    assert bring_about(desired(archive, suite="trixie"), DebianHost()).steps == ()
    assert [step.verb for step in bring_about(desired(archive), DebianHost()).steps] == ["change"]
    assert os.listdir(archive.parent) == [archive.name]


def test_all_packages_are_fetched_by_one_command(archive: Path) -> None:
    host = DebianHost()
    bring_about(desired(archive), host)
    assert len(desired(archive).images) == 2
    assert host.commands.count("apt-get --quiet") == 1


def test_no_lists_are_fetched_for_programs_alone(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "etcd").write_bytes(b"ELF etcd")
    host = DebianHost()
    bring_about(desired(archive, images=["etcd"], definitions=[], bin_dir=str(tmp_path), suite="trixie"), host)
    assert host.sources == []


@pytest.mark.parametrize("suite", ["Trixie", "trixie main", "trixie\n", "../x"])
def test_a_suite_is_a_name(archive: Path, suite: str) -> None:
    with pytest.raises(BallastError) as raised:
        desired(archive, suite=suite)
    assert raised.value.id == "image-suite"


def test_the_layer_is_sorted_and_belongs_to_root(archive: Path) -> None:
    bring_about(desired(archive), DebianHost())
    members = layer_of(archive, "ballast.local/busybox:1")
    assert list(members) == sorted(members)
    assert {(member.uid, member.gid, member.mtime) for member in members.values()} == {(0, 0, 0)}
    assert members["bin"].isdir()
    assert (members["tmp"].isdir(), members["tmp"].mode) == (True, 0o1777)  # where programs write
    assert members["bin/busybox"].mode == 0o755
    assert members["bin/sh"].linkname == "busybox"
    assert members["etc/passwd"].mode == 0o644


@pytest.mark.parametrize("position", [0.001, 0.3, 0.6])
def test_a_corrupted_archive_is_built_again(archive: Path, position: float) -> None:
    bring_about(desired(archive), DebianHost())
    good = archive.read_bytes()
    at = int(len(good) * position)
    while good[at : at + 1] == b"\0":
        at += 1
    archive.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    plan = bring_about(desired(archive), DebianHost())
    assert [step.verb for step in plan.steps] == ["change"]
    assert archive.read_bytes() == good


@pytest.mark.parametrize("length", [3000, 15000])
def test_a_truncated_archive_is_built_again(archive: Path, length: int) -> None:
    bring_about(desired(archive), DebianHost())
    good = archive.read_bytes()
    archive.write_bytes(good[:length])
    assert len(bring_about(desired(archive), DebianHost()).steps) == 1
    assert archive.read_bytes() == good


def refused(wanted: ImageArchiveRequest, path: Path) -> str:
    before = path.lstat(), path.read_bytes() if path.is_file() else b""
    with pytest.raises(BallastError) as caught:
        bring_about(wanted, DebianHost())
    assert caught.value.id == "image-archive-others"
    assert (path.lstat().st_ino, path.read_bytes() if path.is_file() else b"") == (before[0].st_ino, before[1])
    return caught.value.found


@pytest.mark.parametrize("state", ["present", "absent"])
def test_what_others_have_at_the_path_is_neither_replaced_nor_removed(archive: Path, state: str) -> None:
    wanted = desired(archive, state=state)
    archive.parent.mkdir(parents=True)
    for data in (b"", b"a thesis", b"\0" * 5000, DEFINITIONS_ANNOTATION.encode() * 500):
        archive.write_bytes(data)
        assert f"a file of {len(data)} bytes" in refused(wanted, archive)
    with tarfile.open(archive, "w") as made:  # as another tool writes it
        for name in ("oci-layout", "index.json"):
            text = b'{"schemaVersion":2,"annotations":{"ballast.kube/definitions":"[]"}}'
            member = tarfile.TarInfo(name)
            member.size = len(text)
            made.addfile(member, io.BytesIO(text))
    refused(wanted, archive)
    archive.unlink()
    bring_about(desired(archive), DebianHost())
    ours = archive.rename(archive.with_name("elsewhere.tar"))
    archive.symlink_to(ours)
    assert refused(wanted, archive) == "a symlink"
    archive.unlink()
    os.mkfifo(archive)  # which nobody writes: it is not opened
    assert refused(wanted, archive) == "not a regular file"
    archive.unlink()
    shutil.copy(ours, archive)
    archive.chmod(0o666)
    assert "others may have changed it" in refused(wanted, archive)


def test_another_definition_changes_the_archive(archive: Path) -> None:
    bring_about(desired(archive), DebianHost())
    wanted = desired(archive, images=["pause"])
    assert [step.verb for step in bring_about(wanted, DebianHost()).steps] == ["change"]
    assert [reference.name for reference in image_references(str(archive))] == ["ballast.local/pause:1"]


def test_absent_removes_it_once(archive: Path) -> None:
    bring_about(desired(archive), DebianHost())
    gone = desired(archive, state="absent")
    assert [step.verb for step in bring_about(gone, DebianHost()).steps] == ["remove"]
    assert bring_about(gone, DebianHost()).steps == ()
    assert not archive.exists()


def test_the_report_tells_names_digests_and_packages(archive: Path) -> None:
    bring_about(desired(archive), DebianHost())
    report: Any = ENGINE.report(Context(desired(archive), DebianHost()))
    assert report["size"] == archive.stat().st_size
    assert [image["packages"] for image in report["images"]] == [("busybox-static=1:1.35.0-4",), ("catatonit=0.1.7-1",)]
    digests = {image["name"]: image["digest"] for image in report["images"]}
    assert digests == dict(image_references(str(archive)))


def test_check_mode_tells_the_digests_of_an_archive_that_stays(archive: Path) -> None:
    before: Any = ENGINE.preview(Context(desired(archive), DebianHost()))
    assert [(image["name"], image["digest"]) for image in before["images"]] == [
        ("ballast.local/busybox:1", ""),
        ("ballast.local/pause:1", ""),
    ]
    assert not archive.parent.exists()
    bring_about(desired(archive), DebianHost())
    assert ENGINE.preview(Context(desired(archive), DebianHost())) == ENGINE.report(
        Context(desired(archive), DebianHost())
    )


def test_a_package_that_cannot_be_fetched_says_so_and_leaves_nothing(archive: Path) -> None:
    wanted = desired(archive, images=[], definitions=[{**DEFINITION, "packages": ["nonsense"]}])
    with pytest.raises(BallastError) as raised:
        bring_about(wanted, DebianHost())
    assert raised.value.id == "image-fetch"
    assert "Unable to locate package" in raised.value.found
    assert [path.name for path in archive.parent.iterdir()] == [f"{archive.name}.lock"]


def test_what_a_killed_run_left_is_cleared(archive: Path) -> None:
    left = archive.parent / f".ballast-{archive.name}.0123456789abcdef" / "catatonit/catatonit_0.0_amd64.deb"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    (left.parent.parent / WORK_MARK).touch()
    bring_about(desired(archive), DebianHost())
    assert not left.exists()


BAD_REQUESTS = [
    ("image-path", {"path": "relative.tar"}),
    ("image-path", {"path": "/etc/passwd"}),
    ("image-none", {"images": []}),
    ("image-name", {"definitions": [{**DEFINITION, "name": "Busybox"}]}),
    ("image-name", {"definitions": [{**DEFINITION, "name": "busybox:1"}]}),
    ("image-name-twice", {"definitions": [{**DEFINITION, "name": "ballast.local/pause:1"}]}),
    ("image-names", {"names": {"etcd": "example.local/etcd:1"}}),
    ("image-name", {"names": {"pause": "pause:3"}}),
    ("image-name-twice", {"names": {"pause": "a.local/a:1", "busybox": "a.local/a:1"}}),
    ("image-bin-dir", {"images": ["etcd"]}),
    ("image-package", {"definitions": [{**DEFINITION, "packages": ["--allow-unauthenticated"]}]}),
    ("image-package", {"definitions": [{**DEFINITION, "whole": ["--allow-unauthenticated"]}]}),
    ("image-file", {"definitions": [{**DEFINITION, "files": [{"path": "/../etc/x", "content": ""}]}]}),
    ("image-file", {"definitions": [{**DEFINITION, "files": [{"path": "/x", "source": "/a", "content": "b"}]}]}),
    ("image-file", {"definitions": [{**DEFINITION, "files": [{"path": "/x", "source": "/a/../b"}]}]}),
    ("image-file", {"definitions": [{**DEFINITION, "links": [{"path": "x", "to": "y"}]}]}),
    ("image-file-twice", {"definitions": [{**DEFINITION, "links": [{"path": "/tool", "to": "y"}]}]}),
    ("image-file-twice", {"definitions": [{**DEFINITION, "links": [{"path": "/tool/x", "to": "y"}]}]}),
    ("image-env", {"definitions": [{**DEFINITION, "env": {"A B": "c"}}]}),
    ("image-mode", {"definitions": [{**DEFINITION, "files": [{"path": "/x", "content": "", "mode": "493"}]}]}),
    ("image-mode", {"definitions": [{**DEFINITION, "files": [{"path": "/x", "content": "", "mode": "4755"}]}]}),
    ("image-mode", {"definitions": [{**DEFINITION, "directories": [{"path": "/x", "mode": "u+rwx"}]}]}),
    ("image-directory", {"definitions": [{**DEFINITION, "directories": [{"path": "x", "mode": "0755"}]}]}),
    ("image-directory", {"definitions": [{**DEFINITION, "working_dir": "/a/.."}]}),
    ("image-file-twice", {"definitions": [{**DEFINITION, "directories": [{"path": "/tool", "mode": "0755"}]}]}),
    ("image-file-twice", {"definitions": [{**DEFINITION, "directories": [{"path": "/tool/x", "mode": "0755"}]}]}),
    ("image-file-twice", {"definitions": [{**DEFINITION, "directories": [{"path": "/x", "mode": "0755"}] * 2}]}),
    ("image-user", {"definitions": [{**DEFINITION, "user": "me and you"}]}),
    ("image-user", {"definitions": [{**DEFINITION, "user": "1000:"}]}),
]


@pytest.mark.parametrize(("id", "change"), BAD_REQUESTS)
def test_a_bad_request_is_refused(id: str, change: dict[str, Any]) -> None:
    with pytest.raises(BallastError) as raised:
        ImageArchiveRequest.from_params({"path": "/x.tar", **REQUEST, **change})
    assert raised.value.id == id


def test_every_problem_is_reported_at_once() -> None:
    with pytest.raises(Problems) as raised:
        ImageArchiveRequest.from_params(
            {**REQUEST, "path": "x", "definitions": [{**DEFINITION, "name": "A", "packages": ["-"]}]}
        )
    assert [problem.id for problem in raised.value.problems] == ["image-path", "image-name", "image-package"]


def test_the_presets_hold_to_the_rules_of_definitions() -> None:
    for image in PRESETS.values():
        assert list(_problems_of(image, where=image.name)) == []


def kube_proxy(path: Path, bin_dir: Path) -> ImageArchiveRequest:
    return desired(path, images=["kube-proxy"], bin_dir=str(bin_dir))


def test_the_image_of_kube_proxy_has_what_its_packages_depend_on(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "kube-proxy").write_bytes(b"ELF kube-proxy")
    bring_about(kube_proxy(archive, tmp_path), ProxyHost())
    layer = layer_of(archive, "ballast.local/kube-proxy:1")
    files = {name for name, member in layer.items() if member.isfile()}
    programs = {"usr/local/bin/kube-proxy", "usr/sbin/nft", "usr/lib/x86_64-linux-gnu/libnft.so.1.0"}
    assert files == programs | {"etc/protocols"}
    assert layer["usr/local/bin/kube-proxy"].mode == 0o755
    links = {name: member.linkname for name, member in layer.items() if member.issym()}
    assert links["usr/lib/x86_64-linux-gnu/libnft.so.1"] == "libnft.so.1.0"
    assert links["lib"] == "usr/lib"
    assert links["usr/sbin/ip6tables-restore"] == "xtables-nft-multi"
    assert links["usr/libexec/iptables-legacy/iptables"] == "/usr/sbin/xtables-legacy-multi"
    second = tmp_path / "second.tar"
    bring_about(kube_proxy(second, tmp_path), ProxyHost())
    assert second.read_bytes() == archive.read_bytes()
    assert bring_about(kube_proxy(second, tmp_path), ProxyHost()).steps == ()


def test_the_image_of_kube_proxy_needs_its_program(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(BallastError) as raised:
        desired(archive, images=["kube-proxy"])
    assert raised.value.id == "image-bin-dir"
    with pytest.raises(BallastError) as raised:
        bring_about(kube_proxy(archive, tmp_path), ProxyHost())
    assert raised.value.id == "image-program"
    assert not archive.exists()


def test_files_and_directories_have_the_modes_that_were_asked_for(archive: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_text("a")
    (tree / "b").symlink_to("a")
    files = [
        {"path": "/start", "content": "#!/bin/sh\n", "mode": "0755"},
        {"path": "/tool", "source": "/usr/bin/tool", "mode": "0700"},
        {"path": "/srv/tree", "local": str(tree), "mode": "0600"},
        {"path": "/home/me/.profile", "content": ""},
    ]
    directories = [{"path": "/home/me", "mode": "0770"}, {"path": "/tmp", "mode": "1777"}]
    definition = {**DEFINITION, "files": files, "directories": directories}
    bring_about(desired(archive, images=[], definitions=[definition]), DebianHost())
    layer = layer_of(archive, DEFINITION["name"])
    assert {name: member.mode for name, member in layer.items() if not member.issym()} == {
        "home": 0o755,
        "home/me": 0o770,
        "home/me/.profile": 0o644,
        "srv": 0o755,
        "srv/tree": 0o755,
        "srv/tree/a": 0o600,
        "start": 0o755,
        "tmp": 0o1777,
        "tool": 0o700,
    }
    assert {name for name, member in layer.items() if member.isdir()} == {"home", "home/me", "srv", "srv/tree", "tmp"}
    assert bring_about(desired(archive, images=[], definitions=[definition]), DebianHost()).steps == ()


def test_a_command_has_its_user_and_its_directory(archive: Path) -> None:
    definition = {**DEFINITION, "user": "1000:0", "working_dir": "/srv"}
    bring_about(desired(archive, images=[], definitions=[definition]), DebianHost())
    with tarfile.open(archive) as tar:
        docker = tar.extractfile("manifest.json")
        assert docker is not None
        config = tar.extractfile(json.load(docker)[0]["Config"])
        assert config is not None
        run = json.load(config)["config"]
    assert (run["User"], run["WorkingDir"]) == ("1000:0", "/srv")
    assert bring_about(desired(archive, images=[], definitions=[definition]), DebianHost()).steps == ()
    changed = {**definition, "user": ""}
    assert [
        step.verb for step in bring_about(desired(archive, images=[], definitions=[changed]), DebianHost()).steps
    ] == ["change"]
