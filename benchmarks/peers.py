"""Make the peers' own environments: packages by pip, two kernels compiled from their sources.

Peers never enter the project's environment. ``torch`` holds graphham beside torch_geometric and
scikit-network; ``walks`` holds packages that need another NumPy. Of torch-cluster and torch-sparse
only the file with the kernel in question is compiled, from the source archive pip downloads: their
whole builds take a quarter of an hour each and would not change that kernel. What could not be
installed or built is kept with the reason, and reported beside the results.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.results import ROOT

HOME = Path(os.environ.get("GRAPHHAM_BENCH_VENV", ROOT / ".bench-venv"))
_PIP_SECONDS, _BUILD_SECONDS = 1200, 900
# Environment -> requirements, each installed by itself so that one failure spares the others.
_PACKAGES: dict[str, tuple[str, ...]] = {
    "torch": ("torch_geometric", "scikit-network", "setuptools", "wheel"),
    "walks": ("pecanpy", "ensmallen", "gensim", "karateclub"),
}


@dataclass(frozen=True)
class Kernel:
    """One operator of a package whose whole build is not needed.

    Args:
        requirement: What pip downloads.
        sources: Files below the archive's ``csrc``.
        includes: Further include folders below the archive.
    """

    requirement: str
    sources: tuple[str, ...]
    includes: tuple[str, ...] = ()


KERNELS = {
    "torch-cluster": Kernel("torch-cluster==1.6.3", ("rw.cpp", "cpu/rw_cpu.cpp")),
    "torch-sparse": Kernel(
        "torch-sparse==0.6.18",
        ("neighbor_sample.cpp", "cpu/neighbor_sample_cpu.cpp"),
        ("third_party/parallel-hashmap",),
    ),
}


@dataclass(frozen=True)
class Status:
    """Whether a peer is there.

    Args:
        ok: Whether it can take part.
        version: Its version, where known.
        reason: Why it cannot, in one sentence.
    """

    ok: bool
    version: str = ""
    reason: str = ""


def python(environment: str) -> Path:
    """Return the interpreter of an environment."""
    return HOME / environment / "bin" / "python"


def library(kernel: str) -> Path:
    """Return where the compiled kernel of a package lies."""
    return HOME / "kernels" / f"{kernel}.so"


def load(kernel: str) -> None:
    """Register a compiled kernel's operators with torch."""
    import torch

    register: Any = torch.ops.load_library
    register(str(library(kernel)))


def known() -> dict[str, Status]:
    """Return what is known of every peer; empty before :func:`install`."""
    path = HOME / "status.json"
    if not path.is_file():
        return {}
    return {name: Status(**entry) for name, entry in json.loads(path.read_text("utf-8")).items()}


def reason_missing(name: str) -> str | None:
    """Return why a peer cannot take part, or ``None`` when it can."""
    status = known().get(name, Status(False, reason="not installed; run: make bench-peers"))
    return None if status.ok else status.reason


def reason_missing_here(name: str, module: str) -> str | None:
    """Return why a peer that runs in this process cannot take part, or ``None``."""
    if importlib.util.find_spec(module) is not None:
        return None
    return reason_missing(name) or "not in this interpreter's environment"


def install(again: bool = False) -> dict[str, Status]:
    """Make both environments and the kernels; keep what is there already.

    Args:
        again: Try once more what failed before.
    """
    held = known()
    HOME.mkdir(parents=True, exist_ok=True)
    (HOME / ".gitignore").write_text("*\n")
    for environment, packages in _PACKAGES.items():
        wanted = [p for p in packages if p not in held or (again and not held[p].ok)]
        if not wanted:
            continue
        failed = _make_environment(environment)
        for package in wanted:
            _tell(f"installing {package}")
            held[package] = failed or _pip_install(environment, package)
            _keep(held)
    for name, kernel in KERNELS.items():
        if name not in held or (again and not held[name].ok):
            _tell(f"building the kernel of {name}, about a minute")
            held[name] = _build(name, kernel)
            _keep(held)
    return held


def _keep(held: dict[str, Status]) -> None:
    text = json.dumps({name: asdict(status) for name, status in held.items()}, indent=1)
    (HOME / "status.json").write_text(text + "\n", "utf-8")


def _make_environment(environment: str) -> Status | None:
    """Make a virtual environment; return a failure or ``None``."""
    steps: list[list[str]] = []
    if not python(environment).exists():
        steps.append([sys.executable, "-m", "venv", str(HOME / environment)])
    if environment == "torch":
        # The project's own pins, so that both sides run on the torch the tests run on.
        steps.append([*_pip(environment), "-c", "constraints.txt", "--editable", "."])
    for step in steps:
        failure = _run(step, _PIP_SECONDS)
        if failure:
            return Status(False, reason=f"the environment could not be made: {failure}")
    return None


def _pip(environment: str) -> list[str]:
    return [str(python(environment)), "-m", "pip", "install", "--quiet"]


def _pip_install(environment: str, package: str) -> Status:
    # PecanPy needs names NumPy 2 dropped but does not say so.
    pins = ["-c", "constraints.txt"] if environment == "torch" else ["numpy<2"]
    failure = _run([*_pip(environment), *pins, package], _PIP_SECONDS)
    if failure:
        return Status(False, reason=f"pip install failed: {failure}")
    code = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run(
        [str(python(environment)), "-c", code], capture_output=True, text=True, cwd=ROOT
    )
    return Status(True, version=done.stdout.strip())


def _build(name: str, kernel: Kernel) -> Status:
    """Download the source archive of a package and compile one operator of it."""
    folder = HOME / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    package, version = kernel.requirement.split("==")
    if library(name).exists():
        return Status(True, version)
    interpreter = str(python("torch"))
    get = [interpreter, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
    get += ["--no-binary", ":all:", "--dest", str(folder), kernel.requirement]
    failure = _run(get, _PIP_SECONDS)
    if failure:
        return Status(False, version, f"did not download: {failure}")
    stem = f"{package.replace('-', '_')}-{version}"
    archive = next((a for a in folder.glob("*.tar.gz") if a.name.startswith(stem)), None)
    if archive is None:
        return Status(False, version, "pip gave no source archive")
    with tarfile.open(archive) as held:
        held.extractall(folder, filter="data")
    code = (
        "import torch, torch.utils.cpp_extension as c;"
        "print(*c.include_paths(), sep='\\n');"
        "print(c.library_paths()[0]); print(int(torch.compiled_with_cxx11_abi()))"
    )
    asked = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, cwd=ROOT)
    if asked.returncode:
        return Status(False, version, "did not build: torch does not name its headers")
    *includes, libraries, abi = asked.stdout.split("\n")[:-1]
    source = folder / stem
    includes += [str(source / "csrc"), *(str(source / part) for part in kernel.includes)]
    build = ["g++", "-O3", "-std=c++20", "-fPIC", "-shared", "-fopenmp"]
    build += [f"-D_GLIBCXX_USE_CXX11_ABI={abi}", *(f"-I{path}" for path in includes)]
    build += [str(source / "csrc" / file) for file in kernel.sources]
    build += [f"-L{libraries}", "-ltorch", "-ltorch_cpu", "-lc10", "-o", str(library(name))]
    failure = _run(build, _BUILD_SECONDS)
    return Status(not failure, version, f"did not build: {failure}" if failure else "")


def _run(command: list[str], seconds: int) -> str:
    """Run a step; return why it failed in one line, or nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"took longer than {seconds} seconds"
    except OSError as error:
        return f"{command[0]} could not be started ({error.strerror})"
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stderr.splitlines() if "Error:" in line or "error:" in line]
    # pip's own summary comes last and says nothing; the first error is the cause.
    lines = [line for line in lines if "subprocess" not in line][:1]
    text = (lines or done.stderr.splitlines() or ["no message"])[-1].strip()[:200]
    return text.replace(str(ROOT), ".").replace(str(HOME), ".bench-venv")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def environment() -> dict[str, str]:
    """Return this process's environment with every thread pool held to one thread."""
    pools = ("OMP", "MKL", "OPENBLAS", "NUMBA", "RAYON", "VECLIB_MAXIMUM", "NUMEXPR")
    single = {f"{name}_NUM_THREADS": "1" for name in pools}
    return {**os.environ, **single, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
