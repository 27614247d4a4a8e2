"""A run folder is read as it was written, or refused in one sentence."""

from pathlib import Path

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.results.run_writer import Run, start_run
from graphham.system.atomic import write_json
from graphham.system.checksums import file_checksum, sealed
from tests.results.runs import CONFIG, FILES, finish


def test_new_names_of_groups_are_kept_and_never_passed_on(tmp_path: Path) -> None:
    run = finish(start_run(tmp_path / "run", CONFIG))
    old = run.hierarchy.names
    again = run.rename_group(1, 2, "  My <b>group</b>\u202e\x00 ")
    for seen in (again, Run.open(run.path)):
        assert seen.hierarchy.names[0][2] == "My <b>group</b>"
        assert seen.groups["name"].to_pylist()[2] == "My <b>group</b>"
        assert seen.hierarchy.names[0][3] == old[0][3]
    with pytest.raises(InputError, match="is called 'My <b>group</b>' already"):
        again.rename_group(1, 3, "My <b>group</b>")
    with pytest.raises(InputError, match="no group 99 on level 1"):
        again.rename_group(1, 99, "x")
    with pytest.raises(InputError, match="at most 200 signs"):
        again.rename_group(1, 1, "x" * 201)
    assert again.rename_group(1, 2, "").hierarchy.names == old
    again.rename_group(1, 0, "stale")
    (run.path / "notes.txt").write_text("mine")
    fresh = finish(start_run(run.path, CONFIG, overwrite=True))
    assert fresh.hierarchy.names == old  # names of the former groups do not fit the new ones
    assert (fresh.path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", sorted(FILES - {"config.toml", "README.md"}))
def test_a_missing_or_cut_file_is_named(tmp_path: Path, name: str) -> None:
    out = tmp_path / "run"
    writer = start_run(out, CONFIG)
    writer.log({"epoch": 1})
    finish(writer)
    file = out / name
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=name) as caught:
        Run.open(out)
    assert "\n" not in str(caught.value)
    file.unlink()
    with pytest.raises(InputError, match=name):
        Run.open(out)


def test_garbage_of_the_right_size_is_refused_when_read(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = finish(start_run(out, CONFIG))
    rng = np.random.default_rng(0)
    for name in FILES - {"summary.json"}:
        (out / name).write_bytes(rng.bytes((out / name).stat().st_size))
    (out / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(InputError, match="has changed since it was written"):
        Run.open(out)
    summary = {k: v for k, v in run.summary.items() if k not in ("checksum", "checksums")}
    write_json(out / "summary.json", {**summary, "format_version": 2})  # without checksums
    run = Run.open(out)
    for read in ("config", "nodes", "groups", "embedding", "hierarchy"):
        with pytest.raises(InputError):
            getattr(run, read)
    for framework in ("numpy", "torch"):
        with pytest.raises(InputError, match="safetensors"):
            run.state(framework)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        # Found by fuzzing: a header that Python's tokenizer gives up on, a name that is not UTF-8.
        ("embedding.npy", b"), }", b"),( "),
        ("groups.parquet", b"parent", b"par\xdbnt"),
    ],
)
def test_a_strangers_file_under_a_right_checksum_is_refused(
    tmp_path: Path, name: str, old: bytes, new: bytes
) -> None:
    out = tmp_path / "run"
    run = finish(start_run(out, CONFIG))
    content = (out / name).read_bytes()
    assert old in content
    (out / name).write_bytes(content.replace(old, new))
    checksums = {**run.summary["checksums"], name: file_checksum(out / name)}
    summary = {k: v for k, v in run.summary.items() if k != "checksum"}
    write_json(out / "summary.json", sealed({**summary, "checksums": checksums}))
    with pytest.raises(InputError, match=f"{name} is damaged"):
        getattr(Run.open(out), name.partition(".")[0])


def test_other_folders_are_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    run = finish(start_run(tmp_path / "newer", CONFIG))
    text = (run.path / "summary.json").read_text()
    (run.path / "summary.json").write_text(
        text.replace('"format_version": 3', '"format_version": 4')
    )
    other = finish(start_run(tmp_path / "other", CONFIG))
    (other.path / "summary.json").write_text("[]")
    for name, words in {
        "absent": "no run folder",
        "empty": "no summary.json",
        "file": "is a file",
        "newer": "install a newer graphham",
        "other": "not from graphham",
    }.items():
        with pytest.raises(InputError, match=words):
            Run.open(tmp_path / name)
