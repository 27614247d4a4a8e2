"""Checkpoints: what was saved comes back, damage is refused, a crash loses nothing."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.training import checkpoints
from graphham.training.checkpoints import (
    POINTER,
    checkpoint_files,
    load_checkpoint,
    next_number,
    read_part,
    read_tensors,
    remove_checkpoints,
    save_checkpoint,
    write_part,
    write_tensors,
)


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=6),
        st.sampled_from(["float32", "float64", "int64", "uint8", "bool", "float16", ">f4"]),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 3),
)
def test_tensors_come_back_equal(tmp_path_factory, kinds, dims) -> None:
    path = tmp_path_factory.mktemp("t") / "x.safetensors"
    rng = np.random.default_rng(dims)
    arrays = {k: (rng.random((2, 3, 4)[:dims]) * 5).T.astype(d) for k, d in kinds.items()}
    write_tensors(path, arrays)
    back = read_tensors(path)
    assert set(back) == set(arrays)
    for name, array in arrays.items():
        assert back[name].shape == array.shape
        np.testing.assert_array_equal(back[name], array)


def test_half_precision_comes_back_with_all_its_values(tmp_path: Path) -> None:
    half = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3) / 3
    write_tensors(tmp_path / "x", {"a": half, "b": half.T, "c": np.arange(2)})
    back = read_tensors(tmp_path / "x")
    np.testing.assert_array_equal(back["a"], half.float().numpy())
    np.testing.assert_array_equal(back["b"], half.T.float().numpy())
    assert back["c"].dtype == np.int64
    with pytest.raises(TypeError, match="cannot save 'words'"):
        write_tensors(tmp_path / "y", {"words": np.array(["a"])})
    (tmp_path / "z").write_bytes(b"not tensors at all")
    with pytest.raises(InputError, match="damaged or not a safetensors file"):
        read_tensors(tmp_path / "z")


def test_only_the_newest_checkpoint_is_left(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path) is None
    assert checkpoint_files(tmp_path) == []
    (tmp_path / "mine.txt").write_text("not ours to remove")
    (tmp_path / ".checkpoint-000001.safetensors.77.tmp").write_bytes(b"of a killed writer")
    for epoch in range(1, 4):
        assert next_number(tmp_path) == epoch
        part = write_part(tmp_path, epoch, 0, {"rows": np.full(3, epoch)})
        save_checkpoint(
            tmp_path, {"w": np.full(5, epoch)}, {"epoch": epoch, "parts": [part]}, epoch
        )
    arrays, meta = load_checkpoint(tmp_path) or ({}, {})
    assert meta["epoch"] == 3
    assert arrays["w"].tolist() == [3] * 5
    assert read_part(tmp_path, meta["parts"][0])["rows"].tolist() == [3] * 3
    files = checkpoint_files(tmp_path)
    assert files[-1].name == POINTER
    assert {p.name for p in tmp_path.iterdir()} == {"mine.txt", *(f.name for f in files)}
    remove_checkpoints(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("step", ["write_tensors", "checksum", "write_json"])
def test_a_crash_at_any_step_keeps_the_former_checkpoint(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, {"w": np.arange(3)}, {"epoch": 1})

    def crash(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, step, crash)
        with pytest.raises(OSError, match="No space"):
            save_checkpoint(tmp_path, {"w": np.zeros(3)}, {"epoch": 2})
    arrays, meta = load_checkpoint(tmp_path) or ({}, {})
    assert (meta, arrays["w"].tolist()) == ({"epoch": 1}, [0, 1, 2])
    save_checkpoint(tmp_path, {"w": np.ones(3)}, {"epoch": 3})
    assert len(list(tmp_path.iterdir())) == 2


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_any_changed_byte_is_noticed(tmp_path_factory, place: int, bits: int) -> None:
    folder = tmp_path_factory.mktemp("flipped")
    path = save_checkpoint(folder, {"w": np.arange(50.0)}, {})
    part = write_part(folder, 1, 0, {"w": np.arange(50.0)})
    for file in (path, folder / part["file"]):
        content = bytearray(file.read_bytes())
        content[place % len(content)] ^= bits
        file.write_bytes(content)
    with pytest.raises(InputError, match="does not match its checksum"):
        load_checkpoint(folder)
    with pytest.raises(InputError, match="does not match its checksum"):
        read_part(folder, part)


def test_a_pointer_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    save_checkpoint(folder, {"w": np.arange(3)}, {"epoch": 1})
    outside = write_part(tmp_path, 1, 0, {"w": np.arange(3)})
    with pytest.raises(InputError, match="missing or cut short"):
        read_part(folder, {**outside, "file": f"../{outside['file']}"})
    known = json.loads((folder / POINTER).read_text())
    (folder / POINTER).write_text(json.dumps({**known, "file": f"../{outside['file']}"}))
    with pytest.raises(InputError, match="is missing"):
        load_checkpoint(folder)
    assert checkpoint_files(folder) == [folder / POINTER]
