"""Files are opened whatever they are packed in, or refused by name."""

import gzip
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from graphham.errors import InputError
from graphham.graph.graph import build_graph
from graphham.graph.ids import NodeIds
from graphham.io import attach_features, read_graph
from graphham.io.files import SpillFolder, forget_pages, read_raw
from tests.io.edge_files import put, read_both


@pytest.mark.parametrize("order", ["<", ">"])
def test_text_that_is_no_text_is_refused(tmp_path: Path, order: str) -> None:
    graph = build_graph(np.array([0]), np.array([1]), 2, ids=NodeIds(["a", "b"]))
    ids = np.array(["a", "b"], dtype=f"{order}U1")
    np.savez(tmp_path / "good.npz", ids=ids, x=np.eye(2))
    assert attach_features(graph, tmp_path / "good.npz").num_features == 2
    ids.view(f"{order}u4")[1] = 0x110000  # beyond the last sign there is
    np.savez(tmp_path / "bad.npz", ids=ids, x=np.eye(2))
    with pytest.raises(InputError, match="not a complete npz file"):
        attach_features(graph, tmp_path / "bad.npz")


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.csv does not exist"):
        read_both(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="is a folder"):
        read_both(tmp_path)


def test_gzipped_text_is_unpacked_where_it_fits(tmp_path: Path) -> None:
    text = b"0123456789"
    file = put(tmp_path, "t.gz", gzip.compress(text))
    (tmp_path / "s").mkdir()
    for limit, written in ((10, 0), (9, 1), (0, 2)):
        raw = read_raw(file, SpillFolder(tmp_path / "s", limit))
        assert raw[:] == text
        assert len(list((tmp_path / "s").iterdir())) == written
    assert read_raw(file)[:] == text


def test_a_temporary_folder_is_made_late_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spill = SpillFolder()
    assert spill.parent == tmp_path
    assert not spill.is_temporary
    assert not any(tmp_path.iterdir())
    (spill.path / "file").write_text("x")
    assert spill.is_temporary
    spill.close()
    assert not any(tmp_path.iterdir())


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    content = gzip.compress(b"a,b\nb,c\n")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
    writer.start()
    assert read_graph(tmp_path / "pipe").num_edges == 2
    writer.join()


def test_forgotten_pages_are_read_again(tmp_path: Path) -> None:
    raw = read_raw(put(tmp_path, "t", b"abc" * 10_000))
    assert raw[:3] == b"abc"
    forget_pages(raw)
    assert raw[:] == b"abc" * 10_000
