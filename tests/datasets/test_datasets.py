"""Named datasets: the embedded ones, the authors' files, and what can go wrong with them."""

import gzip
import hashlib
import http.server
import io
import os
import pickle
import shutil
import subprocess
import sys
import threading
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from graphham.datasets import (
    CATALOG,
    DataFile,
    dataset_info,
    dataset_names,
    fetch_dataset,
    info_rows,
    list_rows,
    load_dataset,
    ogb,
    planetoid,
    social,
    table1_rows,
)
from graphham.datasets.packaged import read_parts
from graphham.errors import InputError
from graphham.graph.graph import Graph


@pytest.fixture
def data(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRAPHHAM_DATA", str(shared_data))
    monkeypatch.setenv("GRAPHHAM_CACHE", str(tmp_path / "cache"))
    return shared_data


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache and no offline folder."""
    monkeypatch.delenv("GRAPHHAM_DATA", raising=False)
    monkeypatch.setenv("GRAPHHAM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


# --- embedded -----------------------------------------------------------------------------------


def test_embedded_cora_is_planetoid_cora(shared_data: Path) -> None:
    info = replace(dataset_info("citeseer"), name="cora", prefix="cora", class_names=())
    raw = planetoid.load(shared_data / "Cora", info)
    ours = load_dataset("cora").validate()
    np.testing.assert_array_equal(ours.indptr, raw.indptr)
    np.testing.assert_array_equal(ours.indices, raw.indices)
    assert (ours.features != raw.features).nnz == 0
    np.testing.assert_array_equal(ours.labels.codes, raw.labels.codes)
    for name in ("train", "val", "test"):
        np.testing.assert_array_equal(ours.splits[name], raw.splits[name])
    assert ours.report.rows_read == raw.report.rows_read == 5429


def test_embedded_cora_has_the_papers_own_ids() -> None:
    cora = load_dataset("cora")
    assert cora.ids.kind == "integer"
    assert cora.ids.first_duplicate() is None
    # From the original citation list: 35 is cited by 1033; the first paper is on neural networks.
    assert cora.ids.row(1033) in cora.neighbors(cora.ids.row(35))
    assert cora.labels.values()[cora.ids.row(31336)] == "Neural Networks"
    assert cora.labels.values()[cora.ids.row(35)] == "Genetic Algorithms"


def test_embedded_debian_is_the_map_debian_users_know() -> None:
    debian = load_dataset("debian").validate()
    info = dataset_info("debian")
    found = (debian.num_nodes, debian.num_edges, len(debian.labels.classes))
    assert found == (info.nodes, info.edges, info.classes)
    row = debian.ids.row("python3-numpy")
    assert debian.labels.values()[row] == "python"
    assert "Python 3" in debian.titles[row]
    assert debian.ids.row("python3-scipy") in debian.neighbors(row)
    described = {debian.feature_names[c] for c in debian.features[row].indices}
    assert {"array", "numpy", "implemented-in::python"} <= described
    assert info.features.startswith(f"{debian.num_features:,} ")
    assert "bookworm" in debian.report.source


def test_embedded_files_are_small_and_free_of_pickles() -> None:
    folder = Path(planetoid.__file__).parent / "embedded"
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.npz*")}
    assert sizes["cora.npz"] < 100_000
    assert sizes["debian.npz.xz"] < 5_000_000
    for name in ("cora", "debian"):
        assert all(part.dtype.kind != "O" for part in read_parts(name).values())


# --- the authors' files -------------------------------------------------------------------------

# nodes, edges, raw entries, isolated, components, clustering: from the staged data's README
COUNTS = {
    "citeseer": (3327, 4552, 4732, 48, 438, 0.1415),
    "pubmed": (19717, 44324, 44338, 0, 1, 0.0602),
    "facebook": (22470, 170823, 171002, 0, 1, 0.3597),
    "amazon-computers": (13752, 245861, 287209, 281, 314, 0.3441),
    "amazon-photo": (7650, 119081, 143663, 115, 136, 0.4040),
    "wordnet": (117659, 183789, 183789, 1009, 1377, 0.0483),
}


@pytest.mark.parametrize("name", COUNTS)
def test_staged_datasets_have_the_known_counts(name: str, data: Path) -> None:
    graph = load_dataset(name, progress=False).validate()
    (row,) = table1_rows([name])
    report = graph.report
    seen = (graph.num_nodes, graph.num_edges, report.rows_read, report.isolated, report.components)
    assert (*seen, round(row["clustering"], 4)) == COUNTS[name]
    assert report.rows_read - report.duplicates_merged - report.self_loops_dropped == row["edges"]


def test_planetoid_splits_and_missing_papers(data: Path) -> None:
    citeseer, pubmed = load_dataset("citeseer"), load_dataset("pubmed")
    assert {k: len(v) for k, v in citeseer.splits.items()} == {
        "train": 120,
        "val": 500,
        "test": 1000,
    }
    assert {k: len(v) for k, v in pubmed.splits.items()} == {"train": 60, "val": 500, "test": 1000}
    for graph in (citeseer, pubmed):
        everywhere = np.concatenate(list(graph.splits.values()))
        assert len(np.unique(everywhere)) == len(everywhere)
        per_class = np.bincount(graph.labels.codes[graph.splits["train"]])
        np.testing.assert_array_equal(per_class, np.full(len(graph.labels.classes), 20))
    unknown = ~citeseer.labels.known
    assert unknown.sum() == 15
    assert citeseer.features[unknown].nnz == 0
    # Sizes of the six classes in the LINQS release, where classes have names.
    sizes = dict(
        zip(citeseer.labels.classes, np.bincount(citeseer.labels.codes + 1)[1:], strict=True)
    )
    assert sizes == {"Agents": 596, "AI": 249, "DB": 701, "IR": 668, "ML": 590, "HCI": 508}


def test_facebook_and_wordnet_carry_names(data: Path) -> None:
    facebook, wordnet = load_dataset("facebook"), load_dataset("wordnet")
    assert facebook.titles[1] == "U.S. Consulate General Mumbai"
    assert facebook.labels.values()[:2] == ["tvshow", "government"]
    assert facebook.features.nnz == 314_583
    entity = wordnet.ids.row("n00001740")
    assert wordnet.titles[entity] == "entity"
    assert "physical entity" in [wordnet.titles[r] for r in wordnet.neighbors(entity)]


def test_table_reproduces_the_papers_columns(data: Path) -> None:
    rows = {row["name"]: row for row in table1_rows()}
    for name in ("cora", "citeseer", "pubmed", "facebook"):
        row = rows[name]
        assert row["nodes"] == row["paper_nodes"]
        assert row["raw_edges"] == row["paper_edges"]
        assert row["classes"] == row["paper_classes"]
        assert row["clustering"] == pytest.approx(row["paper_clustering"], abs=5.1e-4)
    assert rows["youtube"]["nodes"] is None
    assert rows["youtube"]["paper_edges"] == 2_990_443
    assert rows["debian"]["paper_nodes"] is None


# --- the two large ones, on small files of the same formats -------------------------------------

EDGES = "1,2\n1,3\n2,3\n7,1\n3,7\n"
GROUP_EDGES = "1,2\n1,1\n7,2\n"
NODES = "\n".join(str(i) for i in range(1, 9)) + "\n"


def check_small_youtube(graph: Graph) -> None:
    graph.validate()
    assert graph.ids.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert graph.edge_list().tolist() == [[0, 1], [0, 2], [0, 6], [1, 2], [2, 6]]
    assert graph.labels.classes == (1, 2, 3)
    assert graph.labels.values() == [[1, 2], None, None, None, None, None, [2], None]
    assert (graph.report.rows_read, graph.report.isolated, graph.report.components) == (5, 4, 5)


@pytest.mark.parametrize("place", ["raw", "raw/data", "raw/YouTube-dataset/data"])
def test_youtube_from_csv_files(place: str, tmp_path: Path) -> None:
    folder = tmp_path / place
    folder.mkdir(parents=True)
    for name, text in tables().items():
        (folder / name).write_text(text)
    check_small_youtube(social.load(tmp_path, dataset_info("youtube")))


def tables() -> dict[str, str]:
    return {
        "edges.csv": EDGES,
        "group-edges.csv": GROUP_EDGES,
        "nodes.csv": NODES,
        "groups.csv": "1\n2\n3\n",
    }


def test_youtube_from_its_archive(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with zipfile.ZipFile(tmp_path / "raw/YouTube-dataset.zip", "w") as archive:
        archive.writestr("__MACOSX/YouTube-dataset/data/edges.csv", "junk")
        for name, text in tables().items():
            archive.writestr(f"YouTube-dataset/data/{name}", text)
        archive.writestr("__MACOSX/YouTube-dataset/data/._edges.csv", "junk")
    check_small_youtube(social.load(tmp_path, dataset_info("youtube")))


def test_youtube_from_the_matlab_file(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    ends = np.array([[int(v) for v in line.split(",")] for line in EDGES.split()]) - 1
    half = sp.csc_matrix((np.ones(5), ends.T), shape=(8, 8))
    group = sp.csc_matrix(([1.0, 1.0, 1.0], ([0, 0, 6], [1, 0, 1])), shape=(8, 3))
    path = tmp_path / "raw/youtube.mat"
    scipy.io.savemat(path, {"network": half + half.T, "group": group}, do_compression=True)
    check_small_youtube(social.load(tmp_path, dataset_info("youtube")))


def test_youtube_with_a_broken_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for name, text in (tables() | {"edges.csv": "1,2\n3,x\n"}).items():
        (tmp_path / "raw" / name).write_text(text)
    with pytest.raises(InputError, match=r"edges\.csv"):
        social.load(tmp_path, dataset_info("youtube"))
    (tmp_path / "raw/edges.csv").write_text(EDGES)
    (tmp_path / "raw/group-edges.csv").unlink()
    with pytest.raises(InputError, match=r"has no group-edges\.csv"):
        social.load(tmp_path, dataset_info("youtube"))


PRODUCTS = {
    "raw/num-node-list.csv.gz": "5\n",
    "raw/num-edge-list.csv.gz": "6\n",
    "raw/edge.csv.gz": "0,1\n1,2\n2,0\n3,3\n1,0\n3,2\n",
    "raw/node-feat.csv.gz": "0.5,-1.25\n1,2\n3e-2,4\n5,6\n7,8\n",
    "raw/node-label.csv.gz": "0\n2\n1\n\n2\n",
    "split/sales_ranking/train.csv.gz": "2\n0\n",
    "split/sales_ranking/valid.csv.gz": "1\n",
    "split/sales_ranking/test.csv.gz": "4\n3\n",
    "mapping/labelidx2productcategory.csv.gz": "label idx,product category\n0,Books\n1,Toys\n"
    "2,Toys\n",
}


def write_products(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))


def check_small_products(graph: Graph) -> None:
    graph.validate()
    assert graph.edge_list().tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]
    np.testing.assert_array_equal(
        graph.features, np.array([[0.5, -1.25], [1, 2], [3e-2, 4], [5, 6], [7, 8]], np.float32)
    )
    assert graph.features.dtype == np.float32
    assert graph.labels.values() == ["Books", "Toys (2)", "Toys (1)", None, "Toys (2)"]
    assert {k: v.tolist() for k, v in graph.splits.items()} == {
        "train": [0, 2],
        "val": [1],
        "test": [3, 4],
    }
    report = graph.report
    assert (report.rows_read, report.duplicates_merged, report.self_loops_dropped) == (6, 1, 1)
    assert report.isolated == 1


@pytest.mark.parametrize("place", ["products", "ogbn_products", "raw/products", "."])
def test_products_unpacked(place: str, tmp_path: Path) -> None:
    write_products(tmp_path / place, PRODUCTS)
    check_small_products(ogb.load(tmp_path, dataset_info("amazon")))


def test_products_from_the_zip(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with zipfile.ZipFile(tmp_path / "raw/products.zip", "w") as archive:
        for name, text in PRODUCTS.items():
            archive.writestr(f"products/{name}", gzip.compress(text.encode()))
    check_small_products(ogb.load(tmp_path, dataset_info("amazon")))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"raw/num-edge-list.csv.gz": "7\n"}, "edge.csv.gz"),
        ({"raw/node-feat.csv.gz": "1,2\n3,4\n"}, "node-feat.csv.gz"),
        ({"raw/edge.csv.gz": "0,1\n1,2\n2,0\n3,3\n1,0\n3,5\n"}, "outside"),
        ({"raw/edge.csv.gz": "0,1\n1,2\n2,0\n3,3\n1,0\n3,two\n"}, "edge.csv.gz"),
    ],
)
def test_products_that_do_not_add_up_are_refused(
    change: dict[str, str], named: str, tmp_path: Path
) -> None:
    write_products(tmp_path / "products", PRODUCTS | change)
    with pytest.raises(InputError, match=named):
        ogb.load(tmp_path, dataset_info("amazon"))


def test_products_cut_short_are_refused(tmp_path: Path) -> None:
    write_products(tmp_path / "products", PRODUCTS)
    path = tmp_path / "products/raw/edge.csv.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match=r"edge\.csv\.gz"):
        ogb.load(tmp_path, dataset_info("amazon"))


def test_another_graph_under_a_known_name_is_refused(cache: Path) -> None:
    write_products(cache / "Products/products", PRODUCTS)
    with pytest.raises(InputError, match=r"5 nodes, 4 edges.*2,449,029"):
        load_dataset("amazon")


# --- pickles ------------------------------------------------------------------------------------


class _Payload:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple:
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_runs_code_is_refused_unrun(protocol: int, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    path = tmp_path / "ind.cora.x"
    path.write_bytes(pickle.dumps(_Payload(f"touch {trace}"), protocol=protocol))
    with pytest.raises(InputError, match="system"):
        planetoid.read_arrays(path)
    assert not trace.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"cbuiltins\neval\n(S'1+1'\ntR.",
        b"cnumpy.core.multiarray\nscalar\n.",
        b"cbuiltins\ngetattr\n.",
        b"c_codecs\nencode\n(Vabc\nVrot13\ntR.",
        b"cscipy.sparse.csr\ncsr_matrix\n.",
    ],
)
def test_other_pickles_are_refused_too(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "ind.cora.allx"
    path.write_bytes(content)
    try:
        value = planetoid.read_arrays(path)
    except InputError:
        return
    # A bare class may be named, but it is our own stand-in and no loader accepts it as data.
    with pytest.raises(InputError):
        planetoid._expect(value, sp.csr_matrix, path)


def test_pickles_of_today_read_like_those_of_python_2(tmp_path: Path) -> None:
    matrix = sp.random(6, 5, density=0.4, format="csr", dtype=np.float32, rng=0)
    lists = defaultdict(list, {0: [1, 2], 1: [0]})
    for number, value in enumerate((matrix, np.eye(3, dtype=np.int32), lists)):
        for protocol in (2, 4):
            path = tmp_path / f"{number}.{protocol}"
            path.write_bytes(pickle.dumps(value, protocol=protocol))
            back = planetoid.read_arrays(path)
            if number == 0:
                np.testing.assert_array_equal(back.toarray(), matrix.toarray())
            elif number == 1:
                np.testing.assert_array_equal(back, np.eye(3))
            else:
                assert back == lists


# --- finding and fetching -----------------------------------------------------------------------


@pytest.mark.parametrize(("typed", "meant"), [("Citeseer", "citeseer"), ("wordnet3", "wordnet")])
def test_an_unknown_name_suggests_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"'{typed}'.*did you mean '{meant}'"):
        load_dataset(typed)


def test_a_hopeless_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="cora, debian, citeseer"):
        dataset_info("qqqq")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A local web server and the folder it serves."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/", folder
        running.shutdown()
        thread.join()


def serve_small_youtube(
    server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, sha256: str | None = None
) -> bytes:
    """Make ``youtube`` a small graph that lives on the local server; return the archive's bytes."""
    url, folder = server
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in tables().items():
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


def test_an_original_npz_with_pickled_names_is_read_without_them(
    shared_data: Path, tmp_path: Path
) -> None:
    source = shared_data / "Photo/raw/amazon_electronics_photo.npz"
    with np.load(source) as archive:
        parts = dict(archive)
    names = np.array([{"a": 1}] * parts["attr_shape"][1], dtype=object)
    target = tmp_path / "Photo/raw"
    target.mkdir(parents=True)
    np.savez(target / source.name, **parts, attr_names=names)
    photo = load_dataset("amazon-photo", root=tmp_path)
    assert photo.num_edges == 119_081
    assert photo.feature_names[3] == "w3"


def test_tables_describe_every_dataset(cache: Path) -> None:
    assert [row["name"] for row in list_rows()] == dataset_names()
    status = {row["name"]: row["status"] for row in list_rows()}
    assert status["cora"] == "in the package"
    assert status["citeseer"] == "to download"
    assert status["wordnet"] == "to be put there by hand"
    for name in dataset_names():
        rows = info_rows(name)
        assert ("name", name) in rows
        assert all(value for _, value in rows)
    assert ("checksum", "none known; verified by counts") in info_rows("amazon")


def test_names_and_tables_need_no_heavy_imports() -> None:
    code = (
        "import sys, graphham.datasets as d; d.list_rows(); d.info_rows('amazon');"
        "print([m for m in ('numpy', 'scipy', 'numba', 'torch', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
