# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what is asked to targets and balloons: exact, and never more than the host has."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import DAEMONSET, STATIC, Fleet
from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import BalloonsRequest, NodeRequest
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import (
    FLOOR,
    MIB,
    NONE,
    Resources,
    total,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.sizing import kept_resources, sizes, targets
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.unit.balloon.sized import (
    CAPACITY,
    OVERHEAD,
    amount,
    asked,
    balloon,
    fleet,
    ids,
    node,
    pod,
    problems,
    request,
)

RESERVE = amount(2000, 8 * 1024)
NAMES = [f"n{number}" for number in range(1, 9)]


def test_the_example_of_the_page():
    found = fleet(*map(node, NAMES), reserve=RESERVE)
    wanted = asked(found, *({"name": name} for name in NAMES))
    assert wanted == dict.fromkeys(NAMES, amount(1750, 7 * 1024))
    assert sizes(wanted, found) == dict.fromkeys(NAMES, amount(14150, 58012))
    three = fleet(*map(node, "abc"), reserve=RESERVE)
    assert asked(three, *({"name": name} for name in "abc")) == dict.fromkeys("abc", amount(4666, 19114))


def test_remainders_are_no_nodes():
    found = fleet(*map(node, ["a", "b", "c"]), capacity=Resources(1000, 1000 * MIB + 1))
    shares = asked(found, *({"name": name, "share": "1/3"} for name in "abc"))
    weights = asked(found, *({"name": name, "weight": 5} for name in "abc"))
    assert shares == weights == dict.fromkeys("abc", amount(333, 333))


@given(
    allocatable=st.builds(Resources, st.integers(1_000, 15_900), st.integers(2**30, 2**36 - 2**29)),
    target=st.builds(Resources, st.integers(1, 900), st.integers(1, 2**30 - FLOOR.memory)),
)
def test_pods_can_request_the_target_to_the_byte_whatever_is_allocatable(allocatable: Resources, target: Resources):
    found = fleet(node("a", allocatable=allocatable), reserve=NONE)
    wanted = asked(found, {"name": "a", "target": {"cpu": f"{target.cpu}m", "memory": str(target.memory)}})
    size = sizes(wanted, found)["a"]
    sized = node("a", allocatable=allocatable, balloon=balloon(size), target=target)
    assert wanted["a"] == target == sized.schedulable
    assert kept_resources(sized) == target


def test_a_pod_of_4_gib_fits_where_allocatable_is_no_whole_number_of_mib():
    allocatable = Resources(3900, 8_133_992_448)
    found = fleet(node("a", allocatable=allocatable), reserve=NONE)
    size = sizes(asked(found, {"name": "a", "target": {"cpu": "1", "memory": "4Gi"}}), found)["a"]
    assert size.as_quantities() == {"cpu": "2900m", "memory": str(8_133_992_448 - 4 * 2**30)}


def test_a_target_counts_before_a_share_and_that_before_a_weight_for_each_resource():
    found = fleet(*map(node, ["a", "b", "c"]), reserve=RESERVE)
    wanted = asked(
        found,
        {"name": "a", "target": {"cpu": "2"}, "share": "1/2", "weight": 9},
        {"name": "b", "share": "1/4"},
        {"name": "c", "target": {"memory": "1Gi"}, "weight": 3},
    )
    assert wanted == {"a": amount(2000, 28 * 1024), "b": amount(3500, 14 * 1024), "c": amount(8500, 1024)}


def test_weights_divide_what_the_others_leave():
    found = fleet(*map(node, ["a", "b", "c"]), reserve=RESERVE)
    rows = [{"name": "a", "target": {"cpu": "2", "memory": "8Gi"}}, {"name": "b", "weight": 2}, {"name": "c"}]
    assert asked(found, *rows) == {"a": amount(2000, 8192), "b": amount(8000, 32 * 1024), "c": amount(4000, 16 * 1024)}


def test_nodes_that_are_not_named_keep_what_they_have():
    kept = node("kept", target=amount(4000, 16 * 1024))  # its balloon is gone, and the reconciler grows it anew
    opened = node("open", balloon=balloon(amount(15900 - 2000, 64 * 1024 - 356 - 8 * 1024)))
    found = fleet(node("a"), kept, opened, reserve=RESERVE)
    assert asked(found, {"name": "a"}) == {"a": amount(8000, 32 * 1024)}


def test_nodes_of_other_hosts_do_not_count():
    found = fleet(node("a"), node("b", host="h2"), node("c", host="h3"), reserve=RESERVE)
    wanted = asked(found, {"name": "a"}, {"name": "b", "share": "1/2"})
    assert wanted == {"a": amount(14000, 56 * 1024), "b": amount(7000, 28 * 1024)}


def test_a_target_beyond_the_node_is_kept_as_far_as_the_node_goes():
    kept = node("kept", capacity=amount(4000, 4096), allocatable=amount(3000, 4000), target=amount(9000, 2048))
    found = fleet(node("a"), kept, reserve=NONE)
    assert asked(found, {"name": "a"}) == {"a": amount(16000 - 2999, 62 * 1024)}


def test_a_share_that_a_target_stands_for_does_not_count():
    both = {"cpu": "1", "memory": "1Gi"}
    found = fleet(node("a"), node("b"), reserve=RESERVE)
    wanted = asked(found, {"name": "a", "share": "2/3", "target": both}, {"name": "b", "share": "1/2"})
    assert wanted == {"a": amount(1000, 1024), "b": amount(7000, 28 * 1024)}


@pytest.mark.parametrize(("more", "wrong"), [((0, 0), 0), ((1, 0), 1), ((0, 1), 1), ((1, 1), 2)])
def test_targets_may_take_all_of_the_room_and_nothing_above(more: tuple[int, int], wrong: int):
    found = fleet(node("a"), node("b"), reserve=RESERVE)
    half = {"cpu": "7", "memory": "28Gi"}
    rest = {"cpu": f"{7000 + more[0]}m", "memory": f"{28 * 1024 + more[1]}Mi"}
    rows = [{"name": "a", "target": half}, {"name": "b", "target": rest}]
    if wrong:
        assert ids(lambda: asked(found, *rows)) == ["balloon-over-room"] * wrong
    else:
        assert total(asked(found, *rows).values()) == found.unreserved("h1")


def test_shares_and_weights_end_at_what_the_node_can_give():
    small = node("small", capacity=amount(4000, 4096), allocatable=amount(3900, 4000))
    found = fleet(small, node("large"), reserve=NONE)
    assert asked(found, {"name": "small", "share": "1/2"}, {"name": "large", "target": {"cpu": "1", "memory": "1Gi"}})[
        "small"
    ] == amount(3899, 3984)
    by_weight = asked(found, {"name": "small"}, {"name": "large"})
    assert by_weight == {"small": amount(3899, 3984), "large": amount(8000, 32 * 1024)}


def test_the_reserve_is_what_the_kubelets_reserve_unless_it_is_given():
    assert fleet(*map(node, NAMES), reserve=None).unreserved("h1") == CAPACITY - amount(800, 8 * 356)
    assert fleet(*map(node, NAMES), reserve=NONE).unreserved("h1") == CAPACITY


def test_a_node_alone_on_its_host_has_nearly_all_of_it():
    found = fleet(node("a"), reserve=None)
    assert asked(found, {"name": "a"}) == {"a": CAPACITY - OVERHEAD - FLOOR}
    assert sizes(asked(found, {"name": "a"}), found) == {"a": FLOOR}


def test_absent_is_the_floor_of_every_node_that_is_there():
    rows = [{"name": "a", "share": "1/8"}, {"name": "gone"}]  # as they stood while they were present
    odd = node("a", allocatable=CAPACITY - OVERHEAD - Resources(0, 1))
    found = fleet(odd, node("b", target=amount(1000, 1024)), reserve=None)
    assert sizes(asked(found, *rows, state="absent"), found) == {"a": FLOOR}


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (
            [{"name": "a", "share": "2/3"}, {"name": "b", "share": "1/2"}],
            ["balloon-shares-over"] + ["balloon-over-room"] * 2,
        ),
        ([{"name": "a", "share": "1"}, {"name": "b"}], ["balloon-nothing-left"] * 2),
        ([{"name": "a"}, {"name": "b", "target": {"cpu": "15"}}], ["balloon-over-room"]),
        ([{"name": "a"}, {"name": "b", "target": {"cpu": "15900m"}}], ["balloon-over-room", "balloon-above-node"]),
        ([{"name": "a"}, {"name": "x"}], ["balloon-unknown-node"]),
        (
            [{"name": "a", "target": {"memory": "9999Gi"}}, {"name": "x"}],
            ["balloon-unknown-node", "balloon-over-room", "balloon-above-node"],
        ),
        ([{"name": "a", "weight": 10**9}, {"name": "b"}], ["balloon-nothing-left"] * 2),
    ],
)
def test_what_cannot_be_is_refused(rows: list[dict[str, Any]], wrong: list[str]):
    found = fleet(node("a"), node("b"), reserve=RESERVE)
    assert ids(lambda: asked(found, *rows)) == wrong


def test_a_node_that_is_not_named_and_has_no_target_may_hold_the_whole_host():
    found = problems(lambda: asked(fleet(node("a"), node("b"), reserve=RESERVE), {"name": "a"}))
    assert [problem.id for problem in found] == ["balloon-over-room"] * 2
    assert found[0].text == "host h1: targets add up to 15899m cpu, more than its unreserved 14000m"
    assert found[0].found == "15899m of that are used by unlisted nodes: b"


def test_an_unknown_name_is_told_with_the_nearest():
    found = problems(lambda: asked(fleet(node("worker-1"), reserve=RESERVE), {"name": "worker1"}, {"name": "z"}))
    assert [problem.found for problem in found] == ["the nearest is worker-1", ""]


def test_a_target_below_static_and_daemonset_pods_names_them():
    pods = (
        pod("etcd", amount(100, 200), STATIC),
        pod("proxy", amount(250, 0), DAEMONSET),
        pod("web", amount(9000, 9000)),
    )
    found = fleet(node("a", pods=pods), reserve=RESERVE)
    assert asked(found, {"name": "a", "target": {"cpu": "350m", "memory": "200Mi"}}) == {"a": amount(350, 200)}
    (wrong,) = problems(lambda: asked(found, {"name": "a", "target": {"cpu": "349m"}}))
    assert wrong.text == "a: target 349m cpu is below the requests of its static and DaemonSet pods, 350m"
    assert wrong.found == "kube-system/proxy (daemonset, 250m), kube-system/etcd (static, 100m)"
    assert ids(lambda: asked(found, {"name": "a", "target": {"memory": "199Mi"}})) == ["balloon-below-pods"]


def test_many_pods_are_not_all_named():
    pods = tuple(pod(f"p{number:02}", amount(1, 1), DAEMONSET) for number in range(30))
    found = fleet(node("a", pods=pods), reserve=RESERVE)
    (wrong,) = problems(lambda: asked(found, {"name": "a", "target": {"cpu": "1m"}}))
    assert wrong.found.endswith("kube-system/p09 (daemonset, 1m), and 20 more")


def test_a_reserve_beyond_the_host_is_refused():
    found = fleet(node("a"), reserve=amount(16001, 0))
    assert ids(lambda: asked(found, {"name": "a"})) == ["balloon-reserve-over"]


def test_with_limits_the_reserve_holds_what_the_kubelets_reserve():
    rows = [{"name": name, "slice": f"ballast-{name}"} for name in ("a", "b")]
    low = fleet(node("a"), node("b"), reserve=amount(199, 1024))
    assert ids(lambda: asked(low, *rows, slices=True)) == ["balloon-reserve-low"]
    assert asked(low, {"name": "a"}, {"name": "b"})
    enough = fleet(node("a"), node("b"), reserve=amount(200, 712))
    assert asked(enough, *rows, slices=True)


amounts = st.builds(Resources, st.integers(0, 20_000), st.integers(0, 2**35))


def part(draw: st.DrawFn, whole: Resources, count: int) -> Resources:
    """Up to a `count`th of each."""
    return Resources(draw(st.integers(0, whole.cpu // count)), draw(st.integers(0, whole.memory // count)))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Fleet, tuple[NodeRequest, ...]]:
    """Two hosts of a size and their nodes. Sizes are of bytes that are no whole MiB. Most cases can be divided: no node is
    given, has a share of, or keeps more than the room by the number of a host's nodes. Weights are free."""
    count = draw(st.integers(1, 5))
    capacity = draw(st.builds(Resources, st.integers(1_000, 100_000), st.integers(2**31, 2**37)))
    reserve = part(draw, capacity, 20)
    nodes, rows = [], []
    for name in [f"{host}{number}" for host in ("g", "h") for number in range(count)]:
        allocatable = capacity - part(draw, reserve, 1)
        size = (allocatable - part(draw, capacity - reserve, count)).most(FLOOR)
        pods = draw(st.sampled_from([(), (pod("s", Resources(1, 3), STATIC),)]))
        if not rows or draw(st.booleans()):
            rows.append(_row(draw, name, capacity - reserve, count))
        target = part(draw, capacity - reserve, count) if draw(st.booleans()) else None
        found = node(name, host=name[0], capacity=capacity, allocatable=allocatable, pods=pods, target=target)
        nodes.append(replace(found, balloon=balloon(size)))
    return fleet(*nodes, reserve=reserve, capacity=capacity), tuple(rows)


def _row(draw: st.DrawFn, name: str, room: Resources, count: int) -> NodeRequest:
    given = part(draw, room, count).most(amount(1, 2))  # enough for the static pod
    target = {"cpu": given.cpu} if draw(st.booleans()) else {}
    target.update({"memory": given.memory} if draw(st.booleans()) else {})
    share = Fraction(draw(st.integers(1, 8)), 8 * count) if draw(st.booleans()) else None
    return NodeRequest(name, target, share, draw(st.one_of(st.none(), st.integers(1, 9))))


def wanted_by(asked_for: tuple[NodeRequest, ...]) -> BalloonsRequest:
    return replace(request({"name": "a"}), nodes=asked_for)


def planned(found: Fleet, asked_for: tuple[NodeRequest, ...]) -> dict[str, Resources]:
    try:
        return targets(wanted_by(asked_for), found)
    except BallastError:
        assume(False)
        raise


@given(cases())
def test_no_host_is_oversold(case: tuple[Fleet, tuple[NodeRequest, ...]]):
    found, asked_for = case
    wanted = planned(found, asked_for)
    assert set(wanted) == {row.name for row in asked_for}
    balloons = sizes(wanted, found)
    for host in {found.nodes[name].host for name in wanted}:
        left = []
        for one in found.of_host(host):
            if one.name in wanted:
                left.append(one.allocatable - balloons[one.name])
                assert left[-1] == wanted[one.name]
            elif one.target is not None:
                left.append(one.allocatable - one.balloon_for(one.target))
            else:
                left.append(one.schedulable)
        assert total(left).fits_in(found.unreserved(host))
    for name, target in wanted.items():
        given = next(row.target for row in asked_for if row.name == name)
        assert target.memory == given["memory"] if "memory" in given else target.memory % MIB == 0
        assert FLOOR.fits_in(balloons[name])
        assert balloons[name].fits_in(found.nodes[name].allocatable.most(FLOOR))
        assert found.nodes[name].needed.fits_in(found.nodes[name].allocatable - balloons[name])


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_of_nodes_changes_nothing(case: tuple[Fleet, tuple[NodeRequest, ...]], dice: Any):
    found, asked_for = case
    names = list(found.nodes)
    dice.shuffle(names)
    shuffled = replace(found, nodes={name: found.nodes[name] for name in names})
    other = tuple(dice.sample(asked_for, len(asked_for)))

    def answer(fleet: Fleet, rows: tuple[NodeRequest, ...]) -> object:
        try:
            return list(targets(wanted_by(rows), fleet).items())
        except BallastError as error:
            return sorted(str(error).splitlines())

    assert answer(found, asked_for) == answer(shuffled, other)


@given(cases(), st.data())
def test_a_larger_weight_is_never_less_and_never_more_for_others(
    case: tuple[Fleet, tuple[NodeRequest, ...]], data: st.DataObject
):
    found, asked_for = case
    before = planned(found, asked_for)
    chosen = data.draw(st.sampled_from(asked_for))
    larger = replace(chosen, weight=(chosen.weight or 1) + data.draw(st.integers(1, 20)))
    after = planned(found, tuple(larger if row is chosen else row for row in asked_for))
    for name, target in before.items():
        if name == chosen.name:
            assert target.fits_in(after[name])
        else:
            assert after[name].fits_in(target)


@given(cases(), amounts)
def test_more_room_is_less_for_none(case: tuple[Fleet, tuple[NodeRequest, ...]], more: Resources):
    found, asked_for = case
    # A share is rounded, too, so that of one unit more it may leave weights less.
    asked_for = tuple(replace(row, share=None) for row in asked_for)
    before = planned(found, asked_for)
    larger = replace(found, capacities={host: capacity + more for host, capacity in found.capacities.items()})
    after = planned(larger, asked_for)
    assert all(target.fits_in(after[name]) for name, target in before.items())


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8))
def test_equal_weights_are_equal_parts_and_remainders_are_below_a_unit_for_each(weights: list[int]):
    found = fleet(*map(node, NAMES[: len(weights)]), reserve=RESERVE)
    wanted = asked(found, *({"name": name, "weight": weight} for name, weight in zip(NAMES, weights)))
    unused = found.unreserved("h1") - total(wanted.values())
    assert 0 <= unused.cpu < len(weights)
    assert 0 <= unused.memory < len(weights) * MIB
    assert all(
        one == other for v, one in zip(weights, wanted.values()) for w, other in zip(weights, wanted.values()) if v == w
    )


def test_a_thousand_nodes_of_a_host_and_of_a_thousand_hosts():
    names = [f"n{number:04}" for number in range(1000)]
    large = amount(4_000_000, 16 * 2**20)
    rows = [{"name": name, "weight": 1 + number % 7} for number, name in enumerate(names)]
    of_one = fleet(*(node(name, capacity=large, allocatable=large) for name in names), capacity=large)
    assert len(asked(of_one, *rows)) == 1000
    of_many = fleet(*(node(name, host=f"h{name}") for name in names), reserve=None)
    assert len(asked(of_many, *rows)) == 1000
    assert len(problems(lambda: asked(of_many, *({"name": f"x{name}"} for name in names)))) == 1000
