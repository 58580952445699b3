# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random tables of everything that can be rendered. They need not make sense to a kernel."""

from __future__ import annotations

from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables import vocabulary
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.expressions import (
    ANY_BIT,
    GOTO,
    JUMP,
    VERDICTS,
    AnonymousMap,
    AnonymousSet,
    Binary,
    Concat,
    Constant,
    Counter,
    Ct,
    Expression,
    Fib,
    Key,
    Limit,
    Log,
    Mangle,
    MapLookup,
    Match,
    Meta,
    Named,
    Nat,
    Numgen,
    Payload,
    Reject,
    SetUpdate,
    Statement,
    Verdict,
    Vmap,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import (
    VERDICT,
    Chain,
    Element,
    Hook,
    Rule,
    Ruleset,
    Set,
    Table,
)

names = st.from_regex(r"[a-z][a-z0-9_]{0,6}([-/.][a-z0-9]{1,5}){0,2}", fullmatch=True).filter(
    lambda name: name not in ("map", "set", "vmap", "comment")
)
comments = st.text(st.sampled_from("ab ,:#{}/'éж@.-"), max_size=9)
ADDRESSES = ("10.0.0.1", "10.0.0.0/8", "192.0.2.1-192.0.2.9", "fd00::1", "fd00::/64")
OF_TYPE = {
    "ipv4_addr": st.sampled_from(ADDRESSES),
    "inet_proto": st.sampled_from(("tcp", "udp", "sctp")),
    "inet_service": st.sampled_from(("0", "53", "80-90", "65535")),
    "mark": st.sampled_from(("0", "1", "16384", "4294967295")),
    "ifname": st.sampled_from(("eth0", "cali*", "lo", "drop")),
    "integer": st.sampled_from(("0", "1", "17")),
}
verdicts = st.one_of(
    st.sampled_from([Verdict(kind) for kind in VERDICTS if kind not in (JUMP, GOTO)]),
    st.builds(Verdict, st.sampled_from((JUMP, GOTO)), names),
)
simple = st.sampled_from(
    (
        Payload("ip", "daddr"),
        Payload("ip", "protocol"),
        Payload("tcp", "dport"),
        Payload("th", "sport"),
        Meta("mark"),
        Meta("l4proto"),
        Meta("iifname"),
        Ct("mark"),
        Numgen(4),
        Numgen(9, "inc", 3),
    )
)
expressions = st.one_of(simple, st.lists(simple, min_size=2, max_size=4).map(lambda parts: Concat(tuple(parts))))


def keys(expression: Expression) -> st.SearchStrategy[Key]:
    types = [vocabulary.type_of(part) for part in vocabulary.parts_of(expression)]
    return st.tuples(*(OF_TYPE[kind] for kind in types))


def maps(expression: Expression, target: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    elements = st.dictionaries(keys(expression), target, min_size=1, max_size=4)
    return st.one_of(names.map(Named), elements.map(lambda found: AnonymousMap(tuple(found.items()))))


@st.composite
def matches(draw: st.DrawFn) -> Match:
    left = draw(expressions)
    operator = draw(st.sampled_from(("==", "!=")))
    if draw(st.booleans()):
        return Match(left, Named(draw(names)), operator)
    return Match(left, AnonymousSet(tuple(draw(st.lists(keys(left), min_size=1, max_size=4)))), operator)


@st.composite
def lookups(draw: st.DrawFn) -> MapLookup:
    key = draw(expressions)
    return MapLookup(key, draw(maps(key, st.sampled_from((("10.0.0.1", "80"), ("10.0.0.2", "8080"))))))


@st.composite
def vmaps(draw: st.DrawFn) -> Vmap:
    key = draw(expressions)
    return Vmap(key, draw(maps(key, verdicts)))


statements: st.SearchStrategy[Statement] = st.one_of(
    matches(),
    st.sampled_from(
        (
            Match(Ct("state"), AnonymousSet.of("new", "related"), ANY_BIT),
            Match(Ct("status"), AnonymousSet.of("dnat"), ANY_BIT),
            Match(Fib(("daddr",), "type"), AnonymousSet.of("local")),
            Match(Fib(("saddr", "iif"), "type"), AnonymousSet.of("local")),
            Match(Binary(Meta("mark"), "&", "16384"), AnonymousSet.of("0"), "!="),
            Match(Binary(Meta("mark"), "&", "16384"), AnonymousSet.of("16384")),
            Match(Payload("tcp", "dport"), AnonymousSet.of("1024"), ">="),
            Mangle(Meta("mark"), Binary(Meta("mark"), "|", "16384")),
            Mangle(Ct("mark"), Meta("mark")),
            Mangle(Meta("mark"), Constant(("1",))),
            Counter(),
            Counter("hits"),
            Limit(5, "second"),
            Limit(10, "minute", "mbytes", 3, "kbytes", over=True),
            Log(),
            Log(
                (("level", "info"), ("prefix", "a, b: ")),
            ),
        )
    ),
    st.builds(
        SetUpdate, names, expressions, st.none() | simple, st.sampled_from(("add", "update")), st.integers(0, 99)
    ),
)
ends: st.SearchStrategy[Statement] = st.one_of(
    verdicts,
    vmaps(),
    lookups().map(lambda lookup: Nat("dnat", lookup)),
    st.sampled_from(
        (
            Reject(),
            Reject("tcp reset"),
            Reject("icmp admin-prohibited"),
            Nat("masquerade"),
            Nat("masquerade", flags=("fully-random", "persistent")),
            Nat("dnat", Constant(("10.0.0.1",)), Constant(("80",))),
            Nat("dnat", Constant(("fd00::1",)), Constant(("80",))),
            Nat("snat", Constant(("10.0.0.1",))),
            Nat("redirect", port=Constant(("80",))),
        )
    ),
)
rules = st.builds(
    lambda first, last, comment: Rule((*first, last), comment), st.lists(statements, max_size=3), ends, comments
)
hooks = st.builds(
    Hook,
    st.sampled_from(("filter", "nat")),
    st.sampled_from(("prerouting", "input", "forward", "output", "postrouting")),
    st.integers(-500, 500),
    st.sampled_from(("accept", "drop")),
)


@st.composite
def sets(draw: st.DrawFn) -> Set:
    parts = draw(expressions)
    types = tuple(vocabulary.type_of(part) for part in vocabulary.parts_of(parts))
    data = draw(st.sampled_from(((), (VERDICT,), ("ipv4_addr", "inet_service"))))
    targets: st.SearchStrategy[object] = st.none()
    if data == (VERDICT,):
        targets = verdicts
    elif data:
        targets = st.tuples(OF_TYPE["ipv4_addr"], OF_TYPE["inet_service"])
    seconds = draw(st.sampled_from((0, 0, 1, 10800)))
    found = draw(st.lists(keys(parts), max_size=5, unique=True))
    elements = {
        key: Element(key, draw(targets), draw(comments), draw(st.sampled_from((0, 30))) if seconds else 0)
        for key in found
    }
    return Set(
        name=draw(names),
        key=types,
        data=data,
        elements=elements,
        flags=tuple(
            sorted(draw(st.sets(st.sampled_from(("interval", "constant")))) | ({"timeout"} if seconds else set()))
        ),
        dynamic=draw(st.booleans()),
        timeout_seconds=seconds,
        size=draw(st.sampled_from((0, 65535))),
        comment=draw(comments),
        key_typeof=vocabulary.parts_of(parts),
        data_typeof=(Payload("ip", "daddr"), Payload("tcp", "dport")) if len(data) == 2 else (),
    )


chains = st.builds(Chain, names, st.lists(rules, max_size=4).map(tuple), st.none() | hooks, st.just("") | comments)
tables = st.builds(
    lambda name, chains, sets: Table("ip", name, {one.name: one for one in chains}, {one.name: one for one in sets}),
    names,
    st.lists(chains, max_size=4),
    st.lists(sets(), max_size=3),
)
rulesets = tables.map(lambda table: Ruleset({(table.family, table.name): table}))
