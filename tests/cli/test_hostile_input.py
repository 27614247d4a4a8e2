"""Input that used to end as "this is a bug", or in a message as long as the file."""

from pathlib import Path

import numpy as np
import pytest

from graphham.errors import InputError

from .conftest import Graphham


def refusal(graphham: Graphham, *arguments: str) -> str:
    seen = graphham(*arguments)
    assert seen.code == 2, seen.err
    assert "bug" not in seen.err
    (line,) = seen.err.strip().splitlines()
    assert len(line) < 2000
    return line


@pytest.mark.parametrize("encoding", ["utf-7", "utf-32", "nonsense", "idna", "cp037"])
def test_a_graphml_in_an_odd_encoding(graphham: Graphham, tmp_path: Path, encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?><graphml><graph></graph></graphml>'
    (tmp_path / "g.graphml").write_text(text)
    refusal(graphham, "info", "g.graphml")


def test_a_matrix_of_text(graphham: Graphham, tmp_path: Path) -> None:
    data = {"indices": np.array([1, 0]), "indptr": np.array([0, 1, 2]), "shape": np.array([2, 2])}
    np.savez(tmp_path / "m.npz", data=np.array(["a", "b"]), **data)  # type: ignore[arg-type]
    assert "must hold numbers" in refusal(graphham, "info", "m.npz")


def test_a_config_nested_too_deeply(graphham: Graphham, tmp_path: Path) -> None:
    for number, text in enumerate(
        ("x = " + "[" * 3000 + "]" * 3000, "a." * 3000 + "b = 1", "[" + "a." * 3000 + "b]")
    ):
        (tmp_path / f"c{number}.toml").write_text(text + "\n")
        refusal(graphham, "fit", "cora", "--config", f"c{number}.toml", "--out", "run")


def test_a_manifest_nested_too_deeply(graphham: Graphham, tmp_path: Path) -> None:
    for name in ("store.json", "summary.json"):
        folder = tmp_path / name.removesuffix(".json")
        folder.mkdir()
        (folder / name).write_text('{"format": "graphham-store", "x": ' + "[" * 100_000)
        refusal(graphham, "info", str(folder))
        refusal(graphham, "doctor", str(folder))


def test_messages_do_not_echo_a_whole_file(graphham: Graphham, tmp_path: Path) -> None:
    long = "x" * 120_000
    (tmp_path / "e.csv").write_text(f"a,b,w\na,b,{long}\n")
    line = refusal(graphham, "fit", "e.csv", "--weight", "w", "--out", "run")
    assert line.startswith("Error: line 2 of e.csv")
    assert line.endswith("must be numbers above 0")  # the advice is still there
    (tmp_path / "f.csv").write_text(f"id,x\n{long},1\n")
    (tmp_path / "g.csv").write_text("a,b\nb,c\n")
    refusal(graphham, "fit", "g.csv", "--features", "f.csv", "--out", "run")
    refusal(graphham, "fit", "g.csv", "--set", f"{long}=1", "--out", "run")
    refusal(graphham, "fit", long, "--out", "run")
    assert len(str(InputError(long))) < 2000
