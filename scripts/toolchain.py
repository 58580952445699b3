# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the pinned Go modules of a version: files/toolchain/FAMILY/VERSION/{go.mod,go.sum}.

    scripts/toolchain.py 1.37.2             # a version of Kubernetes: every family that goes with it
    scripts/toolchain.py --default 1.37.2   # the default version of Kubernetes, wherever it is named
    scripts/toolchain.py etcd 3.7.3         # one family
    scripts/toolchain.py --check            # every committed folder would come out the same

A module whose go.mod replaces parts of itself by folders (Kubernetes' staging modules) cannot be built from a module proxy unless its consumer
repeats the replacements as versions. They are read here from the module's own go.mod, for v1.M.P as v0.M.P, and never kept by hand.
The checksums come from `go list`, which resolves exactly the packages that the programs import, for every architecture that we build.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".build" / "collections"))  # made by `make env`

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import (  # noqa: E402
    DEFAULT_KUBERNETES,
    FAMILIES,
    VERSION,
    Family,
    staging_version,
    version_key,
)

TOOLCHAIN = ROOT / "roles" / "kubernetes_binaries" / "files" / "toolchain"
ARCHITECTURES = ("amd64", "arm64")
# Modules that releases of a minor version pin at a known bad version (requirements/known-bad.toml), with the version that replaces it
# unless a release itself requires a later one.
RAISED = {
    ("kubernetes", "1.35"): {"google.golang.org/grpc": "1.83.2"},
    ("kubeadm", "1.36"): {
        "go.opentelemetry.io/otel": "1.44.0",
        "golang.org/x/crypto": "0.55.0",
        "google.golang.org/grpc": "1.83.2",
    },
    ("metallb", "0.15"): {"golang.org/x/net": "0.55.0"},
    ("metrics-server", "0.9"): {"golang.org/x/crypto": "0.55.0", "google.golang.org/grpc": "1.83.2"},
}

# Libraries that a family keeps at its own version although it is built with those of Kubernetes, as it does not compile with newer ones.
KEPT = {
    # Its NRI 0.9.0 sets a field of the runtime specification that is a pointer since 1.3.0.
    "kube-network-policies": {"github.com/opencontainers/runtime-spec"},
}

_ROLES = ("control_plane", "kubernetes_binaries", "node_instances")
_V = r"(\d+\.\d+\.\d+)"
# Where the default version of Kubernetes is decided, followed by what names it; the version is the group of each pattern.
DEFAULT_PLACES = {
    "plugins/module_utils/_binaries/families.py": [rf'^DEFAULT_KUBERNETES = "{_V}"'],
    "plugins/doc_fragments/_binaries.py": [rf"^    default: {_V}$"],
    "plugins/modules/lab_record.py": [rf"else the recorded version, else V\({_V}\)"],
    "plugins/modules/control_plane_record.py": [rf"The default for a new one is V\({_V}\)"],
    **{f"roles/{role}/defaults/main.yml": [rf"^{role}_(?:kubernetes_)?version: {_V}$"] for role in _ROLES},
    **{f"roles/{role}/meta/argument_specs.yml": [rf"^        default: {_V}$"] for role in _ROLES},
    **{f"roles/{role}/README.md": [rf"^\| `{role}_(?:kubernetes_)?version`[^|]* \| str \| `{_V}`"] for role in _ROLES},
    "docs/binaries.md": [rf"Kubernetes says `v{_V}\+lab`"],
    "docs/reference/control-plane.md": [rf"^\| `PLANE_KUBERNETES` \| `plane_kubernetes_version` \| `{_V}` \|"],
    "docs/reference/lab.md": [
        rf"^download: kubernetes {_V} of dl\.k8s\.io",
        rf"^\| `kubernetes_version` \| lab \| {_V} \|",
    ],
    "mk/proxy.mk": [rf"^MIGRATE_KUBERNETES \?= {_V}$"],
}


def go(*arguments: str, cwd: Path, **environment: str) -> str:
    """The output of a go command. When it fails, its own messages are shown."""
    settings = {"GOWORK": "off", "CGO_ENABLED": "0", "GOOS": "linux", **environment}
    done = subprocess.run(
        ["go", *arguments], cwd=cwd, env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"go {' '.join(arguments)}: exit status {done.returncode}\n{done.stdout[-2000:]}")
    return done.stdout


def parse_staging(text: str, *, prefix: str) -> list[str]:
    """The modules that a go.mod replaces by a folder below prefix, sorted; empty when it has none."""
    modules = []
    for line in text.splitlines():
        match = re.fullmatch(r"(?:replace\s+)?(\S+)\s+=>\s+(\S+)", line.strip())
        if match and match[2].startswith(prefix):
            modules.append(match[1])
    return sorted(modules)


def parse_go_line(text: str) -> str:
    """The minimum Go version that a go.mod requires."""
    match = re.search(r"^go (\S+)$", text, re.MULTILINE)
    if match is None:
        raise SystemExit("the module's go.mod has no go line")
    return match[1]


def format_module(
    family: Family, version: str, *, upstream: str, libraries: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The go.mod of our module before Go adds the indirect requirements, with those of `libraries`."""
    # What `go test` makes cannot be a tool.
    programs = sorted(component.package for component in family.components if not component.test)
    tools = "".join(f"\t{package}\n" for package in programs)
    # Programs of one family may come from several modules with one version (etcd, etcdctl); a component's module is its own or that
    # of the family.
    requires = "".join(
        f"\t{module} v{pin}\n" for module, pin in sorted({**libraries, **requirements(family, version)}.items())
    )
    # The module's own Go line: it decides both the GODEBUG defaults of the programs and the minimum toolchain.
    text = f"module ballast.example/{family.name}\n\ngo {parse_go_line(upstream)}\n\ntool (\n{tools})\n\nrequire (\n{requires})\n"
    staging = parse_staging(upstream, prefix=family.staging) if family.staging else []
    if family.command:
        text += f"\nreplace {family.command} => ../command\n"
    if staging:
        pinned = staging_version(version)
        text += "\nreplace (\n" + "".join(f"\t{name} => {name} v{pinned}\n" for name in staging) + ")\n"
    return text


def requirements(family: Family, version: str) -> dict[str, str]:
    """The modules that our go.mod requires, with versions: those of the programs, or those of which our own command is made."""
    raised = RAISED.get((family.name, version.rpartition(".")[0]), {})
    if not family.command:
        return {**{module_of(family, component.package): version for component in family.components}, **raised}
    return {**raised, family.command: "0.0.0", family.module: version, **family.embedded_versions(version)}


def shared(family: Family, version: str, *, resolved: str) -> dict[str, str]:
    """The libraries for which a go.mod requires another version than Kubernetes, with Kubernetes' versions. Go uses the newer one.

    Kubernetes' own go.mod names a staging module v0.0.0, others name it by its version. The replacement is the same, but the name is in the
    paths of a compiled package.
    """
    if not family.shares_libraries:
        return {}
    kubernetes = version if family.follows else DEFAULT_KUBERNETES
    theirs = parse_requirements((TOOLCHAIN / "kubernetes" / kubernetes / "go.mod").read_text(encoding="utf-8"))
    ours = parse_requirements(resolved)
    kept = KEPT.get(family.name, set())
    return {
        module: theirs[module]
        for module, pin in ours.items()
        if module not in kept and theirs.get(module, pin) not in (pin, "0.0.0")
    }


def parse_requirements(text: str) -> dict[str, str]:
    """The modules that a go.mod requires, with their versions."""
    return dict(re.findall(r"^(?:require\s+|\t)(\S+)\s+v(\S+?)(?:\s*//.*)?$", text, re.MULTILINE))


def module_of(family: Family, package: str) -> str:
    return family.module if package == family.module or package.startswith(family.module + "/") else package


def tags(name: str, version: str) -> list[str]:
    """The build tags of a family and version, as options of a go command."""
    family = FAMILIES[name]
    return ["-tags", family.tags_of(version)] if family.tags else []


def build(family: Family, version: str, *, compiled: bool) -> dict[str, bytes]:
    """The two files, made from scratch in a temporary folder. With `compiled` the programs are also compiled, which takes minutes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / version
        folder.mkdir()
        # The replacement of our own command points here.
        (Path(name) / "command").symlink_to(TOOLCHAIN / family.name / "command")
        described = json.loads(go("mod", "download", "-json", f"{family.module}@v{version}", cwd=folder))
        upstream = Path(described["GoMod"]).read_text(encoding="utf-8")
        module = folder / "go.mod"
        module.write_text(format_module(family, version, upstream=upstream), encoding="utf-8")
        resolve(family, version, folder=folder)
        libraries = shared(family, version, resolved=module.read_text(encoding="utf-8"))
        if libraries:
            text = format_module(family, version, upstream=upstream, libraries=libraries)
            module.write_text(text, encoding="utf-8")
            (folder / "go.sum").unlink()
            resolve(family, version, folder=folder)
        if compiled:
            compile_programs(family, version, folder=folder)
        return {file: (folder / file).read_bytes() for file in ("go.mod", "go.sum")}


def compile_programs(family: Family, version: str, *, folder: Path) -> None:
    """Compile the pinned programs and discard the result: libraries in another version than a program's own may not fit it."""
    programs = [component.package for component in family.components if not component.test]
    go("build", "-trimpath", "-o", os.devnull, *tags(family.name, version), *programs, cwd=folder)


def resolve(family: Family, version: str, *, folder: Path) -> None:
    """Let Go complete go.mod and write go.sum, for what the programs import on each architecture."""
    packages = [component.package for component in family.components]
    tests = [component.package for component in family.components if component.test]
    for architecture in ARCHITECTURES:
        command = ("list", "-mod=mod", "-deps", *tags(family.name, version))
        go(*command, *packages, cwd=folder, GOARCH=architecture)
        if tests:
            go(*command, "-test", *tests, cwd=folder, GOARCH=architecture)


def committed() -> list[tuple[str, str]]:
    """The families and versions with a folder, oldest version first."""
    pairs = [(path.parent.name, path.name) for path in TOOLCHAIN.glob("*/*") if VERSION.fullmatch(path.name)]
    return sorted(pairs, key=lambda pair: (pair[0], version_key(pair[1])))


def with_kubernetes(version: str) -> list[tuple[str, str]]:
    """The families that are pinned for each version of Kubernetes, with their versions."""
    pairs = [(family.name, version) for family in FAMILIES.values() if family.follows]
    return [*pairs, ("sample-apiserver", staging_version(version))]


def parse_pairs(words: list[str]) -> list[tuple[str, str]]:
    """The families and versions in the command; empty for no words. ValueError for words of another form."""
    if not words:
        return []
    *families, version = words
    if len(families) > 1 or not set(families) <= set(FAMILIES) or not VERSION.fullmatch(version):
        raise ValueError(f"name a version such as 1.37.1, or a family and its version; families: {', '.join(FAMILIES)}")
    return [(families[0], version)] if families else with_kubernetes(version)


def set_default(version: str) -> list[str]:
    """Write the default version of Kubernetes where it is decided and named; returns the paths of the files that changed."""
    changed = []
    for name, patterns in DEFAULT_PLACES.items():
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        after = text
        for pattern in patterns:
            after = re.sub(pattern, lambda match: match[0].replace(match[1], version), after, flags=re.MULTILINE)
        if after != text:
            path.write_text(after, encoding="utf-8")
            changed.append(name)
    return changed


def main() -> int:
    usage = "%(prog)s [--check] [[FAMILY] VERSION]\n       %(prog)s --default VERSION"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], usage=usage)
    parser.add_argument(
        "words", nargs="*", metavar="VERSION", help="a version of Kubernetes, or of the family before it"
    )
    parser.add_argument("--default", metavar="VERSION", help="make a pinned version of Kubernetes the default")
    parser.add_argument(
        "--check", action="store_true", help="compare instead of writing; all committed folders when none is named"
    )
    arguments = parser.parse_args()
    try:
        pairs = parse_pairs(arguments.words)
    except ValueError as error:
        parser.error(str(error))
    if arguments.default:
        if ("kubernetes", arguments.default) not in committed():
            parser.error(f"{arguments.default} is not pinned yet: scripts/toolchain.py {arguments.default}")
        for name in set_default(arguments.default):
            print(f"wrote: {name}")
        return 0
    if not pairs and not arguments.check:
        parser.error("name a version")
    pairs = pairs or committed()
    differing = 0
    for name, version in pairs:
        folder = TOOLCHAIN / name / version
        for file, content in build(FAMILIES[name], version, compiled=not arguments.check).items():
            path = folder / file
            if path.exists() and path.read_bytes() == content:
                continue
            differing += 1
            print(f"{'differs' if arguments.check else 'wrote'}: {path.relative_to(ROOT)}")
            if not arguments.check:
                folder.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
    if not differing:
        print(f"unchanged: {len(pairs)} folders")
    return 1 if arguments.check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
