"""scripts/test.py: the order of its parts, what it counts, and how it ends them."""

from __future__ import annotations

import ast
import os
import signal
import sys
import threading
import time
from fnmatch import fnmatch
from pathlib import Path

import pytest

from scripts import test as driver
from scripts import test_times
from scripts.test import Counts, Driver, Part

KUBE_PROXY = "tests.integration.kube_proxy"
PASSES = (sys.executable, "-c", "pass")
FAILS = (sys.executable, "-c", "print('the reason'); raise SystemExit(3)")

ROOT = Path(__file__).resolve().parents[3]
JUNIT = (
    '<testsuites><testsuite tests="{tests}" failures="{failures}" errors="{errors}" skipped="{skipped}"/></testsuites>'
)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "ROOT", tmp_path)
    monkeypatch.setattr(driver, "BUILD", tmp_path / ".build")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield tmp_path
    for number, handler in handlers.items():
        signal.signal(number, handler)


def drive(*parts: Part) -> tuple[int, Driver]:
    made = Driver(parts, extra=())
    return made.drive(), made


def states(made: Driver) -> dict[str, str]:
    return {run.part.name: run.state for run in made.runs}


def writes(place: Path, name: str, *, meets: str = "") -> tuple[str, ...]:
    """A part that leaves a file when it begins, then waits for another's, and notes its name at its end."""
    code = (
        "import pathlib, sys, time\n"
        f"place = pathlib.Path({str(place)!r})\n"
        f"(place / {name!r}).touch()\n"
        "until = time.monotonic() + 30\n"
        f"while {meets!r} and not (place / {meets!r}).exists():\n"
        "    time.sleep(0.02)\n"
        "    if time.monotonic() > until: sys.exit('met nobody')\n"
        f"(place / 'ends').open('a').write({name + ' '!r})\n"
    )
    return (sys.executable, "-c", code)


def pytest_part(place: Path, *, status: int, **numbers: int) -> Part:
    xml = JUNIT.format(**{"tests": 0, "failures": 0, "errors": 0, "skipped": 0, **numbers})
    code = f"import sys; open(sys.argv[1].partition('=')[2], 'w').write({xml!r}); sys.exit({status})"
    return Part("unit", (sys.executable, "-c", code), lane="a", pytest=True)


def test_every_need_names_a_part_that_stands_above():
    above: set[str] = set()
    for part in driver.PARTS:
        assert set(part.needs) <= above
        above.add(part.name)
    assert len(above) == len(driver.PARTS)


def test_at_most_two_parts_run_side_by_side_and_others_give_way():
    assert {part.lane for part in driver.PARTS} == {"lab", "machines", "tools", "kernel"}
    assert all(part.gives_way or part.name == "env" for part in driver.PARTS if part.lane in ("tools", "kernel"))


def imports(path: Path, module: str, name: str) -> bool:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == module]
    return any(alias.name == name for node in froms for alias in node.names)


def test_tests_that_share_a_control_plane_are_in_one_part():
    """Its bridge, address and cgroup have names of their own, which the machine has once."""
    files = (ROOT / "tests/integration").rglob("*.py")
    shared = [str(path.relative_to(ROOT)) for path in files if imports(path, KUBE_PROXY, "control_plane")]
    assert len(shared) > 1
    assert [path for path in shared if not any(fnmatch(path, pattern) for pattern in driver.PROXY)] == []


def test_checks_without_machines_give_way(place, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    code = f"import os, sys; open({str(place)!r} + '/nice-' + sys.argv[1], 'w').write(str(os.nice(0)))"
    argv = (sys.executable, "-c", code)
    status, made = drive(
        Part("ruff", (*argv, "check"), lane="a"),
        Part("env", (*argv, "preparation"), lane="a", check=False),
        Part("machines", (*argv, "machines"), lane="a", root=True),
    )
    assert status == 0, states(made)
    found = {name: int((place / f"nice-{name}").read_text()) for name in ("check", "preparation", "machines")}
    assert found == {"check": min(os.nice(0) + 5, 19), "preparation": os.nice(0), "machines": os.nice(0)}
    assert sum(part.gives_way for part in driver.PARTS if part.lane == "tools") > 10


def test_the_session_of_a_check_gives_way_to_other_sessions(place):
    """Where the kernel groups tasks by session."""
    code = (
        "import pathlib, sys, time\n"
        "group = pathlib.Path('/proc/self/autogroup')\n"
        "time.sleep(0.5)  # the driver writes there once the process is started\n"
        "value = group.read_text().split()[-1] if group.exists() else sys.argv[2]\n"
        f"(pathlib.Path({str(place)!r}) / sys.argv[1]).write_text(value)\n"
    )
    argv = (sys.executable, "-c", code)
    drive(
        Part("unit", (*argv, "unit", "5"), lane="a"),
        Part("packages", (*argv, "packages", "0"), lane="b", check=False),
    )
    assert {name: (place / name).read_text() for name in ("unit", "packages")} == {"unit": "5", "packages": "0"}


def test_lanes_run_side_by_side_and_the_parts_of_one_in_turn(place):
    status, made = drive(
        Part("unit", writes(place, "unit", meets="sanity"), lane="a"),
        Part("sanity", writes(place, "sanity", meets="unit"), lane="b"),
        Part("build", writes(place, "build"), lane="a"),
    )
    assert status == 0, states(made)
    assert (place / "ends").read_text().split()[-1] == "build"


def test_passing_parts_count_one_each_and_preparation_none(place, capsys):
    status, made = drive(Part("env", PASSES, lane="a", check=False), Part("ruff", PASSES, lane="a"))
    assert status == 0
    assert states(made) == {"env": "passed", "ruff": "passed"}
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"
    assert (place / ".build/summary.txt").read_text() == "1 passed, 0 failed\n"


def test_a_failing_part_shows_its_output_and_what_needs_it_does_not_run(capsys):
    status, made = drive(
        Part("env", FAILS, lane="a", check=False),
        Part("ruff", PASSES, lane="a", needs=("env",)),
        Part("mypy", PASSES, lane="b"),
    )
    shown = capsys.readouterr().out
    assert status == 1
    assert states(made) == {"env": "failed", "ruff": "not run", "mypy": "passed"}
    assert "the reason" in shown
    assert shown.splitlines()[-1] == "1 passed, 1 failed, 1 skipped"


def test_the_summary_names_the_tests_that_failed(place, capsys):
    cases = (
        '<testcase classname="tests.unit.test_x" name="test_good"/>'
        '<testcase classname="tests.unit.test_x" name="test_bad"><failure message="assert 1 == 2&#10; more"/></testcase>'
    )
    xml = f'<testsuites><testsuite tests="2" failures="1" errors="0" skipped="0">{cases}</testsuite></testsuites>'
    code = f"import sys; open(sys.argv[1].partition('=')[2], 'w').write({xml!r}); sys.exit(1)"
    status, _made = drive(Part("unit", (sys.executable, "-c", code), lane="a", pytest=True))
    shown = capsys.readouterr().out
    assert status == 1
    summary = shown[shown.index("failed   ") :].splitlines()
    assert "   tests.unit.test_x::test_bad: assert 1 == 2" in summary
    assert "test_good" not in shown


def test_the_summary_repeats_what_the_log_of_a_command_says_of_its_failure(capsys):
    """The end of that log tells how the part cleaned up, and whoever sees the last lines alone sees no reason."""
    log = (
        "TASK [Make it]",
        "  \x1b[31m│\x1b[0m \x1b[0;31mfatal: [vm1]: FAILED! => changed=false\x1b[0m",
        "  │   msg: the disk is full",
        *(f"cleaning {number}" for number in range(80)),
        "\x1b[31mERROR   \x1b[0m Executed: 1 failed",
    )
    code = f"print({chr(10).join(log)!r}); raise SystemExit(1)"
    drive(Part("molecule", (sys.executable, "-c", code), lane="a"), Part("ruff", PASSES, lane="b"))
    shown = capsys.readouterr().out
    summary = shown[shown.index("failed   ") :].splitlines()
    assert "   fatal: [vm1]: FAILED! => changed=false" in summary
    assert "   msg: the disk is full" in summary
    assert "   ERROR    Executed: 1 failed" in summary
    assert "   cleaning 40" not in summary


def test_a_lane_goes_on_however_a_part_of_it_ended(place):
    status, made = drive(
        Part("binaries", (sys.executable, "-c", "import time; time.sleep(0.3); raise SystemExit(3)"), lane="a"),
        Part("unit", writes(place, "unit"), lane="a"),
    )
    assert status == 1
    assert states(made) == {"binaries": "failed", "unit": "passed"}
    begun = {run.part.name: run.begun for run in made.runs}
    assert begun["unit"] >= begun["binaries"] + 0.3


def test_a_part_named_alone_takes_what_it_needs_to_be_there():
    status, made = drive(Part("ruff", PASSES, lane="a", needs=("env",)))
    assert status == 0
    assert states(made) == {"ruff": "passed"}


def test_a_tool_that_is_missing_fails_its_part(capsys):
    status, made = drive(Part("mypy", ("/nonexistent/mypy",), lane="a"), Part("ruff", PASSES, lane="a"))
    assert status == 1
    assert states(made) == {"mypy": "failed", "ruff": "passed"}
    assert "/nonexistent/mypy" in capsys.readouterr().out


def test_lanes_run_side_by_side(place):
    # Each ends only when the other has begun.
    status, _made = drive(
        Part("a1", writes(place, "a1", meets="b1"), lane="a"), Part("b1", writes(place, "b1", meets="a1"), lane="b")
    )
    assert status == 0


def test_parts_of_a_lane_follow_each_other(place):
    # a1 ends only after b1 has; a2 could end at once, if it did not wait for a1.
    drive(
        Part("a1", writes(place, "a1", meets="ends"), lane="a"),
        Part("a2", writes(place, "a2"), lane="a"),
        Part("b1", writes(place, "b1"), lane="b"),
    )
    assert (place / "ends").read_text().split() == ["b1", "a1", "a2"]


@pytest.mark.parametrize(
    ("status", "numbers", "counts"),
    [
        (0, {"tests": 5, "skipped": 1}, Counts(4, 0, 1)),
        (1, {"tests": 5, "failures": 1, "errors": 1}, Counts(3, 2, 0)),
        (1, {"tests": 2}, Counts(2, 1, 0)),  # pytest itself failed after its tests passed
        (0, {"tests": 0}, Counts(0, 1, 0)),  # no test ran: that is not a success
        (0, {"tests": 2, "skipped": 2}, Counts(0, 1, 2)),
    ],
)
def test_tests_of_a_pytest_part_are_counted(place, status, numbers, counts):
    driver_status, made = drive(pytest_part(place, status=status, **numbers), Part("ruff", PASSES, lane="b"))
    assert made.runs[0].counts == counts
    assert driver_status == (1 if counts.failed else 0)


def test_an_old_count_is_not_taken_for_a_new_one(place):
    drive(pytest_part(place, status=0, tests=5), Part("ruff", PASSES, lane="b"))
    _status, made = drive(Part("unit", FAILS, lane="a", pytest=True), Part("ruff", PASSES, lane="b"))
    assert made.runs[0].counts == Counts(failed=1)


def test_an_interrupt_ends_the_children_lets_them_clean_up_and_fails(place, capsys):
    # The grandchild is what a test leaves when only its parent is told to end; a second interrupt would cut the cleaning short.
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], stderr=subprocess.DEVNULL)\n"
        f"open({str(place / 'pid')!r}, 'w').write(str(child.pid))\n"
        f"open({str(place / 'ready')!r}, 'w').close()\n"
        "try:\n    time.sleep(600)\n"
        f"except KeyboardInterrupt:\n    child.wait(); time.sleep(0.5); open({str(place / 'cleaned')!r}, 'w').close(); raise SystemExit(1)\n"
    )

    def interrupt() -> None:
        until = time.monotonic() + 30
        while not (place / "ready").exists() and time.monotonic() < until:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    other = threading.Thread(target=interrupt)
    other.start()
    status, made = drive(Part("unit", (sys.executable, "-c", code), lane="a"), Part("later", PASSES, lane="a"))
    other.join()
    assert status == 1
    assert states(made) == {"unit": "failed", "later": "not run"}
    assert (place / "cleaned").exists()
    assert not Path(f"/proc/{(place / 'pid').read_text()}").exists()
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 1 failed, 1 skipped"


def test_a_part_that_takes_too_long_is_ended(capsys):
    status, made = drive(
        Part("slow", (sys.executable, "-c", "import time; time.sleep(600)"), lane="a", minutes=0),
        Part("ruff", PASSES, lane="b"),
    )
    assert status == 1
    assert states(made) == {"slow": "failed", "ruff": "passed"}
    assert "not done after 0 minutes" in capsys.readouterr().out


@pytest.mark.parametrize("fails", [False, True])
def test_what_an_ended_part_cannot_remove_itself_is_removed_by_its_command(place, capsys, fails):
    code = f"open({str(place / 'cleaned')!r}, 'w').close(); raise SystemExit({int(fails)})"
    status, _made = drive(
        Part("slow", ("sleep", "600"), lane="a", minutes=0, clean=(sys.executable, "-c", code)),
        Part("ruff", PASSES, lane="b", clean=(sys.executable, "-c", f"open({str(place / 'other')!r}, 'w')")),
    )
    assert status == 1
    assert (place / "cleaned").exists()
    assert not (place / "other").exists()
    assert ("it was not removed" in capsys.readouterr().out) is fails


def test_what_a_failed_part_leaves_is_named_with_the_command_that_removes_it(place, capsys):
    command = (sys.executable, "-c", f"open({str(place / 'cleaned')!r}, 'w')")
    drive(Part("ruff", FAILS, lane="a", clean=command), Part("build", PASSES, lane="b", clean=("other", "command")))
    said = capsys.readouterr().out
    assert f"remove it: {' '.join(command)}" in said
    assert "other command" not in said
    assert not (place / "cleaned").exists()


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(SystemExit) as refused:
        driver.chosen(["lnit"])
    assert "lnit" in str(refused.value)
    assert "ansible-lint" in str(refused.value)


def test_a_group_is_its_parts():
    assert {"ruff", "mypy", "yamllint"} <= {part.name for part in driver.chosen(["lint"])}
    assert driver.chosen([]) == driver.PARTS


def test_the_times_of_a_whole_run_that_passed_are_kept_and_told_by_the_next(place, monkeypatch):
    parts = (Part("one", PASSES, lane="a"), pytest_part(place, status=0, tests=1))
    monkeypatch.setattr(driver, "PARTS", parts)
    drive(parts[0])
    assert test_times.read(test_times.place()) == {}, "a part alone says nothing of how long it takes beside others"
    status, _ = drive(*parts)
    kept = test_times.read(test_times.place())
    assert status == 0
    assert sorted(kept) == sorted(part.name for part in parts)
    made = Driver(parts, extra=())
    assert made.last_time(made.runs[0]) == f" of {kept['one']:.0f}"
    failing = (Part("one", FAILS, lane="a"), parts[1])
    monkeypatch.setattr(driver, "PARTS", failing)
    drive(*failing)
    assert test_times.read(test_times.place()) == kept


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"parts": []}', '{"parts": {"one": "long"}}'])
def test_times_that_cannot_be_read_are_none(place, text):
    file = place / "times.json"
    assert test_times.read(file) == {}
    file.write_text(text)
    assert test_times.read(file) == {}


def test_the_slowest_files_are_kept_with_the_times(place):
    report = place / "report.xml"
    cases = "".join(
        f'<testcase classname="tests.{name}" time="{time}"/>' for name, time in (("a", 1), ("b", 3), ("a", 1))
    )
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    test_times.write(place / "times.json", parts={"one": 2.0}, reports=[report, place / "none.xml"], busy=0.5)
    assert (place / "times.json").read_text().split() == (
        [
            "{",
            '"parts":',
            "{",
            '"one":',
            "2.0",
            "},",
            '"busy":',
            "0.5,",
            '"files":',
            "{",
            '"tests.b":',
            "3.0,",
            '"tests.a":',
            "2.0",
            "}",
            "}",
        ]
    )
