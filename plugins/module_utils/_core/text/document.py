# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kubernetes configuration files, in YAML or JSON, to JSON data and back.

JSON and plain YAML (plain_yaml.py), which is what kubeadm writes, need only the standard library. Other YAML needs PyYAML
and must stay within what JSON can express: one document, no anchors, no tags, string keys.
"""

from __future__ import annotations

import json
from typing import Any

from .errors import BallastError, HostError, UserError, shorten
from .input_messages import MESSAGES
from .json_text import parse_json
from .packages import names_everywhere
from .plain_yaml import DEPTH_MOST, FLOAT, INT, NotPlain, format_plain, parse_plain

_YAML_MOST = 2**20  # characters; a ConfigMap holds at most 1 MiB, and PyYAML takes ten seconds for that much
_DIGITS = list("-+0123456789")


def parse_document(text: str, *, name: str) -> Any:
    """JSON data; messages call the text `name`. UserError where it is neither JSON nor the YAML above; HostError where it
    needs PyYAML and PyYAML is not installed."""
    try:
        return parse_json(text)
    except ValueError:
        pass
    if len(text) > _YAML_MOST:
        raise _unreadable(name, f"it has more than {_YAML_MOST} characters")
    try:
        return parse_plain(text)
    except NotPlain as error:
        yaml = _yaml(name, error)
    try:
        _refuse_bombs(yaml, text, name)
        return _as_json(yaml.load(text, _loader(yaml)), name)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _unreadable(name, _reason(error)) from None  # PyYAML's message repeats the text, which may hold a secret


def format_document(value: Any, *, like: str) -> str:
    """Serialize `value`: as JSON if `like` is JSON, else as YAML. Deterministic."""
    try:
        parse_json(like)
    except ValueError:
        return format_plain(value)
    return json.dumps(value, indent=2) + "\n"


def _yaml(name: str, why: NotPlain) -> Any:
    try:
        import yaml
    except ImportError as error:
        packages = names_everywhere("python3-yaml")
        raise HostError(**MESSAGES.texts("core-pyyaml", found=str(why), name=name, packages=packages)) from error
    return yaml


def _loader(yaml: Any) -> Any:
    """A SafeLoader without YAML 1.1's dates and base-60 numbers, which Kubernetes' YAML does not have."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        pass

    plain = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")
    Loader.yaml_implicit_resolvers = {
        sign: [row for row in rows if row[0] in plain] for sign, rows in Loader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:int", INT, _DIGITS)
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, _DIGITS)
    return Loader


def _refuse_bombs(yaml: Any, text: str, name: str) -> None:
    """Refuse anchors, a few of which can expand to gigabytes, and deep nesting: PyYAML checks every open list for each
    token, so 50,000 nested lists take minutes."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise _unreadable(name, f"line {event.start_mark.line + 1}: it refers to an anchor")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_MOST:
            raise _unreadable(name, f"line {event.start_mark.line + 1}: it is nested more than {DEPTH_MOST} deep")


def _reason(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    where = "" if mark is None else f"line {mark.line + 1}: "
    return f"{where}{getattr(error, 'problem', None) or type(error).__name__}"


def _as_json(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            raise _unreadable(name, f"key {wrong[0]!r} is not text")
        return {key: _as_json(part, name) for key, part in value.items()}
    if isinstance(value, list):
        return [_as_json(part, name) for part in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise _unreadable(name, f"a value of type {type(value).__name__}")


def _unreadable(name: str, reason: str) -> BallastError:
    return UserError(**MESSAGES.texts("core-document", found=shorten(" ".join(reason.split())), name=name))
