# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.queue import Queue, priority_of
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.request import credentials_digest
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.settings import Priority
from tests.unit.pulls.core.given import request

SALT = b"salt"
texts = st.text(max_size=4)


@given(first=st.dictionaries(texts, texts), other=st.dictionaries(texts, texts))
def test_credentials_have_one_digest_exactly_when_their_fields_that_are_not_empty_are_the_same(first, other):
    def meant(fields):
        return {name: value for name, value in fields.items() if value}

    same = credentials_digest(first, SALT) == credentials_digest(other, SALT)
    assert same == (meant(first) == meant(other))
    assert (credentials_digest(first, SALT) == b"") == (not meant(first))


def test_where_one_field_ends_and_the_next_begins_counts():
    assert credentials_digest({"a": "bc"}, SALT) != credentials_digest({"ab": "c"}, SALT)
    assert credentials_digest({"a": "b", "c": "d"}, SALT) != credentials_digest({"a": "bc", "d": ""}, SALT)


def test_the_digest_is_salted_and_does_not_tell_the_password():
    digest = credentials_digest({"password": "secret"}, SALT)
    assert digest != credentials_digest({"password": "secret"}, b"other")
    assert b"secret" not in digest


def test_credentials_that_are_no_utf_8_have_a_digest_too():
    assert credentials_digest({"password": b"\xff".decode(errors="surrogateescape")}, SALT)


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({}, 0),
        ({"namespace": "kube-system"}, 2000001000),
        ({"pod_annotations": {"rank": "7"}}, 7),
        ({"pod_annotations": {"rank": "-7"}}, -7),
        ({"pod_annotations": {"rank": "+7"}}, 7),
        ({"pod_annotations": {"other": "7"}}, 0),
        ({"pod_annotations": {"rank": "7"}, "namespace": "kube-system"}, 7),
        ({"pod_annotations": {"rank": "high"}, "namespace": "kube-system"}, 0),
        *[
            ({"pod_annotations": {"rank": text}}, 0)
            for text in ["", " 7", "7.0", "1e3", "0x7", "1_000", "\u0667", "9" * 5000]
        ],
    ],
)
def test_priority(changes, value):
    assert priority_of(request(**changes), Priority(annotation="rank")) == value


def test_without_an_annotation_named_the_namespace_alone_counts():
    of = request(namespace="db", pod_annotations={"": "9", "rank": "9"})
    assert priority_of(of, Priority(namespaces={"db": 3})) == 3


places = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=12)


def filled(rows, *, by_priority, ageing=10.0):
    queue = Queue(by_priority=by_priority, ageing=ageing)
    for number, (arrived, priority) in enumerate(sorted(rows, key=lambda row: row[0])):
        queue.put((number, arrived, priority), arrived=float(arrived), priority=priority)
    return queue


@given(rows=places, by_priority=st.booleans(), now=st.integers(30, 45))
def test_those_who_wait_are_taken_in_the_order_that_is_told(rows, by_priority, now):
    queue = filled(rows, by_priority=by_priority)
    order = queue.in_order(now)
    assert [queue.pop(now) for _turn in rows] == order
    assert len(queue) == 0


@given(rows=places, now=st.integers(30, 45))
def test_nobody_is_taken_before_one_who_should_go_first(rows, now):
    order = filled(rows, by_priority=True).in_order(now)
    for place, (number, arrived, priority) in enumerate(order):
        for later_number, later_arrived, later_priority in order[place + 1 :]:
            assert not (
                now - later_arrived >= 10 and later_number < number
            )  # the other has waited long, and came before
            assert now - arrived >= 10 or (priority, -number) > (later_priority, -later_number)


@given(rows=places)
def test_fifo_is_the_order_of_arrival(rows):
    assert [number for number, *_rest in filled(rows, by_priority=False).in_order(99)] == list(range(len(rows)))


def test_raising_and_removing_pass_over_those_who_do_not_wait():
    queue = filled([(0, 1), (1, 1)], by_priority=True, ageing=99.0)
    queue.raise_to("nobody", 9)
    queue.remove("nobody")
    first, second = queue
    queue.raise_to(second, 0)
    assert queue.in_order(2.0) == [first, second]
    queue.raise_to(second, 2)
    assert queue.in_order(2.0) == [second, first]
    queue.remove(second)
    assert list(queue) == [first]


@pytest.mark.parametrize("name", ["seen", "source", "hash", "mirror"])
def test_what_the_kubelet_adds_to_a_pods_annotations_does_not_part_pulls(name):
    own = (f"kubernetes.io/config.{name}", "2026-01-02T03:04:05.000000006Z")
    assert request(annotations=(("a", "b"), own)).key == request(annotations=(("a", "b"),)).key
    assert request(annotations=(("a", "b"), own)).key != request(annotations=(("a", "c"), own)).key
