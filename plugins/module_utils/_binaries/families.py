# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of families: the binaries that can be provided, and the particulars of each family.

A family is one Go module and the binaries that are built from it together. Each family has a Go module of its own in
`files/toolchain/FAMILY/VERSION`, so that dependencies of one family never raise those of another: a newer `kube-openapi`, pulled in
by an unrelated tool, is known to break the OpenAPI documents of an API server that still builds and starts.

This module imports nothing of the project, as `scripts/toolchain.py` reads it too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VERSION = re.compile(r"\d+\.\d+\.\d+")
DEFAULT_KUBERNETES = "1.37.2"  # decided here; a test compares it with roles, modules and pages


def version_key(version: str) -> tuple[int, ...]:
    """Sorts versions such as 1.9.1 and 1.10.0 by their numbers."""
    return tuple(int(part) for part in version.split("."))


def staging_version(kubernetes: str) -> str:
    """The version 0.M.P of the libraries that Kubernetes publishes with its version 1.M.P."""
    return "0." + kubernetes.partition(".")[2]


@dataclass(frozen=True)
class Component:
    """One binary. `package` is its Go package. `version_args` make it print its version; empty when it cannot. `test`: it is built by
    `go test -c`."""

    name: str
    package: str
    version_args: tuple[str, ...] = ("--version",)
    optional: bool = False  # built only when it is requested by name
    released: bool = True  # part of the upstream release
    test: bool = False


@dataclass(frozen=True)
class Release:
    """Where upstream publishes a family. `url` has one file per component, or an archive when `archive` is set.

    Fields of the texts: base, version, arch, name. `checksum` names a file with the SHA-256 alone, or with lines "hash  name".
    `member` is the path of a component inside the archive.
    """

    base: str
    url: str
    checksum: str
    archive: bool = False
    member: str = ""

    def __post_init__(self) -> None:
        if self.archive != bool(self.member):
            raise ValueError("an archive has members, and only an archive has")


NOWHERE = Release(base="", url="", checksum="")  # for families without upstream releases


@dataclass(frozen=True)
class Family:
    """One Go module with its binaries. `stamps` are linker -X variables; their values, and `tags`, may use version, major and minor."""

    name: str
    module: str
    components: tuple[Component, ...]
    release: Release
    default_version: str  # for the default version of Kubernetes
    build_bytes: int  # free disk space for a cold build, including the Go build cache
    follows: bool = False  # whether its version is Kubernetes' version
    # Its versions with Kubernetes older than a minor version such as "1.37".
    before: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False  # only provided when named
    command: str = ""  # import path of our own command, whose source is in FAMILY/command beside the pinned modules
    # Families whose modules are built into its binaries, with versions by minor version of Kubernetes; for a missing minor version, the
    # version that goes with Kubernetes.
    embeds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stamps: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    staging: str = ""  # prefix of the replacements in the module's own go.mod that a consumer must repeat
    # Whether it is built with the libraries and tags of Kubernetes (its own version, else the default one) where it requires older
    # libraries, so that they are compiled once for both.
    shares_libraries: bool = False
    shows: str = "{version}"  # what the version output of a stamped binary must contain

    def __post_init__(self) -> None:
        names = [component.name for component in self.components]
        if len(set(names)) != len(names):
            raise ValueError(f"family {self.name} names a component twice")

    def version_with(self, kubernetes: str) -> str:
        """The version that goes with a version of Kubernetes, unless the user requests another."""
        if self.follows:
            return kubernetes
        older = [
            minor
            for minor in self.before
            if VERSION.fullmatch(kubernetes) and version_key(kubernetes) < version_key(minor)
        ]
        return self.before[min(older, key=version_key)] if older else self.default_version

    def embedded_versions(self, version: str) -> dict[str, str]:
        """The embedded modules with their versions."""
        minor = version.rpartition(".")[0]
        return {
            FAMILIES[name].module: pinned.get(minor) or FAMILIES[name].version_with(version)
            for name, pinned in self.embeds.items()
        }

    def component(self, name: str) -> Component:
        """The component of that name, which the family must have."""
        return next(component for component in self.components if component.name == name)

    def stamp_flags(self, version: str) -> list[str]:
        """The linker flags that stamp `version`, in a fixed order."""
        return [f"-X={key}={_fill(text, version)}" for key, text in sorted(self.stamps.items())]

    def tags_of(self, version: str) -> str:
        """The build tags, comma-separated; empty for none."""
        return ",".join(_fill(text, version) for text in self.tags)


def _fill(text: str, version: str) -> str:
    major, minor = version.split(".")[:2]
    return text.format(version=version, major=major, minor=minor)


def _kubernetes_stamps() -> dict[str, str]:
    # Both packages are used: component-base answers /version and --version, client-go names the user agent.
    # "+lab" is valid semantic versioning and marks an unofficial build.
    values = {
        "gitVersion": "v{version}+lab",
        "gitMajor": "{major}",
        "gitMinor": "{minor}",
        "gitTreeState": "clean",
        # A real date would make each build differ. All readers of the field can parse the epoch.
        "buildDate": "1970-01-01T00:00:00Z",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return {f"{package}.{key}": text for package in packages for key, text in values.items()}


_GIB = 1024**3
_GITHUB = "https://github.com"
_ETCD = "etcd-v{version}-linux-{arch}"
_KUBERNETES_TAGS = ("selinux", "notest", "grpcnotrace")  # hack/lib/golang.sh builds with these

_KUBERNETES_RELEASE = Release(
    base="https://dl.k8s.io",
    url="{base}/release/v{version}/bin/linux/{arch}/{name}",
    checksum="{base}/release/v{version}/bin/linux/{arch}/{name}.sha256",
)
# Common to all families of Kubernetes' own module.
_OF_KUBERNETES: Mapping[str, Any] = {
    "module": "k8s.io/kubernetes",
    "default_version": DEFAULT_KUBERNETES,
    "follows": True,
    "stamps": _kubernetes_stamps(),
    "staging": "./staging/src/",
    "shows": "v{version}+lab",
}

FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family(
            name="kubernetes",
            components=(
                Component(name="kube-apiserver", package="k8s.io/kubernetes/cmd/kube-apiserver"),
                Component(name="kube-controller-manager", package="k8s.io/kubernetes/cmd/kube-controller-manager"),
                Component(name="kube-scheduler", package="k8s.io/kubernetes/cmd/kube-scheduler"),
                Component(name="kube-proxy", package="k8s.io/kubernetes/cmd/kube-proxy"),
                Component(name="kubelet", package="k8s.io/kubernetes/cmd/kubelet"),
                Component(
                    name="kubectl", package="k8s.io/kubernetes/cmd/kubectl", version_args=("version", "--client")
                ),
                # KEP-4080's sample: an API server without pods and nodes. Upstream only builds it for its tests.
                Component(
                    name="generic-apiserver",
                    package="k8s.io/kubernetes/pkg/controlplane/apiserver/samples/generic",
                    released=False,
                ),
                Component(name="kubemark", package="k8s.io/kubernetes/cmd/kubemark", optional=True, released=False),
            ),
            release=_KUBERNETES_RELEASE,
            # Measured: 3.4 GB of build cache, 0.5 GB of binaries, 1 GB of modules.
            build_bytes=6 * _GIB,
            tags=_KUBERNETES_TAGS,
            **_OF_KUBERNETES,
        ),
        # A separate family, so that users who do not need it do not build it.
        Family(
            name="kubeadm",
            components=(
                Component(
                    name="kubeadm",
                    package="k8s.io/kubernetes/cmd/kubeadm",
                    version_args=("version", "--output=short"),
                ),
            ),
            release=_KUBERNETES_RELEASE,
            build_bytes=2 * _GIB,
            optional=True,
            tags=_KUBERNETES_TAGS,
            shares_libraries=True,
            **_OF_KUBERNETES,
        ),
        # Kubernetes' own tests, and binaries that they run in pods.
        Family(
            name="e2e",
            components=(
                Component(name="e2e.test", package="k8s.io/kubernetes/test/e2e", released=False, test=True),
                *(
                    Component(
                        name=name, package=f"k8s.io/kubernetes/test/images/{path}", version_args=(), released=False
                    )
                    for name, path in (
                        ("agnhost", "agnhost"),
                        ("nnp", "nonewprivs"),
                        ("regression-issue-74839", "regression-issue-74839"),
                    )
                ),
            ),
            release=NOWHERE,
            build_bytes=4 * _GIB,
            optional=True,
            tags=_KUBERNETES_TAGS,
            shares_libraries=True,
            **_OF_KUBERNETES,
        ),
        Family(
            name="sample-apiserver",
            module="k8s.io/sample-apiserver",
            default_version=staging_version(DEFAULT_KUBERNETES),
            components=(
                Component(name="sample-apiserver", package="k8s.io/sample-apiserver", version_args=(), released=False),
            ),
            release=NOWHERE,
            build_bytes=2 * _GIB,
            optional=True,
            tags=_KUBERNETES_TAGS,
            shares_libraries=True,
        ),
        Family(
            name="ginkgo",
            module="github.com/onsi/ginkgo/v2",
            default_version="2.32.0",
            components=(
                Component(
                    name="ginkgo",
                    package="github.com/onsi/ginkgo/v2/ginkgo",
                    version_args=("version",),
                    released=False,
                ),
            ),
            release=NOWHERE,
            build_bytes=_GIB,
            optional=True,
        ),
        # The DNS server that kubeadm deploys.
        Family(
            name="coredns",
            module="github.com/coredns/coredns",
            default_version="1.14.6",
            components=(Component(name="coredns", package="github.com/coredns/coredns", version_args=("-version",)),),
            release=Release(
                base=_GITHUB,
                url="{base}/coredns/coredns/releases/download/v{version}/coredns_{version}_linux_{arch}.tgz",
                checksum="{base}/coredns/coredns/releases/download/v{version}/coredns_{version}_linux_{arch}.tgz.sha256",
                archive=True,
                member="{name}",
            ),
            build_bytes=2 * _GIB,
            optional=True,
            tags=_KUBERNETES_TAGS,
            shares_libraries=True,
        ),
        # Binaries of a lab's add-ons. No release site offers them as binaries.
        Family(
            name="local-path-provisioner",
            module="github.com/rancher/local-path-provisioner",
            default_version="0.0.30",
            components=(
                Component(
                    name="local-path-provisioner",
                    package="github.com/rancher/local-path-provisioner",
                    released=False,
                ),
            ),
            release=NOWHERE,
            build_bytes=_GIB,
            optional=True,
            stamps={"main.VERSION": "v{version}"},
            tags=_KUBERNETES_TAGS,
            shares_libraries=True,
        ),
        Family(
            name="metrics-server",
            module="sigs.k8s.io/metrics-server",
            default_version="0.9.0",
            components=(
                Component(
                    name="metrics-server", package="sigs.k8s.io/metrics-server/cmd/metrics-server", released=False
                ),
            ),
            release=NOWHERE,
            build_bytes=2 * _GIB,
            optional=True,
            stamps={"k8s.io/client-go/pkg/version.gitVersion": "v{version}"},
        ),
        Family(
            name="metallb",
            module="go.universe.tf/metallb",
            default_version="0.15.3",
            components=tuple(
                Component(
                    name=f"metallb-{part}", package=f"go.universe.tf/metallb/{part}", version_args=(), released=False
                )
                for part in ("controller", "speaker")
            ),
            release=NOWHERE,
            build_bytes=2 * _GIB,
            optional=True,
        ),
        Family(
            name="kube-network-policies",
            module="sigs.k8s.io/kube-network-policies",
            default_version="0.8.0",
            components=(
                Component(
                    name="kube-network-policies",
                    package="sigs.k8s.io/kube-network-policies/cmd",
                    version_args=(),
                    released=False,
                ),
            ),
            release=NOWHERE,
            build_bytes=2 * _GIB,
            optional=True,
            tags=_KUBERNETES_TAGS,
            shares_libraries=True,
        ),
        # The generic control plane in one process, see files/toolchain/hyper-mini/command/README.md.
        Family(
            name="hyper-mini",
            components=(Component(name="hyper-mini", package="ballast.example/command/hyper-mini", released=False),),
            release=NOWHERE,
            build_bytes=4 * _GIB,
            optional=True,
            command="ballast.example/command/hyper-mini",
            # The newest version of the separately run etcd that requires no library newer than Kubernetes does. With a newer one
            # Kubernetes' code would run with libraries that upstream did not test with it, and all of it would be compiled a second
            # time.
            embeds={"etcd": {"1.37": "3.7.1"}},
            # Files of the command may be for one minor version of Kubernetes.
            tags=(*_KUBERNETES_TAGS, "kubernetes_{major}_{minor}"),
            **_OF_KUBERNETES,
        ),
        Family(
            name="etcd",
            module="go.etcd.io/etcd/server/v3",
            default_version="3.7.3",
            # As upstream pairs them. An older etcd refuses data that a newer one has opened, so the etcd inside hyper-mini, whose version
            # Kubernetes' own client library decides, must have the minor version of the separate etcd.
            before={"1.37": "3.6.14"},
            components=(
                Component(name="etcd", package="go.etcd.io/etcd/server/v3"),
                Component(name="etcdctl", package="go.etcd.io/etcd/etcdctl/v3", version_args=("version",)),
                Component(name="etcdutl", package="go.etcd.io/etcd/etcdutl/v3", version_args=("version",)),
            ),
            release=Release(
                base=_GITHUB,
                url=f"{{base}}/etcd-io/etcd/releases/download/v{{version}}/{_ETCD}.tar.gz",
                checksum="{base}/etcd-io/etcd/releases/download/v{version}/SHA256SUMS",
                archive=True,
                member=f"{_ETCD}/{{name}}",
            ),
            build_bytes=_GIB,
        ),
        Family(
            name="cni",
            module="github.com/containernetworking/plugins",
            default_version="1.9.1",
            components=tuple(
                Component(
                    name=path.rsplit("/", maxsplit=1)[-1],
                    package=f"github.com/containernetworking/plugins/plugins/{path}",
                )
                for path in ("main/bridge", "main/loopback", "main/ptp", "ipam/host-local", "meta/portmap")
            ),
            release=Release(
                base=_GITHUB,
                url="{base}/containernetworking/plugins/releases/download/v{version}/cni-plugins-linux-{arch}-v{version}.tgz",
                checksum="{base}/containernetworking/plugins/releases/download/v{version}/cni-plugins-linux-{arch}-v{version}.tgz.sha256",
                archive=True,
                member="{name}",
            ),
            build_bytes=_GIB,
            stamps={"github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion": "v{version}"},
        ),
        Family(
            name="containerd",
            module="github.com/containerd/containerd/v2",
            default_version="2.3.7",
            components=(
                Component(name="containerd", package="github.com/containerd/containerd/v2/cmd/containerd"),
                Component(
                    name="containerd-shim-runc-v2",
                    package="github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
                    version_args=("-v",),
                ),
                Component(name="ctr", package="github.com/containerd/containerd/v2/cmd/ctr"),
            ),
            release=Release(
                base=_GITHUB,
                url="{base}/containerd/containerd/releases/download/v{version}/containerd-{version}-linux-{arch}.tar.gz",
                checksum="{base}/containerd/containerd/releases/download/v{version}/containerd-{version}-linux-{arch}.tar.gz.sha256sum",
                archive=True,
                member="bin/{name}",
            ),
            build_bytes=2 * _GIB,
            stamps={"github.com/containerd/containerd/v2/version.Version": "v{version}"},
        ),
        Family(
            name="cri-tools",
            module="sigs.k8s.io/cri-tools",
            default_version="1.36.0",
            components=(Component(name="crictl", package="sigs.k8s.io/cri-tools/cmd/crictl"),),
            release=Release(
                base=_GITHUB,
                url="{base}/kubernetes-sigs/cri-tools/releases/download/v{version}/crictl-v{version}-linux-{arch}.tar.gz",
                checksum="{base}/kubernetes-sigs/cri-tools/releases/download/v{version}/crictl-v{version}-linux-{arch}.tar.gz.sha256",
                archive=True,
                member="{name}",
            ),
            build_bytes=_GIB,
            stamps={"sigs.k8s.io/cri-tools/pkg/version.Version": "v{version}"},
        ),
    )
}

# Families by the name of a binary; each name belongs to one family.
COMPONENTS: Mapping[str, Family] = {
    component.name: family for family in FAMILIES.values() for component in family.components
}
