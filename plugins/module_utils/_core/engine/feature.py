# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the run loop needs of a feature: its option spec, the parser of its options, and its engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..host.host import Host
from .engine import BaseEngine

D = TypeVar("D")
Params = Mapping[str, Any]
Parse = Callable[[Params, Host], D]


@dataclass(frozen=True)
class Feature(Generic[D]):
    name: str
    spec: Mapping[str, Mapping[str, Any]]
    desired: Parse[D]  # raises Problems with every input error
    engine: BaseEngine[D, Any, Any]
    required_if: Sequence[tuple[str, object, Sequence[str]]] = ()
    # Without root, most of a machine is invisible: a process of another user looks as if it did not exist, so nothing could
    # be concluded. False for features that touch only files of the user or an API server; the kernel refuses the rest.
    needs_root: bool = True


def from_options(parse: Callable[[Params], D]) -> Parse[D]:
    """Adapt a parser that needs the options alone and not the machine."""
    return lambda params, _host: parse(params)
