# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Converts listings for people into the machine-readable forms. Pure.

`ipvsadm -Ln` to `ipvsadm -S -n`, `ipset list` to `ipset save`, `ip address` to `ip -j address`.
"""

from __future__ import annotations

import re
from typing import Any

_LINK = re.compile(r"\d+: ([^:@\s]+)(?:@[^:\s]+)?: <")
_ADDRESS = re.compile(r"    inet6? ([0-9a-fA-F.:]+)[/ ]")

_OPTIONS = {"TCP": "-t", "UDP": "-u", "SCTP": "--sctp-service", "FWM": "-f"}
_METHODS = {"Masq": "-m", "Local": "-m", "Route": "-g", "Tunnel": "-i"}
_FLAGS = {"ops": "-o"}


def save_form(text: str) -> str:
    """Convert each line in place. A line that is not understood is kept, so that the parser refuses it."""
    lines: list[str] = []
    service = ""
    for line in text.split("\n"):
        words = line.split()
        if words[:1] and words[0] in _OPTIONS and len(words) > 2:
            service = f"{_OPTIONS[words[0]]} {words[1]}"
            lines.append(" ".join(["-A", service, "-s", words[2], *_options(words[3:])]))
        elif words[:1] == ["->"] and len(words) > 3 and words[2] in _METHODS and service:
            lines.append(f"-a {service} -r {words[1]} {_METHODS[words[2]]} -w {words[3]}")
        elif words[:2] in (["IP", "Virtual"], ["Prot", "LocalAddress:Port"], ["->", "RemoteAddress:Port"]):
            lines.append("")
        else:
            lines.append(line)
    return "\n".join(lines)


def _options(words: list[str]) -> list[str]:
    """Convert options such as `persistent 10800 mask 255.255.255.0 ops (mh-port)`."""
    options: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "persistent":
            options += ["-p", next(rest, "")]
        elif word == "mask":
            options += ["-M", next(rest, "")]
        elif word.startswith("(") and word.endswith(")"):
            options += ["-b", word[1:-1]]
        else:
            options.append(_FLAGS.get(word, word))
    return options


def links_of(text: str) -> list[dict[str, Any]]:
    """The links of `ip address`, with the fields of `ip -j address` that describe their addresses."""
    links: list[dict[str, Any]] = []
    for line in text.split("\n"):
        link, address = _LINK.match(line), _ADDRESS.match(line)
        if link:
            links.append({"ifname": link[1], "addr_info": []})
        elif address and links:
            links[-1]["addr_info"].append({"local": address[1]})
    return links


def save_form_of_sets(text: str) -> str:
    """Convert each line in place. Lines outside of listed sets are kept."""
    lines: list[str] = []
    name = kind = ""
    in_members = False
    for line in text.split("\n"):
        word, _colon, value = line.partition(": ")
        if word == "Name" and value:
            name, kind, in_members = value, "", False
            line = ""
        elif not line or not name:
            name = ""
        elif in_members:
            line = f"add {name} {line}"
        else:
            kind = value if word == "Type" else kind
            in_members = line == "Members:"
            line = f"create {name} {kind} {value}" if word == "Header" else ""
        lines.append(line)
    return "\n".join(lines)
