"""``diagnose`` finds exactly what is damaged and names a remedy that works."""

import shutil
from pathlib import Path

import pytest

from graphham.errors import InputError
from graphham.graph.store import MANIFEST, open_store
from graphham.graph.store_parts import split_store
from graphham.results.diagnosis import diagnose
from graphham.results.export import export_run
from graphham.results.run_folder import Run
from graphham.results.run_writer import start_run
from tests.contract.test_flips import make_run, make_store
from tests.results.runs import CONFIG


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x10
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("embedding.npy", "fit it again"),
        ("model.safetensors", "fit it again"),
        ("nodes.parquet", "fit it again"),
        ("metrics.jsonl", "fit it again"),
        ("summary.json", "fit it again"),
        ("config.toml", "from 'method' of summary.json"),
        ("names.json", "names given to groups are lost"),
        ("graph/indices.npy", "name its graph with --graph"),
        ("graph/store.json", "name its graph with --graph"),
    ],
)
def test_one_damaged_file_of_a_run_is_named(tmp_path: Path, name: str, remedy: str) -> None:
    run = make_run(tmp_path / "run")
    whole = diagnose(run)
    assert whole.damaged == {}
    assert whole.remedies == []
    assert set(whole.whole) >= {"summary.json", "embedding.npy", "names.json", "graph/indices.npy"}
    flip(run / name)
    found = diagnose(run)
    assert name in found.damaged
    if not name.endswith((MANIFEST, "summary.json")):  # which may name others wrongly
        assert list(found.damaged) == [name]
    assert any(remedy in line for line in found.remedies)
    (run / name).unlink()
    if name not in ("names.json", "graph/store.json", "summary.json"):
        assert diagnose(run).damaged == {name: "is missing"}


def test_stores_and_parts_are_examined(tmp_path: Path) -> None:
    from graphham.graph.planted import planted_hierarchy
    from graphham.graph.store import write_store

    store = make_store(tmp_path / "store")
    assert diagnose(store).damaged == {}
    flip(store / "titles.arrow")
    (store / "labels.npy").unlink()
    found = diagnose(store)
    assert set(found.damaged) == {"titles.arrow", "labels.npy"}
    assert "ingest the graph again" in found.remedies[0]

    from dataclasses import replace

    graph = planted_hierarchy((2, 3), 2000, mean_degree=4, words=8, seed=1).graph
    dense = replace(graph, features=graph.features.toarray())  # type: ignore[union-attr]
    write_store(dense, tmp_path / "dense")
    parts = split_store(tmp_path / "dense", 2, tmp_path / "parts")
    assert diagnose(parts).damaged == {}
    flip(parts / "part-1" / "indptr.npy")
    assert list(diagnose(parts).damaged) == ["part-1/indptr.npy"]


def test_a_run_in_progress_says_how_it_goes_on(tmp_path: Path) -> None:
    import numpy as np

    with start_run(tmp_path / "run", CONFIG) as writer:
        assert "it has no checkpoint yet" in diagnose(tmp_path / "run").remedies[0]
        writer.save_checkpoint({"w": np.ones(9)}, {"epoch": 1})
    found = diagnose(tmp_path / "run")
    assert "from its last checkpoint" in found.remedies[0]
    (arrays,) = (tmp_path / "run.partial").glob("checkpoint-*.safetensors")
    flip(arrays)
    found = diagnose(tmp_path / "run")
    assert "checkpoint.json" in found.damaged
    assert "--overwrite" in found.remedies[0]


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a run folder nor a store"):
        diagnose(tmp_path)
    with pytest.raises(InputError, match="neither a run folder nor a store"):
        diagnose(tmp_path / "nowhere")


def test_forged_checksums_do_not_hide_a_row_that_is_not_there(tmp_path: Path) -> None:
    from tests.graph.test_integrity import forge

    store = make_store(tmp_path / "store")
    import numpy as np

    values = np.load(store / "indices.npy")
    values[3] = 10**6
    np.save(store / "indices.npy", values)
    forge(store, "indices.npy")
    assert "outside 0..59" in diagnose(store).damaged["store.json"]
    with pytest.raises(InputError, match=r"outside 0\.\.59"):
        open_store(store)


def test_a_run_without_its_graph_is_whole(tmp_path: Path) -> None:
    """The page on sharing says: remove graph/ from a copy if others must not have it."""
    run = make_run(tmp_path / "run")
    shutil.rmtree(run / "graph")
    found = diagnose(run)
    assert found.damaged == {}
    assert any("taken out" in line and "--graph" in line for line in found.remedies)


def test_a_zip_of_a_run_is_examined(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    export_run(Run.open(run), tmp_path / "whole.zip", "zip")
    assert diagnose(tmp_path / "whole.zip").damaged == {}
    flip(run / "metrics.jsonl")
    shutil.make_archive(str(tmp_path / "torn"), "zip", tmp_path, "run")
    assert list(diagnose(tmp_path / "torn.zip").damaged) == ["metrics.jsonl"]
