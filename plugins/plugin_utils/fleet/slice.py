# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A playbook that runs as one slice of a fleet run: the variable `fleet_slice`, which its worker sets, says which slice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.connection import connect
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.boundary import Boundary, Place

from .report import Report
from .reports import Facts


def slice_boundary(variables: Mapping[str, Any]) -> Boundary:
    """The boundary, with access by the ServiceAccount of the worker's pod."""
    host, slice_variables = LocalHost(), variables["fleet_slice"]
    texts = {name: str(slice_variables[name]) for name in ("namespace", "record", "name", "holder", "stop_file")}
    return Boundary(host, connect(host, ""), Place(**texts))


def with_other_slices(boundary: Boundary, facts: Facts, compose: Callable[[Facts], Report]) -> Report:
    """The verdict on a batch, including failures of all slices. Failures of this slice are recorded first, so that no other slice begins a
    batch that they forbid; finished nodes are recorded last, when it is known that they stay. A worker that has lost its slice rolls
    nothing back: the next one has read these nodes, and its report describes what it saw."""
    own = compose(facts).facts
    answer = boundary.count(failed=own["failed_so_far"], batches=1)
    report = compose(replace(facts, elsewhere=answer.elsewhere))
    ended = "; ".join(report.facts["gate_problems"])
    last = boundary.count(done=report.facts["kept"], ended=f"the gate is closed: {ended}" if ended else "")
    if answer.is_holder and last.is_holder:
        return report
    lines = (*report.lines, f"the run ends here, and nothing is rolled back: {last.why}")
    return replace(report, lines=lines, facts={**report.facts, "stop": True, "take_back": []})
