"""The commands that the reliability suites fail, tear and kill, and what these read and write."""

from __future__ import annotations

import contextlib
import hashlib
import io
from pathlib import Path

import numpy as np

from graphham.cli import main
from graphham.graph.store import write_store
from graphham.results.run_writer import start_run
from tests.outputs import make_graph, make_result

_FIT = ["--groups", "6,2", "--dim", "16", "-q"]


def make_run(place: Path) -> Path:
    """Write a run that nobody fitted."""
    result = make_result(200)
    writer = start_run(place, {"seed": 1})
    writer.log({"epoch": 1, "loss": 0.5})
    state = {"w": np.arange(300, dtype=np.float32)}
    return writer.finish(result, state, make_graph(result), {"task": "embed"}).path


def prepare(work: Path) -> None:
    """Write what the commands read."""
    from dataclasses import replace

    from graphham.graph.planted import planted_hierarchy

    if (work / "fit-run").exists():
        return
    make_run(work / "source-run")
    planted = planted_hierarchy((2, 3), 2000, mean_degree=4, words=8, seed=1).graph
    dense = replace(planted, features=planted.features.toarray())  # type: ignore[union-attr]
    write_store(dense, work / "source-store")
    lines = [f"{a},{b}" for a, b in planted.edge_list().tolist()[:600]]
    (work / "edges.csv").write_text("\n".join(lines) + "\n")
    fit = ["fit", str(work / "edges.csv"), *_FIT, "--epochs", "1"]
    code, said = quietly([*fit, "--out", str(work / "fit-run")])
    assert code == 0, said


def commands(work: Path, target: Path, epochs: int = 1) -> dict[str, tuple[list[str], Path]]:
    """Return each command that writes, and what it writes.

    Args:
        work: Where what they read is.
        target: The folder they write into.
        epochs: How long the fit is; it keeps a checkpoint after each of several.
    """
    run, store = str(work / "source-run"), str(work / "source-store")
    fit = [*_FIT, "--epochs", str(epochs)]
    fit += ["--set", "train.checkpoint_every=0"] if epochs > 1 else []
    edges, fitted = str(work / "edges.csv"), str(work / "fit-run")
    return {
        "ingest": (["ingest", edges, "--out"], target / "store"),
        "export": (["export", run, "--out"], target / "vectors.csv"),
        "export graphml": (["export", run, "--out"], target / "graph.graphml"),
        "report": (["report", run, "--out"], target / "page.html"),
        "explore --export": (["explore", run, "--export"], target / "page"),
        "split": (["split", store, "--parts", "2", "--out"], target / "parts"),
        "embed": (["embed", fitted, edges, "--out"], target / "new.parquet"),
        "embed --map": (["embed", fitted, edges, "--map", "--out"], target / "m.csv"),
        "fit": (["fit", edges, *fit, "--out"], target / "run"),
    }


def again(arguments: list[str], out: Path) -> list[str]:
    """Return the command that goes on after a failure of the same command."""
    begun = (out.with_name(f"{out.name}.partial") / "config.toml").is_file()
    return [*arguments, str(out), *(["--resume"] if begun else [])]


def quietly(arguments: list[str]) -> tuple[int, str]:
    """Run a command in this process; return its code and what it said to standard error."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main(arguments)
    return code, said.getvalue()


def content(out: Path) -> dict[str, str]:
    """Return the checksum of a file, or of every file of a folder."""
    files = [out] if out.is_file() else sorted(p for p in out.rglob("*") if p.is_file())
    return {
        str(file.relative_to(out.parent)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
    }
