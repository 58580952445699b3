"""scripts/audit.py and scripts/env.py: pins with digests, and none that is known to be bad."""

from __future__ import annotations

import re
import sys

import pytest

from scripts import audit, env
from scripts.audit import Accepted, Bad, Pin, judge, key, parse_constraints, parse_go_mod, parse_table

TABLE = (audit.REQUIREMENTS / "known-bad.toml").read_text(encoding="utf-8")
GRPC = Bad("google.golang.org/grpc", "1.79.3", "", ("GHSA-1",), "it is bad", "https://example.com")


def text_of(name: str) -> str:
    return (audit.REQUIREMENTS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [
        "constraints.txt",
        "constraints-run.txt",
        "constraints-audit.txt",
        "constraints-mutants.txt",
        "constraints-docs.txt",
        "constraints-ee.txt",
    ],
)
def test_every_package_is_pinned_with_digests_and_no_index_is_named(name):
    text = text_of(name)
    entries = re.split(r"^(?=[A-Za-z0-9])", text.partition("\n")[2], flags=re.M)[1:]
    assert len(entries) > 5
    for entry in entries:
        first, *hashes = [line.rstrip(" \\").strip() for line in entry.strip().splitlines()]
        assert re.match(r"[A-Za-z0-9._-]+==\S+", first), first
        assert hashes, first
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes), first
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


@pytest.mark.parametrize(
    ("asked", "pinned"),
    [
        ("run.txt", "constraints-run.txt"),
        ("run.txt", "constraints.txt"),
        ("test.txt", "constraints.txt"),
        ("audit.txt", "constraints-audit.txt"),
        ("mutants.txt", "constraints-mutants.txt"),
        ("docs.txt", "constraints-docs.txt"),
        ("ee.txt", "constraints-ee.txt"),
    ],
)
def test_what_is_asked_for_is_what_is_pinned(asked, pinned):
    wanted = {(pin.name, pin.version) for pin in parse_constraints(text_of(asked), where=asked)}
    assert wanted
    assert wanted <= {(pin.name, pin.version) for pin in parse_constraints(text_of(pinned), where=pinned)}


def test_a_lab_has_the_packages_that_the_checks_have():
    every = set(parse_constraints(text_of("constraints.txt"), where=""))
    assert set(parse_constraints(text_of("constraints-run.txt"), where="")) < every


def test_an_execution_environment_has_the_packages_that_the_checks_have():
    every = {pin.name: pin.version for pin in parse_constraints(text_of("constraints.txt"), where="")}
    pinned = {pin.name: pin.version for pin in parse_constraints(text_of("constraints-ee.txt"), where="")}
    assert {name: version for name, version in pinned.items() if every.get(name, version) != version} == {}
    assert ";" not in text_of("constraints-ee.txt"), "a condition, which pip judges by the Python that it runs with"


def test_packages_are_installed_by_digest_and_from_wheels(monkeypatch, tmp_path):
    asked: list[list[str]] = []

    class Done:
        returncode = 0

    def run(argv, **_other):
        asked.append(argv)
        (tmp_path / "venv").mkdir(exist_ok=True)
        return Done()

    monkeypatch.setattr(env, "ROOT", tmp_path)
    monkeypatch.setattr(env, "LINK", tmp_path / "link")
    monkeypatch.setattr(env, "KINDS", {"run": (tmp_path / "venv", "constraints-run.txt")})
    monkeypatch.setattr(env, "OLDEST", sys.version_info[:2])
    monkeypatch.setattr(env, "NEWEST", sys.version_info[:2])
    monkeypatch.setattr(env.subprocess, "run", run)
    env.make("run")
    assert "--require-hashes" in asked[-1]
    assert "--only-binary=:all:" in asked[-1]
    assert asked[-1][-1].endswith("requirements/constraints-run.txt")
    count = len(asked)
    env.make("run")
    assert len(asked) == count


def test_no_pin_is_known_to_be_bad():
    bad, accepted = parse_table(TABLE)
    assert judge(list(audit.pins()), bad, accepted) == []


def test_every_row_says_what_and_where_it_is_from():
    bad, accepted = parse_table(TABLE)
    known = {id for row in bad for id in row.ids}
    for row in bad:
        assert row.ids
        assert row.what
        assert row.source.startswith("https://")
        assert key(row.fixed) > key(row.since or "0")
        assert all(re.fullmatch(r"(CVE|GHSA|GO|PYSEC)-[\w-]+", id) for id in row.ids)
    for row in accepted:
        assert row.id in known
        assert row.why
        assert row.where


def test_a_bad_pin_is_told_with_what_to_do():
    (problem,) = judge([Pin("google.golang.org/grpc", "1.72.2", "kubernetes/1.35.8")], [GRPC], [])
    assert problem.splitlines()[0] == "kubernetes/1.35.8: google.golang.org/grpc 1.72.2 is known to be bad: it is bad"
    assert "GHSA-1, fixed in 1.79.3" in problem


@pytest.mark.parametrize("name", ["grpc of 1.35.8 as Kubernetes pins it", "jinja2", "x/net"])
def test_the_table_knows_what_was_bad(name):
    bad, accepted = parse_table(TABLE)
    pin = {
        "jinja2": Pin("jinja2", "3.1.5", "constraints.txt"),
        "x/net": Pin("golang.org/x/net", "0.54.0", "kubernetes/1.37.1"),
    }.get(name, Pin("google.golang.org/grpc", "1.72.2", "kubernetes/1.35.8"))
    assert any(problem.startswith(f"{pin.where}: {pin.name} {pin.version} ") for problem in judge([pin], bad, accepted))


def test_an_acceptance_is_of_one_place_and_ends_with_its_need():
    pin, accepted = Pin("google.golang.org/grpc", "1.72.2", "a/1"), [Accepted("GHSA-1", ("a/1",), "it is", ())]
    assert judge([pin], [GRPC], accepted) == []
    assert len(judge([pin, Pin(pin.name, pin.version, "a/2")], [GRPC], accepted)) == 1
    (stale,) = judge([Pin(pin.name, "1.79.3", "a/1")], [GRPC], accepted)
    assert "accepts GHSA-1 for a/1, where nothing is bad any more" in stale


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.79.2", "1.79.3"),
        ("1.9.0", "1.72.0"),
        ("v0.0.0-20250303144028-a0af3efb3deb", "0.0.1"),
        ("1.36.12-0.20260120151049-f2248ac996af", "1.36.12"),
        ("1.36.11", "1.36.12-0.20260120151049-f2248ac996af"),
        ("2026.10.18", "2026.11"),
    ],
)
def test_versions_are_in_order(older, newer):
    assert key(older) < key(newer)


def test_a_version_between_two_release_lines_is_good():
    row = Bad("m", "3.7.1", "3.7.0", ("CVE-1",), "", "")
    assert [row.covers(Pin("m", version, "")) for version in ("3.6.14", "3.7.0", "3.7.1")] == [False, True, False]


def test_a_go_mod_is_what_it_is_built_of():
    text = (
        "module ballast.example/x\n\ngo 1.25.0\n\ntool (\n\tk8s.io/x/cmd/y\n)\n\nrequire k8s.io/kubernetes v1.35.8\n\nrequire (\n"
        "\tgoogle.golang.org/grpc v1.83.2 // indirect\n\tk8s.io/api v0.0.0\n)\n\nreplace (\n\tk8s.io/api => k8s.io/api v0.35.8\n)\n"
        "\nreplace ballast.example/command => ../command\n"
    )
    assert [(pin.name, pin.version) for pin in parse_go_mod(text, where="w")] == [
        ("k8s.io/kubernetes", "1.35.8"),
        ("google.golang.org/grpc", "1.83.2"),
        ("k8s.io/api", "0.35.8"),
    ]


def test_what_cannot_be_asked_is_said_and_is_no_failure(monkeypatch, capsys):
    monkeypatch.setattr(
        audit,
        "run",
        lambda argv, **_other: audit.subprocess.CompletedProcess(argv, 1, "", "a line\nno route to the database\n"),
    )
    monkeypatch.setattr(audit.subprocess, "run", lambda argv, **_other: None)
    assert (audit.ask_pip_audit(), audit.ask_govulncheck(), audit.ask_go()) == (0, 0, 0)
    told = capsys.readouterr().out
    for words in (
        "pip-audit: constraints.txt was not asked: no route",
        "govulncheck: not asked: no route",
        "go list: kubernetes/1.36.4 was not asked",
    ):
        assert words in told


def test_a_program_that_links_what_it_was_accepted_without_is_told(monkeypatch, capsys):
    linked = "google.golang.org/grpc\ngolang.org/x/crypto/ssh\n"
    monkeypatch.setattr(audit, "run", lambda argv, **_other: audit.subprocess.CompletedProcess(argv, 0, linked, ""))
    assert audit.ask_go() > 0
    assert (
        "etcd/3.6.14 links golang.org/x/crypto/ssh, without which CVE-2026-56854 is accepted" in capsys.readouterr().out
    )


@pytest.mark.parametrize("name", ["constraints-mutants.txt", "constraints-docs.txt"])
def test_other_environments_have_the_packages_that_the_tests_have(name):
    pins = {pin.name: pin.version for pin in parse_constraints(text_of("constraints.txt"), where="")}
    others = parse_constraints(text_of(name), where="")
    assert [pin.name for pin in others if pin.name in pins and pins[pin.name] != pin.version] == []
