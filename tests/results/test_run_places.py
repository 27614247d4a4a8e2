"""No crash, no second writer and no wish to overwrite ever costs a run, or what is none."""

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import graphham.results.run_writer
from graphham.errors import InputError
from graphham.results import run_places
from graphham.results.run_writer import Run, resume_run, start_run
from graphham.system.exchange import exchange
from tests.other_systems import needs_locks
from tests.reference.processes import kill_when_ready
from tests.results.runs import CONFIG, FILES, finish, names


def swaps(folder: Path) -> bool:
    """Whether two folders can be swapped in one step here."""
    (folder / "one").mkdir()
    (folder / "two").mkdir()
    try:
        return exchange(folder / "one", folder / "two")
    finally:
        (folder / "one").rmdir()
        (folder / "two").rmdir()


def test_an_existing_run_is_not_touched(tmp_path: Path) -> None:
    out = tmp_path / "run"
    finish(start_run(out, CONFIG))
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    with pytest.raises(
        InputError, match=r"run exists already; choose another --out or give --over"
    ):
        start_run(out, CONFIG)
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before
    assert names(tmp_path) == {"run"}


def test_an_unfinished_run_asks_for_resume_or_overwrite(tmp_path: Path) -> None:
    out = tmp_path / "run"
    start_run(out, CONFIG).close()
    with pytest.raises(InputError, match=r"--resume continues it, --overwrite starts anew"):
        start_run(out, CONFIG)
    with pytest.raises(InputError, match=r"not finished; continue it with --resume"):
        Run.open(out)
    with start_run(out, {"seed": 9}, overwrite=True) as writer:
        assert writer.config == {"seed": 9}


def test_overwriting_keeps_the_old_run_until_the_new_one_is_done(tmp_path: Path) -> None:
    out = tmp_path / "run"
    finish(start_run(out, CONFIG), summary={"which": "old"})
    (out / "my notes.txt").write_text("precious")
    writer = start_run(out, CONFIG, overwrite=True)
    assert Run.open(out).summary["which"] == "old"
    finish(writer, summary={"which": "new"})
    assert Run.open(out).summary["which"] == "new"
    assert names(tmp_path) == {"run"}
    assert (out / "my notes.txt").read_text() == "precious"


def test_overwrite_never_removes_what_is_not_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "config.toml").write_text("mine = true")
    (tmp_path / "file").write_text("x")
    for out in (folder, tmp_path / "file"):
        with pytest.raises(InputError, match="not a run folder, so it is not overwritten"):
            start_run(out, CONFIG, overwrite=True)
    assert (folder / "config.toml").read_text() == "mine = true"
    foreign = tmp_path / "x.partial"
    foreign.mkdir()
    (foreign / "data").write_text("mine")
    with pytest.raises(InputError, match="not overwritten"):
        start_run(tmp_path / "x", CONFIG, overwrite=True)
    assert (foreign / "data").exists()
    with pytest.raises(InputError, match="is a file"):
        start_run(tmp_path / "file" / "run", CONFIG)
    for bad in ("", ".", "/", ".."):
        with pytest.raises(InputError, match="no name for a run folder"):
            start_run(bad, CONFIG)


def test_a_run_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "run"
    writer = start_run(out, CONFIG)
    out.mkdir()
    (out / "theirs").write_text("x")
    with pytest.raises(InputError, match="appeared while this run was training"):
        finish(writer)
    assert names(out) == {"theirs"}
    assert names(tmp_path / "run.partial") >= FILES


@needs_locks
def test_two_processes_cannot_write_one_run(tmp_path: Path) -> None:
    writer = start_run(tmp_path / "run", CONFIG)
    with pytest.raises(InputError, match="another process is writing"):
        resume_run(tmp_path / "run")
    with pytest.raises(InputError, match="another process is writing"):
        start_run(tmp_path / "run", CONFIG, overwrite=True)
    writer.close()
    resume_run(tmp_path / "run").close()


@pytest.mark.parametrize("can_swap", [True, False])
@pytest.mark.parametrize("moment", range(11))
def test_a_crash_between_any_two_renames_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int, can_swap: bool
) -> None:
    """Stop dead at the n-th rename, removal or checkpoint clean-up of the final dance."""
    if can_swap and not swaps(tmp_path):
        pytest.skip("this file system cannot swap two folders")
    out = tmp_path / "run"
    finish(start_run(out, CONFIG), summary={"which": "old"}, status="interrupted")
    writer = start_run(out, CONFIG, overwrite=True)
    writer.save_checkpoint({"w": np.ones(1)}, {"epoch": 1})
    # The graph's own renames come before the final dance.
    monkeypatch.setattr(writer, "_write_graph", lambda graph: False)
    steps = 0

    def counted(real):
        def step(*args, **kwargs):
            nonlocal steps
            steps += 1
            if steps > moment:
                raise KeyboardInterrupt
            return real(*args, **kwargs)

        return step

    monkeypatch.setattr(
        graphham.results.run_writer.checkpoints, "remove_checkpoints", counted(lambda f: None)
    )
    monkeypatch.setattr(run_places, "_clear", counted(run_places._clear))
    monkeypatch.setattr(run_places, "beside", counted(run_places.beside))
    real_rename, dead_rename = Path.rename, counted(Path.rename)

    def rename(path: Path, target: Path) -> Path:
        # Files take their names long before the final dance of folders.
        return (dead_rename if path.is_dir() else real_rename)(path, target)

    monkeypatch.setattr(run_places.Path, "rename", rename)
    real_unlink, dead_unlink = Path.unlink, counted(Path.unlink)

    def unlink(path: Path, missing_ok: bool = False) -> None:
        (dead_unlink if path.name == ".replacing" else real_unlink)(path, missing_ok)

    monkeypatch.setattr(run_places.Path, "unlink", unlink)
    monkeypatch.setattr(
        run_places, "exchange", counted(exchange if can_swap else lambda a, b: False)
    )
    try:
        finish(writer, summary={"which": "new"}, status="complete")
    except KeyboardInterrupt:
        monkeypatch.undo()
        writer.close()
        standing = [p for p in (out, tmp_path / "run.partial") if (p / "summary.json").is_file()]
        assert standing, names(tmp_path)
        assert out.exists() or not can_swap
        assert Run.open(out).summary["which"] in ("old", "new")  # reading alone finds a whole run
        with pytest.raises(InputError, match="is finished"):
            resume_run(out)
    monkeypatch.undo()
    assert Run.open(out).summary["which"] == "new"
    assert names(tmp_path) == {"run"}


FINISHER = """
import sys
sys.path.insert(0, sys.argv[2])
from tests.outputs import make_graph, make_result
from graphham.results.run_writer import start_run
result = make_result(40)
graph = make_graph(result)
number = 0
while True:
    number += 1
    writer = start_run(sys.argv[1], {"seed": number}, overwrite=True)
    writer.finish(result, {}, graph, {"number": number})
    if number == 1:
        print("ready", flush=True)
"""


def test_kill_minus_nine_while_replacing_a_run_never_loses_it(tmp_path: Path) -> None:
    pause = random.Random(1)
    for attempt in range(8):
        out = tmp_path / f"run{attempt}"
        arguments = [str(out), str(Path(__file__).parent)]
        kill_when_ready(FINISHER, arguments, pause.uniform(0, 0.15))
        assert out.exists() or not swaps(tmp_path)
        run = Run.open(out)
        assert run.config == {"seed": run.summary["number"]}
        run.result().validate()
        start_run(out, {}, overwrite=True).close()
        shutil.rmtree(tmp_path / f"run{attempt}.partial")


def test_a_partial_folder_killed_at_its_birth_can_be_replaced(tmp_path: Path) -> None:
    partial = tmp_path / "run.partial"
    partial.mkdir()
    (partial / ".config.toml.1234.tmp").write_bytes(b"seed")
    start_run(tmp_path / "run", {"seed": 1}, overwrite=True).close()
    assert (partial / "config.toml").is_file()
    (partial / "config.toml").unlink()
    (partial / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="not a run folder"):
        start_run(tmp_path / "run", {"seed": 1}, overwrite=True)
    assert (partial / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("leftover", [None, ".lock", ".config.toml.12.tmp", "checkpoint.json"])
def test_a_folder_without_its_config_sends_nobody_in_circles(
    tmp_path: Path, leftover: str | None
) -> None:
    """Killed between making the folder and writing its config: a plain start is all it takes."""
    partial = tmp_path / "run.partial"
    partial.mkdir()
    if leftover is not None:
        (partial / leftover).write_bytes(b"{")
    with pytest.raises(InputError, match="leave out --resume to start it"):
        resume_run(tmp_path / "run")
    run_places.check_place(tmp_path / "run")
    with start_run(tmp_path / "run", {"seed": 4}) as writer:
        assert writer.config == {"seed": 4}


STARTER = """
import sys
from graphham.results.run_writer import start_run
print("ready", flush=True)
while True:
    start_run(sys.argv[1], {"seed": 1}, overwrite=True).close()
"""


def test_a_folder_in_progress_appears_with_its_config(tmp_path: Path) -> None:
    pause = random.Random(2)
    for attempt in range(4):
        out = tmp_path / f"run{attempt}"
        kill_when_ready(STARTER, [str(out)], pause.uniform(0.01, 0.1))
        start_run(out, {"seed": 2}, overwrite=True).close()
        resume_run(out).close()
        assert names(tmp_path) == {f"run{n}.partial" for n in range(attempt + 1)}


def test_reading_does_not_take_a_run_from_its_writer(tmp_path: Path) -> None:
    writer = start_run(tmp_path / "run", CONFIG)
    (writer.partial / "summary.json").write_text("{}")  # the last output is there, the name not
    with pytest.raises(InputError, match="was not finished"):
        Run.open(tmp_path / "run")
    assert writer.partial.is_dir()
    finish(writer)
    assert Run.open(tmp_path / "run").summary["status"] == "complete"
