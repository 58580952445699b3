# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one run loop of every module: parse, observe, plan; stop here in check mode; apply, verify, report.

This package alone imports ansible. `check_mode` and `fail_json` occur in this file and nowhere else.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Generic, NoReturn, TypeVar

from ansible.module_utils.basic import AnsibleModule

from .._core.collector import values_kept
from .._core.emptied import remove_emptied
from .._core.engine import Engine, Finding
from .._core.errors import BallastError, HostError
from .._core.events import FileSink, NullSink, Progress, Sink
from .._core.host import Host, LocalHost
from .._core.plan import AnyPlan

D = TypeVar("D")


@dataclass(frozen=True)
class Feature(Generic[D]):
    name: str
    spec: Mapping[str, Mapping[str, Any]]
    desired: Callable[[Mapping[str, Any]], D]  # raises Problems with every input error
    engine: Engine[D, Any, Any]
    required_if: Sequence[tuple[str, object, Sequence[str]]] = ()


def run(feature: Feature[D]) -> None:
    """Bring this machine to what the parameters ask for."""
    module = AnsibleModule(argument_spec=dict(feature.spec), required_if=feature.required_if, supports_check_mode=True)
    host, seconds = LocalHost(), Stages()
    try:
        with _interruptible():
            with values_kept():
                with seconds.of("parse"):
                    desired = feature.desired(module.params)
                with seconds.of("observe"):
                    state = feature.engine.observe(desired, host)
                with seconds.of(feature.engine.planning):
                    plan = feature.engine.plan(desired, state)
            result: dict[str, Any] = {"changed": bool(plan.steps), **feature.engine.told(plan)}
            if module._diff:
                result["diff"] = feature.engine.difference(plan)
            if module.check_mode:
                module.exit_json(**result, seconds=seconds.spent, findings=[], **feature.engine.preview(desired))
            feature.engine.require(desired, host)
            progress = Progress(_sink(module, plan), feature=feature.name)
            with seconds.of("apply"):
                feature.engine.apply(plan, desired, host, progress)
                _forget_events(module, host)
            _conclude(module, feature, desired, host, progress, seconds, result)
    except BallastError as error:
        _fail(module, error)


def run_info(feature: Feature[D]) -> None:
    """The reading twin: what is there, without a change."""
    module = AnsibleModule(argument_spec=dict(feature.spec), required_if=feature.required_if, supports_check_mode=True)
    host, seconds = LocalHost(), Stages()
    try:
        desired = feature.desired(module.params)
        with seconds.of("report"):
            report = feature.engine.report(desired, host)
    except BallastError as error:
        _fail(module, error)
    module.exit_json(changed=False, seconds=seconds.spent, **report)


Act = Callable[[Host, Mapping[str, Any]], Mapping[str, Any]]


def run_reading(spec: Mapping[str, Mapping[str, Any]], read: Act) -> None:
    """A module that only reads, and has no engine: `read` answers what it returns."""
    module = AnsibleModule(argument_spec=dict(spec), supports_check_mode=True)
    try:
        module.exit_json(changed=False, **read(LocalHost(), module.params))
    except BallastError as error:
        _fail(module, error)


def run_task(spec: Mapping[str, Mapping[str, Any]], act: Act) -> None:
    """A module that does one thing each time it is run, and nothing in check mode."""
    module = AnsibleModule(argument_spec=dict(spec), supports_check_mode=True)
    try:
        done = {} if module.check_mode else act(LocalHost(), module.params)
        module.exit_json(changed=True, **done)
    except BallastError as error:
        _fail(module, error)


def _conclude(
    module: AnsibleModule,
    feature: Feature[D],
    desired: D,
    host: LocalHost,
    progress: Progress,
    seconds: Stages,
    result: dict[str, Any],
) -> None:
    with seconds.of("verify"):
        findings = feature.engine.verify(desired, host, progress)
    blocking = [finding for finding in findings if finding.blocking]
    result["findings"] = [asdict(finding) for finding in findings]
    if blocking:
        # What there is now tells why; where even that cannot be read, the findings are what counts.
        with suppress(BallastError):
            result.update(feature.engine.report(desired, host))
        module.fail_json(msg=_told(blocking), seconds=seconds.spent, **result)
    for finding in findings:
        module.warn(_told([finding]))
    report = feature.engine.report(desired, host)
    module.exit_json(**result, seconds=seconds.spent, **report)


class Stages:
    """Seconds spent by stage."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self.spent[stage] = round(time.monotonic() - start, 3)


def _sink(module: AnsibleModule, plan: AnyPlan) -> Sink:
    """A run with nothing to do leaves no file behind, and a removal makes none in what it removes."""
    if module.params.get("events"):
        return FileSink(module.params["events"])
    if plan.steps and module.params.get("state_dir") and not _is_removal(module):
        return FileSink(_default_events(module))
    return NullSink()


def _forget_events(module: AnsibleModule, host: Host) -> None:
    """With the last thing of ours, what earlier runs told of their progress goes too."""
    directory = module.params.get("state_dir")
    if directory and _is_removal(module):
        host.remove(_default_events(module))
        remove_emptied(host, directory)


def _is_removal(module: AnsibleModule) -> bool:
    return module.params.get("state") == "absent"


def _default_events(module: AnsibleModule) -> str:
    return os.path.join(module.params["state_dir"], "events.jsonl")


@contextmanager
def _interruptible() -> Iterator[None]:
    """TERM, HUP and INT reach the engine as KeyboardInterrupt, which it reports as a state."""

    def interrupt(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, interrupt)
    try:
        yield
    except KeyboardInterrupt as error:
        raise HostError("interrupted", id="core-interrupted", remedy="run it again to go on") from error


def _fail(module: AnsibleModule, error: BallastError) -> NoReturn:
    module.fail_json(msg=str(error), id=error.id)


def _told(findings: list[Finding]) -> str:
    return "\n".join(f"{f.subject}: {f.text}\n  do:    {f.remedy}\n  id:    {f.id}" for f in findings)
