# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The readiness report of a fleet in a browser, written as the role writes it: on a phone, in the dark, and printed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import NO, UNKNOWN
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.questionnaire import QUESTIONS
from tests.integration.browser import Page, browser
from tests.unit.readings import FEATURES, answer, away, exercise, figure, histogram, host, reading, reading_off

ROOT = Path(__file__).resolve().parents[2]
ARTEFACTS = ROOT / ".build/artefacts"
NAMES = [feature.name for feature in FEATURES]
HOSTILE = "<script>document.title = 'owned'</script><img src=x onerror=alert(1)>\"'{{ 6 * 7 }}{% raw %}\u202e&amp;"
HOSTILE_SHOWN = HOSTILE.replace("\u202e", " ")  # which would turn the line around
PHONE, DESK = 360, 1100
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ballast.kube.readiness_info:
        hosts: "{{ fleet.hosts }}"
        required_hosts: "{{ fleet.required_hosts }}"
        exercises: "{{ fleet.exercises }}"
      vars:
        fleet: "{{ lookup('ansible.builtin.file', item) | from_json }}"
      loop: "{{ fleets }}"
      register: judged
    - ansible.builtin.template:
        src: "{{ template }}"
        dest: "{{ item.item | replace('.json', '.html') }}"
        mode: "0644"
      vars:
        readiness_page: "{{ item.page }}"
      loop: "{{ judged.results }}"
      loop_control:
        label: "{{ item.item }}"
"""
# Each text with its colours, the background being the first that is painted below it.
COLOURS = """
(() => {
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!text || element.tagName === "title") continue;
    const style = getComputedStyle(element), below = (one) => {
      const colour = getComputedStyle(one).backgroundColor;
      return colour === "rgba(0, 0, 0, 0)" ? (one.parentElement ? below(one.parentElement) : "rgb(255, 255, 255)") : colour;
    };
    found.push([text, element.namespaceURI.endsWith("svg") ? style.fill : style.color, below(element)]);
  }
  return found;
})()
"""
WIDER = """
[...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 0.5)
  .map((one) => `${one.tagName} ${one.textContent.trim().slice(0, 60)}`)
"""
OPEN = "document.querySelectorAll('details').forEach((one) => one.open = true)"


def in_order() -> dict[str, Any]:
    hosts = [host(f"n{number}", *(reading(name) for name in NAMES)) for number in (1, 2, 3)]
    done = [exercise(name, "n1", kind) for name in NAMES for kind in ("enable", "setting")]
    return {"hosts": hosts, "required_hosts": ["n1", "n2", "n3"], "exercises": done}


def not_in_order() -> dict[str, Any]:
    """One of each thing that can be wrong, told in texts that are no texts for a page."""
    first = FEATURES[0]
    slow = histogram("kubeproxy_sync_proxy_rules_duration_seconds", {0.001: 3, 0.01: 50, 0.1: 90, 1: 99, 10: 120})
    wrong = reading(
        first.name,
        version=f"v1.35.8{HOSTILE}",
        present=(first.failures[0].id,),
        healthy=answer(
            NO, f"It is not: {HOSTILE}", remedy=f"run `nft` {HOSTILE}", figures=[slow], lines=["step " * 90]
        ),
        scale=answer(figures=[figure("memory" * 12, 7e8, "B", limit=5e8, how=HOSTILE), figure(HOSTILE, 3, limit=4)]),
    )
    hosts = [
        host("n1", *(reading(name) for name in NAMES)),
        host("n2", wrong, reading(NAMES[1], healthy=answer(UNKNOWN, "Nothing answers.")), reading_off(NAMES[2])),
        away("n3", HOSTILE),
        {
            **host("a-node-with-a-long-name.of.a.rack.of.a.hall.example.org"),
            "features": {NAMES[3]: {"failed": HOSTILE}},
        },
    ]
    failed = exercise(first.name, "n1", "enable", ok=False)
    return {"hosts": hosts, "required_hosts": ["n9"], "exercises": [failed, exercise(first.name, "n1", "setting")]}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages, by Ansible's own template action: its settings of jinja2 are not the library's."""
    directory = tmp_path_factory.mktemp("report")
    fleets = {"in_order": in_order(), "not_in_order": not_in_order()}
    for name, fleet in fleets.items():
        (directory / f"{name}.json").write_text(json.dumps(fleet), encoding="utf-8")
    (directory / "play.yml").write_text(PLAY, encoding="utf-8")
    given = {
        "ansible_python_interpreter": sys.executable,
        "template": str(ROOT / "roles/readiness/templates/report.html.j2"),
        "fleets": [str(directory / f"{name}.json") for name in fleets],
    }
    argv = ["ansible-playbook", "-i", "localhost,", "-c", "local", "-e", json.dumps(given), str(directory / "play.yml")]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    return {name: directory / f"{name}.html" for name in fleets}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


def luminance(colour: str) -> float:
    """https://www.w3.org/TR/WCAG21/#dfn-relative-luminance; a colour that lets something through is refused."""
    found = re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", colour)
    assert found, colour
    parts = [int(part) / 255 for part in found.groups()]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", ["in_order", "not_in_order"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_on_a_phone_everything_is_within_the_screen_and_legible(page, pages, name, dark):
    page.looks(width=PHONE, dark=dark)
    page.open(pages[name])
    page.shoot(ARTEFACTS / f"readiness-{name}-phone-{'dark' if dark else 'light'}.png")
    page.asks(OPEN)
    assert page.asks("document.documentElement.scrollWidth") <= PHONE
    assert page.asks(WIDER) == []
    colours = page.asks(COLOURS)
    assert len(colours) > 500
    faint = {(text, one, other) for text, one, other in colours if contrast(one, other) < 4.5}
    assert faint == set()
    assert (luminance(colours[0][2]) < 0.5) == dark


@pytest.mark.parametrize("name", ["in_order", "not_in_order"])
def test_headings_stand_in_order_and_links_lead_somewhere(page, pages, name):
    page.looks(width=DESK)
    page.open(pages[name])
    page.shoot(ARTEFACTS / f"readiness-{name}-desk.png")
    levels = page.asks("[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((one) => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert [pair for pair in zip(levels, levels[1:]) if pair[1] > pair[0] + 1] == []
    ids = page.asks("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert sorted(ids) == sorted(set(ids))
    links = page.asks("[...document.querySelectorAll('a')].map((one) => one.getAttribute('href'))")
    assert [link for link in links if not link.startswith("#") or link[1:] not in ids] == []
    assert page.asks("document.documentElement.lang") == "en"


def test_every_figure_leads_to_how_it_was_got(page, pages):
    page.open(pages["not_in_order"])
    unlinked = "[...document.querySelectorAll('details:not(.questionnaire) > ul > li')].filter((one) => !one.querySelector('a[href^=\"#how-\"]'))"
    assert page.asks(f"{unlinked}.length") == 0
    sources = page.asks("[...document.querySelectorAll('#sources ~ ol > li')].map((one) => one.textContent)")
    assert "GET /metrics: in_flight" in sources
    assert HOSTILE_SHOWN in sources


def test_what_hosts_tell_is_text_and_nothing_is_fetched(page, pages):
    page.open(pages["not_in_order"])
    assert page.asks("document.title") == "Production readiness: FAIL"
    assert page.asks("document.querySelectorAll('script, img, link, iframe').length") == 0
    assert page.asks("performance.getEntriesByType('resource').length") == 0
    assert page.asks("document.body.innerText").count(HOSTILE_SHOWN) >= 4
    assert re.findall(r"(?:src|href)=.(?!#)|url\(|@import", pages["in_order"].read_text(encoding="utf-8")) == []


def test_the_browser_runs_and_fetches_nothing_that_a_host_could_smuggle_in(page, pages):
    """The policy is what holds if an escape were ever forgotten: what stands in the page is neither run nor loaded."""
    page.open(pages["not_in_order"])
    planted = "document.body.insertAdjacentHTML('beforeend', `<img src=x onerror='document.title = 1'>`)"
    script = "const one = document.createElement('script'); one.text = 'document.title = 2'; document.body.append(one)"
    style = "document.body.insertAdjacentHTML('beforeend', '<style>body { display: none }</style>')"
    for attempt in (planted, script, style):
        page.asks(f"(() => {{ {attempt}; return 0 }})()")
    assert page.asks("document.title") == "Production readiness: FAIL"
    assert page.asks("getComputedStyle(document.body).display") == "block"
    assert page.asks("getComputedStyle(document.querySelector('.light')).borderRadius") != "0px"


def test_lights_have_words(page, pages):
    page.open(pages["not_in_order"])
    words = page.asks(
        "[...document.querySelectorAll('.light')].map((one) => one.className + ': ' + one.textContent.trim())"
    )
    assert words[0] == "light red: ✕ FAIL"
    assert [word for word in words if not re.search(r": [✓?✕–] \w", word)] == []
    page.open(pages["in_order"])
    assert page.asks("document.querySelectorAll('.red:not(.cards *), .amber:not(.cards *)').length") == 0
    assert page.asks("document.querySelector('h1 .light').textContent.trim()") == "✓ PASS"


def test_a_grid_says_each_host_and_feature_in_a_word_and_the_questionnaire_is_closed(page, pages):
    page.looks(width=DESK)
    page.open(pages["not_in_order"])
    rows = page.asks(
        "[...document.querySelectorAll('tbody tr')].map((row) => [...row.querySelectorAll('td')].map((one) => one.textContent))"
    )
    assert len(rows) == 6, "four hosts, one that was required and is away, and the drills"
    assert {word for row in rows for word in row} <= {"✓ PASS", "? WARN", "✕ FAIL", "– OFF", "not asked"}
    assert page.asks("document.querySelectorAll('.questionnaire').length") == len(NAMES)
    assert page.asks("document.querySelectorAll('.questionnaire[open]').length") == 0
    assert "tests/" not in page.asks("document.body.textContent")


def test_each_feature_is_asked_in_the_order_of_the_template(page, pages):
    page.open(pages["in_order"])
    sections = "[...document.querySelectorAll('section.feature')]"
    assert page.asks(f"{sections}.map((one) => one.querySelector('h2').id)") == NAMES
    asked = page.asks(
        f"{sections}.map((one) => [...one.querySelectorAll('.questionnaire > h4')].map((row) => row.textContent))"
    )
    assert asked == [[question.text for question in QUESTIONS]] * len(NAMES)


def test_printed_it_is_dark_on_white_and_whole(page, pages):
    """What is closed on the screen is open on paper, and a reader who likes the screen dark does not print it so."""
    page.looks(width=DESK, dark=True, media="print")
    page.open(pages["in_order"])
    closed = "[...document.querySelectorAll('details:not([open]) p')]"
    assert page.asks(f"{closed}.length") > 0
    assert page.asks(f"{closed}.filter((one) => !one.checkVisibility() || !one.offsetHeight).length") == 0
    faint = [row for row in page.asks(COLOURS) if contrast(row[1], row[2]) < 4.5]
    assert faint == []
    assert page.asks("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.prints(ARTEFACTS / "readiness-in_order.pdf")
    assert (ARTEFACTS / "readiness-in_order.pdf").read_bytes().startswith(b"%PDF")
