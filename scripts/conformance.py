# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run Kubernetes' own tests on a lab: `python3 -m scripts.conformance [--focus WORDS] [--lab-dir LAB_DIR]`.

The tests are upstream's program e2e.test, built from the module k8s.io/kubernetes of the lab's version, with the images of
tests/conformance/images.yml. The status is 1 where a test fails, 2 where the tests could not be run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.conformance.images import archive_options, list_not_run
from tests.conformance.report import print_report, read_junit, read_progress, write_report
from tests.integration.registry import registry

ROOT = Path(__file__).resolve().parent.parent
PLAYS = ROOT / "tests/conformance"
TOOLCHAIN = ROOT / "roles/kubernetes_binaries/files/toolchain/e2e"
BUILD = ROOT / ".build"
LOG = BUILD / "conformance.log"
ARCHIVES = Path("/var/cache/ballast/images")
IMAGES_OF = "registry.k8s.io"
MARK = "# of scripts/conformance.py, while its tests run\n"
CONFORMANCE = r"\[Conformance\]"
TELL_SECONDS = 30
CLEANUP_SECONDS = 60  # for abandoned tests to remove their namespaces


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends started programs too
    lab_dir = Path(options.lab_dir)
    if os.geteuid() != 0:
        return fail("the lab's kubeconfig and caches are root's", "run it as root: sudo make conformance")
    record = lab_dir / "lab.json"
    if not record.exists():
        return fail(f"{lab_dir} contains no lab", "make lab, or name another one: LAB_DIR=...")
    lab = json.loads(record.read_text(encoding="utf-8"))
    if not (TOOLCHAIN / lab["kubernetes_version"]).is_dir():
        known = ", ".join(sorted(path.name for path in TOOLCHAIN.iterdir()))
        return fail(
            f"the tests of Kubernetes {lab['kubernetes_version']} are not pinned",
            f"take a lab of {known}, or pin them: python3 scripts/toolchain.py e2e {lab['kubernetes_version']}",
        )
    if "dns" not in lab.get("addons", []):
        return fail("the lab has no names for Services, which most tests use", "make lab LAB_ADDONS=dns,storage")
    not_run = list_not_run(options.focus)
    with tempfile.TemporaryDirectory(dir="/run", prefix="ballast-conformance-") as place:
        bin_dir = provide_programs(lab["kubernetes_version"], Path(place))
        archive = load_images(lab, lab_dir, bin_dir, Path(place))
        with pullable(lab, lab_dir, archive):
            run_tests(options, lab, lab_dir, bin_dir, Path(place), skipped=not_run)
        report = Path(place, "junit.xml")
        if not report.exists():
            return fail("the tests did not come to an end", f"see why: {LOG}")
        outcomes = read_junit(report)
    print_report(outcomes, not_run)
    if options.results:
        write_report(lab, options.focus, outcomes, not_run)
    return 1 if any(outcome.failure for outcome in outcomes) else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make conformance", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lab-dir", default="/var/lib/ballast/lab")
    parser.add_argument("--focus", default=CONFORMANCE, help="a regular expression for names of tests")
    parser.add_argument("--skip", default="", help="one for names of tests that are not run")
    parser.add_argument("--processes", type=int, default=6, help="how many tests run at once")
    parser.add_argument("--results", action="store_true", help="keep the result, for docs/conformance.md")
    return parser.parse_args(arguments)


def fail(text: str, remedy: str) -> int:
    print(f"{text}\n  do:    {remedy}", file=sys.stderr)
    return 2


def provide_programs(version: str, place: Path) -> str:
    """Build the programs; returns their directory."""
    file = place / "programs.json"
    play("programs.yml", {"kubernetes_binaries_version": version, "conformance_programs": str(file)})
    return str(json.loads(file.read_text(encoding="utf-8"))["bin_dir"])


def load_images(lab: dict[str, Any], lab_dir: Path, bin_dir: str, place: Path) -> Path:
    """Load the images into the nodes; returns their archive."""
    listed = subprocess.run([f"{bin_dir}/e2e.test", "--list-images"], stdout=subprocess.PIPE, text=True, check=True)
    version = lab["kubernetes_version"]
    sources = subprocess.run(
        ["go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"],
        cwd=TOOLCHAIN / version,
        env={**os.environ, "GOWORK": "off", "GOFLAGS": ""},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    archive = ARCHIVES / f"conformance-{version}.tar"
    images = archive_options(listed.stdout.split(), bin_dir=bin_dir, sources=sources.stdout.strip())
    variables = {
        "lab_dir": str(lab_dir),
        "lab_archive": str(archive),
        "conformance_images": images,
        "conformance_bin_dir": bin_dir,
    }
    file = place / "images.json"
    file.write_text(json.dumps(variables), encoding="utf-8")
    play("load.yml", file)
    return archive


@contextmanager
def pullable(lab: dict[str, Any], lab_dir: Path, archive: Path) -> Iterator[None]:
    """Some tests pull an image although their node has it: nodes pull images of registry.k8s.io from a registry on their bridge."""
    hosts = lab_dir / "certs.d" / IMAGES_OF / "hosts.toml"
    # A file with our mark was left by a killed run.
    is_others = hosts.exists() and not hosts.read_text(encoding="utf-8").startswith(MARK)
    if lab["target"] != "host" or is_others:
        print(f"nodes pull images of {IMAGES_OF} from where they did before: tests that pull some may fail", flush=True)
        yield
        return
    gateway = lab["gateway"].partition("/")[0]
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="conformance-") as kept, registry(Path(kept), gateway) as served:
        served.push_archive(archive, IMAGES_OF)
        hosts.parent.mkdir(exist_ok=True)
        hosts.write_text(f'{MARK}[host."http://{gateway}:{served.port}"]\n', encoding="utf-8")
        try:
            yield
        finally:
            hosts.unlink(missing_ok=True)
            with suppress(OSError):  # somebody else has a file there
                hosts.parent.rmdir()


def play(name: str, variables: dict[str, str] | Path) -> None:
    given = f"@{variables}" if isinstance(variables, Path) else json.dumps(variables)
    argv = ["ansible-playbook", str(PLAYS / name), "-e", given]
    if subprocess.run(argv, cwd=ROOT, check=False).returncode:
        raise SystemExit(2)


def run_tests(
    options: argparse.Namespace,
    lab: dict[str, Any],
    lab_dir: Path,
    bin_dir: str,
    place: Path,
    *,
    skipped: Iterable[str],
) -> None:
    """Run the tests; leaves place/junit.xml, which says more than Ginkgo's exit status."""
    skips = [*map(re.escape, skipped), *([options.skip] if options.skip else [])]
    words = [f"--focus={options.focus}", *(f"--skip={skip}" for skip in skips)]
    argv = [
        *(f"{bin_dir}/ginkgo", f"--procs={options.processes}", "--no-color", "--keep-going", "--timeout=3h"),
        *("--silence-skips", f"--output-dir={place}", "--junit-report=junit.xml", *words, f"{bin_dir}/e2e.test", "--"),
        *(f"--kubeconfig={lab_dir}/admin.kubeconfig", "--provider=skeleton", f"--kubectl-path={lab_dir}/bin/kubectl"),
        f"--non-blocking-taints={','.join(own_taints(lab))}",
    ]
    # Not in the lab's directory, where files that the lab did not make would remain.
    BUILD.mkdir(exist_ok=True)
    with LOG.open("wb") as log:
        print(f"the tests run, up to an hour; what they print: {log.name}", flush=True)
        # Tests leave files in TMPDIR.
        env = {**os.environ, "TMPDIR": str(place)}
        ginkgo = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=place,
            env=env,
            start_new_session=True,
        )
        with ended(ginkgo):
            follow(ginkgo)


def own_taints(lab: dict[str, Any]) -> list[str]:
    """Keys of the taints of the lab's own nodes: otherwise tests wait half an hour for nodes without taints."""
    return sorted(
        {"node-role.kubernetes.io/control-plane"} | {row["key"] for node in lab["nodes"] for row in node["taints"]}
    )


@contextmanager
def ended(ginkgo: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ends the process group of Ginkgo with the block. An abandoned run first removes what its tests made."""
    try:
        yield
    finally:
        if ginkgo.poll() is None:
            os.killpg(ginkgo.pid, signal.SIGINT)  # as a terminal does, so that its children clean up
            with suppress(subprocess.TimeoutExpired):
                ginkgo.wait(CLEANUP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(ginkgo.pid, signal.SIGKILL)
        ginkgo.wait()


def follow(ginkgo: subprocess.Popen[bytes]) -> None:
    """Report the progress every TELL_SECONDS seconds."""
    begun = time.monotonic()
    while True:
        try:
            ginkgo.wait(TELL_SECONDS)
            return
        except subprocess.TimeoutExpired:
            minutes = round((time.monotonic() - begun) / 60)
            print(f"{minutes} min: {read_progress(LOG.read_text(encoding='utf-8', errors='replace'))}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
