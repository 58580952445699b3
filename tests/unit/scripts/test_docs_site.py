# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Navigation of the site, and how links are carried over to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.docs_site import broken_links, navigation, page_of_site, pages

ROOT = Path(__file__).resolve().parents[3]
OWN = "https://example.org/ours"


def test_the_navigation_names_every_page_once() -> None:
    named = [document for documents in navigation().values() for document in documents]
    every = {str(page.with_suffix("")) for page in pages()} - {"README"}
    assert len(named) == len(set(named))
    assert set(named) == every | {"collection/index"}


def test_pages_of_a_folder_stand_under_its_name(tmp_path: Path) -> None:
    for name in ("README.md", "CHANGELOG.md", "docs/README.md", "docs/b.md", "docs/a.md", "docs/reference/errors-x.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("[b](b.md) [a](a.md#x)" if name == "docs/README.md" else "", encoding="utf-8")
    assert navigation(tmp_path) == {
        "Pages": ["docs/README", "docs/b", "docs/a"],
        "Reference": ["docs/reference/errors-x"],
        "Roles": [],
        "Project": ["CHANGELOG"],
        "Modules": ["collection/index"],
    }


@pytest.mark.parametrize(
    ("target", "carried"),
    [
        ("errors.md#x", "errors.md#x"),
        ("#here", "#here"),
        ("../README.md", "../index.md"),
        ("../CHANGELOG.md", "../CHANGELOG.md"),
        ("../roles/balloons/files/x.yml", f"{OWN}/blob/main/roles/balloons/files/x.yml"),
        ("../roles/balloons", f"{OWN}/tree/main/roles/balloons"),
        (f"{OWN}/blob/main/docs/errors.md#x", "errors.md#x"),
        (f"{OWN}/issues", f"{OWN}/issues"),
        ("https://example.net/x", "https://example.net/x"),
    ],
)
def test_a_link_leads_to_a_page_of_the_site_or_to_the_repository(target: str, carried: str) -> None:
    text = f"[`a`]({target})\n```\n[b](../README.md)\n```\n`[c](../README.md)`"
    page = page_of_site(Path("docs/lab.md"), text, OWN)
    assert page == f"[`a`]({carried})\n```\n[b](../README.md)\n```\n`[c](../README.md)`"


def test_links_of_the_site_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="x"><a href="b.html#y">1</a><a href="b.html#z">2</a><a href="#x">3</a><a href="c.html">4</a>'
        '<a href="https://example.org/none">5</a><img src="p.svg">',
        encoding="utf-8",
    )
    (tmp_path / "b.html").write_text('<a name="y"></a>', encoding="utf-8")
    assert sorted(broken_links(tmp_path)) == ["a.html: b.html#z", "a.html: c.html", "a.html: p.svg"]
