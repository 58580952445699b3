# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text import ip_families


@given(address=st.ip_addresses(), port=st.integers(1, 65535))
def test_the_family_of_an_address_is_seen_with_and_without_a_port(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int
) -> None:
    text = ip_families.with_port(str(address), port)
    assert ip_families.is_ipv6(str(address)) == ip_families.is_ipv6(text) == (address.version == 6)
    assert ip_families.is_ipv6(f"{address}/0") == (address.version == 6)
    host, _colon, shown = text.rpartition(":")
    assert (ipaddress.ip_address(host.strip("[]")), int(shown)) == (address, port)


@given(first=st.ip_addresses(v=4), second=st.ip_addresses(v=6), is_turned=st.booleans())
def test_a_value_has_a_part_for_each_family(
    first: ipaddress.IPv4Address, second: ipaddress.IPv6Address, *, is_turned: bool
) -> None:
    parts = (second, first) if is_turned else (first, second)
    text = ip_families.join(parts)
    assert ip_families.parse_addresses(text) == parts
    assert ip_families.split(text) == [str(part) for part in parts]
    assert ip_families.primary(text) == str(parts[0])
    assert ip_families.of_family(ip_families.split(text), ipv6=True) == [str(second)]
    with pytest.raises(ValueError, match="."):
        ip_families.parse_addresses(f"{text},{first}")


@pytest.mark.parametrize(
    "text", ["", "10.0.0.1,10.0.0.2", "fe80::1%eth0", "10.0.0.1,", "10.0.0.0/8", "10.0.0.1, fd00::1"]
)
def test_other_values_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="|."):
        ip_families.parse_addresses(text)


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1/24,fd00::1", "fe80::1%eth0/64", "fd00::1/64,fd00::2/64"])
def test_an_interface_has_a_length_and_no_zone(text: str) -> None:
    with pytest.raises(ValueError, match="."):
        ip_families.parse_interfaces(text)


def test_nothing_is_of_no_family() -> None:
    assert ip_families.split("") == []
    assert ip_families.primary("") == ""
