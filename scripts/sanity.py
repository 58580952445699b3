"""Run `ansible-test sanity` on what is shipped; further arguments go to it as they are (--test pep8, a path, ...).

    python -m scripts.sanity [ARGUMENT ...]

ansible-test wants its working directory to be .../ansible_collections/ballast/kube, so the files of the archive
(scripts/build.py) are copied to .build/sanity, a git repository of its own so that ansible-test does not look for one above.

ansible-test builds a virtual environment for each tool and gets pip for them from a place of its own, which a machine
with only package indexes does not reach: its cache is filled with a small script that takes pip from the index instead.
It also hides PIP_* variables from pip, so pip's settings, from wherever they come, are written to a file. All that lies
in a home directory of its own below the user's cache, so that a fresh checkout starts warm.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import subprocess
import sys
from importlib import util
from pathlib import Path

from scripts.build import shipped

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / ".build/sanity/ansible_collections/ballast/kube"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ballast" / "sanity"

# Called as: get_pip.py ... pip==24.2 ...; it is run by the Python of the virtual environment that lacks pip.
GET_PIP = """\
import runpy
import sys

WHEEL = {wheel!r}
sys.path.insert(0, WHEEL)
sys.argv = ["pip", "install", "--no-index", "--disable-pip-version-check", WHEEL]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def run(argv: list[str]) -> str:
    return subprocess.run(argv, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout


def copy_sources() -> None:
    """Make COPY equal to what is shipped, touching only what differs."""
    expected = shipped() | {"galaxy.yml"}
    copied = {str(path.relative_to(COPY)) for path in COPY.rglob("*") if not path.is_dir() or path.is_symlink()}
    for name in sorted(copied - expected):
        if not name.startswith((".git/", "tests/output/")):  # the latter are ansible-test's results
            (COPY / name).unlink()
    for name in sorted(expected):
        source, copy = ROOT / name, COPY / name
        if source.is_symlink():
            if not copy.is_symlink() or os.readlink(copy) != os.readlink(source):
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.unlink(missing_ok=True)
                copy.symlink_to(os.readlink(source))
        elif not copy.is_file() or not filecmp.cmp(source, copy, shallow=False):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
        else:
            shutil.copymode(source, copy)


def pip_settings() -> str:
    """This machine's pip settings as a file: those of its files, then those of PIP_* variables, which override them."""
    shown = run([sys.executable, "-m", "pip", "config", "list"]).splitlines()
    settings: dict[str, str] = {}
    for line in sorted(shown, key=lambda line: line.startswith(":env:")):
        key, _equals, value = line.partition("=")
        settings[re.sub(r"^(:env:|global)\.", "", key)] = value.strip("'").replace("\\n", "\n  ")
    lines = [f"{name} = {value}" for name, value in sorted(settings.items()) if "." not in name]
    return "\n".join(["[global]", *lines, ""])


def prepare_home() -> None:
    spec = util.find_spec("ansible_test")
    if spec is None or spec.origin is None:
        sys.exit("sanity: ansible-test is not in this environment\n  do:    make env-test")
    pins = (Path(spec.origin).parent / "_internal/python_requirements.py").read_text(encoding="utf-8")
    pinned = re.search(r"pip='([\d.]+)'", pins)
    if pinned is None:
        sys.exit("sanity: this ansible-test does not name its pip where scripts/sanity.py looks for it")
    version = pinned[1]
    wheel = CACHE / f"pip-{version}-py3-none-any.whl"
    if not wheel.is_file():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(CACHE)]
        run([*pip, f"pip=={version}"])
    script = CACHE / f".ansible/test/cache/get_pip_{version.replace('.', '_')}.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(GET_PIP.format(wheel=str(wheel)), encoding="utf-8")
    settings = CACHE / ".config/pip/pip.conf"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.touch(mode=0o600)  # an index's URL may have a password
    settings.write_text(pip_settings(), encoding="utf-8")


def main(arguments: list[str]) -> int:
    CACHE.mkdir(parents=True, exist_ok=True)
    COPY.mkdir(parents=True, exist_ok=True)
    run(["git", "init", "--quiet", str(COPY)])
    prepare_home()
    copy_sources()
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    here = str(Path(sys.executable).parent)
    argv = [f"{here}/ansible-test", "sanity", "--local", "--python", python, "--color", "no", *arguments]
    environment = {
        "HOME": str(CACHE),
        "PATH": f"{here}:{os.environ.get('PATH', os.defpath)}",
        "LC_ALL": "C.UTF-8",
    }
    nothing_tested = False
    pipe, same = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(argv, cwd=COPY, env=environment, text=True, stdout=pipe, stderr=same) as tests:
        for line in tests.stdout or ():
            print(line, end="", flush=True)
            nothing_tested = nothing_tested or "All targets skipped" in line
    if nothing_tested:
        print("sanity: ansible-test found no file to test, yet reports success", file=sys.stderr)
    return 1 if nothing_tested else tests.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
