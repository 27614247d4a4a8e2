"""Files are found, downloaded and checked, or refused with a sentence that helps."""

import hashlib
import io
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from graphham.datasets import (
    CATALOG,
    DataFile,
    dataset_info,
    fetch_dataset,
    load_dataset,
)
from graphham.errors import InputError
from tests.datasets.small_files import (
    check_small_youtube,
    youtube_tables,
)


def serve_small_youtube(
    server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, sha256: str | None = None
) -> bytes:
    """Make ``youtube`` a small graph that lives on the local server; return the archive's bytes."""
    url, folder = server
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in youtube_tables().items():
            archive.writestr(zipfile.ZipInfo(f"YouTube-dataset/data/{name}"), text)
    (folder / "y.zip").write_bytes(content.getvalue())
    digest = hashlib.sha256(content.getvalue()).hexdigest() if sha256 is None else sha256
    file = DataFile("raw/YouTube-dataset.zip", f"{url}y.zip", sha256=digest)
    small = replace(dataset_info("youtube"), nodes=8, edges=5, classes=3, files=(file,))
    monkeypatch.setitem(CATALOG, "youtube", small)
    return content.getvalue()


def test_download_reports_progress_and_is_kept(
    server: tuple[str, Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = serve_small_youtube(server, monkeypatch)
    steps: list[tuple[str, int, int | None]] = []
    check_small_youtube(load_dataset("youtube", progress=lambda *step: steps.append(step)))
    assert steps[0] == ("YouTube-dataset.zip", 0, len(content))
    assert steps[-1] == ("YouTube-dataset.zip", len(content), len(content))
    kept = cache / "Youtube/raw"
    assert [p.name for p in kept.iterdir()] == ["YouTube-dataset.zip"]
    assert fetch_dataset("youtube") == cache / "Youtube"
    # With the server's copy gone the cache must do.
    (server[1] / "y.zip").unlink()
    steps.clear()
    check_small_youtube(load_dataset("youtube", progress=lambda *step: steps.append(step)))
    assert steps == []


def test_the_progress_bar_goes_to_standard_error(
    server: tuple[str, Path],
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    serve_small_youtube(server, monkeypatch)
    fetch_dataset("youtube")
    shown = capsys.readouterr()
    assert "YouTube-dataset.zip" in shown.err
    assert shown.out == ""


def test_a_wrong_download_is_refused_and_not_kept(
    server: tuple[str, Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_small_youtube(server, monkeypatch, sha256="0" * 64)
    with pytest.raises(InputError, match="checksum"):
        load_dataset("youtube", progress=False)
    assert list((cache / "Youtube/raw").iterdir()) == []


def test_a_missing_page_says_where_to_put_the_files(
    server: tuple[str, Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_small_youtube(server, monkeypatch)
    (server[1] / "y.zip").unlink()
    with pytest.raises(InputError) as caught:
        load_dataset("youtube", progress=False)
    assert "404" in str(caught.value)
    assert str(cache / "Youtube/raw") in str(caught.value)
    assert "GRAPHHAM_DATA" in str(caught.value)
    assert list((cache / "Youtube/raw").iterdir()) == []


def test_no_network_is_one_clear_sentence(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Port 9 on this machine answers nobody.
    file = DataFile("raw/YouTube-dataset.zip", "http://127.0.0.1:9/y.zip")
    monkeypatch.setitem(CATALOG, "youtube", replace(dataset_info("youtube"), files=(file,)))
    with pytest.raises(InputError, match="cannot be downloaded") as caught:
        load_dataset("youtube", progress=False)
    assert "\n" not in str(caught.value)


def test_wordnet_without_files_says_how_they_are_made(cache: Path) -> None:
    with pytest.raises(InputError, match=r"WordNet/raw/wordnet\.npz.*wordnet-base"):
        load_dataset("wordnet")


def test_a_changed_file_is_refused_and_left_alone(shared_data: Path, tmp_path: Path) -> None:
    shutil.copytree(shared_data / "CiteSeer", tmp_path / "CiteSeer")
    changed = tmp_path / "CiteSeer/raw/ind.citeseer.y"
    changed.chmod(0o644)
    changed.write_bytes(changed.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"ind\.citeseer\.y.*checksum"):
        load_dataset("citeseer", root=tmp_path)
    assert changed.exists()


def test_root_replaces_every_other_folder(shared_data: Path, cache: Path, tmp_path: Path) -> None:
    assert load_dataset("citeseer", root=shared_data).num_edges == 4552
    with pytest.raises(InputError, match="wordnet"):
        load_dataset("wordnet", root=tmp_path)
