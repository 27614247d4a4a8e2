"""Build the wheel, install it without extras where nothing else is, and use it; `make wheel-check`.

An editable install hides a file the wheel forgets and a dependency only the extras bring. The
environment lives in ``.venv-wheel`` and is made anew when the dependencies change; otherwise only
the wheel is put in again, and nothing at all when the wheel is the same to the byte.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / ".venv-wheel"
# Only extras bring these; importing one here would mean the check proves nothing.
_EXTRAS = ("plotly", "fastapi", "matplotlib", "sknetwork", "pytest")


def main() -> None:
    """Run the whole check and say how long each part took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--fresh", action="store_true", help="make the environment anew")
    fresh = parser.parse_args().fresh
    with tempfile.TemporaryDirectory(prefix="graphham-wheel-") as made:
        folder = Path(made)
        began = time.perf_counter()
        wheel = build(folder)
        check_contents(wheel)
        check_metadata(wheel)
        built = time.perf_counter()
        how = install(wheel, fresh)
        installed = time.perf_counter()
        use(folder)
        used = time.perf_counter()
    print(
        f"wheel-check: {wheel.name} built in {built - began:.0f} s, {how} in "
        f"{installed - built:.0f} s, used in {used - installed:.0f} s"
    )


def build(folder: Path) -> Path:
    """Build the wheel of the working tree into a folder."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def check_contents(wheel: Path) -> None:
    """Refuse a wheel that lacks a file of the package."""
    source = ROOT / "src"
    packed = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "graphham").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    if missing := sorted(wanted - packed):
        sys.exit(f"wheel-check: the wheel lacks {', '.join(missing[:5])} ({len(missing)} in all)")


def check_metadata(wheel: Path) -> None:
    """Have the tools of package indexes look at the wheel, where they are installed."""
    for module, arguments in (("twine", ["check", "--strict"]), ("check_wheel_contents", [])):
        if importlib.util.find_spec(module) is None:
            print(f"wheel-check: {module} is not installed, so it was not asked")
            continue
        run([sys.executable, "-m", module, *arguments, str(wheel)], ROOT)


def install(wheel: Path, fresh: bool) -> str:
    """Install the wheel without extras and say what that took."""
    stamp = PLACE / "installed.json"
    wanted = {
        "dependencies": dependencies_key(),
        "wheel": hashlib.sha256(wheel.read_bytes()).hexdigest(),
    }
    known = json.loads(stamp.read_text()) if stamp.exists() and not fresh else {}
    if known == wanted:
        return "already installed, looked up"
    pip = [str(program("python")), "-m", "pip"]
    quiet = ["--quiet", "--disable-pip-version-check"]
    stamp.unlink(missing_ok=True)  # an interrupted installation must not pass for a finished one
    if known.get("dependencies") == wanted["dependencies"]:
        how = "reinstalled"
        run([*pip, "uninstall", *quiet, "--yes", "graphham"], ROOT)
        # What pip does not know of would keep the folder of a module that moved away importable.
        for left in PLACE.glob("lib/python*/site-packages/graphham"):
            shutil.rmtree(left)
        run([*pip, "install", *quiet, "--no-deps", str(wheel)], ROOT)
    else:
        how = "installed with its dependencies"
        shutil.rmtree(PLACE, ignore_errors=True)
        venv.create(PLACE, with_pip=True)
        limits = ["--constraint", "constraints.txt", *torch_from()]
        run([*pip, "install", *quiet, *limits, str(wheel)], ROOT)
    run([*pip, "check", "--disable-pip-version-check"], ROOT)
    stamp.write_text(json.dumps(wanted, indent=1) + "\n")
    return how


def torch_from() -> list[str]:
    """Return where pip is to look for torch besides, as the Makefile was told."""
    index = os.environ.get("TORCH_INDEX")
    return ["--extra-index-url", index] if index else []


def dependencies_key() -> str:
    """Return a hash of all that decides what is installed beside the wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parts = [sys.version, *project["dependencies"], (ROOT / "constraints.txt").read_text()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def use(folder: Path) -> None:
    """Ask for the version and fit a small graph, from a folder outside the repository."""
    graphham = str(program("graphham"))
    code = (
        "import importlib.util as u, graphham; print(graphham.__file__); "
        f"print([n for n in {_EXTRAS!r} if u.find_spec(n)])"
    )
    home, extras = run([str(program("python")), "-c", code], folder).splitlines()
    if not Path(home).is_relative_to(PLACE):
        sys.exit(f"wheel-check: graphham was imported from {home}, not from the wheel")
    if extras != "[]":
        sys.exit(f"wheel-check: {extras} are installed although no extra was asked for")
    version = run([graphham, "--version"], folder).split()
    if version != ["graphham", source_version()]:
        sys.exit(f"wheel-check: graphham --version printed {version}, not {source_version()}")
    # Two rings of thirty with chords, joined by one link.
    links = [(30 * ring + i, 30 * ring + (i + s) % 30) for ring in (0, 1) for i in range(30)
             for s in (1, 2, 5)]  # fmt: skip
    rows = "\n".join(f"n{a},n{b}" for a, b in [*links, (0, 30)])
    (folder / "edges.csv").write_text(f"source,target\n{rows}\n")
    run([graphham, "fit", "edges.csv", "--out", "run", "--groups", "4,2", "--epochs", "4"], folder)
    code = (
        "import graphham as gh, numpy as np; result = gh.open_run('run').result(); "
        "assert np.isfinite(result.embedding).all(); print(*result.embedding.shape)"
    )
    if (shape := run([str(program("python")), "-c", code], folder).split()) != ["60", "128"]:
        sys.exit(f"wheel-check: the run of the installed package has vectors of shape {shape}")


def source_version() -> str:
    """Return the version the source declares, read without importing it."""
    text = (ROOT / "src" / "graphham" / "version.py").read_text()
    return text.split('__version__ = "')[1].split('"')[0]


def program(name: str) -> Path:
    """Return a program of the environment."""
    return PLACE / "bin" / name


def run(command: list[str], folder: Path) -> str:
    """Run a command without the caller's Python settings; show its output only if it fails."""
    # PYTHONPATH would put the working tree before the wheel.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # Compiled loops outlive the reinstalled package, which saves half a minute.
    kept["NUMBA_CACHE_DIR"] = str(PLACE / "numba")
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        sys.exit(f"wheel-check: {' '.join(command)} ended with {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    main()
