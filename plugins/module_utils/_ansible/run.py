# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one run loop of all modules: parse, observe, plan; stop here in check mode; apply, verify, report.

Only this package imports ansible. `check_mode` and `fail_json` occur only in this file.
"""

from __future__ import annotations

import os
import re
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, NoReturn, Optional, TypeVar, Union

from ansible.module_utils.basic import AnsibleModule

from .._core.engine.context import Context
from .._core.engine.engine import BaseEngine, Finding
from .._core.engine.events import FileSink, NullSink, Progress, Sink
from .._core.engine.feature import Feature, Params, Parse
from .._core.engine.ownership import Claiming, read_mark
from .._core.engine.plan import AnyPlan
from .._core.engine.prune_directories import remove_emptied
from .._core.host.gc_pause import keep_values
from .._core.host.host import Host
from .._core.host.local_files import not_root_error
from .._core.host.local_host import LocalHost
from .._core.text.errors import BallastError, Bug, HostError, Problems
from .._core.text.redaction import redact_message, redact_result
from .._core.text.run_messages import MESSAGES
from .engine_cache.store import forget

D = TypeVar("D")
Result = dict[str, Any]  # as a module returns it


def run(feature: Feature[D]) -> None:
    """Bring this machine to the state that the module's parameters ask for."""
    module = _module(feature.spec, required_if=feature.required_if)
    host = LocalHost()
    with _failing(module), _interruptible():
        outcome = _bring_about(_parse(feature, module.params, host), host, module)
    if outcome.error is not None:
        _fail(module, outcome.error, **outcome.result)
    _forget_engines([module.params], host, module)
    _end(module, **outcome.result)


def run_features(features: Mapping[str, Feature[Any]], hidden: Sequence[str] = ()) -> None:
    """`run` for several features, each requested by an option of its name. `hidden` are parameters of the caller.

    Nothing is started if the input of any feature is wrong. Features are processed in order; those to be removed come last,
    in reverse order. A failure ends the run, which reports what the features before it have done.
    """
    asked_by = {name: _option(feature) for name, feature in features.items()}
    module = _module({**dict.fromkeys(hidden, {"type": "dict"}), **asked_by}, required_one_of=[list(features)])
    host, results = LocalHost(), dict[str, Result]()
    with _failing(module), _interruptible():
        requests = _parse_all(features, module.params, host)
    for name, request in requests.items():
        try:
            with _interruptible():
                outcome = _bring_about(request, host, module)
        except BallastError as error:
            outcome = Outcome({}, error)
        except Exception as error:  # must not hide what was done before
            outcome = Outcome({}, _bug(error))
        if outcome.result:
            results[name] = outcome.result
        if outcome.error is not None:
            untouched = list(requests)[list(requests).index(name) + 1 :]
            _fail(module, _in_feature(name, outcome.error), untouched, **_together(results))
    _forget_engines([request.params for request in requests.values()], host, module)
    _end(module, **_together(results))


Act = Callable[[Host, Params], Mapping[str, Any]]


def run_info(
    spec: Mapping[str, Mapping[str, Any]],
    read: Act,
    *,
    secret: bool = False,
    needs_root: Union[bool, Callable[[Params], bool]] = True,
    one_of: Sequence[str] = (),
) -> None:
    """Run a module that reads and changes nothing: it returns what `read` returns, with the texts in `warnings` as warnings.
    `secret` if that contains keys, as its page says; the caller keeps them out of the log. `needs_root` as in Feature; it
    may depend on the parameters. At least one of the parameters `one_of` is required."""
    module, host = _module(spec, required_one_of=[one_of] if one_of else None), LocalHost()
    with _failing(module):
        _refuse_without_root(host, needs_root if isinstance(needs_root, bool) else needs_root(module.params))
        result = dict(read(host, module.params))
    for warning in result.pop("warnings", ()):
        module.warn(redact_message(warning))
    if secret:
        module.exit_json(changed=False, **result)
    _end(module, changed=False, **result)


def report_of(engine: BaseEngine[D, Any, Any], desired: Parse[D]) -> Act:
    """For `run_info`: what the engine reports about the desired state."""
    return with_seconds(lambda host, params: engine.report(Context(desired(params, host), host)))


def with_seconds(read: Act) -> Act:
    """`read`, with the `seconds` that it took added to its result."""

    def read_timed(host: Host, params: Params) -> Mapping[str, Any]:
        seconds = Stages()
        with seconds.of("report"):
            report = read(host, params)
        return {**report, "seconds": seconds.spent}

    return read_timed


def run_task(spec: Mapping[str, Mapping[str, Any]], act: Act) -> None:
    """Run a module that acts each time it is run, except in check mode."""
    module, host = _module(spec), LocalHost()
    with _failing(module):
        _refuse_without_root(host, needs_root=True)
        done = {} if module.check_mode else act(host, module.params)
    _end(module, changed=True, **done)


def _module(spec: Mapping[str, Mapping[str, Any]], **rules: Any) -> AnsibleModule:
    module = AnsibleModule(argument_spec=dict(spec), supports_check_mode=True, **rules)
    _collapse_slashes(spec, module.params)
    return module


def _collapse_slashes(spec: Mapping[str, Mapping[str, Any]], params: MutableMapping[str, Any]) -> None:
    """Give paths one spelling. With `lab_dir: /srv/lab/` a playbook asks for `/srv/lab//nodes`, and what is recorded, or on
    the command line of a process, would not be found below `/srv/lab/nodes`."""
    for name, option in spec.items():
        value = params.get(name)
        if option.get("type") == "path" and isinstance(value, str):
            params[name] = re.sub(r"/(?:\.?/)+", "/", value)
        elif "options" in option:
            for row in value if isinstance(value, list) else [value]:
                if isinstance(row, dict):
                    _collapse_slashes(option["options"], row)


@dataclass(frozen=True)
class Request(Generic[D]):
    """What is requested of a feature."""

    feature: Feature[D]
    params: Params
    desired: D
    seconds: Stages


@dataclass(frozen=True)
class Outcome:
    """The result of a request; if there was an error, what was done before it."""

    result: Result
    error: Optional[BallastError] = None


def _parse(feature: Feature[D], params: Params, host: Host) -> Request[D]:
    seconds = Stages()
    with keep_values(), seconds.of("parse"):
        return Request(feature, params, feature.desired(params, host), seconds)


def _bring_about(request: Request[D], host: LocalHost, module: AnsibleModule) -> Outcome:
    """Observe, plan; stop here in check mode; apply, verify, report."""
    feature, seconds, ctx = request.feature, request.seconds, Context(request.desired, host)
    _refuse_without_root(host, feature.needs_root)
    with keep_values():
        with seconds.of("observe"):
            state = feature.engine.observe(ctx)
        with seconds.of(feature.engine.planning):
            plan = feature.engine.plan(ctx.desired, state)
    if module.check_mode:
        result = _changes(feature, plan, module)
        return Outcome({**result, "seconds": seconds.spent, "findings": [], **feature.engine.preview(ctx)})
    with seconds.of("require"):
        feature.engine.require(ctx, state)
    if plan.steps and isinstance(feature.engine, Claiming):
        feature.engine.claim(ctx)
    ctx = replace(ctx, progress=Progress(_sink(request.params, plan), feature=feature.name))
    with seconds.of("apply"):
        done = feature.engine.apply(plan, ctx)
        _forget_progress_log(request.params, host)
    return _verify(request, ctx, _changes(feature, done, module), module)


def _changes(feature: Feature[D], plan: AnyPlan, module: AnsibleModule) -> Result:
    """What a plan changes, or has changed, as a module returns it."""
    result: Result = {"changed": bool(plan.steps), **feature.engine.as_result(plan)}
    if module._diff:
        result["diff"] = feature.engine.diff(plan)
    return result


def _verify(request: Request[D], ctx: Context[D], result: Result, module: AnsibleModule) -> Outcome:
    """Verify; `result` says what was done."""
    engine, seconds = request.feature.engine, request.seconds
    with seconds.of("verify"):
        findings = engine.verify(ctx) if result["changed"] or not engine.is_verified_by_plan else []
    result_with_findings: Result = {
        **result,
        "findings": [asdict(finding) for finding in findings],
        "seconds": seconds.spent,
    }
    blocking = [_as_error(finding) for finding in findings if finding.blocking]
    if blocking:
        # The present state helps to explain the error; if even that cannot be read, the findings matter more.
        with suppress(BallastError):
            result_with_findings.update(engine.report(ctx))
        return Outcome(result_with_findings, blocking[0] if len(blocking) == 1 else Problems(blocking))
    for finding in findings:
        module.warn(str(_as_error(finding)))
    return Outcome({**result_with_findings, **engine.report(ctx)})


def _refuse_without_root(host: Host, needs_root: bool) -> None:
    if needs_root and not host.is_root():
        raise not_root_error("this module needs root to read and change the host")


def _option(feature: Feature[Any]) -> dict[str, Any]:
    return {"type": "dict", "options": dict(feature.spec), "required_if": feature.required_if}


def _parse_all(features: Mapping[str, Feature[Any]], params: Params, host: Host) -> dict[str, Request[Any]]:
    """Requests in processing order. Features are removed in reverse, because each depends on those before it."""
    requested = [name for name in features if params[name] is not None]
    made = [name for name in requested if not _is_removal(params[name])]
    requests: dict[str, Request[Any]] = {}
    problems: list[BallastError] = []
    for name in [*made, *(name for name in reversed(requested) if name not in made)]:
        try:
            requests[name] = _parse(features[name], params[name], host)
        except BallastError as error:
            problems += Problems.of(_in_feature(name, error))
    Problems.raise_if(problems)
    return requests


def _in_feature(name: str, error: BallastError) -> BallastError:
    """Prefix each problem with the feature it belongs to."""
    for problem in Problems.of(error):
        problem.text = problem.text if problem.text.startswith(f"{name}: ") else f"{name}: {problem.text}"
    return error


def _together(results: Mapping[str, Result]) -> Result:
    """Combine the results of several features, with the diffs in one list, which Ansible shows."""
    parts = {name: {key: value for key, value in result.items() if key != "diff"} for name, result in results.items()}
    combined = {"changed": any(result["changed"] for result in results.values()), **parts}
    if any("diff" in result for result in results.values()):
        rows = [(name, row) for name, result in results.items() for row in result["diff"]]
        combined["diff"] = [
            {key: f"{name}: {text}" if key.endswith("_header") else text for key, text in row.items()}
            for name, row in rows
        ]
    return combined


class Stages:
    """Seconds spent in each stage."""

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
    """A run with nothing to do leaves no file behind, and a removal creates none in what it removes."""
    if params.get("progress_log"):
        return FileSink(params["progress_log"])
    if plan.steps and params.get("state_dir") and not _is_removal(params):
        return FileSink(_default_progress_log(params))
    return NullSink()


def _forget_progress_log(params: Params, host: Host) -> None:
    """Once the feature is removed, remove the progress log of earlier runs too."""
    directory = params.get("state_dir")
    if directory and _is_removal(params):
        if read_mark(host, directory) is not None:
            host.remove(_default_progress_log(params))
        remove_emptied(host, directory)


def _forget_engines(requests: Sequence[Params], host: Host, module: AnsibleModule) -> None:
    if any(map(_is_removal, requests)) and not module.check_mode:
        forget(host)


def _is_removal(params: Params) -> bool:
    return bool(params.get("state") == "absent")


def _default_progress_log(params: Params) -> str:
    return os.path.join(params["state_dir"], "events.jsonl")


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM, SIGHUP and SIGINT reach the engine as KeyboardInterrupt, and it reports its state."""

    def interrupt(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, interrupt)
    try:
        yield
    except KeyboardInterrupt as error:
        raise HostError(**MESSAGES.texts("core-interrupted", where="outside of its steps")) from error


@contextmanager
def _failing(module: AnsibleModule) -> Iterator[None]:
    """Report an error as the module's failure; other exceptions are reported as bugs of this project."""
    try:
        yield
    except BallastError as error:
        _fail(module, error)
    except Exception as error:
        _fail(module, _bug(error))


def _fail(module: AnsibleModule, error: BallastError, untouched: Sequence[str] = (), **result: Any) -> NoReturn:
    rest = f"\nnot touched: {', '.join(untouched)}" if untouched else ""
    bug: dict[str, str] = {}
    if isinstance(error, Bug):
        bug["exception"] = redact_message("".join(traceback.format_exception(None, error, error.__traceback__)))
        module.log(bug["exception"])
    module.fail_json(**redact_result({"msg": f"{error}{rest}", "id": error.id, **result}), **bug)


def _bug(error: Exception) -> Bug:
    """An unexpected exception as an error with a stable id. Its traceback is written to this host's log."""
    bug = Bug(**MESSAGES.texts("core-bug", found=repr(error)))
    bug.__cause__ = error
    return bug


def _end(module: AnsibleModule, **result: Any) -> NoReturn:
    module.exit_json(**redact_result(result))


def _as_error(finding: Finding) -> BallastError:
    return BallastError(f"{finding.subject}: {finding.text}", id=finding.id, remedy=finding.remedy)
