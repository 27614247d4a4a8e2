"""What a writer is given comes back from the folder, through stops, kills and failing disks."""

import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import graphham.results.run_writer
from graphham.errors import InputError
from graphham.results.run_writer import Run, resume_run, start_run
from tests.outputs import HOSTILE, make_graph, make_result
from tests.reference.processes import kill_when_ready
from tests.results.runs import CONFIG, FILES, finish, names


@pytest.mark.parametrize("labels", ["text", "integer", "multi", "none"])
def test_a_finished_run_gives_back_what_was_written(tmp_path: Path, labels: str) -> None:
    result = make_result(
        len(HOSTILE), ids=HOSTILE, labels=labels, classify=labels != "none", tree=labels != "multi"
    )
    writer = start_run(tmp_path / "deep" / "run", CONFIG)
    assert names(tmp_path / "deep") == {"run.partial"}
    writer.log({"epoch": 1, "loss": np.float32(0.5), "bad": float("nan")})
    writer.log({"epoch": 2, "loss": 0.25})
    writer.save_checkpoint({"a": np.ones(3)}, {"epoch": 2})
    state = {"phi": torch.randn(3, 4).T, "count": np.int64(7), "half": torch.ones(2).half()}
    graph = make_graph(result, titles=[f"t{i}" for i in range(len(HOSTILE))])
    made = writer.finish(result, state, graph, {"task": "embed"})
    assert names(tmp_path / "deep") == {"run"}
    assert names(made.path) == FILES | {"graph"}

    run = Run.open(str(tmp_path / "deep" / "run"))
    assert run.config == {"seed": 3, "model": {"groups": [6, 3], "dim": 8}, "path": "a/b"}
    assert run.metrics == [{"epoch": 1, "loss": 0.5, "bad": None}, {"epoch": 2, "loss": 0.25}]
    assert run.summary["task"] == "embed"
    assert run.summary["status"] == "complete"
    assert run.summary["graph"]["fingerprint"] == graph.fingerprint()
    assert isinstance(run.embedding, np.memmap)
    assert run.embedding.dtype == np.float32
    for framework in ("numpy", "torch"):
        back = run.state(framework)
        np.testing.assert_array_equal(np.asarray(back["phi"]), state["phi"].numpy())
        assert int(back["count"]) == 7
    assert run.nodes.column("id").to_pylist() == HOSTILE
    assert run.nodes.column("title").to_pylist()[3] == "t3"
    assert run.hierarchy.names[0] == tuple(
        r["name"] for r in run.groups.to_pylist() if r["level"] == 1
    )
    again = run.result().validate()
    np.testing.assert_array_equal(again.embedding, result.embedding)
    assert again.layer_dims == result.layer_dims
    for name in ("memberships", "groups", "parents", "attention_gap"):
        assert len(getattr(again, name)) == len(getattr(result, name))
        for x, y in zip(getattr(result, name), getattr(again, name), strict=True):
            np.testing.assert_array_equal(x, y)
    if result.labels is not None:
        assert again.labels.values() == result.labels.values()
        assert again.prediction.values() == result.prediction.values()
        assert again.prediction.classes == result.labels.classes


def test_the_node_table_has_the_promised_columns(tmp_path: Path) -> None:
    finish(start_run(tmp_path / "run", CONFIG), make_result(classify=True))
    table = pq.read_table(tmp_path / "run" / "nodes.parquet")
    promised = (
        "id group_1 membership_1 group_2 membership_2 concentration label prediction confidence"
    )
    assert set(promised.split()) <= set(table.column_names)
    assert str(table.schema.field("membership_1").type).startswith("list<")
    assert all(len(row) == 6 for row in table.column("membership_1").to_pylist())


def test_resume_continues_a_killed_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    writer = start_run(out, CONFIG)
    for epoch in range(1, 6):
        writer.log({"epoch": epoch})
        if epoch == 3:
            writer.save_checkpoint({"w": torch.full((2,), 3.0)}, {"epoch": 3, "best": 0.5})
    with (out.with_name("run.partial") / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 6, "lo')
    writer.close()
    again = resume_run(out)
    arrays, meta = again.load_checkpoint()
    assert meta == {"epoch": 3, "best": 0.5}
    np.testing.assert_array_equal(arrays["w"], [3, 3])
    again.truncate_log(meta["epoch"])
    again.log({"epoch": 4, "second": True})
    run = finish(again)
    assert [r["epoch"] for r in run.metrics] == [1, 2, 3, 4]
    assert names(run.path) == FILES | {"graph"}
    with pytest.raises(InputError, match="is finished; choose another --out"):
        resume_run(out)


def test_resume_continues_a_stopped_run_and_replaces_it_at_the_end(tmp_path: Path) -> None:
    out = tmp_path / "run"
    writer = start_run(out, CONFIG)
    writer.log({"epoch": 1})
    writer.save_checkpoint({"w": np.arange(4)}, {"epoch": 1})
    finish(writer, status="interrupted", keep_checkpoint=True)
    assert {p for p in names(out) if p.startswith("checkpoint")} == {
        "checkpoint.json",
        "checkpoint-000001.safetensors",
    }
    again = resume_run(out)
    assert Run.open(out).summary["status"] == "interrupted"  # the old result stays in reach
    np.testing.assert_array_equal(again.load_checkpoint()[0]["w"], np.arange(4))
    again.log({"epoch": 2})
    again.save_checkpoint({"w": np.arange(5)}, {"epoch": 2})
    assert Run.open(out).metrics == [{"epoch": 1}]
    run = finish(again)
    assert run.summary["status"] == "complete"
    assert [r["epoch"] for r in run.metrics] == [1, 2]
    assert names(tmp_path) == {"run"}
    assert names(out) == FILES | {"graph"}


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run to resume"):
        resume_run(tmp_path / "run")
    finish(start_run(tmp_path / "run", CONFIG), status="interrupted")
    with pytest.raises(InputError, match="no checkpoint left"):
        resume_run(tmp_path / "run")
    (tmp_path / "odd.partial").mkdir()
    (tmp_path / "odd.partial" / "theirs").touch()
    with pytest.raises(InputError, match=r"no config\.toml"):
        resume_run(tmp_path / "odd")


def test_the_graph_is_kept_unless_it_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = make_result(count=40)
    graph = make_graph(result)
    (tmp_path / "run.partial").mkdir()
    (tmp_path / "run.partial" / "config.toml").touch()
    (tmp_path / "run.partial" / ".graph.half").mkdir()  # left by a crash
    kept = resume_run(tmp_path / "run").finish(result, {}, graph, {})
    assert kept.graph().fingerprint() == graph.fingerprint()
    assert not list(kept.path.glob(".graph*"))
    with pytest.raises(InputError, match=r"nodes and .* edges, the run was fitted on"):
        kept.check_graph(make_graph(make_result(count=41)))
    monkeypatch.setattr(graphham.results.run_writer, "_KEPT_GRAPH_BYTES", 100)
    large = start_run(tmp_path / "run", CONFIG, overwrite=True).finish(result, {}, graph, {})
    assert not (large.path / "graph").exists()
    with pytest.raises(InputError, match="name the graph with --graph"):
        large.graph()


def test_a_damaged_checkpoint_is_refused_not_loaded(tmp_path: Path) -> None:
    writer = start_run(tmp_path / "run", CONFIG)
    assert writer.load_checkpoint() is None
    writer.save_checkpoint({"w": np.arange(100.0)}, {"epoch": 1})
    (file,) = writer.partial.glob("checkpoint-*.safetensors")
    good = file.read_bytes()
    flipped = bytearray(good)
    flipped[-5] ^= 1
    for content in (good[:-8], bytes(flipped)):
        file.write_bytes(content)
        with pytest.raises(InputError, match=r"does not match its checksum.*--overwrite"):
            writer.load_checkpoint()
    file.unlink()
    with pytest.raises(InputError, match="is missing"):
        writer.load_checkpoint()
    pointer = writer.partial / "checkpoint.json"
    known = json.loads(pointer.read_text())
    pointer.write_text(json.dumps(known | {"version": 99}))
    with pytest.raises(InputError, match="99"):
        writer.load_checkpoint()
    for wrong in ("{", "[]", "{}", json.dumps(known | {"format": "x"})):
        pointer.write_text(wrong)
        with pytest.raises(InputError, match="unreadable"):
            writer.load_checkpoint()
    pointer.write_text(json.dumps(known | {"file": "../../etc/passwd"}))
    with pytest.raises(InputError, match="is missing"):
        writer.load_checkpoint()
    writer.close()


def test_a_failing_write_keeps_the_former_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = start_run(tmp_path / "run", CONFIG)
    writer.save_checkpoint({"w": np.arange(3)}, {"epoch": 1})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for broken in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, broken, full)
            with pytest.raises(InputError, match=r"No space.*--resume goes on"):
                writer.save_checkpoint({"w": np.zeros(3)}, {"epoch": 2})
        arrays, meta = writer.load_checkpoint()
        assert meta == {"epoch": 1}
        np.testing.assert_array_equal(arrays["w"], [0, 1, 2])
        assert not list(writer.partial.glob(".*.tmp"))
    with pytest.raises(TypeError, match="'w'"):
        writer.save_checkpoint({"w": np.array([object()])}, {})
    assert writer.load_checkpoint()[1] == {"epoch": 1}
    writer.close()


SAVER = """
import sys
import numpy as np
from graphham.results.run_writer import start_run
writer = start_run(sys.argv[1], {"seed": 1})
epoch = 0
while True:
    epoch += 1
    writer.log({"epoch": epoch})
    writer.save_checkpoint({"w": np.full(20_000, epoch), "v": np.full(7, -epoch)}, {"epoch": epoch})
    if epoch == 2:
        print("ready", flush=True)
"""


def test_kill_minus_nine_always_leaves_a_consistent_checkpoint(tmp_path: Path) -> None:
    pause = random.Random(0)
    seen = set()
    for attempt in range(12):
        out = tmp_path / f"run{attempt}"
        kill_when_ready(SAVER, [str(out)], pause.uniform(0, 0.03))
        with resume_run(out) as writer:
            arrays, meta = writer.load_checkpoint()
            assert (arrays["w"] == meta["epoch"]).all()
            assert (arrays["v"] == -meta["epoch"]).all()
            # The log is never behind the checkpoint, and saving again clears what was left over.
            writer.truncate_log(meta["epoch"])
            lines = (writer.partial / "metrics.jsonl").read_text().splitlines()
            assert [json.loads(x)["epoch"] for x in lines] == list(range(1, meta["epoch"] + 1))
            writer.save_checkpoint({"w": np.zeros(1)}, {"epoch": meta["epoch"] + 1})
            left = {n for n in names(writer.partial) if "checkpoint" in n}
            assert len(left) == 2, left
            seen.add(meta["epoch"])
        shutil.rmtree(writer.partial)
    assert len(seen) > 1  # the kills really fell at different moments


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text() | st.floats(-1e9, 1e9),
    lambda inner: (
        st.lists(inner.filter(lambda v: v is not None), max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def dropped(value):
    if isinstance(value, dict):
        return {k: dropped(v) for k, v in value.items() if v is not None}
    return [dropped(v) for v in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(min_size=1, max_size=8), values, max_size=4))
def test_any_config_survives_the_toml_file(tmp_path_factory, config) -> None:
    out = tmp_path_factory.mktemp("toml") / "run"
    with start_run(out, config) as writer:
        assert writer.config == dropped(config)


def test_shared_and_half_precision_tensors_are_saved(tmp_path: Path) -> None:
    base = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    run = start_run(tmp_path / "run", {}).finish(
        result := make_result(), {"a": base, "b": base.T, "c": np.ones(2)}, make_graph(result), {}
    )
    back = run.state("torch")
    assert torch.equal(back["a"], base)
    assert torch.equal(back["b"], base.T)
    np.testing.assert_array_equal(run.state("numpy")["b"], base.T.float().numpy())
