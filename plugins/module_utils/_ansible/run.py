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
from typing import Any, Generic, NoReturn, Optional, TypeVar

from ansible.module_utils.basic import AnsibleModule

from .._core.collector import values_kept
from .._core.emptied import remove_emptied
from .._core.engine import Finding
from .._core.engines import forget
from .._core.errors import BallastError, HostError, Problems
from .._core.events import FileSink, NullSink, Progress, Sink
from .._core.feature import Feature
from .._core.host import Host, LocalHost
from .._core.plan import AnyPlan

D = TypeVar("D")
Params = Mapping[str, Any]
Result = dict[str, Any]  # as a module returns it


def run(feature: Feature[D]) -> None:
    """Bring this machine to what the parameters ask for."""
    module = AnsibleModule(argument_spec=dict(feature.spec), required_if=feature.required_if, supports_check_mode=True)
    try:
        with _interruptible():
            outcome = _bring_about(_parse(feature, module.params), LocalHost(), module)
    except BallastError as error:
        _fail(module, error)
    if outcome.error is not None:
        _fail(module, outcome.error, **outcome.result)
    _forget_engines([module.params], LocalHost(), module)
    module.exit_json(**outcome.result)


def run_features(features: Mapping[str, Feature[Any]], hidden: Sequence[str] = ()) -> None:
    """The same for several features, each asked for by an option of its name. `hidden` are parameters of who starts this.

    None is begun where the input of any is wrong. They are worked on in their order, those that are taken away after the
    others and in reverse. One that fails ends the run, which tells what those before it have done.
    """
    asked_by = {name: _option(feature) for name, feature in features.items()}
    module = AnsibleModule(
        argument_spec={**dict.fromkeys(hidden, {"type": "dict"}), **asked_by},
        required_one_of=[list(features)],
        supports_check_mode=True,
    )
    try:
        with _interruptible():
            requests = _parse_all(features, module.params)
    except BallastError as error:
        _fail(module, error)
    host, results = LocalHost(), dict[str, Result]()
    for name, request in requests.items():
        try:
            with _interruptible():
                outcome = _bring_about(request, host, module)
        except BallastError as error:
            outcome = Outcome({}, error)
        except Exception as error:  # ours, and no reason to hide what was done before
            module.fail_json(msg=f"{name}: {error!r}", **_together(results))
        if outcome.result:
            results[name] = outcome.result
        if outcome.error is not None:
            untouched = list(requests)[list(requests).index(name) + 1 :]
            _fail(module, _in_feature(name, outcome.error), untouched, **_together(results))
    _forget_engines([request.params for request in requests.values()], host, module)
    module.exit_json(**_together(results))


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


@dataclass(frozen=True)
class Request(Generic[D]):
    """What is asked of a feature."""

    feature: Feature[D]
    params: Params
    desired: D
    seconds: Stages


@dataclass(frozen=True)
class Outcome:
    """What became of a request; with an error, what was done all the same."""

    result: Result
    error: Optional[BallastError] = None


def _parse(feature: Feature[D], params: Params) -> Request[D]:
    seconds = Stages()
    with values_kept(), seconds.of("parse"):
        return Request(feature, params, feature.desired(params), seconds)


def _bring_about(request: Request[D], host: LocalHost, module: AnsibleModule) -> Outcome:
    """Observe, plan; stop here in check mode; apply, verify, report."""
    feature, desired, seconds = request.feature, request.desired, request.seconds
    with values_kept():
        with seconds.of("observe"):
            state = feature.engine.observe(desired, host)
        with seconds.of(feature.engine.planning):
            plan = feature.engine.plan(desired, state)
    result: Result = {"changed": bool(plan.steps), **feature.engine.told(plan)}
    if module._diff:
        result["diff"] = feature.engine.difference(plan)
    if module.check_mode:
        return Outcome({**result, "seconds": seconds.spent, "findings": [], **feature.engine.preview(desired)})
    feature.engine.require(desired, host)
    progress = Progress(_sink(request.params, plan), feature=feature.name)
    with seconds.of("apply"):
        feature.engine.apply(plan, desired, host, progress)
        _forget_events(request.params, host)
    return _verify(request, host, progress, result, module)


def _verify(request: Request[D], host: LocalHost, progress: Progress, result: Result, module: AnsibleModule) -> Outcome:
    """`result` has what was done."""
    engine, desired, seconds = request.feature.engine, request.desired, request.seconds
    with seconds.of("verify"):
        findings = engine.verify(desired, host, progress)
    found: Result = {**result, "findings": [asdict(finding) for finding in findings], "seconds": seconds.spent}
    blocking = [_as_error(finding) for finding in findings if finding.blocking]
    if blocking:
        # What there is now tells why; where even that cannot be read, the findings are what counts.
        with suppress(BallastError):
            found.update(engine.report(desired, host))
        return Outcome(found, blocking[0] if len(blocking) == 1 else Problems(blocking))
    for finding in findings:
        module.warn(str(_as_error(finding)))
    return Outcome({**found, **engine.report(desired, host)})


def _option(feature: Feature[Any]) -> dict[str, Any]:
    return {"type": "dict", "options": dict(feature.spec), "required_if": feature.required_if}


def _parse_all(features: Mapping[str, Feature[Any]], params: Params) -> dict[str, Request[Any]]:
    """In the order of work: what is taken away stands on what comes before it, as what is made does."""
    asked = [name for name in features if params[name] is not None]
    made = [name for name in asked if not _is_removal(params[name])]
    requests: dict[str, Request[Any]] = {}
    problems: list[BallastError] = []
    for name in [*made, *(name for name in reversed(asked) if name not in made)]:
        try:
            requests[name] = _parse(features[name], params[name])
        except BallastError as error:
            problems += _each(_in_feature(name, error))
    Problems.raise_if(problems)
    return requests


def _in_feature(name: str, error: BallastError) -> BallastError:
    """Of several problems, each is told to be of this one."""
    for one in _each(error):
        one.text = one.text if one.text.startswith(f"{name}: ") else f"{name}: {one.text}"
    return error


def _each(error: BallastError) -> tuple[BallastError, ...]:
    return error.problems if isinstance(error, Problems) else (error,)


def _together(results: Mapping[str, Result]) -> Result:
    """As one module returns them: the differences, which Ansible shows, in one list."""
    parts = {name: {key: value for key, value in one.items() if key != "diff"} for name, one in results.items()}
    found = {"changed": any(one["changed"] for one in results.values()), **parts}
    if any("diff" in one for one in results.values()):
        rows = [(name, row) for name, one in results.items() for row in one["diff"]]
        found["diff"] = [
            {key: f"{name}: {text}" if key.endswith("_header") else text for key, text in row.items()}
            for name, row in rows
        ]
    return found


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


def _sink(params: Params, plan: AnyPlan) -> Sink:
    """A run with nothing to do leaves no file behind, and a removal makes none in what it removes."""
    if params.get("events"):
        return FileSink(params["events"])
    if plan.steps and params.get("state_dir") and not _is_removal(params):
        return FileSink(_default_events(params))
    return NullSink()


def _forget_events(params: Params, host: Host) -> None:
    """With the last thing of ours, what earlier runs told of their progress goes too."""
    directory = params.get("state_dir")
    if directory and _is_removal(params):
        host.remove(_default_events(params))
        remove_emptied(host, directory)


def _forget_engines(asked: Sequence[Params], host: Host, module: AnsibleModule) -> None:
    if any(map(_is_removal, asked)) and not module.check_mode:
        forget(host)


def _is_removal(params: Params) -> bool:
    return bool(params.get("state") == "absent")


def _default_events(params: Params) -> str:
    return os.path.join(params["state_dir"], "events.jsonl")


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


def _fail(module: AnsibleModule, error: BallastError, untouched: Sequence[str] = (), **result: Any) -> NoReturn:
    rest = f"\nnot touched: {', '.join(untouched)}" if untouched else ""
    module.fail_json(msg=f"{error}{rest}", id=error.id, **result)


def _as_error(finding: Finding) -> BallastError:
    return BallastError(f"{finding.subject}: {finding.text}", id=finding.id, remedy=finding.remedy)
