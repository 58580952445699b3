# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What decides the content of a program is the collection's, where things are kept is the operator's."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._binaries import golang
from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import FAMILIES


def test_a_build_hears_of_the_operators_caches_and_proxies_and_not_of_flags_and_memory():
    given = {
        "GOCACHE": "/big/cache",
        "GOPROXY": "https://proxy.example",
        "GOFLAGS": "-race",
        "GOGC": "5",
        "GOMEMLIMIT": "1",
    }
    found = golang.environment({**given, "HOME": "/home/ada", "GOEXPERIMENT": "x"})
    assert {name: found[name] for name in ("GOCACHE", "GOPROXY", "HOME")} == {
        "GOCACHE": "/big/cache",
        "GOPROXY": "https://proxy.example",
        "HOME": "/home/ada",
    }
    assert (found["GOFLAGS"], found["GOGC"], found["GOMEMLIMIT"]) == ("", "off", "2GiB")
    assert "GOEXPERIMENT" not in found


def test_no_program_is_compiled_with_what_the_linker_strips():
    for family in FAMILIES.values():
        flags = golang.flags(family, family.default_version)
        assert "-gcflags=all=-dwarf=false" in flags
        assert "-ldflags=-s -w" in str(flags[-1])[:16]
