"""The tables of families, messages, options and pinned modules say the same thing."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._binaries import golang
from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import (
    COMPONENTS,
    DEFAULT_KUBERNETES,
    FAMILIES,
    VERSION,
    version_key,
)
from ansible_collections.ballast.kube.plugins.module_utils._binaries.messages import MESSAGES
from ansible_collections.ballast.kube.plugins.module_utils._binaries.spec import MAKE, READ
from scripts.toolchain import (
    DEFAULT_PLACES,
    KEPT,
    format_module,
    parse_pairs,
    parse_requirements,
    parse_staging,
    set_default,
    shared,
)

ROOT = Path(__file__).resolve().parents[3]
ROLE = ROOT / "roles/kubernetes_binaries"
TOOLCHAIN = ROLE / "files/toolchain"
FOLDERS = sorted(path for path in TOOLCHAIN.glob("*/*") if VERSION.fullmatch(path.name))
SOURCES = "".join(path.read_text() for path in (ROOT / "plugins/module_utils/_binaries").glob("*.py"))

UPSTREAM = """module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require k8s.io/api v0.0.0

replace (
\tk8s.io/streaming => ./staging/src/k8s.io/streaming
\tk8s.io/api => ./staging/src/k8s.io/api
\texample.com/fork => example.com/other v1.2.3
)
"""


def test_staging_modules_are_read_from_a_go_mod():
    assert parse_staging(UPSTREAM, prefix="./staging/src/") == ["k8s.io/api", "k8s.io/streaming"]
    assert parse_staging("module x\n\ngo 1.26.0\n", prefix="./staging/src/") == []
    assert parse_staging("replace k8s.io/api => ./staging/src/k8s.io/api\n", prefix="./staging/src/") == ["k8s.io/api"]


def test_a_module_repeats_the_replacements_as_versions():
    text = format_module(FAMILIES["kubernetes"], "1.37.1", upstream=UPSTREAM)
    assert "\ngo 1.26.0\n" in text
    assert "\tk8s.io/kubernetes v1.37.1\n" in text
    assert "\tk8s.io/streaming => k8s.io/streaming v0.37.1\n" in text
    assert "fork" not in text
    assert "staging" not in text


def test_a_module_of_several_modules_requires_each():
    text = format_module(FAMILIES["etcd"], "3.6.14", upstream="module go.etcd.io/etcd/server/v3\n\ngo 1.25.0\n")
    assert text.count(" v3.6.14\n") == 3
    assert "replace" not in text


def test_every_default_version_is_pinned():
    pinned = {(path.parent.name, path.name) for path in FOLDERS}
    assert {(family.name, family.default_version) for family in FAMILIES.values()} <= pinned
    for name in ("kubernetes", "hyper-mini"):
        assert {version for family, version in pinned if family == name} == {"1.35.8", "1.36.4", "1.37.1", "1.37.2"}


SHARING = sorted(name for name, family in FAMILIES.items() if family.shares_libraries)


def required(folder: Path) -> dict[str, str]:
    return parse_requirements((folder / "go.mod").read_text())


@pytest.mark.parametrize("name", SHARING)
def test_what_two_families_are_built_of_is_compiled_once(name):
    """A package is compiled again for another version of one that it imports, for other tags, and for another name of its version. After
    a change of the default version of Kubernetes: scripts/toolchain.py FAMILY VERSION."""
    family = FAMILIES[name]
    theirs = required(TOOLCHAIN / name / family.version_with(DEFAULT_KUBERNETES))
    kubernetes = required(TOOLCHAIN / "kubernetes" / DEFAULT_KUBERNETES)
    both = set(theirs) & set(kubernetes) - KEPT.get(name, set())
    assert len(both) > 30
    assert {module: theirs[module] for module in both} == {module: kubernetes[module] for module in both}
    assert family.tags == FAMILIES["kubernetes"].tags


def test_libraries_are_those_of_kubernetes_where_it_asks_for_others():
    resolved = "module x\n\nrequire (\n\tk8s.io/client-go v0.30.0 // indirect\n\texample.com/own v1.0.0\n)\n"
    newer = required(TOOLCHAIN / "kubernetes" / DEFAULT_KUBERNETES)["k8s.io/client-go"]
    assert shared(FAMILIES["coredns"], "1.14.6", resolved=resolved) == {"k8s.io/client-go": newer}
    assert shared(FAMILIES["etcd"], "3.7.3", resolved=resolved) == {}


def test_a_library_that_a_family_cannot_be_compiled_with_is_its_own():
    resolved = "require github.com/opencontainers/runtime-spec v1.0.3 // indirect\n"
    assert shared(FAMILIES["kube-network-policies"], "0.8.0", resolved=resolved) == {}
    assert shared(FAMILIES["coredns"], "1.14.6", resolved=resolved) != {}


def test_one_command_pins_what_goes_with_a_version_of_kubernetes():
    of_kubernetes = [("kubernetes", "1.99.7"), ("kubeadm", "1.99.7"), ("e2e", "1.99.7"), ("hyper-mini", "1.99.7")]
    assert parse_pairs(["1.99.7"]) == [*of_kubernetes, ("sample-apiserver", "0.99.7")]
    assert parse_pairs(["etcd", "3.7.3"]) == [("etcd", "3.7.3")]
    assert parse_pairs([]) == []
    pinned = {(path.parent.name, path.name) for path in FOLDERS}
    assert set(parse_pairs([DEFAULT_KUBERNETES])) <= pinned


@pytest.mark.parametrize("words", [["1.37"], ["etcd"], ["etc", "3.7.3"], ["etcd", "etcd", "3.7.3"]], ids=str)
def test_another_command_is_refused(words):
    with pytest.raises(ValueError, match="name a version"):
        parse_pairs(words)


@pytest.mark.parametrize("name", DEFAULT_PLACES)
def test_the_default_version_is_decided_once(name):
    """`scripts/toolchain.py --default VERSION` writes all of them."""
    text = (ROOT / name).read_text()
    for pattern in DEFAULT_PLACES[name]:
        assert re.findall(pattern, text, re.MULTILINE) == [DEFAULT_KUBERNETES], pattern


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("README.md", "| Kubernetes in a lab | "),
        ("docs/binaries.md", "| kubernetes | kube-apiserver "),
        ("roles/kubernetes_binaries/README.md", "| `kubernetes_binaries_version` "),
    ],
)
def test_a_list_of_versions_has_all_that_are_pinned(name, row):
    (line,) = (line for line in (ROOT / name).read_text().splitlines() if line.startswith(row))
    assert set(re.findall(r"\d+\.\d+\.\d+", line)) == {path.name for path in (TOOLCHAIN / "kubernetes").iterdir()}


def test_another_default_is_written_everywhere(tmp_path, monkeypatch):
    monkeypatch.setattr("scripts.toolchain.ROOT", tmp_path)
    for name in DEFAULT_PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    assert set_default("1.99.7") == list(DEFAULT_PLACES)
    for name, patterns in DEFAULT_PLACES.items():
        text = (tmp_path / name).read_text()
        assert [re.findall(pattern, text, re.MULTILINE) for pattern in patterns] == [["1.99.7"]] * len(patterns)
    assert set_default("1.99.7") == []


def test_a_version_goes_with_that_of_kubernetes():
    versions = [FAMILIES["etcd"].version_with(kubernetes) for kubernetes in ("1.35.8", "1.36.4", "1.37.1", "1.100.0")]
    assert versions == ["3.6.14", "3.6.14", "3.7.3", "3.7.3"]
    assert FAMILIES["hyper-mini"].version_with("1.36.4") == "1.36.4"
    assert FAMILIES["cni"].version_with("1.36.4") == FAMILIES["cni"].default_version
    pinned = {(path.parent.name, path.name) for path in FOLDERS}
    of_kubernetes = [version for name, version in pinned if name == "kubernetes"]
    assert {("etcd", FAMILIES["etcd"].version_with(version)) for version in of_kubernetes} <= pinned


@pytest.mark.parametrize(
    "folder", [path for path in FOLDERS if FAMILIES[path.parent.name].embeds], ids=lambda path: path.name
)
def test_what_is_embedded_is_of_the_minor_version_that_runs_apart(folder):
    """Data that a newer etcd had open is refused by an older one."""
    module, family = (folder / "go.mod").read_text(), FAMILIES[folder.parent.name]
    embedded = family.embedded_versions(folder.name)
    assert len(embedded) == len(family.embeds)
    for name in family.embeds:
        version = embedded[FAMILIES[name].module]
        assert f"\t{FAMILIES[name].module} v{version}\n" in module
        assert version.rpartition(".")[0] == FAMILIES[name].version_with(folder.name).rpartition(".")[0]


def test_hyper_mini_has_the_libraries_of_kubernetes():
    """Those that upstream tries it with; and what is compiled for one is compiled for both."""
    version = FAMILIES["hyper-mini"].default_version
    ours, theirs = (pins((TOOLCHAIN / name / version / "go.mod").read_text()) for name in ("hyper-mini", "kubernetes"))
    of_etcd = {name for name in ours if name.startswith("go.etcd.io/")}
    differing = {name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]}
    assert differing <= of_etcd


def pins(module: str) -> dict[str, str]:
    return dict(re.findall(r"^\t(\S+) (v\S+)", module, re.MULTILINE))


def test_build_tags_may_hold_the_version():
    assert FAMILIES["hyper-mini"].tags_of("1.36.4") == "selinux,notest,grpcnotrace,kubernetes_1_36"
    assert FAMILIES["kubernetes"].tags_of("1.36.4") == "selinux,notest,grpcnotrace"
    assert FAMILIES["etcd"].tags_of("3.6.14") == ""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_folder_pins_its_family_and_version(folder):
    family, module = FAMILIES[folder.parent.name], (folder / "go.mod").read_text()
    assert re.search(rf"^(require |\t){re.escape(family.module)} v{re.escape(folder.name)}$", module, re.MULTILINE)
    tools = set(re.findall(r"^(?:tool |\t)(\S+)$", module, re.MULTILINE))
    # What `go test` makes cannot be a tool.
    assert {component.package for component in family.components if not component.test} <= tools
    replaced = re.findall(r"^\t(\S+) => (\S+) v(\S+)$", module, re.MULTILINE)
    assert bool(replaced) == bool(family.staging)
    assert {version for _old, _new, version in replaced} <= {"0." + folder.name.split(".", 1)[1]}
    own = [f"replace {family.command} => ../command"] if family.command else []
    assert re.findall(r"^.*=> \..*$", module, re.MULTILINE) == own
    assert f"{family.module} v{folder.name} h1:" in (folder / "go.sum").read_text()


def test_a_program_belongs_to_one_family():
    assert len(COMPONENTS) == sum(len(family.components) for family in FAMILIES.values())


def test_versions_are_sorted_by_their_numbers():
    assert sorted(["1.10.0", "1.9.1", "1.9.10"], key=version_key) == ["1.9.1", "1.9.10", "1.10.0"]


def test_stamps_have_a_fixed_order_and_say_lab():
    flags = FAMILIES["kubernetes"].stamp_flags("1.37.1")
    assert flags == sorted(flags)
    assert "-X=k8s.io/component-base/version.gitVersion=v1.37.1+lab" in flags
    assert "-X=k8s.io/client-go/pkg/version.gitMinor=37" in flags


def test_every_message_is_used_and_explained():
    page = (ROOT / MESSAGES.page).read_text()
    assert [id for id in MESSAGES.rows if SOURCES.count(f'"{id}"') < 2] == []
    assert [id for id in MESSAGES.rows if f"### {id}\n" not in page] == []


def test_documentation_and_options_agree():
    fragment = importlib.import_module("ansible_collections.ballast.kube.plugins.doc_fragments._binaries")
    documented = yaml.safe_load(fragment.ModuleDocFragment.DOCUMENTATION)["options"]
    shown = {
        name: {key: option.get(key) for key in ("type", "default", "choices")} for name, option in documented.items()
    }
    known = {name: {key: option.get(key) for key in ("type", "default", "choices")} for name, option in READ.items()}
    assert shown == known


def test_the_roles_variables_are_the_modules_options():
    spec = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    assert {name: option["default"] for name, option in spec.items()} == defaults
    prefix = "kubernetes_binaries_"
    assert {name[len(prefix) :] for name in spec} == set(MAKE) - {"toolchain_dir"}
    for name in ("version", "source", "families", "components", "cache_dir", "state"):
        assert defaults[prefix + name] == MAKE[name]["default"], name


@pytest.mark.parametrize(
    "name", ["README.md", "docs/binaries.md", "docs/quick-start.md", "roles/kubernetes_binaries/README.md"]
)
def test_the_go_that_a_page_names_is_enough_for_every_family(name):
    modules = [(folder / "go.mod").read_text() for folder in FOLDERS]
    needs = max((golang.least_version(module) for module in modules), key=golang.numbers)
    assert set(re.findall(r"Go (\d[\d.]*) or\s+later", (ROOT / name).read_text())) == {needs}
