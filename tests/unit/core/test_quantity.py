# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import UserError
from ansible_collections.ballast.kube.plugins.module_utils._core.text.quantity import (
    Quantity,
    format_memory,
    parse_quantity,
)

SUFFIXES = {"m": Fraction(1, 1000), "": Fraction(1), "k": Fraction(1000), "M": Fraction(10**6), "Ki": Fraction(1024)}
SUFFIXES |= {"Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ei": Fraction(2**60), "E": Fraction(10**18)}


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        ("2", 2000),
        ("500m", 500),
        ("1Ki", 1024000),
        ("1e3", 1000000),
        ("1E3", 1000000),
        ("1E", 10**21),
        ("1Ei", 2**60 * 1000),
        ("1e-3", 1),
        (".5", 500),
        ("5.", 5000),
        ("+1", 1000),
        ("-1.5", -1500),
        ("0.1m", 1),
        ("1n", 1),
        ("-1n", -1),
        ("0", 0),
    ],
)
def test_quantities_are_read_as_the_api_server_does(text: str, thousandths: int) -> None:
    assert parse_quantity(text) == Quantity(thousandths)


@given(st.integers(0, 10**9), st.integers(0, 999), st.sampled_from(sorted(SUFFIXES)))
def test_a_value_is_exact_or_rounded_up_to_a_thousandth(units: int, rest: int, suffix: str) -> None:
    exact = (units + Fraction(rest, 1000)) * SUFFIXES[suffix] * 1000
    found = parse_quantity(f"{units}.{rest:03}{suffix}").thousandths
    assert exact <= found < exact + 1
    assert parse_quantity(f"-{units}.{rest:03}{suffix}").thousandths == -found


@given(st.fractions(0, 10**6, max_denominator=1000), st.fractions(0, 10**6, max_denominator=1000))
def test_order_is_that_of_the_values(one: Fraction, two: Fraction) -> None:
    def read(value: Fraction) -> Quantity:
        return parse_quantity(f"{-(-value.numerator * 10**9 // value.denominator)}n")

    assert (read(one) <= read(two)) or one > two


@given(st.integers(-(10**9), 10**9))
def test_whole_units_are_rounded_up(thousandths: int) -> None:
    whole = Quantity(thousandths).whole
    assert (whole - 1) * 1000 < thousandths <= whole * 1000
    assert Quantity.of(whole).whole == whole


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1 Gi",
        "Gi",
        "1gi",
        "1K",
        "1mi",
        "--1",
        "1e",
        "1e100",
        "0x10",
        "1,5",
        "1.2.3",
        "\u0661",
        "1\n",
        "9" * 5000,
    ],
)
def test_another_form_is_refused_with_its_path(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_quantity(text, path="nodes[0].memory")
    assert caught.value.id == "core-quantity"
    assert caught.value.text.startswith("nodes[0].memory: ")
    assert len(caught.value.text) < 500


@given(st.text())
def test_any_text_is_a_quantity_or_an_error_for_people(text: str) -> None:
    with suppress(UserError):
        assert isinstance(parse_quantity(text), Quantity)


def test_memory_is_told_in_mebibytes() -> None:
    assert format_memory(83 * 2**20 + 5) == "83 MiB"
