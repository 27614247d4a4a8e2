"""Every bad input of the specification: one sentence, exit code 2, nothing touched."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from .conftest import Graphham, contents, process

Case = Callable[[Path], tuple[list[str], str]]
_EDGES = "a,b\nb,c\nc,d\nd,a\na,c\n"


def _edges(folder: Path, text: str | bytes, name: str = "edges.csv") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def missing_file(folder: Path) -> tuple[list[str], str]:
    return ["fit", "nowhere/edges.csv"], "nowhere/edges.csv"


def empty_file(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, "")], "edges.csv is empty"


def binary_garbage(folder: Path) -> tuple[list[str], str]:
    noise = np.random.default_rng(0).integers(0, 256, 4096, dtype=np.uint8).tobytes()
    return ["fit", _edges(folder, b"\x00\xff" + noise, "edges.bin")], "edges.bin"


def a_folder(folder: Path) -> tuple[list[str], str]:
    (folder / "graphs").mkdir()
    return ["fit", "./graphs"], "graphs is a folder"


def unknown_dataset(folder: Path) -> tuple[list[str], str]:
    return ["fit", "coraa"], "did you mean 'cora'"


def unknown_id_in_features(folder: Path) -> tuple[list[str], str]:
    table = _edges(folder, "id,x\na,1\nb,2\nc,3\nd,4\nzebra,5\n", "nodes.csv")
    return ["fit", _edges(folder, _EDGES), "--features", table], "'zebra'"


def unknown_id_beside_a_dataset(folder: Path) -> tuple[list[str], str]:
    return ["fit", "cora", "--features", _edges(folder, "id,x\n-5,1\n", "nodes.csv")], "-5"


def nan_features(folder: Path) -> tuple[list[str], str]:
    table = _edges(folder, "id,height\na,1\nb,nan\nc,3\nd,4\n", "nodes.csv")
    return ["fit", _edges(folder, _EDGES), "--features", table], "'height' of node 'b'"


def missing_label_column(folder: Path) -> tuple[list[str], str]:
    table = _edges(folder, "id,topic\na,x\nb,y\nc,x\nd,y\n", "nodes.csv")
    return ["fit", _edges(folder, _EDGES), "--labels", f"{table}:topik"], "'topik'"


def one_field(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, "a,b\nb,c\nlonely\nc,d\n")], "line 3"


def mixed_separators(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, "a,b\nb,c\nc\td\nd,a\n")], "line 3"


def not_utf8(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, "a,b\nb,caf\u00e9\n".encode("latin-1"))], "UTF-8"


def too_few_feature_rows(folder: Path) -> tuple[list[str], str]:
    table = _edges(folder, "id,x\na,1\nb,2\nc,3\n", "nodes.csv")
    return ["fit", _edges(folder, _EDGES), "--features", table], "3 rows for 4 nodes"


def too_many_groups(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, _EDGES), "--groups", "50,2"], "50"


def growing_groups(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, _EDGES), "--groups", "2,3"], "(2, 3)"


def groups_in_words(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, _EDGES), "--groups", "many"], "'many'"


def negative_epochs(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, _EDGES), "--epochs", "-3"], "epochs cannot be -3"


def single_node(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, "a,a\n")], "single node"


def no_edges(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, "a,a\nb,b\n")], "no edges"


def header_only(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, "source,target\n")], "edges.csv"


def truncated_parquet(folder: Path) -> tuple[list[str], str]:
    pq.write_table(pa.table({"s": ["a", "b"], "t": ["b", "c"]}), folder / "edges.parquet")
    whole = (folder / "edges.parquet").read_bytes()
    return ["fit", _edges(folder, whole[: len(whole) // 2], "edges.parquet")], "edges.parquet"


def truncated_store(folder: Path) -> tuple[list[str], str]:
    from graphham.graph.store import write_store
    from graphham.io import read_graph

    store = write_store(read_graph(folder / _edges(folder, _EDGES)), folder / "store")
    whole = (store / "indices.npy").read_bytes()
    (store / "indices.npy").write_bytes(whole[:-8])
    return ["fit", "store"], "indices.npy"


def existing_run(folder: Path) -> tuple[list[str], str]:
    (folder / "runs" / "mine").mkdir(parents=True)
    (folder / "runs" / "mine" / "thesis.tex").write_text("years of work")
    return ["fit", _edges(folder, _EDGES), "--out", "runs/mine"], "runs/mine"


def overwrite_of_something_else(folder: Path) -> tuple[list[str], str]:
    arguments, _ = existing_run(folder)
    return [*arguments, "--overwrite"], "not a run folder"


def existing_default_run(folder: Path) -> tuple[list[str], str]:
    (folder / "runs" / "edges").mkdir(parents=True)
    return ["fit", _edges(folder, _EDGES)], "runs/edges"


def resume_of_nothing(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, _EDGES), "--out", "runs/none", "--resume"], "runs/none"


def unknown_setting(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, _EDGES), "--set", "train.epoch=3"], "did you mean 'train.epochs'"


def setting_without_value(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, _EDGES), "--set", "epochs"], "'epochs'"


def unknown_preset(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, _EDGES), "--preset", "papper"], "'papper'"


def broken_config(folder: Path) -> tuple[list[str], str]:
    bad = _edges(folder, "epochs = = 3", "my.toml")
    return ["fit", _edges(folder, _EDGES), "--config", bad], "my.toml"


def unknown_option(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, _EDGES), "--epoch", "3"], "did you mean --epochs"


def unknown_command(folder: Path) -> tuple[list[str], str]:
    return ["fitt", "cora"], "Did you mean 'fit'"


def missing_argument(folder: Path) -> tuple[list[str], str]:
    return ["fit"], "GRAPH"


def edge_option_beside_a_dataset(folder: Path) -> tuple[list[str], str]:
    return ["fit", "cora", "--directed"], "--directed"


def classes_without_labels(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, _EDGES), "--task", "classify", "--groups", "2,1"], "label"


def unknown_device(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, _EDGES), "--device", "banana"], "'banana'"


def absent_device(folder: Path) -> tuple[list[str], str]:
    return ["fit", _edges(folder, _EDGES), "--device", "cuda:99"], "'cuda:99'"


def a_run_as_graph(folder: Path) -> tuple[list[str], str]:
    (folder / "run").mkdir()
    (folder / "run" / "hierarchy.json").write_text("{}")
    return ["fit", "./run"], "run folder"


def embed_without_run(folder: Path) -> tuple[list[str], str]:
    return ["embed", "runs/none", _edges(folder, _EDGES), "--out", "v.parquet"], "runs/none"


def embed_over_a_file(folder: Path) -> tuple[list[str], str]:
    return ["embed", "runs/none", "cora", "--out", _edges(folder, "keep me", "v.csv")], "v.csv"


def embed_into_odd_format(folder: Path) -> tuple[list[str], str]:
    return ["embed", "runs/none", "cora", "--out", "v.xlsx"], "v.xlsx"


def export_over_a_file(folder: Path) -> tuple[list[str], str]:
    return ["export", "runs/none", "--out", _edges(folder, "keep me", "v.csv")], "v.csv"


def export_without_run(folder: Path) -> tuple[list[str], str]:
    return ["export", "runs/none", "--out", "v.csv"], "runs/none"


def ingest_over_a_folder(folder: Path) -> tuple[list[str], str]:
    (folder / "old").mkdir()
    return ["ingest", _edges(folder, _EDGES), "--out", "old"], "old exists"


def table_of_unknown_dataset(folder: Path) -> tuple[list[str], str]:
    return ["data", "table", "--names", "cora,pubmet"], "'pubmet'"


def unknown_table_format(folder: Path) -> tuple[list[str], str]:
    return ["data", "table", "--format", "html"], "'html'"


def control_characters(folder: Path) -> tuple[list[str], str]:
    return ["fit", "./no\nsuch\x1b[31mfile"], "no\\nsuch\\x1b"


CASES: list[Case] = [
    value
    for value in list(globals().values())
    if getattr(value, "__module__", "") == __name__
    and callable(value)
    and not value.__name__.startswith(("_", "test"))
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_bad_input_is_one_sentence(case: Case, graphham: Graphham, tmp_path: Path) -> None:
    arguments, mention = case(tmp_path)
    before = contents(tmp_path)
    seen = graphham(*arguments)
    assert seen.code == 2
    assert seen.err.startswith("Error: ")
    assert len(seen.err.splitlines()) == 1
    assert mention in seen.err
    assert "Traceback" not in seen.err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("case", [missing_file, truncated_store, too_many_groups, unknown_option])
def test_bad_input_of_a_real_process(case: Case, tmp_path: Path) -> None:
    arguments, mention = case(tmp_path)
    before = contents(tmp_path)
    seen = process(*arguments, cwd=tmp_path)
    assert (seen.code, len(seen.err.splitlines())) == (2, 1)
    assert seen.err.startswith("Error: ")
    assert mention in seen.err
    assert contents(tmp_path) == before


def test_all_cases_were_collected() -> None:
    assert len(CASES) > 40
