# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the site of the documentation in .build/site: our pages, the pages of modules and roles, the changelog, a search.

    .build/docs/environment/bin/python -m scripts.docs_site      (`make docs`)

Sources are laid in .build/docs/source as they lie in the checkout, so that links between pages hold; a link to another file of the
checkout becomes one to the repository. Modules' pages are written by antsibull-docs. Every link of the site is followed afterwards.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import yaml

from scripts import markdown
from scripts.written import ROOT

SITE = ROOT / ".build/site"
SOURCE = ROOT / ".build/docs/source"
HOME, MODULES = "index", "collection/index"
_LINK = re.compile(r"(?<=\]\()[^()\s]+(?=\))")
_CODE = re.compile(r"(`+[^`]+`+)")
_CONFIGURATION = """\
project = "ballast.kube"
author = copyright = "ballast.kube contributors"
release = version = {version!r}
extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_theme = "furo"
html_title = "ballast.kube {version}"
myst_heading_anchors = 6
# Links to anchors that are no headings, and to Ansible's own pages: the site's links are followed after it is built.
suppress_warnings = ["myst.xref_missing", "myst.header", "ref.ref"]
highlight_language = "none"
"""


def pages(root: Path = ROOT) -> list[Path]:
    """The Markdown pages of the site, relative to the checkout. Of a role only its own page, not the files that it ships."""
    every = [page.relative_to(root) for page in markdown.pages(root)]
    return [page for page in every if page.parts[0] != "roles" or page.match("roles/*/README.md")]


def navigation(root: Path = ROOT) -> dict[str, list[str]]:
    """Names of documents by caption. docs/README.md has the order of the pages in its folder."""
    every = pages(root)
    index = (root / "docs/README.md").read_text(encoding="utf-8")
    linked = [Path(os.path.normpath(f"docs/{target.partition('#')[0]}")) for _line, target in markdown.links(index)]
    guides = [page for page in dict.fromkeys(linked) if page in every and page.parent == Path("docs")]
    captions = {"Pages": [Path("docs/README.md"), *guides]}
    for page in every:
        folder = page.relative_to("docs").parent if page.parts[0] == "docs" else Path()
        if folder != Path():
            captions.setdefault(str(folder).replace("/", ": ").capitalize(), []).append(page)
    captions["Roles"] = [page for page in every if page.parts[0] == "roles"]
    captions["Project"] = [page for page in every if page.parent == Path() and page != Path("README.md")]
    named = {caption: [_document(page) for page in found] for caption, found in captions.items()}
    named["Modules"] = [MODULES]
    return named


def _document(page: Path) -> str:
    return HOME if page == Path("README.md") else str(page.with_suffix(""))


def page_of_site(page: Path, text: str, own: str, root: Path = ROOT) -> str:
    """A page with its links adjusted to the site."""
    lines = text.split("\n")
    for line in markdown.lines(text):
        if not line.in_code:
            parts = _CODE.split(line.text)
            parts[::2] = [_LINK.sub(lambda match: _target(page, match[0], own, root), part) for part in parts[::2]]
            lines[line.number - 1] = "".join(parts)
    return "\n".join(lines)


def _target(page: Path, target: str, own: str, root: Path) -> str:
    place, mark, anchor = target.partition("#")
    inside = re.fullmatch(rf"{re.escape(own)}/(?:blob|tree)/[^/]+/(.+)", place)
    if not place or (":" in place and not inside):
        return target
    other = Path(inside[1]) if inside else Path(os.path.normpath(page.parent / place))
    if other == Path("README.md"):
        other = Path(f"{HOME}.md")
    elif other not in pages(root) and other.suffix not in (".svg", ".png"):
        return f"{own}/{'tree' if (root / other).is_dir() else 'blob'}/main/{other}{mark}{anchor}"
    return os.path.relpath(other, page.parent) + mark + anchor


def lay_sources(version: str, own: str) -> None:
    shutil.rmtree(SOURCE, ignore_errors=True)
    for page in pages():
        text = page_of_site(page, (ROOT / page).read_text(encoding="utf-8"), own)
        _write(SOURCE / f"{_document(page)}.md", text + (_toctrees() if _document(page) == HOME else ""))
    for picture in (ROOT / "docs").rglob("*.svg"):
        _write(SOURCE / picture.relative_to(ROOT), picture.read_text(encoding="utf-8"))
    _write(SOURCE / "conf.py", _CONFIGURATION.format(version=version))


def _toctrees() -> str:
    parts = [
        "\n".join([f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n:caption: {caption}\n", *documents, "```\n"])
        for caption, documents in navigation().items()
    ]
    return "\n" + "\n".join(parts)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


class _Page(HTMLParser):
    """IDs and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values: Mapping[str, str] = {name: value for name, value in attrs if value}
        self.ids.update(values[name] for name in ("id", "name") if name in values)
        self.links += [values[name] for name in ("href", "src") if name in values and tag != "link"]


def broken_links(site: Path) -> Iterator[str]:
    """Each link in a page of the site to a missing file or anchor."""
    parsed_pages = {path: _Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for path, page in parsed_pages.items():
        for link in dict.fromkeys(page.links):
            place, _mark, anchor = link.partition("#")
            if ":" in place or place.startswith("//"):
                continue
            place = unquote(place.partition("?")[0])
            other = (path.parent / place).resolve() if place else path
            missing = anchor and other in parsed_pages and unquote(anchor) not in parsed_pages[other].ids
            if not other.exists() or missing:
                yield f"{path.relative_to(site)}: {link}"


def build() -> int:
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    lay_sources(galaxy["version"], galaxy["repository"])
    tools = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ.get('PATH', os.defpath)}",
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build/collections"),
        "ANSIBLE_HOME": str(ROOT / ".build/ansible"),
    }
    collection = SOURCE / Path(MODULES).parent
    collection.mkdir(mode=0o755)
    write = [str(tools / "antsibull-docs"), "collection", "--use-current", "--squash-hierarchy", "--fail-on-error"]
    shutil.rmtree(SITE, ignore_errors=True)
    make = [str(tools / "sphinx-build"), "--quiet", "--fail-on-warning", "--keep-going", "-b", "html"]
    for argv in ([*write, "--dest-dir", str(collection), "ballast.kube"], [*make, str(SOURCE), str(SITE)]):
        done = subprocess.run(argv, cwd=ROOT, env=environment, check=False)
        if done.returncode:
            return done.returncode
    broken = sorted(broken_links(SITE))
    for link in broken:
        print(f" ✗ leads nowhere: {link}")
    if not broken:
        print(f" ✓ {SITE.relative_to(ROOT)}/index.html")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(build())
