# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text format of Prometheus: read strictly, never a traceback."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.metrics import (
    distribution,
    labels_of,
    parse_samples,
    quantile,
    spread,
    total,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.readiness import Bucket

TEXT = r"""
# HELP kube_sync_seconds [ALPHA] How long
# TYPE kube_sync_seconds histogram
kube_sync_seconds_bucket{ip_family="IPv4",le="0.1"} 2
kube_sync_seconds_bucket{ip_family="IPv4",le="0.2"} 4
kube_sync_seconds_bucket{ip_family="IPv4",le="+Inf"} 4
kube_sync_seconds_bucket{ip_family="IPv6",le="0.1"} 0
kube_sync_seconds_bucket{ip_family="IPv6",le="0.2"} 4
kube_sync_seconds_bucket{ip_family="IPv6",le="+Inf"} 6
kube_sync_seconds_sum{ip_family="IPv4"} 0.3
failures_total{of="a}b \" c",to="x"} 3 1763905200000
failures_total{of="d"} 1e2
up 1
"""
SAMPLES = parse_samples(TEXT)


def test_samples_are_read_with_their_labels_as_written() -> None:
    assert SAMPLES["up"] == {"": 1.0}
    assert SAMPLES["failures_total"] == {r'{of="a}b \" c",to="x"}': 3.0, '{of="d"}': 100.0}
    assert labels_of(r'{of="a}b \" c",to="x"}') == {"of": r"a}b \" c", "to": "x"}
    assert set(parse_samples(TEXT, prefix="up")) == {"up"}


@pytest.mark.parametrize(
    ("name", "labels", "found"),
    [
        ("failures_total", {}, 103.0),
        ("failures_total", {"of": "d"}, 100.0),
        ("failures_total", {"of": "e"}, None),
        ("absent", {}, None),
    ],
)
def test_a_total_is_over_what_has_the_labels(name: str, labels: Mapping[str, str], found: float) -> None:
    assert total(SAMPLES, name, **labels) == found


def test_a_total_with_what_is_no_number_is_not_known() -> None:
    assert total(parse_samples('a{b="1"} 1\na{b="2"} NaN\n'), "a") is None


def test_a_distribution_is_over_what_has_the_labels() -> None:
    assert distribution(SAMPLES, "kube_sync_seconds") == (Bucket(0.1, 2), Bucket(0.2, 8), Bucket(math.inf, 10))
    assert distribution(SAMPLES, "kube_sync_seconds", ip_family="IPv6")[-1] == Bucket(math.inf, 6)
    assert distribution(SAMPLES, "kube_sync_seconds", ip_family="IPv5") == ()


@pytest.mark.parametrize(
    "rows",
    [
        [("0.1", "2"), ("0.2", "4")],
        [("0.1", "5"), ("+Inf", "4")],
        [("0.1", "-1"), ("+Inf", "4")],
        [("0.1", "NaN"), ("+Inf", "4")],
        [("one", "1"), ("+Inf", "4")],
        [("nan", "1"), ("+Inf", "4")],
        [("0.1", "1"), ("+Inf", "+Inf")],
    ],
)
def test_a_distribution_that_contradicts_itself_is_none(rows: list[tuple[str, str]]) -> None:
    text = "".join(f'a_bucket{{le="{bound}"}} {count}\n' for bound, count in rows)
    assert distribution(parse_samples(text), "a") == ()


def test_one_without_a_bound_is_none() -> None:
    assert distribution(parse_samples('a_bucket{x="1"} 1\na_bucket{le="+Inf"} 1\n'), "a") == ()


@pytest.mark.parametrize(
    ("counts", "share", "found"),
    [
        ((2, 8, 10), 0.5, 0.15),
        ((2, 8, 10), 0.2, 0.1),
        ((2, 8, 10), 0.1, 0.05),
        ((2, 8, 10), 0.99, 0.2),  # above the last bound
        ((0, 0, 5), 0.99, 0.2),
        ((0, 0, 0), 0.99, None),
    ],
)
def test_a_quantile_is_as_promql_has_it(counts: tuple[int, int, int], share: float, found: float) -> None:
    buckets = tuple(Bucket(le, count) for le, count in zip((0.1, 0.2, math.inf), counts))
    assert quantile(buckets, share) == (None if found is None else pytest.approx(found))


def test_of_nothing_there_is_no_quantile() -> None:
    assert quantile((), 0.5) is None


def test_a_figure_says_what_it_is() -> None:
    figure = spread(SAMPLES, "kube_sync_seconds", unit="s", how="there", ip_family="IPv4")
    assert (figure.name, figure.unit, figure.how) == ("kube_sync_seconds, 99% quantile", "s", "there")
    assert figure.value == pytest.approx(0.198)
    assert len(figure.buckets) == 3


@given(st.text(max_size=200), st.sampled_from(["", 'a_bucket{le="', "a{", 'a{b="\\']))
def test_no_text_is_too_wrong_to_be_read(text: str, beginning: str) -> None:
    samples = parse_samples(beginning + text)
    total(samples, "a")
    quantile(distribution(samples, "a"), 0.99)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.floats(0, 1))
def test_a_quantile_lies_within_the_bounds(steps: list[int], share: float) -> None:
    counts = [sum(steps[: number + 1]) for number in range(len(steps))]
    text = "".join(f'a_bucket{{le="{number + 1}"}} {count}\n' for number, count in enumerate(counts))
    buckets = distribution(parse_samples(f'{text}a_bucket{{le="+Inf"}} {counts[-1]}\n'), "a")
    found = quantile(buckets, share)
    assert (found is None) == (counts[-1] == 0)
    assert found is None or 0 <= found <= len(steps)
