"""Requests for programs: what is refused, and what decides where a program lies."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.unit.binaries.given import GO, SMALL, desired, machine, request

RELEASE = "release"


def problems(**changes) -> list[BallastError]:
    host, _go = machine()
    with pytest.raises(BallastError) as caught:
        desired(host, request(**changes))
    assert host.effects == []
    return list(caught.value.problems) if isinstance(caught.value, Problems) else [caught.value]


@pytest.mark.parametrize(
    ("changes", "id", "says"),
    [
        ({"version": "1.34.0"}, "binaries-unknown-version", f"supported: 1.35.8, 1.36.4, {DEFAULT_KUBERNETES}"),
        ({"families": [{"name": "etcd", "version": "3.5.0"}]}, "binaries-unknown-version", "supported: 3.6.14"),
        ({"version": "1.37", "source": RELEASE}, "binaries-version-form", "1.37 is not a version"),
        ({"version": "../etcd/3.6.14"}, "binaries-unknown-version", "supported: 1.35.8"),
        ({"families": [{"name": "hyper-mini"}], "source": RELEASE}, "binaries-not-released", "hyper-mini"),
        ({"release_urls": {"hyper-mini": "https://x"}}, "binaries-unknown-name", "hyper-mini"),
        ({"checksums": {"hyper-mini": "0" * 64}}, "binaries-unknown-name", "hyper-mini"),
        ({"families": [{"name": "etdc"}]}, "binaries-unknown-name", "unknown family etdc (meant: etcd)"),
        (
            {"families": [{"name": "etcd", "programs": ["etcdclt"]}]},
            "binaries-unknown-name",
            "families[etcd].programs: unknown program etcdclt (meant: etcdctl)",
        ),
        ({"components": [{"name": "kublet"}]}, "binaries-unknown-name", "(meant: kubelet)"),
        ({"families": [{"name": "etcd"}, {"name": "etcd"}]}, "binaries-named-twice", "etcd is listed twice"),
        ({"families": SMALL, "components": [{"name": "kubelet"}]}, "binaries-family-not-chosen", "kubernetes"),
        ({"families": SMALL, "source": "path"}, "binaries-path-absent", "needs a path"),
        ({"families": [{"name": "cni", "path": "/opt"}]}, "binaries-path-unused", "source is go"),
        (
            {"families": SMALL, "components": [{"name": "ptp", "path": "/opt"}]},
            "binaries-path-unused",
            "components[ptp]",
        ),
        ({"families": [{"name": "cni", "source": "path", "path": "bin"}]}, "binaries-not-absolute", "bin"),
        ({"cache_dir": "cache"}, "binaries-not-absolute", "cache_dir"),
        ({"components": [{"name": "kubemark", "source": RELEASE}]}, "binaries-not-released", "kubemark"),
        ({"checksums": {"kubelet": "abc"}}, "binaries-checksum-form", "checksums.kubelet"),
        ({"checksums": {"kublet": "a" * 64}}, "binaries-unknown-name", "kublet"),
        ({"release_urls": {"etcd": "ftp://mirror"}}, "binaries-url-form", "ftp://mirror"),
        ({"release_urls": {"etdc": "https://mirror"}}, "binaries-unknown-name", "etdc"),
        ({"toolchain_dir": None}, "binaries-no-toolchain", "toolchain_dir"),
        ({"toolchain_dir": "/nowhere"}, "binaries-no-toolchain", "/nowhere"),
    ],
)
def test_a_wrong_request_is_refused(changes, id, says):
    found = problems(**changes)
    assert {problem.id for problem in found} == {id}
    assert all(says in str(problem) for problem in found)


def test_all_problems_are_told_at_once():
    found = problems(version="1.34.0", checksums={"kubelet": "abc"}, components=[{"name": "kublet"}])
    assert [problem.id for problem in found] == [
        "binaries-unknown-name",
        "binaries-checksum-form",
        "binaries-unknown-version",
    ]


def test_a_directory_that_lacks_programs_is_told_once_with_all_of_them():
    host, _go = machine()
    host.given("/opt/cni/ptp", "ptp")
    host.given("/opt/cni/bridge", "bridge")
    with pytest.raises(BallastError) as caught:
        desired(host, request(families=[{"name": "cni", "source": "path", "path": "/opt/cni"}]))
    assert caught.value.id == "binaries-path-missing"
    assert "/opt/cni lacks host-local, loopback, portmap" in str(caught.value)


def test_without_go_the_error_names_once_the_version_that_is_enough_for_all():
    host, _go = machine()
    host.remove(GO)
    host.given("/role/files/toolchain/cni/1.9.1/go.mod", "module cni\n\ngo 1.26.10\n")
    with pytest.raises(BallastError) as caught:
        desired(host)
    assert caught.value.id == "binaries-go-missing"
    assert "Go 1.26.10 or later" in str(caught.value)


@pytest.mark.parametrize("version", ["go1.25.10", "go1.9", "devel"])
def test_an_old_go_is_refused(version):
    host, go = machine()
    go.version = version
    with pytest.raises(BallastError) as caught:
        desired(host, request(families=[{"name": "etcd"}]))
    assert caught.value.id == "binaries-go-too-old"
    assert version in str(caught.value)


@pytest.mark.parametrize("version", ["go1.26.0", "go1.26.8", "go1.27rc1", "go1.30"])
def test_a_newer_go_is_taken(version):
    host, go = machine()
    go.version = version
    assert [build.recipe["go"] for build in desired(host, request(families=[{"name": "etcd"}])).builds] == [version]


def test_go_gets_the_settings_that_say_where_modules_come_from_and_none_that_change_programs():
    host, go = machine()
    desired(host)
    assert go.environment["GOPROXY"] == "https://modules.example"
    assert go.environment["GOFLAGS"] == ""
    assert go.environment["CGO_ENABLED"] == "0"


def test_settings_of_the_environment_are_not_shown():
    """A proxy's address may hold a password."""
    host, _go = machine()
    assert "modules.example" not in repr(desired(host))


@pytest.mark.parametrize("source", [RELEASE, "path"])
def test_what_upstream_does_not_publish_is_left_out_unless_it_is_built(source):
    host, _go = machine()
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"):
        host.given(f"/opt/{name}", name)
    path = "/opt" if source == "path" else None
    families = [{"name": "kubernetes"}]
    assert "generic-apiserver" not in desired(host, request(families=families, source=source, path=path)).paths
    assert "generic-apiserver" in desired(host, request(families=families)).paths


def test_an_optional_program_is_there_only_when_it_is_named():
    host, _go = machine()
    kubernetes = [{"name": "kubernetes"}]
    plain = desired(host, request(families=kubernetes))
    more = desired(host, request(families=kubernetes, components=[{"name": "kubemark"}]))
    assert set(more.paths) - set(plain.paths) == {"kubemark"}
    assert more.paths["kubelet"] == plain.paths["kubelet"], "the programs there already are not made again"
    assert more.bin_dir != plain.bin_dir


def test_a_family_may_be_limited_to_programs_of_it_also_to_optional_ones():
    host, _go = machine()
    limited = {"name": "kubernetes", "programs": ["kubectl", "kubemark"]}
    (build,) = desired(host, request(families=[limited])).builds
    assert build.programs == ("kubectl", "kubemark")
    (same,) = desired(host, request(families=[{"name": "kubernetes"}])).builds
    assert same.directory == build.directory


def test_a_component_may_come_from_elsewhere():
    host, _go = machine()
    host.given("/opt/kubelet", "kubelet")
    given = [{"name": "kubelet", "source": "path", "path": "/opt"}]
    wanted = desired(host, request(components=given))
    assert {build.family.name: build.source for build in wanted.builds if "kubelet" in build.programs} == {
        "kubernetes": "path"
    }
    assert [build.source for build in wanted.builds if "kube-proxy" in build.programs] == ["go"]


def test_a_component_inherits_the_source_of_its_family():
    host, _go = machine()
    for path in ("/opt/etcd", "/opt/etcdctl", "/home/etcdutl"):
        host.given(path, path)
    families = [{"name": "etcd", "source": "path", "path": "/opt"}]
    wanted = desired(host, request(families=families, components=[{"name": "etcdutl", "path": "/home"}]))
    assert {name: build.origin for build in wanted.builds for name in build.programs}["etcdutl"] == "/home"


def change_pins(host, go):
    host.given("/role/files/toolchain/etcd/3.7.3/go.sum", "etcd 3.7.3 with another dependency\n")


def change_go(host, go):
    go.version = "go1.26.9"


@pytest.mark.parametrize("change", [change_pins, change_go])
def test_what_decides_the_content_decides_the_directory(change):
    host, go = machine()
    before = desired(host)
    change(host, go)
    after = desired(host)
    assert before.paths["etcd"] != after.paths["etcd"]
    assert before.bin_dir != after.bin_dir


@pytest.mark.parametrize(
    ("file", "decides"),
    [("main.go", True), ("go.mod", True), ("new.go", True), ("main_test.go", False), ("README.md", False)],
)
def test_the_source_of_a_command_decides_its_directory(file, decides):
    host, _go = machine()
    params = request(families=[{"name": "hyper-mini"}])
    before = desired(host, params)
    host.given(f"/role/files/toolchain/hyper-mini/command/{file}", "other\n")
    after = desired(host, params)
    assert (before.bin_dir != after.bin_dir) == decides


def test_what_is_of_kubernetes_follows_its_version():
    host, _go = machine()
    families = [{"name": name} for name in ("kubernetes", "hyper-mini", "etcd", "cni")]
    wanted = desired(host, request(version="1.36.4", families=families))
    versions = {build.family.name: build.version for build in wanted.builds}
    assert versions == {"kubernetes": "1.36.4", "hyper-mini": "1.36.4", "etcd": "3.6.14", "cni": "1.9.1"}


def test_hyper_mini_is_provided_only_when_it_is_named():
    host, _go = machine()
    assert "hyper-mini" not in desired(host, request()).paths


def test_where_the_collection_lies_does_not():
    host, _go = machine()
    before = desired(host, request(families=[{"name": "etcd"}]))
    for name in ("go.mod", "go.sum"):
        host.given(f"/elsewhere/etcd/3.7.3/{name}", host.text(f"/role/files/toolchain/etcd/3.7.3/{name}"))

    host.on(GO, answer='{"GOVERSION": "go1.26.8", "GOOS": "linux", "GOARCH": "amd64", "GOCACHE": "", "GOMODCACHE": ""}')
    after = desired(host, request(families=[{"name": "etcd"}], toolchain_dir="/elsewhere"))
    assert before.bin_dir == after.bin_dir
