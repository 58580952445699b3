# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of another module, in its types."""

from __future__ import annotations

from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._ansible.typed import read_typed


def spec() -> dict[str, dict[str, Any]]:
    below = {"enable": {"type": "list", "elements": "str", "default": ["one"]}, "limit": {"type": "int"}}
    return {"admission": {"type": "dict", "default": {}, "options": below}}


def test_a_default_of_suboptions_is_given_and_the_spec_stays_what_it_was() -> None:
    mine = spec()
    values, errors = read_typed(mine, {})
    assert errors == []
    assert values == {"admission": {"enable": ["one"], "limit": None}}
    assert mine == spec()


def test_what_is_wrong_is_told() -> None:
    _values, errors = read_typed(spec(), {"admission": {"limit": "many"}})
    assert len(errors) == 1
    assert "limit" in errors[0]
