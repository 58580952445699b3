# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems, UserError
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.settings import (
    Listener,
    Priority,
    Retry,
    Settings,
    needs_restart,
    parse_settings,
)

ONE = {"socket": "/run/a/kubelet.sock", "runtime": "/run/containerd.sock", "name": "a"}
TWO = {"socket": "/run/b/kubelet.sock", "runtime": "/run/containerd.sock", "name": "b"}
AT = "listeners[0]"
MANY = int("9" * 40)


def document(**changes: Any) -> dict[str, Any]:
    return {"listeners": [ONE], "max_in_flight": 4, **changes}


def listener(**changes: Any) -> dict[str, Any]:
    return document(listeners=[{**ONE, **changes}])


def parsed(value: object) -> Settings:
    return parse_settings(yaml.safe_dump(value), name="f.yml")


def faults(text: str) -> list[tuple[str, str]]:
    """Id and path of each, as they are told."""
    with pytest.raises(UserError) as caught:
        parse_settings(text, name="f.yml")
    errors = caught.value.problems if isinstance(caught.value, Problems) else (caught.value,)
    return [(error.id, path_of(error)) for error in errors]


def path_of(error: BallastError) -> str:
    """`f.yml: PATH: ...` or `f.yml: PATH is required`; "" for the file as a whole."""
    match = re.match(r"f\.yml: ([a-z_.\[\]0-9]+)(:| is required)", error.text)
    assert error.text.startswith("f.yml")
    return match[1] if match else ""


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, [("pulls-shape", "")]),
        ("text", [("pulls-shape", "")]),
        ([ONE], [("pulls-shape", "")]),
        ({}, [("pulls-missing", "listeners"), ("pulls-missing", "max_in_flight")]),
        (document(listeners=None), [("pulls-missing", "listeners")]),
        (document(listeners=[]), [("pulls-value", "listeners")]),
        (document(listeners=ONE), [("pulls-value", "listeners")]),
        (document(listeners=["/run/a.sock"]), [("pulls-value", AT)]),
        (document(listeners=[ONE, None]), [("pulls-value", "listeners[1]")]),
        (document(listeners=[{}]), [("pulls-missing", f"{AT}.socket"), ("pulls-missing", f"{AT}.runtime")]),
        (document(listners=[]), [("pulls-key", "")]),
        (listener(sockt="/x"), [("pulls-key", AT)]),
        (document(retry={"atempts": 1}), [("pulls-key", "retry")]),
        (listener(socket="run/a.sock"), [("pulls-path", f"{AT}.socket")]),
        (listener(socket=""), [("pulls-path", f"{AT}.socket")]),
        (listener(socket="/"), [("pulls-path", f"{AT}.socket")]),
        (listener(socket="/run/"), [("pulls-path", f"{AT}.socket")]),
        (listener(socket="/run//a"), [("pulls-path", f"{AT}.socket")]),
        (listener(socket="/run/../a"), [("pulls-path", f"{AT}.socket")]),
        (listener(socket="/run/./a"), [("pulls-path", f"{AT}.socket")]),
        (listener(socket="/run/a b"), [("pulls-path", f"{AT}.socket")]),
        (listener(socket="/run/a%20b"), [("pulls-path", f"{AT}.socket")]),
        (listener(socket="/run/a\n"), [("pulls-path", f"{AT}.socket")]),
        (listener(socket="/run/\0a"), [("pulls-path", f"{AT}.socket")]),
        (listener(socket=7), [("pulls-path", f"{AT}.socket")]),
        (listener(runtime="unix://run/a.sock"), [("pulls-path", f"{AT}.runtime")]),
        (listener(runtime="unix:/run/a.sock"), [("pulls-path", f"{AT}.runtime")]),
        (listener(runtime="tcp://127.0.0.1:1"), [("pulls-path", f"{AT}.runtime")]),
        (listener(socket="/" + "x" * 107), [("pulls-path-length", f"{AT}.socket")]),
        (listener(runtime="unix:///" + "x" * 107), [("pulls-path-length", f"{AT}.runtime")]),
        (listener(name="a b"), [("pulls-value", f"{AT}.name")]),
        (listener(name=1), [("pulls-value", f"{AT}.name")]),
        (listener(name="x" * 64), [("pulls-value", f"{AT}.name")]),
        (document(listeners=[ONE, {**TWO, "socket": ONE["socket"]}]), [("pulls-socket-twice", "listeners[1].socket")]),
        (
            document(listeners=[ONE, {**TWO, "socket": "unix://" + ONE["socket"]}]),
            [("pulls-socket-twice", "listeners[1].socket")],
        ),
        (document(listeners=[ONE, {**TWO, "name": "a"}]), [("pulls-name-twice", "listeners[1].name")]),
        (listener(runtime="unix://" + ONE["socket"]), [("pulls-loop", f"{AT}.runtime")]),
        (document(listeners=[ONE, {**TWO, "runtime": ONE["socket"]}]), [("pulls-loop", "listeners[1].runtime")]),
        (document(listeners=[{**ONE, "runtime": TWO["socket"]}, TWO]), [("pulls-loop", f"{AT}.runtime")]),
        (document(max_in_flight=None), [("pulls-missing", "max_in_flight")]),
        (document(max_in_flight=-1), [("pulls-limit", "max_in_flight")]),
        (document(max_in_flight=True), [("pulls-limit", "max_in_flight")]),
        (document(max_in_flight=1.0), [("pulls-limit", "max_in_flight")]),
        (document(max_in_flight="4"), [("pulls-limit", "max_in_flight")]),
        (document(max_in_flight=2**31), [("pulls-limit", "max_in_flight")]),
        (document(on_full="wait"), [("pulls-value", "on_full")]),
        (document(on_full=["block"]), [("pulls-value", "on_full")]),
        (document(retry=3), [("pulls-value", "retry")]),
        (document(retry={"attempts": -1}), [("pulls-value", "retry.attempts")]),
        (document(retry={"attempts": True}), [("pulls-value", "retry.attempts")]),
        (document(retry={"attempts": "3"}), [("pulls-value", "retry.attempts")]),
        *[
            (document(retry={"interval": bad}), [("pulls-duration", "retry.interval")])
            for bad in [
                "-1s",
                "10",
                10,
                0,
                "s",
                "",
                "10 s",
                "1d",
                "1s!",
                ".5s",
                "1e3s",
                "inf",
                "9999999s",
                "1m" * 5,
                True,
            ]
        ],
        (document(drain="-30s"), [("pulls-duration", "drain")]),
        (document(join="yes"), [("pulls-value", "join")]),
        (document(join=1), [("pulls-value", "join")]),
        (document(present="fail"), [("pulls-value", "present")]),
        (document(order="lifo"), [("pulls-value", "order")]),
        (document(priority=["a"]), [("pulls-value", "priority")]),
        (document(priority={"annotation": "a b"}), [("pulls-value", "priority.annotation")]),
        (document(priority={"annotation": "a/b/c"}), [("pulls-value", "priority.annotation")]),
        (document(priority={"annotation": 3}), [("pulls-value", "priority.annotation")]),
        (document(priority={"namespaces": ["a"]}), [("pulls-value", "priority.namespaces")]),
        (document(priority={"namespaces": {"a": "1"}}), [("pulls-value", "priority.namespaces")]),
        (document(priority={"namespaces": {"a": True}}), [("pulls-value", "priority.namespaces")]),
        (document(priority={"namespaces": {"a": None}}), [("pulls-value", "priority.namespaces")]),
        (document(priority={"namespaces": {"A_b": 1}}), [("pulls-value", "priority.namespaces")]),
        (document(priority={"namespaces": {"a": MANY}}), [("pulls-value", "priority.namespaces")]),
        (document(priority={"ageing": "long"}), [("pulls-duration", "priority.ageing")]),
        *[
            (document(metrics=bad), [("pulls-metrics", "metrics")])
            for bad in [
                "0.0.0.0:9100",
                "192.0.2.1:9100",
                "[::]:9100",
                "[fe80::1]:9100",
                "::1:9100",
                ":9100",
                9100,
                "127.0.0.1",
                "127.0.0.1:",
                "127.0.0.1:0",
                "127.0.0.1:65536",
                "127.0.0.1:http",
                "127.1:9100",
                "localhost.example.com:9100",
                "http://127.0.0.1:9100",
            ]
        ],
    ],
)
def test_a_fault_has_its_id_and_its_path(value, error):
    assert faults(json.dumps(value)) == error


def test_all_faults_are_told_at_once():
    text = """
    listeners: [{socket: a, runtime: /b}, {socket: /c, name: "!"}]
    max_in_flight: -1
    retry: {attempts: x, interval: soon}
    join: maybe
    metrics: "9100"
    colour: red
    """
    assert sorted(faults(text)) == [
        ("pulls-duration", "retry.interval"),
        ("pulls-key", ""),
        ("pulls-limit", "max_in_flight"),
        ("pulls-metrics", "metrics"),
        ("pulls-missing", "listeners[1].runtime"),
        ("pulls-path", "listeners[0].socket"),
        ("pulls-value", "join"),
        ("pulls-value", "listeners[1].name"),
        ("pulls-value", "retry.attempts"),
    ]


@pytest.mark.parametrize("text", ["a: [", "a: *b", "{", "\x00", "a: b\n---\nc: d", "[" * 1000, "- " * 1000 + "x"])
def test_what_is_no_yaml_is_told_as_such(text):
    assert [id for id, _path in faults(text)] == ["core-document"]


def test_a_number_that_python_will_not_print_is_refused_all_the_same():
    text = f"listeners: [{json.dumps(ONE)}]\nmax_in_flight: !!int 0x{'f' * 5000}\n"
    with pytest.raises(UserError):
        parse_settings(text, name="f.yml")


def test_the_message_says_where_what_and_what_to_do():
    with pytest.raises(UserError) as caught:
        parsed(document(ordre="fifo"))
    assert str(caught.value).splitlines()[:2] == [
        'f.yml: unknown setting "ordre"; allowed: listeners, max_in_flight, on_full, retry, join, present, order, '
        "priority, metrics, drain",
        "  do:    did you mean order?",
    ]


def test_only_listeners_and_the_limit_are_required():
    assert parsed(document()) == Settings(
        listeners=(Listener("/run/a/kubelet.sock", "/run/containerd.sock", "a"),),
        max_in_flight=4,
        on_full="block",
        retry=Retry(attempts=3, interval=10.0),
        join=True,
        present="pass",
        order="fifo",
        priority=Priority(annotation="", namespaces={"kube-system": 2000001000}, ageing=60.0),
        metrics=None,
        drain=30.0,
    )


def test_every_setting_can_be_given():
    assert parsed(
        document(
            listeners=[ONE, {**TWO, "runtime": "unix:///run/other.sock"}],
            max_in_flight=0,
            on_full="retry",
            retry={"attempts": 0, "interval": "1m30s"},
            join=False,
            present="succeed",
            order="priority",
            priority={"annotation": "example.com/priority", "namespaces": {"db": 7, "batch": -7}, "ageing": "0s"},
            metrics="[::1]:9100",
            drain="500ms",
        )
    ) == Settings(
        listeners=(
            Listener("/run/a/kubelet.sock", "/run/containerd.sock", "a"),
            Listener("/run/b/kubelet.sock", "/run/other.sock", "b"),
        ),
        max_in_flight=0,
        on_full="retry",
        retry=Retry(attempts=0, interval=90.0),
        join=False,
        present="succeed",
        order="priority",
        priority=Priority(annotation="example.com/priority", namespaces={"db": 7, "batch": -7}, ageing=0.0),
        metrics=("::1", 9100),
        drain=0.5,
    )


def test_a_key_without_a_value_is_not_there():
    assert parsed(document(retry=None, metrics=None, drain=None)) == parsed(document())


def test_a_listener_without_a_name_is_called_by_its_socket():
    nameless = {key: value for key, value in TWO.items() if key != "name"}
    assert [listener.name for listener in parsed(document(listeners=[ONE, nameless])).listeners] == [
        "a",
        "/run/b/kubelet.sock",
    ]


def test_a_path_and_its_url_are_one():
    assert parsed(listener(runtime="unix:///run/c.sock")) == parsed(listener(runtime="/run/c.sock"))


def test_a_socket_of_107_bytes_is_short_enough():
    path = "/" + "x" * 106
    assert parsed(listener(socket=path)).listeners[0].socket == path


def test_retry_beside_block_and_priority_beside_fifo_are_allowed_and_unused():
    assert parsed(document(retry={"attempts": 1}, priority={"annotation": "rank"})).on_full == "block"


def test_given_namespaces_replace_the_default():
    assert parsed(document(priority={"namespaces": {}})).priority.namespaces == {}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("1m", 60),
        ("1h", 3600),
        ("250ms", 0.25),
        ("1m30s", 90),
        ("1.5s", 1.5),
        ("1h1m1s500ms", 3661.5),
        ("0s", 0),
    ],
)
def test_durations(text, seconds):
    assert parsed(document(drain=text)).drain == seconds


@pytest.mark.parametrize("text", ["127.0.0.1:9100", "127.8.9.1:9100", "localhost:9100", "[::1]:9100"])
def test_metrics_are_for_this_machine(text):
    host, port = parsed(document(metrics=text)).metrics
    assert (host in text, port) == (True, 9100)


def test_json_is_yaml():
    assert parse_settings(json.dumps(document()), name="f.json") == parsed(document())


def test_listeners_and_metrics_need_a_restart_and_nothing_else_does():
    old = parsed(document())
    assert needs_restart(old, old) == ()
    assert needs_restart(old, parsed(document(max_in_flight=1, order="priority", join=False, drain="1s"))) == ()
    changed = parsed(document(listeners=[TWO], metrics="127.0.0.1:1"))
    assert needs_restart(old, changed) == ("listeners", "metrics")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*ONE, "interval", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(changes=st.dictionaries(st.sampled_from([*Settings.__dataclass_fields__, "x"]), anything, min_size=1))
def test_anything_is_read_or_refused(changes):
    with contextlib.suppress(UserError):
        settings = parse_settings(json.dumps(document(**changes)), name="f.yml")
        assert settings.max_in_flight >= 0
        assert settings.drain >= 0
