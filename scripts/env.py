"""Make the virtual environment .venv and the link through which ansible finds this checkout as ballast.kube.

    python3 scripts/env.py run     what a lab needs       (requirements/run.txt)
    python3 scripts/env.py test    what the checks need   (requirements/test.txt, which includes run.txt)

A stamp in .venv carries a digest of the requirement files, the Python version and the place of the checkout. While it
fits, nothing is done. An environment made for another Python or another place is made anew.

    python3 scripts/env.py constraints     write requirements/constraints.txt anew, from the newest that test.txt allows
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LINK = ROOT / ".build/collections/ansible_collections/ballast/kube"
REQUIREMENTS = ROOT / "requirements"
OLDEST, NEWEST = (3, 11), (3, 13)  # ansible-core 2.19 runs on these


def place() -> str:
    """What an environment depends on beside its requirements."""
    return f"{sys.version_info.major}.{sys.version_info.minor} {ROOT}"


def digest(kind: str) -> str:
    names = ["run.txt", "constraints.txt"] + (["test.txt"] if kind == "test" else [])
    content = b"\0".join((REQUIREMENTS / name).read_bytes() for name in sorted(names))
    return hashlib.sha256(place().encode() + content).hexdigest()


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def lay_link() -> None:
    """`.build/collections` is a collection path that holds this checkout itself."""
    target = Path("../../../..")
    if not LINK.is_symlink() or LINK.readlink() != target:
        LINK.unlink(missing_ok=True)
        LINK.symlink_to(target)


def write_constraints() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "-r", str(REQUIREMENTS / "test.txt")], check=True)
        frozen = subprocess.run([*pip, "freeze"], check=True, stdout=subprocess.PIPE, text=True).stdout
    text = "# Everything that run.txt and test.txt pull in, as tested. Made by `make constraints`.\n" + frozen
    (REQUIREMENTS / "constraints.txt").write_text(text, encoding="utf-8")


def make(kind: str) -> None:
    lay_link()
    stamp = VENV / f"ballast-{kind}"
    if read(stamp) == digest(kind):
        return
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        sys.exit(
            f"env: Python {sys.version_info.major}.{sys.version_info.minor} cannot run ansible-core 2.19\n"
            f"  found: {sys.executable}\n"
            f"  do:    make PYTHON=python3.11 (3.11 to 3.13)"
        )
    begun = time.monotonic()
    if read(VENV / "ballast-place") != place():
        shutil.rmtree(VENV, ignore_errors=True)
        made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=False)
        if made.returncode != 0:
            shutil.rmtree(VENV, ignore_errors=True)
            sys.exit("env: no virtual environment could be made\n  do:    make packages (it installs python3-venv)")
        (VENV / "ballast-place").write_text(place(), encoding="utf-8")
    argv = [str(VENV / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    argv += ["-r", str(REQUIREMENTS / f"{kind}.txt"), "-c", str(REQUIREMENTS / "constraints.txt")]
    if subprocess.run(argv, check=False).returncode != 0:
        sys.exit("env: pip could not install the requirements; its own message stands above")
    for name in ["run", kind]:  # test.txt includes run.txt
        (VENV / f"ballast-{name}").write_text(digest(name), encoding="utf-8")
    print(f" ✓ .venv made for {kind} in {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    if sys.argv[1:] == ["constraints"]:
        write_constraints()
        sys.exit()
    if sys.argv[1:] not in (["run"], ["test"]):
        sys.exit(__doc__)
    LINK.parent.mkdir(parents=True, exist_ok=True)
    with (ROOT / ".build/env.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two makes side by side share one environment
        make(sys.argv[1])
