"""scripts/packages.py and scripts/sanity.py: what they read before they act."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import env, packages, sanity

REQUIREMENTS = Path(packages.__file__).resolve().parent.parent / "requirements"


@pytest.mark.parametrize("name", ["packages-lab.txt", "packages-vm.txt", "packages-test.txt"])
def test_every_package_has_a_reason(name):
    wanted = packages.parse((REQUIREMENTS / name).read_text(encoding="utf-8"))
    assert wanted
    assert [package for package, reason in wanted.items() if not reason or " " in package] == []


def test_a_package_is_named_in_one_list_only():
    lists = [packages.parse(path.read_text(encoding="utf-8")) for path in sorted(REQUIREMENTS.glob("packages-*.txt"))]
    assert len(lists) == 3
    named = [name for one in lists for name in one]
    assert len(set(named)) == len(named)


def test_nothing_is_installed_when_nothing_is_missing(monkeypatch, tmp_path):
    (tmp_path / "list.txt").write_text("# a list\niproute2  # links\n", encoding="utf-8")
    monkeypatch.setattr(packages.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(packages, "installed", lambda: {"iproute2", "kmod"})
    monkeypatch.setattr(packages, "install", lambda names: pytest.fail(f"installs {names}"))
    packages.main([str(tmp_path / "list.txt")])


def test_only_what_is_missing_is_installed(monkeypatch, tmp_path):
    (tmp_path / "list.txt").write_text("iproute2  # links\nkmod # modules\nipset# sets\n", encoding="utf-8")
    asked: list[list[str]] = []
    monkeypatch.setattr(packages.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(packages, "installed", lambda: {"kmod"})
    monkeypatch.setattr(packages, "install", asked.append)
    packages.main([str(tmp_path / "list.txt")])
    assert asked == [["iproute2", "ipset"]]


def test_pip_settings_of_the_environment_win_over_those_of_files(monkeypatch):
    shown = ":env:.timeout='30'\n:env:.config-file='/dev/null'\nglobal.timeout='10'\nglobal.cert='/ca.crt'\ninstall.user='true'\n"
    monkeypatch.setattr(sanity, "run", lambda argv: shown)
    parsed = configparser.RawConfigParser()
    parsed.read_string(sanity.pip_settings())
    assert parsed["global"]["timeout"] == "30"
    assert parsed["global"]["cert"] == "/ca.crt"
    assert "install.user" not in parsed["global"]


def test_pip_installs_into_the_environment_whatever_the_user_has_set(tmp_path):
    """The shell's variables, and a pip.conf, which a variable overrides."""
    (tmp_path / "pip.conf").write_text("[install]\nuser = true\n", encoding="utf-8")
    given = {**os.environ, "PIP_USER": "1", "PIP_TARGET": "/srv", "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}
    argv = [sys.executable, "-m", "pip", "config", "debug"]
    shown = subprocess.run(argv, env=env.environment_of_pip(given), capture_output=True, text=True, check=True).stdout
    variables = shown.partition("env_var:")[2].partition("\nglobal:")[0]
    assert "PIP_USER='0'" in variables
    assert "PIP_TARGET" not in variables
