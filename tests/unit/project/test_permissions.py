# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of identities against what the engines make, both ways."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from scripts.permission_page import NODE, WORDS, found

ROOT = Path(__file__).resolve().parents[3]
UTILS = ROOT / "plugins/module_utils"
# Where objects that give rights, ServiceAccounts and client certificates are made: what `permission_page` reads.
KNOWN = {
    "_balloon/deployment/objects.py",
    "_fleet_run/objects.py",
    "_lab/addons/objects.py",
    "_lab/kube_proxy.py",
    "_service_proxy/daemonset/objects.py",
    "_control_plane/aggregation/deployment.py",
    "_control_plane/aggregation/objects.py",
    "_control_plane/pki/certificates.py",
    "_control_plane/engine.py",
    "_control_plane/pki/identities.py",
}
MAKES = re.compile(r'"(?:Cluster)?Role(?:Binding)?"|"ServiceAccount"|usages=\(CLIENT|common_name=|system:masters')
NAMES = {
    "_control_plane/profiles/resource_dependencies.py",
    "_control_plane/pki/pki.py",
}  # an admission plugin; certificates that others ask for


def test_the_page_says_what_the_objects_say() -> None:
    argv = [sys.executable, "-m", "scripts.permission_page", "--check"]
    done = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)


def test_every_identity_has_words_and_every_words_an_identity() -> None:
    users = {user.replace("system:node:node", f"system:node:{NODE}") for user in found()}
    assert users == set(WORDS)


def test_every_identity_may_something_that_is_said() -> None:
    assert [user for user, lines in found().items() if not lines and user != "system:node:node"] == []


def test_rights_are_made_nowhere_else() -> None:
    makers = {
        str(path.relative_to(UTILS))
        for path in UTILS.rglob("*.py")
        if MAKES.search(re.sub(r'"""[\s\S]*?"""', "", path.read_text(encoding="utf-8")))
    }
    assert makers - NAMES == KNOWN


def test_no_wildcard_is_given() -> None:
    text = "".join((UTILS / path).read_text(encoding="utf-8") for path in KNOWN)
    assert '"*"' not in text
