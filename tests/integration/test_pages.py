# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pages as a reader would follow them: every command of their consoles, in one shell, and what they say that it prints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.integration import journal
from tests.integration.console import Command, commands, files, readers_environment, run_commands
from tests.integration.lab import ROOT, Lab, lab_named

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a lab")
SECONDS = 900
CONTROL_PLANE_DIR = "/var/lib/ballast/planes/api"
# They need an archive of the collection from elsewhere, an issuer (test_plane_changes.py has one), an address of this host, and a module of Go.
NOT_RUN = (
    "Without a checkout",
    "Users of an OIDC issuer",
    "Reach it from other machines",
    "Run controller tests against it",
)


def read_page(name: str, places: Mapping[str, str]) -> str:
    """The page with other places than those that it names."""
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    for written, here in places.items():
        assert written in page
        page = page.replace(written, here)
    return page


def write_files(page: str) -> None:
    """Those that the page has its reader write, with the directory that the page's first commands make."""
    for path, text in files(page).items():
        if not os.path.isabs(path):  # of the reader's own repository
            continue
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")


def commands_to_run(page: str) -> list[Command]:
    return [command for command in commands(page) if command.section not in NOT_RUN]


def of_lab(lab: Lab, home: Path) -> dict[str, str]:
    """The variables of make and of the inventory plugin, so that the commands stay as they are on the page."""
    return readers_environment(os.environ, LAB_DIR=lab.directory, LAB_NAME=lab.name, HOME=str(home))


def test_the_quick_start_does_what_it_says(tmp_path: Path) -> None:
    with lab_named("quick") as lab:
        places = {"/var/lib/ballast/lab": lab.directory}
        places.update({f"/root/{name}": f"{tmp_path}/{name}" for name in ("ballast.yml", "ballast-readiness")})
        found = commands_to_run(read_page("quick-start.md", places))
        run_commands(found, cwd=ROOT, environment=of_lab(lab, tmp_path), seconds=SECONDS)
        assert not Path(lab.directory).exists()


def test_an_application_runs_on_a_lab_and_outlives_a_node(tmp_path: Path) -> None:
    with lab_named("app") as lab:
        home = tmp_path / "app"
        places = {"/var/lib/ballast/lab": lab.directory, "/root/app": str(home), "ballast-lab-n2": "ballast-app-n2"}
        page = read_page("how-to-application.md", places)
        write_files(page)
        run_commands(commands_to_run(page), cwd=ROOT, environment=of_lab(lab, tmp_path), seconds=SECONDS)
        assert not Path(lab.directory).exists()
        assert not home.exists()


def test_a_control_plane_has_users(tmp_path: Path) -> None:
    directory = tmp_path / "plane"
    page = read_page("how-to-control-plane.md", {CONTROL_PLANE_DIR: str(directory), "/root/api": f"{tmp_path}/api"})
    write_files(page)
    found = commands_to_run(page)
    environment = readers_environment(os.environ, PLANE_DIR=str(directory), HOME=str(tmp_path))
    with journal.undone_by("ansible-playbook", "ballast.kube.control_plane_down", "-e", f"plane_dir={directory}"):
        run_commands(found, cwd=ROOT, environment=environment, seconds=SECONDS)
        assert not directory.exists()
