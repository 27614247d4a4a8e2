"""``graphham doctor`` tells whole folders from damaged ones, and its remedy works."""

from pathlib import Path

from graphham.graph.store import open_store

from .conftest import Graphham, contents


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)


def test_the_doctor_names_the_damage_and_a_remedy_that_works(
    graphham: Graphham, planted_files: Path, tmp_path: Path
) -> None:
    edges = str(planted_files / "edges.csv")
    fit = ["--groups", "6,2", "--dim", "16", "--epochs", "1", "--out", "run"]
    assert graphham("fit", edges, "--features", str(planted_files / "features.csv"), *fit).code == 0
    before = contents(tmp_path)
    seen = graphham("doctor", "run")
    assert seen.code == 0
    assert seen.out.startswith("Whole")
    assert "Damaged" not in seen.out
    assert contents(tmp_path) == before
    flip(tmp_path / "run" / "embedding.npy")
    seen = graphham("doctor", "run")
    assert seen.code == 2
    assert "embedding.npy has changed" in seen.out
    assert "run is damaged: embedding.npy" in seen.err
    (remedy,) = [line for line in seen.out.splitlines() if "graphham fit" in line]
    words = remedy.split("graphham ")[1].replace("NEW", "again").split()
    assert graphham("info", "run").code == 2
    assert graphham(*words).code == 0
    again = (tmp_path / "again" / "embedding.npy").read_bytes()
    assert again == before["run/embedding.npy"]


def test_verify_reads_a_store_before_it_is_used(
    graphham: Graphham, planted_files: Path, tmp_path: Path, monkeypatch
) -> None:
    import graphham.graph.integrity as integrity

    assert graphham("ingest", str(planted_files / "edges.csv"), "--out", "store").code == 0
    monkeypatch.setattr(integrity, "UNREAD_BYTES", 1)
    assert graphham("doctor", "store").code == 0
    open_store(tmp_path / "store")
    flip(tmp_path / "store" / "indices.npy")
    assert graphham("doctor", "store").code == 2
    assert graphham("fit", "store", "--verify", "--out", "new").code == 2
    seen = graphham("fit", str(planted_files / "edges.csv"), "--verify", "--out", "new")
    assert seen.code == 2
    assert "checksums of a store" in seen.err
