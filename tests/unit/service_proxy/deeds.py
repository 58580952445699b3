# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What may happen to the API, the kernel and the loop between them, at random."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.unit.service_proxy.loop_world import FAMILIES, World
from tests.unit.service_proxy.objects import NAMES, cidr_object, node_objects, services, slices


@st.composite
def deeds(draw: st.DrawFn) -> tuple[str, Any]:
    what = draw(
        st.sampled_from(
            ("service", "service", "slice", "slice", "slice", "no service", "no slice", "node", "cidr", "no cidr")
            + ("address", "flush", "edit", "restart", "compare", "broken")
        )
    )
    name = draw(st.sampled_from(NAMES))
    slice_name = draw(st.sampled_from(("s1", "s2", "s3", "s4", "s5")))
    values: dict[str, Any] = {
        "service": services(name),
        "slice": slices(slice_name),
        "no service": st.just(name),
        "no slice": st.just(slice_name),
        "node": node_objects(),
        "flush": st.sampled_from(FAMILIES),
        "edit": st.sampled_from(FAMILIES),
        "broken": st.sampled_from(((4,), (6,), FAMILIES)),
    }
    return what, draw(values.get(what, st.none()))


def do(world: World, what: str, value: Any) -> None:
    api, kernel = world.api, world.kernel
    if what == "service":
        api.put("Service", value)
    elif what == "slice":
        api.put("EndpointSlice", value)
    elif what == "node":
        api.put("Node", value)
    elif what == "no service":
        api.remove("Service", ("default", value))
    elif what == "no slice":
        api.remove("EndpointSlice", ("default", value))
    elif what == "cidr":
        api.put("ServiceCIDR", cidr_object("kubernetes", "10.96.0.0/24", "fd00:96::/112"))
    elif what == "no cidr":
        api.remove("ServiceCIDR", ("", "kubernetes"))
    elif what == "address":
        world.addresses.append(f"10.50.0.{20 + len(world.addresses)}")
        world.loop.address_changed()
    elif what == "flush":
        kernel.intrude(value, None)
    elif what == "edit":
        table = kernel.tables[value]
        if table is not None:
            sets = {name: each for name, each in table.sets.items() if not name.startswith("affinity")}
            emptied = {name: type(each)(**{**vars(each), "elements": {}}) for name, each in sets.items()}
            kernel.intrude(value, type(table)(**{**vars(table), "sets": {**table.sets, **emptied}}))
    elif what == "restart":
        world.start()
    elif what == "compare":
        world.loop._compare_at = 0.0
    elif what == "broken":
        kernel.broken = value
        world.loop.turn()
        kernel.broken = ()
