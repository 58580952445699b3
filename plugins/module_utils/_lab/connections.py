# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which pods of the check reach each other.

    this host -- API server's proxy -- httpd of a pod, runs PROGRAM -- wget -- httpd of each other pod
              -- API server -- kubelet -- log of the pod
Each pod serves the name of its node, so an answer also says which pod gave it. With n nodes there is one request to the API server
per pod, in which the pod itself makes its n connections. The log of each pod is read once, which shows that the API server reaches
its kubelet.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Optional

from .._core.kube.client import Api
from .._core.text.errors import PeerError
from .._core.text.ip_families import with_port

PORT = 8080
PROGRAM_PATH = "cgi-bin/ask"
_TOGETHER = 8  # pods that run their requests at once
_PROGRAM_SECONDS = 60  # for 300 targets of which none answers
_ANSWERS_LIMIT = 2**20  # bytes of one pod's answers; a line has less than a hundred
# A CGI program. Input: targets separated by blanks. Output: a line `TARGET ANSWER` for each, without ANSWER if none came.
# One wget takes all targets and ends at the first failure; the remaining ones are requested separately, 16 at once.
# `wget -T` of Debian 12's busybox crashes with a segmentation fault, so `timeout` limits the time.
PROGRAM = r"""#!/bin/sh
printf 'Content-Type: text/plain\r\n\r\n'
set -f
set -- $(cat)
for answer in $(timeout $((2 + $# / 20)) wget -q -O - $(printf 'http://%s/ ' "$@")); do
  [ $# -gt 0 ] || exit 0
  echo "$1 $answer"
  shift
done
count=0
for target in "$@"; do
  { echo "$target $(timeout 2 wget -q -O - "http://$target/")"; } &
  count=$((count + 1))
  [ $((count % 16)) -gt 0 ] || wait
done
wait
"""


@dataclass(frozen=True)
class Pod:
    name: str
    node: str
    addresses: tuple[str, ...]  # of each IP family, the primary one first

    @property
    def targets(self) -> list[str]:
        """HOST:PORT, at which other pods request it, of each of its addresses."""
        return [with_port(address, PORT) for address in self.addresses]


@dataclass(frozen=True)
class Reached:
    """What one pod reached."""

    pods: int
    service: bool
    name: Optional[bool] = None  # the Service by its name; None in a lab without DNS


class Connections:
    """What each of `pods` reaches: the other pods, the Service at its addresses `service` and by its `names`; each over every IP
    family. Answers of earlier rounds are kept."""

    def __init__(self, pods: Sequence[Pod], service: Sequence[str], names: Sequence[str]) -> None:
        self.pods = pods
        self._service = [with_port(address, 80) for address in service]
        self._names = names
        self._answers: dict[Pod, dict[str, str]] = {}
        self._failures: dict[Pod, str] = {}  # when the API server could not reach a pod or its kubelet

    def replace_pods(self, pods: Sequence[Pod]) -> None:
        """Replace the pods, as a changed DaemonSet makes new ones. Answers of unchanged pods are kept."""
        self.pods = pods
        self._failures = {pod: reason for pod, reason in self._failures.items() if pod in pods}

    def ask(self, api: Api, path: str) -> None:
        """One round: each pod requests the targets that it has not reached yet. `path` is that of the list of pods."""
        with ThreadPoolExecutor(max_workers=_TOGETHER) as pool:
            list(pool.map(lambda pod: self._ask(api, path, pod), self.unfinished))

    @property
    def unfinished(self) -> list[Pod]:
        """The pods that have not reached everything yet."""
        return [pod for pod in self.pods if self._missing(pod)]

    @property
    def reached(self) -> dict[str, Reached]:
        """What each pod reached, by node."""
        return {pod.node: self._judge(pod) for pod in self.pods}

    @property
    def failure(self) -> str:
        """Why the API server could not reach a pod or its kubelet; "" when it reached all."""
        return next((f"{pod.name}: {reason}" for pod, reason in self._failures.items()), "")

    def _ask(self, api: Api, path: str, pod: Pod) -> None:
        try:
            if pod not in self._answers:
                api.text(f"{path}/{pod.name}/log", {"limitBytes": "1"})
                self._answers[pod] = {}
            program = f"{path}/{pod.name}:{PORT}/proxy/{PROGRAM_PATH}"
            targets = self._missing(pod)
            text = api.ask_program(program, " ".join(targets), timeout=_PROGRAM_SECONDS, limit=_ANSWERS_LIMIT)
        except PeerError as error:
            self._failures[pod] = error.text + (f" ({error.found})" if error.found else "")
        else:
            self._failures.pop(pod, None)
            answers = parse_answers(text)
            self._answers[pod].update((target, answers[target]) for target in targets if target in answers)

    def _missing(self, pod: Pod) -> list[str]:
        """Targets without a correct answer. Pods first, as rules of a Service and names come later."""
        answers = self._answers.get(pod, {})
        pods = [target for other in self._others(pod) for target in other.targets if answers.get(target) != other.node]
        nodes = [pod.node for pod in self.pods]
        return pods + [target for target in (*self._service, *self._names) if answers.get(target) not in nodes]

    def _judge(self, pod: Pod) -> Reached:
        """A pod counts as reached when its own node answered; the Service and its name when any node did."""
        missing = {*self._missing(pod)}
        return Reached(
            pods=sum(missing.isdisjoint(other.targets) for other in self._others(pod)),
            service=missing.isdisjoint(self._service),
            name=missing.isdisjoint(self._names) if self._names else None,
        )

    def _others(self, pod: Pod) -> list[Pod]:
        return [other for other in self.pods if other != pod]


def parse_answers(text: str) -> dict[str, str]:
    """Answers by target, from lines `TARGET ANSWER`."""
    return {words[0]: words[1] for words in map(str.split, text.splitlines()) if len(words) == 2}
