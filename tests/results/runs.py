"""What the tests of run folders share."""

from pathlib import Path

import torch

from graphham.results.result import FitResult
from graphham.results.run_writer import Run, RunWriter
from tests.outputs import make_graph, make_result

CONFIG = {"seed": 3, "model": {"groups": (6, 3), "dim": 8, "dropout": None}, "path": Path("a/b")}
FILES = {
    "README.md",
    "config.toml",
    "model.safetensors",
    "nodes.parquet",
    "embedding.npy",
    "groups.parquet",
    "hierarchy.json",
    "metrics.jsonl",
    "summary.json",
}


def finish(writer: RunWriter, result: FitResult | None = None, **more) -> Run:
    result = make_result() if result is None else result
    more.setdefault("summary", {"task": "embed", "seconds": 1.5})
    return writer.finish(result, {"w": torch.eye(3)}, make_graph(result), **more)


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}
