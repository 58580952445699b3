# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.exposition import (
    Bucket,
    histogram,
    parse_exposition,
    quantile,
    total,
)

TEXT = """\
# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{code="200",verb="GET"} 10
requests_total{code="500",verb="GET"} 2 1700000000000
requests_total_created{code="500"} 1.7e9
up 1
strange{path="a\\\\b\\"c\\nd,e}",} 3
seconds_bucket{verb="GET",le="0.1"} 5
seconds_bucket{verb="GET",le="1"} 9
seconds_bucket{verb="GET",le="+Inf"} 10
seconds_bucket{verb="PUT",le="0.1"} 1
seconds_bucket{verb="PUT",le="1"} 1
seconds_bucket{verb="PUT",le="+Inf"} 1
nothing NaN
broken{code="200" 4
broken{code=200} 4
broken
broken five
"""


def test_samples_have_names_labels_and_values() -> None:
    samples = parse_exposition(TEXT, {"requests_total", "up", "strange", "nothing", "broken"})
    assert [(sample.name, sample.value) for sample in samples] == [
        ("requests_total", 10),
        ("requests_total", 2),
        ("up", 1),
        ("strange", 3),
    ]
    assert samples[-1].labels == {"path": 'a\\b"c\nd,e}'}
    assert total(samples, "requests_total") == 12
    assert total(samples, "requests_total", code="500") == 2
    assert total(samples, "requests_total", code="404") is None


def test_series_of_a_histogram_are_added_up() -> None:
    samples = parse_exposition(TEXT, {"seconds_bucket"})
    assert histogram(samples, "seconds") == (Bucket(0.1, 6), Bucket(1, 10), Bucket(math.inf, 11))
    assert histogram(samples, "seconds", verb="PUT") == (Bucket(0.1, 1), Bucket(1, 1), Bucket(math.inf, 1))
    assert histogram(samples, "seconds", verb="LIST") == ()


def test_a_histogram_that_falls_is_none() -> None:
    text = 'seconds_bucket{le="1"} 5\nseconds_bucket{le="+Inf"} 4\n'
    assert histogram(parse_exposition(text, {"seconds_bucket"}), "seconds") == ()


@pytest.mark.parametrize(
    ("part", "wanted"),
    [(0.25, 0.05), (0.75, 0.1 + 0.9 * 5 / 7), (0.99, 1.0)],
    ids=["in the first", "between two bounds", "above the last bound"],
)
def test_quantiles(part: float, wanted: float) -> None:
    buckets = (Bucket(0.1, 10), Bucket(1, 17), Bucket(math.inf, 20))
    assert quantile(buckets, part) == pytest.approx(wanted)


def test_there_is_no_quantile_of_nothing() -> None:
    assert quantile((), 0.5) is None
    assert quantile((Bucket(1, 0), Bucket(math.inf, 0)), 0.5) is None


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=8),
    st.floats(0.01, 1),
    st.floats(0.01, 1),
)
def test_quantiles_rise_and_stay_within_the_bounds(steps: list[int], one: float, other: float) -> None:
    counts = [sum(steps[: at + 1]) for at in range(len(steps))]
    buckets = tuple(Bucket(2.0**at, count) for at, count in enumerate(counts))
    low, high = (quantile(buckets, part) for part in sorted((one, other)))
    if low is None or high is None:
        assert counts[-1] == 0
    else:
        assert 0 <= low <= high <= buckets[-1].le


@given(st.text(alphabet='ab_{}="\\,\n 0.+eInfNa#', max_size=60))
def test_whatever_is_said_is_parsed_or_passed_over(text: str) -> None:
    for sample in parse_exposition(text, {"a", "b", "ab", "a_bucket"}):
        assert not math.isnan(sample.value)
    histogram(parse_exposition(text, {"a_bucket"}), "a")


@pytest.mark.parametrize("bounds", [("1", "2"), ("-Inf", "+Inf"), ("+Inf", "nan"), ("2",)])
def test_a_histogram_ends_with_infinity_and_has_it_once(bounds: tuple[str, ...]) -> None:
    text = "".join(f'a_bucket{{le="{bound}"}} 1\n' for bound in bounds)
    expected = bounds == ("+Inf", "nan")
    assert bool(histogram(parse_exposition(text, ("a_bucket",)), "a")) is expected


def test_an_infinite_sum_is_none() -> None:
    assert total(parse_exposition("a 1\na +Inf\n", ("a",)), "a") is None
