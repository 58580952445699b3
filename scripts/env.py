"""Make the virtual environment .venv and the link through which ansible finds this checkout as ballast.kube.

    python3 scripts/env.py run     what a lab needs       (requirements/run.txt)
    python3 scripts/env.py test    what the checks need   (requirements/test.txt, which includes run.txt)
    python3 scripts/env.py audit   what `make audit` needs, in .build/audit   (requirements/audit.txt)
    python3 scripts/env.py mutants what `make mutants` needs, in .build/mutants   (requirements/mutants.txt)
    python3 scripts/env.py docs    what `make docs` needs, in .build/docs   (requirements/docs.txt)

Every package is installed by the digests of its files in requirements/constraints*.txt, and from a wheel: nothing that the
index has in its place is run. A stamp in the environment carries a digest of that file, the Python version and the place of
the checkout. While it fits, nothing is done. An environment made for another Python or another place is made again.

    python3 scripts/env.py constraints     write requirements/constraints*.txt from the newest that the other files allow
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LINK = ROOT / ".build/collections/ansible_collections/ballast/kube"
REQUIREMENTS = ROOT / "requirements"
AUDIT = ROOT / ".build/audit"
MUTANTS = ROOT / ".build/mutants/environment"
DOCS = ROOT / ".build/docs/environment"
# For each kind: its environment, and the file that pins all of its packages.
KINDS = {
    "run": (VENV, "constraints-run.txt"),
    "test": (VENV, "constraints.txt"),
    "audit": (AUDIT, "constraints-audit.txt"),
    "mutants": (MUTANTS, "constraints-mutants.txt"),
    "docs": (DOCS, "constraints-docs.txt"),
}
OLDEST, NEWEST = (3, 11), (3, 13)  # Pythons on which ansible-core 2.19 runs
EE_PYTHON = "3.13"  # in execution environments (scripts/execution_environment.py)


def place() -> str:
    """What an environment depends on besides its requirements."""
    return f"{sys.version_info.major}.{sys.version_info.minor} {ROOT}"


def digest(kind: str) -> str:
    content = (REQUIREMENTS / KINDS[kind][1]).read_bytes()
    return hashlib.sha256(place().encode() + content).hexdigest()


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def lay_link() -> None:
    """Make `.build/collections`, a collection path that contains this checkout itself."""
    target = Path("../../../..")
    if not LINK.is_symlink() or LINK.readlink() != target:
        LINK.unlink(missing_ok=True)
        LINK.symlink_to(target)


def write_constraints() -> None:
    """One file for every Python from OLDEST to NEWEST, with the digests of all files that the index has of a version. run.txt, mutants.txt
    and docs.txt get the versions of test.txt where it has the package. ee.txt is for the one Python of an execution environment: pip
    judges conditions on the Python version by its own Python, which may be another."""
    make("audit")
    every = ["--universal", "--python-version", ".".join(map(str, OLDEST))]
    write_pins("test.txt", every, within="", target="constraints.txt")
    write_pins("run.txt", every, within="constraints.txt", target="constraints-run.txt")
    write_pins("audit.txt", every, within="", target="constraints-audit.txt")
    write_pins("mutants.txt", every, within="constraints.txt", target="constraints-mutants.txt")
    write_pins("docs.txt", every, within="constraints.txt", target="constraints-docs.txt")
    of_image = ["--python-platform", "linux", "--python-version", EE_PYTHON]
    write_pins("ee.txt", of_image, within="constraints.txt", target="constraints-ee.txt")


def write_pins(source: str, pythons: list[str], *, within: str, target: str) -> None:
    argv = [str(AUDIT / "bin/uv"), "pip", "compile", "--quiet", *pythons]
    argv += ["--generate-hashes", "--no-header", "--no-annotate", "--upgrade", str(REQUIREMENTS / source)]
    argv += ["--constraints", str(REQUIREMENTS / within)] if within else []
    pinned = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env=index_of_pip()).stdout
    text = (
        f"# Everything that {source} pulls in, as tested, with the digests of its files. Made by `make constraints`.\n"
    )
    (REQUIREMENTS / target).write_text(text + pinned, encoding="utf-8")


def index_of_pip() -> dict[str, str]:
    """The index that pip uses, for uv, which does not read pip's settings."""
    argv = [str(AUDIT / "bin/python"), "-m", "pip", "config", "get", "global.index-url"]
    index = (
        os.environ.get("PIP_INDEX_URL")
        or subprocess.run(
            argv, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ).stdout.strip()
    )
    return {**os.environ, **({"UV_DEFAULT_INDEX": index} if index else {})}


def environment_of_pip(given: Mapping[str, str]) -> dict[str, str]:
    """The environment without settings of the user, in the shell or in a pip.conf, that make pip install outside the environment."""
    kept = {name: value for name, value in given.items() if name not in ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")}
    return {**kept, "PIP_USER": "0"}


def make(kind: str) -> None:
    lay_link()
    environment, pins = KINDS[kind]
    stamp = environment / f"ballast-{kind}"
    if read(stamp) == digest(kind):
        return
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        sys.exit(
            f"env: Python {sys.version_info.major}.{sys.version_info.minor} cannot run ansible-core 2.19\n"
            f"  found: {sys.executable}\n"
            f"  do:    make PYTHON=python3.11 (3.11 to 3.13)"
        )
    begun = time.monotonic()
    if read(environment / "ballast-place") != place():
        shutil.rmtree(environment, ignore_errors=True)
        made = subprocess.run([sys.executable, "-m", "venv", str(environment)], check=False)
        if made.returncode != 0:
            shutil.rmtree(environment, ignore_errors=True)
            sys.exit("env: no virtual environment could be made\n  do:    make packages (it installs python3-venv)")
        (environment / "ballast-place").write_text(place(), encoding="utf-8")
    argv = [str(environment / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    argv += ["--require-hashes", "--only-binary=:all:", "-r", str(REQUIREMENTS / pins)]
    if subprocess.run(argv, env=environment_of_pip(os.environ), check=False).returncode != 0:
        sys.exit(
            f"env: pip could not install what requirements/{pins} pins; its own message stands above\n"
            f"  do:    where it names a hash, the index serves another file than was tested: find out why, and do not renew the pins"
        )
    stamp.write_text(digest(kind), encoding="utf-8")
    if kind == "test":  # it includes run
        (environment / "ballast-run").write_text(digest("run"), encoding="utf-8")
    print(f" ✓ {environment.relative_to(ROOT)} made for {kind} in {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in (*KINDS, "constraints"):
        sys.exit(__doc__)
    LINK.parent.mkdir(parents=True, exist_ok=True)
    with (ROOT / ".build/env.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two simultaneous makes share one environment
        if sys.argv[1] == "constraints":
            write_constraints()
        else:
            make(sys.argv[1])
