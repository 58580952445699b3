# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes the calls of one node's change; plugin_utils/kube_proxy_change.py decides which."""

# Its base class has no annotations.
# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, Optional

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ansible_collections.ballast.kube.plugins.module_utils._ansible.typed import read_typed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.change_messages import MESSAGES
from ansible_collections.ballast.kube.plugins.plugin_utils.kube_proxy_change import (
    REQUIRED,
    SPEC,
    Answer,
    Call,
    Course,
    OutOfTime,
    Request,
    Verdict,
    arguments,
    change_node,
    read_answer,
)

TaskVars = Optional[dict[str, Any]]
# Without it ssh waits for hours for a machine that is gone. The user's options come first, and ssh uses the first value.
_KEEP_ALIVE = "-o ServerAliveInterval=15 -o ServerAliveCountMax=4"


class ActionModule(ActionBase):
    def run(self, tmp: Optional[str] = None, task_vars: TaskVars = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        began, start = time.time(), time.monotonic()
        try:
            request = self._read_request()
        except BallastError as error:
            return {**result, "failed": True, "msg": str(error), "id": error.id}
        self._notes: dict[str, Any] = {}  # what Ansible itself reports about the node: its Python, warnings
        self._keep_alive()
        verdict = self._follow(change_node(request), request, task_vars)
        seconds = round(time.monotonic() - start, 1)
        return {**result, **self._notes, **verdict.as_result(began=round(began, 1), seconds=seconds)}

    def cleanup(self, force: bool = False) -> None:
        """A failure to tidy up an unreachable node must not lose the result."""
        with suppress(AnsibleError, _TooLong), _at_most(60.0):
            super().cleanup(force)

    def _read_request(self) -> Request:
        typed, problems = read_typed(SPEC, self._task.args, required_if=REQUIRED)
        if problems:
            raise MESSAGES.error("migrate-change-option", problem="; ".join(problems))
        return Request.from_options(self._task.args, typed, check_mode=bool(self._task.check_mode))

    def _follow(self, course: Course, request: Request, task_vars: TaskVars) -> Verdict:
        try:
            call = next(course)
            while True:
                try:
                    answer = self._ask(call, request, task_vars)
                except OutOfTime as error:
                    call = course.throw(error)
                else:
                    call = course.send(answer)
        except StopIteration as end:
            verdict: Verdict = end.value
            return verdict

    def _ask(self, call: Call, request: Request, task_vars: TaskVars) -> Answer:
        name, options = arguments(call, request)
        try:
            time.sleep(call.pause)
            with _at_most(call.limit):
                if call.reconnect:
                    self._connection.reset()
                returned = self._execute_module(module_name=name, module_args=options, task_vars=task_vars)
        except _TooLong:
            return Answer(time.monotonic(), loss=f"no answer within {call.limit:.0f} seconds")
        except Exception as error:  # whatever a connection raises, as the outcome must be reported all the same
            return Answer(time.monotonic(), loss=str(error) or repr(error))
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            raise OutOfTime(str(error)) from error  # the task's `timeout`: Ansible's exception is none of the above
        if isinstance(returned, dict):
            self._notes.update({name: returned[name] for name in ("ansible_facts", "warnings") if name in returned})
        return read_answer(call, returned, at=time.monotonic(), check_mode=request.check_mode)

    def _keep_alive(self) -> None:
        if self._connection.transport == "ssh":
            given = self._connection.get_option("ssh_extra_args") or ""
            self._connection.set_option("ssh_extra_args", f"{given} {_KEEP_ALIVE}".strip())
            with suppress(Exception):  # if the node is unreachable, the first call reports it
                self._connection.reset()


class _TooLong(BaseException):
    """Not an Exception, so that connection plugins do not catch it."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Limit the time of the block. A process has one timer: no limit applies if the task's `timeout` uses it, or in another thread."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGALRM) != signal.SIG_DFL:
        yield
        return

    def end(_number: int, _frame: object) -> NoReturn:
        raise _TooLong

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
