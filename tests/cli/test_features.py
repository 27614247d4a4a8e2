"""Every command and call of ``docs/features.md`` is run, or the test that runs it is named."""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import graphham as gh
from graphham.cli.main import main
from graphham.graph.planted import PlantedGraph

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "features.md").read_text("utf-8")
CODE = sorted(set(re.findall(r"`([^`]+)`", PAGE)))
# What takes long, or needs another environment, and where it is run instead.
ELSEWHERE = {
    "graphham fit stores/big --processes 2": "tests/cli/test_processes.py",
    "make docs": "Makefile",
    "mypy --strict": "Makefile",
    "pip install .": "scripts/wheel_check.py",
}
# No commands, but names in a sentence.
NAMES = {"2-5", "Data", "partial_fit", "py.typed", "tests/cli/test_features.py"}
COMMANDS = [c for c in CODE if c.startswith("graphham ") and c not in ELSEWHERE]
CALLS = [c for c in CODE if c not in {*COMMANDS, *ELSEWHERE, *NAMES}]
QUICK = ["--epochs", "1", "--dim", "16", "--quiet"]


@pytest.fixture(scope="module")
def folder(
    planted: PlantedGraph, planted_files: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Files as the page names them, and two runs."""
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    place = tmp_path_factory.mktemp("features")
    edges = csv.read_csv(planted_files / "edges.csv")
    csv.write_csv(edges, place / "edges.csv")
    pq.write_table(edges, place / "edges.parquet")
    known = edges["from"][0].as_py()
    (place / "new_links.csv").write_text(f"from,to\nnew one,{known}\nnew two,new one\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for name in ("mine", "other"):
            fit = ["fit", "edges.csv", "--groups", "12,6", "--out", f"runs/{name}", *QUICK]
            assert main([*fit, "--seed", "0" if name == "mine" else "1"]) == 0
        yield place


def test_every_piece_of_code_on_the_page_is_accounted_for() -> None:
    assert len(COMMANDS) > 20
    assert len(CALLS) >= 8
    for text, place in ELSEWHERE.items():
        assert text in PAGE
        assert (ROOT / place).is_file()
    assert set(CODE) >= NAMES


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_page_runs(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from graphham.explore import launch

    def look(run: str, beside: str | None, announce: Any, **_: Any) -> None:
        with launch.RunningExplorer(run, beside=beside) as running:
            announce(running.address)

    monkeypatch.chdir(folder)
    monkeypatch.setattr(launch, "serve", look)
    stands_for = {"RUN": "runs/mine", "RUN_A": "runs/mine", "RUN_B": "runs/other"}
    stands_for["ID"] = str(gh.open_run("runs/mine").nodes["id"][5].as_py())
    words = [stands_for.get(word, word) for word in shlex.split(line)[1:]]
    if words[0] == "fit" and "--resume" not in words:
        words += [*QUICK, "--overwrite"] + ([] if "--out" in words else ["--out", "runs/fit"])
    elif words[0] == "fit":  # a finished run is left as it is
        words += [*QUICK, "--groups", "12,6", "--seed", "0"]
    if words[0] == "tune":
        words[words.index("--trials") + 1] = "1"
    if "--track" in words and not importlib.util.find_spec(words[words.index("--track") + 1]):
        assert main(words) == 2
        assert "install it with pip install" in capsys.readouterr().err
        return
    if "cuda" in words:
        import torch

        if not torch.cuda.is_available():
            assert main(words) == 2
            assert "'cuda' cannot be used here" in capsys.readouterr().err
            return
    assert main(words) == 0, capsys.readouterr().err
    if "--out" in words and words[0] not in ("fit", "tune"):
        assert (folder / words[words.index("--out") + 1]).exists()


@pytest.mark.parametrize("call", CALLS)
def test_a_call_of_the_page_runs(
    call: str, planted: PlantedGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import networkx as nx
    import torch
    from sklearn.model_selection import GridSearchCV

    monkeypatch.chdir(tmp_path)
    graph = planted.graph
    settings: dict[str, Any] = {"groups": (6, 2), "dim": 8, "epochs": 1}
    model = gh.GraphHAM(**settings).fit(graph)
    if "load" in call:
        model.save("runs/mine")
    names = {
        "gh": gh,
        "graph": graph,
        "y": graph.labels.values() if graph.labels is not None else None,
        "model": model,
        "x": nx.karate_club_graph(),
        "data": SimpleNamespace(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3),
        "GridSearchCV": GridSearchCV,
    }
    quick = call.replace('task="classify"', 'task="classify", epochs=1').replace(
        "32]})", "32]}, cv=2)"
    )
    value = eval(quick, names)
    if "transform" in call:
        assert (value == model.embedding_).all()
    if "save" in call:
        assert Path("runs/mine/summary.json").is_file()
