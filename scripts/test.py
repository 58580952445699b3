"""Run the checks of the project: all of them, or those named (a part or a group).

    python3 scripts/test.py [--list] [NAME ...] [-- ARGUMENT ...]

Each part is a row of PARTS. The rows of a lane run one after the other, the lanes side by side, and a row waits for
what it needs. Output goes to .build/logs/PART.log, the end of it to the terminal when the part fails; a part that is
named alone writes to the terminal itself, and takes the arguments after `--`. The last line of a run says
`N passed, N failed`: the tests of the pytest parts, and one for every other check. The status is 0 only if everything
that was to run did, and passed.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / ".build"
BIN = str(ROOT / ".venv/bin")

sys.path.insert(0, str(ROOT))

from scripts import test_times  # noqa: E402

TAIL_LINES = 60
NAMED_TESTS = 10  # of a part, when some of its tests failed
# How Ansible, pytest and molecule begin the line that says what failed, and the number of following lines that explain it.
TELLS = re.compile(r"^(fatal: |failed: |FAILED |ERROR |E {3})")
MORE_LINES = 4
HEARTBEAT_SECONDS = 30
# Parts without root have no machines or clusters to wait for, so they only use processor time that others leave.
NICE = 5


@dataclass(frozen=True)
class Part:
    name: str
    argv: tuple[str, ...]
    lane: str
    group: str = ""
    needs: tuple[str, ...] = ()
    minutes: int = 20  # after which it is ended and has failed
    root: bool = False
    background: bool = False  # gives way to others although it needs root
    check: bool = True  # counts as a test; otherwise it only prepares, and only counts when it fails
    clean: tuple[str, ...] = ()  # command that removes what the part made, if the part cannot do so when it is ended
    pytest: bool = False  # its tests are counted from its junit file

    @property
    def gives_way(self) -> bool:
        return self.background or (self.check and not self.root)


def glob(*patterns: str) -> tuple[str, ...]:
    return tuple(str(path.relative_to(ROOT)) for pattern in patterns for path in sorted(ROOT.glob(pattern)))


def pytest(*arguments: str) -> tuple[str, ...]:
    return (f"{BIN}/pytest", *arguments)


PLUGINS = "ansible_collections.ballast.kube.plugins"
ALL_HERE = ("packages", "env", "binaries")
HERE = "not vm and not alone and not versions and not long"
# Run separately from the others, which they do not disturb.
PLANES = ("tests/integration/planes", "tests/integration/test_plane_*.py")
# Tests of kube-proxy and of rules, in namespaces and without a lab; and all others that use the control plane of
# tests/integration/kube_proxy.py: the machine has capacity for one.
PROXY = tuple(
    f"tests/integration/test_{name}.py"
    for name in (
        *("kube_proxy_change", "rules_*", "nft_*", "load*", "residue", "preflight"),
        *("balloon_api", "service_proxy_objects"),
    )
)

# fmt: off
PARTS = (
    Part("packages", ("make", "packages", "packages-vm", "packages-test"), lane="lab", check=False),
    Part("env", ("make", "env-test"), lane="tools", check=False, needs=("packages",)),
    Part("binaries", ("make", "binaries", "binaries-planes", "binaries-conformance"), lane="lab", check=False, needs=("packages", "env"), minutes=50,
         root=True),
    Part("ruff", (f"{BIN}/ruff", "check", "--output-format=concise", "."), lane="tools", group="lint", needs=("env",)),
    Part("format", (f"{BIN}/ruff", "format", "--check", "--output-format=concise", "."), lane="tools", group="lint", needs=("env",)),
    Part("mypy", (f"{BIN}/mypy", "-p", PLUGINS), lane="tools", group="lint", needs=("env",)),
    Part("mypy-scripts", (f"{BIN}/mypy", "scripts"), lane="tools", group="lint", needs=("env",)),
    # vermin takes our function `file` for Python 2's type.
    Part("python-3.9", (f"{BIN}/vermin", "--quiet", "--no-tips", "--violations", "-t=3.9-", "--exclude", "file",
         "plugins/module_utils", "plugins/modules"), lane="tools", group="lint", needs=("env",)),
    Part("yamllint", (f"{BIN}/yamllint", "--strict", "."), lane="tools", group="lint", needs=("env",)),
    Part("ansible-lint", (f"{BIN}/ansible-lint", "--offline", "--strict"), lane="tools", group="lint", needs=("env",)),
    Part("changelog", (f"{BIN}/antsibull-changelog", "lint"), lane="tools", group="lint", needs=("env",)),
    Part("documentation", (f"{BIN}/antsibull-docs", "lint-collection-docs", "--plugin-docs", "--validate-collection-refs", "all", "."),
         lane="tools", group="lint", needs=("env",)),
    Part("architecture", (f"{BIN}/python", "-m", "scripts.architecture", "--check"), lane="tools", group="lint", needs=("env",)),
    Part("prose", (f"{BIN}/python", "-m", "scripts.prose"), lane="tools", group="lint", needs=("env",)),
    Part("option-tables", (f"{BIN}/python", "-m", "scripts.option_tables", "--check"), lane="tools", group="lint", needs=("env",)),
    Part("pins", (f"{BIN}/python", "-m", "scripts.audit", "pins"), lane="tools", group="lint", needs=("env",)),
    Part("build", (f"{BIN}/python", "scripts/build.py"), lane="tools", needs=("env",)),
    # Parts that give way have a lane of their own: all the time they use the processor time that tests of labs leave.
    Part("unit", pytest("-n", "2", "--timeout=600", "tests/unit"), lane="tools", needs=("env",), minutes=75, pytest=True),
    Part("sanity", (f"{BIN}/python", "-m", "scripts.sanity"), lane="tools", needs=("env",), minutes=40),
    # For the virtual machines; a quarter of an hour if it is not built yet. It is built in spare time before they begin.
    Part("kernel", (f"{BIN}/ansible", "localhost", "-m", "ballast.kube.lab_image", "-a", "recipe=kernel-uml-built"), lane="kernel",
         check=False, needs=("packages", "env"), minutes=60, root=True, background=True),
    # These compare the whole machine before and after, so the parts with their own machines and labs wait for them.
    Part("alone", pytest("-m", "alone", "--timeout=900", "tests/integration"), lane="lab", needs=ALL_HERE, root=True, pytest=True),
    Part("integration", pytest("-m", HERE, "--timeout=900", "tests/integration", *(f"--ignore-glob={path}" for path in (*PLANES, *PROXY))), lane="lab",
         needs=ALL_HERE, minutes=75, root=True, pytest=True),
    Part("plane-tests", pytest("-m", HERE, "--timeout=900", *glob(*PLANES)), lane="machines", needs=(*ALL_HERE, "alone"), minutes=30, root=True, pytest=True),
    Part("proxy-tests", pytest("-m", HERE, "--timeout=900", *glob(*PROXY)), lane="machines", needs=(*ALL_HERE, "alone"), minutes=40, root=True, pytest=True),
    Part("machines", pytest("-m", "vm", "--timeout=1800", "tests/integration"), lane="machines", needs=(*ALL_HERE, "alone", "kernel"), minutes=30,
         root=True, pytest=True),
    # Last, in the lane that ends first: its machines use processor time in proportion to its duration, which doubles beside
    # other tests.
    Part("molecule", (f"{BIN}/molecule", "test", "--all", "--exclude", "kubeadm"), lane="machines", needs=(*ALL_HERE, "alone", "kernel"), minutes=75, root=True,
         clean=(f"{BIN}/molecule", "destroy", "--all")),
)
# fmt: on


@dataclass(frozen=True)
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def line(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text


@dataclass
class Run:
    part: Part
    process: subprocess.Popen[bytes] | None = None
    begun: float = 0.0
    seconds: float = 0.0
    state: str = "waiting"  # waiting -> running -> passed | failed; waiting -> not run
    counts: Counts = field(default_factory=Counts)
    why: str = ""

    @property
    def log(self) -> Path:
        return BUILD / "logs" / f"{self.part.name}.log"

    @property
    def junit(self) -> Path:
        return BUILD / "junit" / f"{self.part.name}.xml"

    def last_line(self) -> str:
        lines = tail(self.log, 1)
        return plain(lines[0])[:100] if lines else ""


def plain(line: str) -> str:
    """A line without colours and the frame that molecule draws around output."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line).lstrip(" │")


def tail(path: Path, count: int) -> list[str]:
    if not path.is_file():
        return []
    return [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()][-count:]


def failures(run: Run) -> list[str]:
    """What failed: for a pytest part each test with the first line of the reason, else the lines of the log that report failures."""
    if run.part.pytest:
        return failed_tests(run)
    return tell_failures(run) if run.state == "failed" else []


def tell_failures(run: Run) -> list[str]:
    lines = [plain(line)[:200] for line in tail(run.log, sys.maxsize)]
    marked = [number for number, line in enumerate(lines) if TELLS.match(line)][:NAMED_TESTS]
    shown = sorted({number for begin in marked for number in range(begin, min(begin + 1 + MORE_LINES, len(lines)))})
    return [lines[number] for number in shown]


def failed_tests(run: Run) -> list[str]:
    if not run.junit.is_file():
        return []
    cases = ElementTree.parse(run.junit).getroot().iter("testcase")
    failures = [(case, reason) for case in cases for reason in case if reason.tag in ("failure", "error")]
    return [
        f"{case.get('classname')}::{case.get('name')}: {reason.get('message', '').strip().partition(chr(10))[0][:200]}"
        for case, reason in failures[:NAMED_TESTS]
    ]


def count(run: Run, *, passed: bool) -> Counts:
    """What a finished part adds to the sum. A pytest part without tests has failed."""
    if run.part.pytest and run.junit.is_file():
        suites = list(ElementTree.parse(run.junit).getroot().iter("testsuite"))
        total, failures, errors, skipped = (
            sum(int(suite.get(key, "0")) for suite in suites) for key in ("tests", "failures", "errors", "skipped")
        )
        failed = failures + errors
        counts = Counts(max(0, total - failed - skipped), failed, skipped)
        return counts if (passed and counts.passed) or counts.failed else counts + Counts(failed=1)
    if not passed or run.part.pytest:
        return Counts(failed=1)
    return Counts(passed=1 if run.part.check else 0)


def environment() -> dict[str, str]:
    """The environment of every part: this checkout's tools and collection first, without variables of an outer make."""
    kept = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return {
        **kept,
        "PATH": f"{BIN}:{kept.get('PATH', os.defpath)}",
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(BUILD / "collections"),
        "ANSIBLE_HOME": str(BUILD / "ansible"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def give_way(pid: int) -> None:
    """Lower the priority of the process's session. A kernel that groups tasks by session (sched(7), autogroup) compares nice values only
    within a session, and sessions by a separate value."""
    with contextlib.suppress(OSError):  # no autogroups, or the process has ended
        Path(f"/proc/{pid}/autogroup").write_text(str(NICE), encoding="ascii")


class Driver:
    def __init__(self, parts: tuple[Part, ...], *, extra: tuple[str, ...]) -> None:
        self.runs = [Run(part) for part in parts]
        self.extra = extra
        self.alone = len(parts) == 1
        self.interrupted = 0  # how often
        self.number = 0  # by which signal
        self.begun = self.spoken = time.monotonic()
        self.ticks = test_times.read_ticks()
        self.last = test_times.read(test_times.place())
        self.terminal = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and not self.alone

    def say(self, text: str) -> None:
        print(("\r\x1b[K" if self.terminal else "") + text, flush=True)
        self.spoken = time.monotonic()

    def interrupt(self, number: int, _frame: FrameType | None) -> None:
        self.interrupted += 1
        self.number = number

    def start(self, run: Run) -> None:
        part = run.part
        run.begun = time.monotonic()
        if part.root and os.geteuid() != 0:
            self.end(run, passed=False, why="needs root: sudo make test")
            return
        for path in (run.junit, run.log):  # left by an earlier run
            path.unlink(missing_ok=True)
        way = ("nice", "-n", str(NICE)) if part.gives_way else ()
        argv = [*way, *part.argv, *self.extra] + ([f"--junitxml={run.junit}"] if part.pytest else [])
        run.state = "running"
        try:
            run.process = self.spawn(run, argv)
        except OSError as error:
            self.end(run, passed=False, why=str(error))
            return

    def spawn(self, run: Run, argv: list[str]) -> subprocess.Popen[bytes]:
        if self.alone:
            return subprocess.Popen(argv, cwd=ROOT, env=environment())
        with run.log.open("wb") as log, open(os.devnull, "rb") as nothing:
            process = subprocess.Popen(
                argv, cwd=ROOT, env=environment(), stdin=nothing, stdout=log, stderr=log, start_new_session=True
            )
        if run.part.gives_way:
            give_way(process.pid)
        return process

    def end(self, run: Run, *, passed: bool, why: str = "") -> None:
        run.seconds = time.monotonic() - run.begun
        run.counts = count(run, passed=passed)
        passed = passed and not run.counts.failed
        run.state, run.why = ("passed" if passed else "failed"), why
        if self.alone:
            return
        counted = run.counts.line() if run.part.pytest else run.why
        self.say(f" {'✓' if passed else '✗'} {run.part.name:14}{run.seconds:7.1f} s  {counted}".rstrip())
        if not passed and why != "interrupted":
            for line in tail(run.log, TAIL_LINES):
                self.say(f"   | {line}")
            self.say(f"   the whole of it: {run.log.relative_to(ROOT)}")

    def stop(self, runs: list[Run], why: str, *, reported: bool = False) -> None:
        """End parts with all their children: first so that they can clean up, which takes a lab a while; then by force.

        Each signal is sent once, as a second one would interrupt the cleaning. A further interrupt proceeds to the next signal.
        """
        for number, seconds in ((signal.SIGINT, 120), (signal.SIGTERM, 20), (signal.SIGKILL, 20)):
            interrupted, until = self.interrupted, time.monotonic() + seconds
            for process in self.alive(runs):
                if not reported or number != signal.SIGINT:
                    self.signal(process, number)
            while self.alive(runs) and time.monotonic() < until and self.interrupted == interrupted:
                time.sleep(0.1)
        for run in runs:
            self.end(run, passed=False, why=why)
            self.clean(run)

    def clean(self, run: Run) -> None:
        if not run.part.clean:
            return
        self.say(f"   removing what {run.part.name} made")
        with run.log.open("ab") as log:
            done = subprocess.run(run.part.clean, cwd=ROOT, env=environment(), stdout=log, stderr=log, check=False)
        if done.returncode != 0:
            self.say(f"   it was not removed; do: {' '.join(run.part.clean)}  ({run.log.relative_to(ROOT)} tells why)")

    def alive(self, runs: list[Run]) -> list[subprocess.Popen[bytes]]:
        return [run.process for run in runs if run.process is not None and run.process.poll() is None]

    def signal(self, process: subprocess.Popen[bytes], number: int) -> None:
        try:
            if self.alone:
                process.send_signal(number)
            else:
                os.killpg(process.pid, number)  # its own session, see spawn()
        except ProcessLookupError:
            pass

    def ready(self, run: Run) -> bool:
        """Whether a waiting part may start now; marks it when it never can."""
        states = {other.part.name: other.state for other in self.runs}
        needs = [need for need in run.part.needs if need in states]  # parts that were not requested count as done
        broken = [need for need in needs if states[need] in ("failed", "not run")]
        if broken:
            run.state, run.why, run.counts = "not run", f"needs {broken[0]}", Counts(skipped=1)
            self.say(f" • {run.part.name} not run: {run.why}")
            return False
        if any(states[need] != "passed" for need in needs):
            return False
        ahead = self.runs[: self.runs.index(run)]
        return not any(other.part.lane == run.part.lane and other.state in ("waiting", "running") for other in ahead)

    def show(self) -> None:
        now = time.monotonic()
        running = [run for run in self.runs if run.state == "running"]
        texts = [
            f"• {run.part.name} {now - run.begun:.0f} s{self.last_time(run)}  {run.last_line()}" for run in running
        ]
        if self.terminal:
            width = os.get_terminal_size().columns - 1
            print("\r\x1b[K " + "   ".join(text[: width // 2 - 2] for text in texts), end="", flush=True)
        elif not self.alone and now - self.spoken > HEARTBEAT_SECONDS:
            for text in texts:
                self.say(f" {text}")

    def last_time(self, run: Run) -> str:
        return f" of {self.last[run.part.name]:.0f}" if run.part.name in self.last else ""

    def step(self) -> None:
        for run in self.runs:
            if run.state == "waiting" and self.ready(run):
                self.start(run)
            elif run.state == "running" and run.process is not None:
                status = run.process.poll()
                if status is not None:
                    self.end(run, passed=status == 0, why="" if status == 0 else f"status {status}")
                    if status != 0 and run.part.clean and not self.alone:
                        self.say(f"   what it made is left for you to look at; remove it: {' '.join(run.part.clean)}")
                elif time.monotonic() - run.begun > run.part.minutes * 60 and not self.alone:
                    self.stop([run], f"not done after {run.part.minutes} minutes")

    def drive(self) -> int:
        for name in ("logs", "junit"):
            (BUILD / name).mkdir(parents=True, exist_ok=True)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.interrupt)
        while any(run.state in ("waiting", "running") for run in self.runs):
            self.step()
            if self.interrupted:
                self.give_up()
                break
            self.show()
            time.sleep(0.1)
        return self.summary()

    def give_up(self) -> None:
        running = [run for run in self.runs if run.state == "running"]
        self.say(f"interrupted; ending {', '.join(run.part.name for run in running) or 'nothing'}")
        # A part that runs alone shares our terminal, so the interrupt has already reached it.
        self.stop(running, "interrupted", reported=self.alone and self.number == signal.SIGINT)
        for run in self.runs:
            if run.state == "waiting":
                run.state, run.why, run.counts = "not run", "interrupted", Counts(skipped=1)

    def summary(self) -> int:
        total = sum((run.counts for run in self.runs), Counts())
        self.say("")
        for run in self.runs:
            mark = {"passed": "✓", "failed": "✗"}.get(run.state, "•")
            counted = run.counts.line() if run.part.pytest and run.state != "not run" else run.why
            self.say(f" {mark} {run.part.name:14}{run.state:9}{run.seconds:7.1f} s  {counted}".rstrip())
            for text in failures(run):
                self.say(f"   {text}")
        self.say(f"   all{'':20}{time.monotonic() - self.begun:7.1f} s")
        (BUILD / "summary.txt").write_text(total.line() + "\n", encoding="utf-8")
        self.say(total.line())
        passed = all(run.state == "passed" for run in self.runs)
        if passed and len(self.runs) == len(PARTS):
            self.remember()
        return 0 if passed else 1

    def remember(self) -> None:
        ticks = test_times.read_ticks()
        test_times.write(
            test_times.place(),
            parts={run.part.name: round(run.seconds, 1) for run in self.runs},
            reports=[run.junit for run in self.runs if run.part.pytest],
            busy=(ticks.in_use - self.ticks.in_use) / max(1, sum(ticks) - sum(self.ticks)),
        )


def chosen(names: list[str]) -> tuple[Part, ...]:
    known = {part.name for part in PARTS} | {part.group for part in PARTS if part.group}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"test: no part or group is called {unknown[0]}\n  do:    name one of {', '.join(sorted(known))}")
    return tuple(part for part in PARTS if not names or part.name in names or part.group in names)


def main(arguments: list[str]) -> int:
    split = arguments.index("--") if "--" in arguments else len(arguments)
    names, extra = arguments[:split], tuple(arguments[split + 1 :])
    if "--list" in names:
        for part in PARTS:
            print(f"{part.name:14} {part.group:6} {' '.join(part.argv)}")
        return 0
    parts = chosen(names)
    if extra and len(parts) != 1:
        sys.exit("test: arguments after -- go to one part; name it")
    return Driver(parts, extra=extra).drive()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
