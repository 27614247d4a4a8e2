"""What every named dataset is, where its files come from, and what the paper says about it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from graphham.errors import InputError

_PLANETOID = (
    "https://raw.githubusercontent.com/kimiyoung/planetoid/"
    "af6abf468a772cc055bec88c52e4d6f51b7c37e3/data/"
)
_MUSAE = (
    "https://raw.githubusercontent.com/benedekrozemberczki/MUSAE/"
    "5f901232957b6c9985d750aac48cda39a4b24285/input/"
)
_BENCHMARK = "https://raw.githubusercontent.com/shchur/gnn-benchmark/master/data/npz/"


@dataclass(frozen=True)
class DataFile:
    """One file of a dataset as its authors published it.

    Args:
        path: Where it lies, below the dataset's folder.
        url: Public address, or ``None`` if it must be put there by hand.
        size: Expected number of bytes, or ``None`` if not known.
        sha256: Expected checksum, or ``None`` if none is known.
        is_original: Whether the checksum is that of the file at ``url``. ``False`` for a file
            we know only as a value-preserving conversion: then other content is accepted and judged
            by its counts.
    """

    path: str
    url: str | None
    size: int | None = None
    sha256: str | None = None
    is_original: bool = True

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Published:
    """A row of Table 1 of the paper."""

    nodes: int
    edges: int
    classes: int
    clustering: float


@dataclass(frozen=True)
class DatasetInfo:
    """Everything known about a named dataset before opening it.

    Args:
        name: What the user types.
        title: One line that says what the graph is.
        format: Which reader opens it.
        folder: Its folder below the data folder; empty for embedded datasets.
        nodes: Number of nodes.
        edges: Number of undirected edges, each once and without self-loops.
        classes: Number of label values.
        features: What the features are, in words.
        source: Where it comes from.
        licence: The terms it is published under.
        files: The original files.
        also: Other places (below the folder) where an unpacked or older form is accepted.
        prefix: How the files' names begin, for formats that need it.
        class_names: Names of the label values in order, where the files have only numbers.
        published: The paper's row for it, or ``None``.
        counts_both_ways: Whether the paper counts each edge of it twice.
        how_made: How to make the files, for those without an address.
    """

    name: str
    title: str
    format: str
    folder: str
    nodes: int
    edges: int
    classes: int
    features: str
    source: str
    licence: str
    files: tuple[DataFile, ...] = ()
    also: tuple[str, ...] = ()
    prefix: str = ""
    class_names: tuple[str, ...] = ()
    published: Published | None = None
    counts_both_ways: bool = False
    how_made: str = ""

    @property
    def is_embedded(self) -> bool:
        """Whether the dataset is part of the package."""
        return self.format == "packaged"


def _planetoid_files(prefix: str, listing: str) -> tuple[DataFile, ...]:
    """Return the files of one Planetoid graph from lines of part, bytes and SHA-256."""
    rows = (line.split() for line in listing.strip().splitlines())
    return tuple(
        DataFile(f"raw/ind.{prefix}.{part}", f"{_PLANETOID}ind.{prefix}.{part}", int(size), digest)
        for part, size, digest in rows
    )


_ALL = (
    DatasetInfo(
        name="cora",
        title="citations between 2,708 machine-learning papers",
        format="packaged",
        folder="",
        nodes=2708,
        edges=5278,
        classes=7,
        features="1,433 binary words",
        source="the graphdatascience wheel (LINQS Cora, Sen et al. 2008); rows and public split as "
        "in Planetoid",
        licence="Apache-2.0 (graphdatascience); LINQS states no separate data licence",
        published=Published(2708, 5429, 7, 0.241),
    ),
    DatasetInfo(
        name="debian",
        title="Debian packages and the packages they depend on, recommend or suggest",
        format="packaged",
        folder="",
        nodes=63436,
        edges=294681,
        classes=58,
        features="4,865 binary words and debtags",
        source="the package index of Debian 12 (bookworm), main, amd64, July 2026",
        licence="facts from Debian's package index, descriptions by its maintainers; see NOTICE",
    ),
    DatasetInfo(
        name="citeseer",
        title="citations between 3,327 computer-science papers",
        format="planetoid",
        folder="CiteSeer",
        prefix="citeseer",
        nodes=3327,
        edges=4552,
        classes=6,
        features="3,703 binary words",
        source="github.com/kimiyoung/planetoid (LINQS CiteSeer, Sen et al. 2008)",
        licence="MIT (planetoid); LINQS states no separate data licence",
        class_names=("AI", "ML", "IR", "DB", "Agents", "HCI"),
        published=Published(3327, 4732, 6, 0.141),
        files=_planetoid_files(
            "citeseer",
            """
            x 31087 d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6
            y 3014 8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924
            tx 260321 539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21
            ty 24135 55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce
            allx 595021 2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668
            ally 55623 f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95
            graph 61987 d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7
            test.index 5000 2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4
            """,
        ),
    ),
    DatasetInfo(
        name="pubmed",
        title="citations between 19,717 papers on diabetes",
        format="planetoid",
        folder="PubMed",
        prefix="pubmed",
        nodes=19717,
        edges=44324,
        classes=3,
        features="500 TF-IDF words",
        source="github.com/kimiyoung/planetoid (LINQS Pubmed Diabetes, Namata et al. 2012)",
        licence="MIT (planetoid); LINQS states no separate data licence",
        class_names=("Experimental", "Type 1", "Type 2"),
        published=Published(19717, 44338, 3, 0.060),
        files=_planetoid_files(
            "pubmed",
            """
            x 23172 fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33
            y 854 e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3
            tx 405505 4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d
            ty 12135 ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd
            allx 7578385 508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e
            ally 224739 0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e
            graph 471808 5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9
            test.index 6000 b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5
            """,
        ),
    ),
    DatasetInfo(
        name="facebook",
        title="likes between 22,470 verified Facebook pages",
        format="musae",
        folder="FacebookPagePage",
        nodes=22470,
        edges=170823,
        classes=4,
        features="4,714 binary words of the page descriptions",
        source="github.com/benedekrozemberczki/MUSAE (Rozemberczki, Allen, Sarkar 2019)",
        licence="GPL-3.0 (repository); no separate data licence stated",
        published=Published(22470, 171002, 4, 0.360),
        files=(
            DataFile(
                "raw/musae_facebook_edges.csv",
                f"{_MUSAE}edges/facebook_edges.csv",
                1882610,
                "7c50d8f02a75cc0829577814a1fc14535164daa38d79c3612340c9e9cdbd4022",
            ),
            DataFile(
                "raw/musae_facebook_features.json",
                f"{_MUSAE}features/facebook.json",
                2088766,
                "ea870537646a93642a0008d38aa9bfeff02018070ba97b1f3f469d9622626436",
            ),
            DataFile(
                "raw/musae_facebook_target.csv",
                f"{_MUSAE}target/facebook_target.csv",
                1177912,
                "7bd96eafea3c2ca40f44bfa9e73642194696c21e38c7b29ed409c32ad14075cd",
            ),
        ),
    ),
    DatasetInfo(
        name="amazon-computers",
        title="computer goods bought together on Amazon",
        format="gnn_benchmark",
        folder="Computers",
        nodes=13752,
        edges=245861,
        classes=10,
        features="767 binary words of the reviews",
        source="github.com/shchur/gnn-benchmark (Shchur et al. 2018; McAuley et al. 2015)",
        licence="MIT (gnn-benchmark)",
        files=(
            DataFile(
                "raw/amazon_electronics_computers.npz",
                f"{_BENCHMARK}amazon_electronics_computers.npz",
                None,
                "be58a1ec75405bfb2f9917b85cc34eb29c606df5a988da355468dda97d19b753",
                is_original=False,
            ),
        ),
    ),
    DatasetInfo(
        name="amazon-photo",
        title="photo goods bought together on Amazon",
        format="gnn_benchmark",
        folder="Photo",
        nodes=7650,
        edges=119081,
        classes=8,
        features="745 binary words of the reviews",
        source="github.com/shchur/gnn-benchmark (Shchur et al. 2018; McAuley et al. 2015)",
        licence="MIT (gnn-benchmark)",
        files=(
            DataFile(
                "raw/amazon_electronics_photo.npz",
                f"{_BENCHMARK}amazon_electronics_photo.npz",
                None,
                "616582b757950a34e573543c4d3c02e1087c11d5ad3b324aa1b0ddb95db1c99d",
                is_original=False,
            ),
        ),
    ),
    DatasetInfo(
        name="wordnet",
        title="senses of English words and the relations between them (WordNet 3.0)",
        format="wordnet",
        folder="WordNet",
        nodes=117659,
        edges=183789,
        classes=45,
        features="1,000 binary words of the glosses",
        source="WordNet 3.0, from the Debian package wordnet-base 1:3.0-37",
        licence="WordNet 3.0 licence (permissive; the notice stays with copies)",
        how_made="derived from the database files of the Debian package wordnet-base: one node per "
        "synset, one edge per pair of synsets that a pointer joins",
        files=(
            DataFile(
                "raw/wordnet.npz",
                None,
                2651908,
                "3490a117e5911ec888aabfa859a190e9d70666d3af58f3d92e3d7a3611a1b548",
            ),
        ),
    ),
    DatasetInfo(
        name="youtube",
        title="friendships of YouTube users and the interest groups they joined",
        format="social",
        folder="Youtube",
        nodes=1138499,
        edges=2990443,
        classes=47,
        features="none",
        source="Social Computing Data Repository, YouTube2 (Tang and Liu 2009); the file used by "
        "DeepWalk",
        licence="none stated; the repository asks to be cited",
        published=Published(1138499, 2990443, 47, 0.080),
        # No checksum of this archive is known to us: it is judged by its counts.
        files=(
            DataFile(
                "raw/YouTube-dataset.zip",
                "http://datasets.syr.edu/uploads/1283158247/YouTube-dataset.zip",
            ),
        ),
        also=(
            "raw/youtube.mat",
            "raw/edges.csv",
            "raw/data/edges.csv",
            "raw/YouTube-dataset/data/edges.csv",
        ),
    ),
    DatasetInfo(
        name="amazon",
        title="goods bought together on Amazon (ogbn-products)",
        format="ogb",
        folder="Products",
        nodes=2449029,
        edges=61859140,
        classes=47,
        features="100 numbers (bag of words after PCA)",
        source="Open Graph Benchmark, ogbn-products (Hu et al. 2020)",
        licence="Amazon licence (as stated by OGB)",
        published=Published(2449029, 123718280, 47, 0.419),
        counts_both_ways=True,
        # No checksum of this archive is known to us: it is judged by its counts.
        files=(
            DataFile(
                "raw/products.zip",
                "http://snap.stanford.edu/ogb/data/nodeproppred/products.zip",
            ),
        ),
        also=(
            "raw/edge.csv.gz",
            "products/raw/edge.csv.gz",
            "raw/products/raw/edge.csv.gz",
            "ogbn_products/raw/edge.csv.gz",
        ),
    ),
)

CATALOG: dict[str, DatasetInfo] = {info.name: info for info in _ALL}


def dataset_names() -> list[str]:
    """Return the names of all datasets, embedded ones first."""
    return list(CATALOG)


def dataset_info(name: str) -> DatasetInfo:
    """Return what is known about a dataset; an unknown name is an :class:`InputError`."""
    if name in CATALOG:
        return CATALOG[name]
    plain = name.strip().lower().replace("_", "-")
    near = difflib.get_close_matches(plain, CATALOG, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"known names: {', '.join(CATALOG)}"
    raise InputError(f"{name!r} is not the name of a dataset ({hint})")
