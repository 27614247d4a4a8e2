"""Other methods than GraphHAM from the command line: run folders, their own outputs, refusals."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from graphham.methods.registry import load_method, method_names, method_rows

from .conftest import Graphham, contents, process

QUICK = {
    "graphstone": ["epochs=4", "hidden=8"],
    "deepmincut": ["steps=20"],
    "deepmincut-features": ["steps=20"],
    "asp2vec": ["walks=2", "warmup=2", "walk_length=10", "aspects=3"],
    "gne": ["steps=60", "sphere_steps=60", "max_leaves=20"],
    "spacene": ["walks=4", "max_leaves=20"],
    "hgcn": ["epochs=6", "levels=2"],
    "deepwalk": ["walks=2", "walk_length=10"],
    "graphsage": ["epochs=3"],
    "gat": ["epochs=3"],
    "mlp": ["epochs=3"],
    "gcn": ["epochs=3"],
    "appnp": ["epochs=3"],
    "h2gcn": ["epochs=3"],
    "linkx": ["epochs=3"],
}
GROUPS = {"groups.parquet", "hierarchy.json"}
OUTPUTS = {
    "graphstone": {"topics.npy", "topics.json"},
    "deepmincut": {"communities.npy", *GROUPS},
    "deepmincut-features": {"communities.npy", *GROUPS},
    "asp2vec": {"aspects.npy", "centers.npy"},
    "gne": {"tree.json", *GROUPS},
    "spacene": {"tree.json", *GROUPS},
    "hgcn": {"coarsening.json", *GROUPS},
}
COMMON = {
    "README.md",
    "config.toml",
    "embedding.npy",
    "graph",
    "metrics.jsonl",
    "model.safetensors",
    "nodes.parquet",
    "summary.json",
}
LEARNING = [
    name
    for name, _, tasks in method_rows()
    if "classify" in tasks and not name.startswith("graphham")
]


def arguments(name: str, folder: Path, *more: str) -> list[str]:
    quick = [part for pair in QUICK.get(name, []) for part in ("--set", pair)]
    files = [str(folder / "edges.csv"), "--features", str(folder / "features.csv")]
    labels = ["--labels", f"{folder / 'nodes.csv'}:topic"]
    return ["fit", *files, *labels, "--method", name, "--dim", "8", *quick, *more]


@pytest.mark.parametrize("name", LEARNING)
def test_every_method_leaves_a_run_folder(
    name: str, graphham: Graphham, tmp_path: Path, planted_files: Path
) -> None:
    seen = graphham(*arguments(name, planted_files, "--task", "classify", "--out", "runs/other"))
    assert (seen.code, seen.err) == (0, "")
    folder = tmp_path / "runs" / "other"
    assert {p.name for p in folder.iterdir()} == COMMON | OUTPUTS.get(name, set())
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "complete"
    assert summary["method"]["name"] == name
    assert summary["graph"]["nodes"] == 240
    nodes = pq.read_table(folder / "nodes.parquet")
    ids = nodes["id"].to_pylist()
    assert sorted(ids) == sorted(f"n{100 + 7 * row}" for row in range(240))
    assert set(nodes["prediction"].to_pylist()) <= {"topic 0", "topic 1"}
    vectors = np.load(folder / "embedding.npy")
    assert vectors.shape[0] == 240
    np.testing.assert_array_equal(load_method(folder).embedding_, vectors)
    if "groups.parquet" in OUTPUTS.get(name, set()):
        groups = pq.read_table(folder / "groups.parquet").to_pylist()
        for level in {row["level"] for row in groups}:
            codes = np.bincount(nodes[f"group_{level}"].to_numpy())
            sizes = {row["group"]: row["size"] for row in groups if row["level"] == level}
            assert sizes == {g: int(n) for g, n in enumerate(codes) if n}
    # A run repeats from its own config, and is never written over unasked.
    before = contents(tmp_path)
    again = graphham(*arguments(name, planted_files, "--task", "classify", "--out", "runs/other"))
    assert again.code == 2
    assert "exists already" in again.err
    assert contents(tmp_path) == before


def test_a_real_process_repeats_a_run_from_its_config(
    graphham: Graphham, tmp_path: Path, planted_files: Path
) -> None:
    assert graphham(*arguments("asp2vec", planted_files, "--seed", "3", "--out", "a")).code == 0
    files = [str(planted_files / "edges.csv"), "--config", "a/config.toml", "--out", "b"]
    seen = process("fit", *files, cwd=tmp_path)
    assert (seen.code, seen.err) == (0, "")
    np.testing.assert_array_equal(np.load("a/embedding.npy"), np.load("b/embedding.npy"))
    assert np.load("b/aspects.npy").shape == (240, 3, 8)
    mixed = graphham("fit", *files[:-1], "c", "--method", "gne")
    assert mixed.code == 2
    assert "settings of the method asp2vec, not of gne" in mixed.err


def test_a_users_tree_is_followed_whichever_way_it_is_written(
    graphham: Graphham, tmp_path: Path, planted_files: Path
) -> None:
    names = [f"n{100 + 7 * row}" for row in range(240)]
    nested = {"east": names[:90], "west": {"near": names[90:150], "far": names[150:]}}
    (tmp_path / "tree.json").write_text(json.dumps(nested))
    pairs = ["root east", "root west", "west near", "west far"]
    for group, part in (("east", names[:90]), ("near", names[90:150]), ("far", names[150:])):
        pairs += [f"{group} {name}" for name in part]
    (tmp_path / "tree.txt").write_text("\n".join(pairs))
    for name in ("gne", "spacene"):
        for form in ("json", "txt"):
            out = f"{name}-{form}"
            done = process(
                *arguments(name, planted_files, "--tree", f"tree.{form}", "--out", out),
                cwd=tmp_path,
            )
            assert (done.code, done.err) == (0, "")
            table = pq.read_table(tmp_path / out / "nodes.parquet").to_pydict()
            parts = {
                table["group_2"][table["id"].index(n)] for n in (names[0], names[40], names[89])
            }
            assert len(parts) == 1
            assert len(set(table["group_1"])) == 3
            assert len(set(table["group_2"])) == 2
        again = f"{name}-again"
        tree = f"{name}-txt/tree.json"
        done = graphham(*arguments(name, planted_files, "--tree", tree, "--out", again))
        assert done.code == 0, done.err
        groups = [pq.read_table(tmp_path / f / "groups.parquet") for f in (f"{name}-txt", again)]
        assert sorted(groups[0]["size"].to_pylist()) == sorted(groups[1]["size"].to_pylist())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--method", "asp2vek"], "did you mean 'asp2vec'"),
        (["--method", "common-neighbors"], "learns nothing and only scores pairs"),
        (["--method", "smoothed"], "evaluate links"),
        (["--method", "asp2vec", "--set", "aspect=3"], "did you mean 'aspects'"),
        (["--method", "asp2vec", "--set", "aspects=many"], "must be a whole number, got 'many'"),
        (["--method", "gne", "--set", "steps=0"], "steps must be"),
        (["--method", "gne", "--epochs", "3"], "has no setting 'epochs'"),
        (["--method", "gne", "--groups", "6,2"], "--groups is an option of GraphHAM"),
        (["--method", "gne", "--resume"], "--resume is an option of GraphHAM"),
        (["--method", "gat", "--tree", "tree.json"], "has no setting 'tree'"),
        (["--tree", "tree.json"], "gne and spacene"),
        (["--method", "gne", "--tree", "nowhere.json"], "no tree file nowhere.json"),
        (["--method", "hgcn", "--task", "embed"], "cannot embed"),
        (["--method", "gat", "--task", "guess"], "no task 'guess'"),
        (["--method", "asp2vec", "--set", "memory_gib=0.001"], "0.00 GiB are allowed; lower dim"),
        (["--method", "graphham-paper", "--preset", "default"], "has the preset paper"),
        (["--method", "gne", "--config", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    more: list[str], message: str, graphham: Graphham, tmp_path: Path, planted_files: Path
) -> None:
    files = [str(planted_files / "edges.csv"), "--labels", f"{planted_files / 'nodes.csv'}:topic"]
    seen = graphham("fit", *files, *more, "--out", "out")
    assert seen.code == 2
    assert message in seen.err
    assert len(seen.err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_overwriting_replaces_runs_and_nothing_else(
    graphham: Graphham, tmp_path: Path, planted_files: Path
) -> None:
    fit = arguments("deepwalk", planted_files, "--out", "out", "--overwrite")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    refused = graphham(*fit)
    assert refused.code == 2
    assert "not a run folder" in refused.err
    assert (tmp_path / "out" / "thesis.txt").read_text() == "years of work"
    (tmp_path / "out" / "thesis.txt").unlink()
    (tmp_path / "out").rmdir()
    assert graphham(*fit).code == 0
    assert graphham(*fit, "--seed", "5").code == 0
    assert load_method(tmp_path / "out").get_params()["seed"] == 5
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    # A run that cannot be finished leaves the old one alone.
    before = contents(tmp_path)
    assert graphham(*fit, "--set", "memory_gib=0.00001").code == 2
    assert contents(tmp_path) == before


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["deepwalk", "asp2vec", "hgcn"])
def test_vectors_that_are_not_finite_are_no_run(
    name: str, graphham: Graphham, tmp_path: Path, planted_files: Path
) -> None:
    fit = arguments(name, planted_files, "--out", "out")
    assert graphham(*fit).code == 0
    before = contents(tmp_path)
    seen = graphham(*fit, "--overwrite", "--set", "lr=1e7")
    assert seen.code == 2
    assert "lr = 1e+07" in seen.err
    assert "smaller lr" in seen.err
    assert len(seen.err.strip().splitlines()) == 1
    assert contents(tmp_path) == before


def test_other_commands_serve_such_a_run_or_say_why_not(
    graphham: Graphham, tmp_path: Path, planted_files: Path
) -> None:
    graph = [str(planted_files / "edges.csv"), "--features", str(planted_files / "features.csv")]
    assert graphham(*arguments("graphsage", planted_files, "--out", "sage")).code == 0
    assert graphham("embed", "sage", *graph, "--out", "new.parquet").code == 0
    table = pq.read_table(tmp_path / "new.parquet")
    known = pq.read_table(tmp_path / "sage" / "nodes.parquet")["id"]
    assert table["id"].to_pylist() == known.to_pylist()
    vectors = np.array(table["embedding"].to_pylist(), dtype=np.float32)
    np.testing.assert_array_equal(vectors, np.load(tmp_path / "sage" / "embedding.npy"))
    assert graphham("embed", "sage", *graph, "--map", "--out", "map.parquet").code == 0
    places = pq.read_table(tmp_path / "map.parquet", columns=["map_x", "map_y"])
    assert np.isfinite(places["map_x"].to_numpy()).all()
    assert graphham(*arguments("deepwalk", planted_files, "--out", "walks")).code == 0
    before = contents(tmp_path)
    seen = graphham("embed", "walks", *graph, "--out", "x.csv")
    assert seen.code == 2
    assert "cannot place others" in seen.err
    assert len(seen.err.strip().splitlines()) == 1
    seen = graphham("compare", "walks", "sage")
    assert seen.code == 0
    assert "no groups to match: walks and sage found none" in seen.out
    assert contents(tmp_path) == before


def test_forms_of_graphham_are_whole_runs(
    graphham: Graphham, tmp_path: Path, planted_files: Path
) -> None:
    small = ["--groups", "6,2", "--epochs", "2", "--dim", "32", "--quiet"]
    edges = str(planted_files / "edges.csv")
    for name in ("graphham", "graphham-no-lambda"):
        assert name in method_names()
        seen = graphham("fit", edges, "--method", name, *small, "--out", name)
        assert (seen.code, seen.err) == (0, "")
        assert (tmp_path / name / "hierarchy.json").is_file()
    assert 'group_score = "none"' in (tmp_path / "graphham-no-lambda" / "config.toml").read_text()
