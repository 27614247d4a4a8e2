"""Fuzz every reader, guided by what it reaches: mutants that reach new lines are mutated again.

    python scripts/reliability_fuzz.py "edges csv" --runs 5000          # one reader
    python scripts/reliability_fuzz.py --keep tests/fixtures/fuzz.json  # find a small corpus again

atheris (libFuzzer) drives it where it is installed, which `make fuzz` does; elsewhere a plain loop
under sys.settrace does the same more slowly. A finding is an exception that is no InputError, a
message that is not one short sentence, ten seconds, or memory beyond 1 GiB; its file is kept.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import gzip
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

try:
    import atheris  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    atheris = None

FIXTURES = ROOT / "tests" / "fixtures"
CORPUS = FIXTURES / "fuzz.json"
_PACKAGES = ["graphham.io", "graphham.graph", "graphham.results", "graphham.config"]
FINDINGS = Path(os.environ.get("GRAPHHAM_FINDINGS") or tempfile.gettempdir()) / "graphham-findings"
_SECONDS, _MIB = 10, 1024
# Signs and words that mean something to some reader.
WORDS = [
    *(b'"', b"\n", b",", b"\t", b"\0", b"\xff", b"#", b"%", b"<", b"&", b"[", b"{", b"'", b"="),
    *(b"9" * 30, b"-1", b"1e39", b"nan", b"null", b"true", b"\xef\xbb\xbf", b"\r\n", b"id", b"w"),
    *(b"PAR1", b"PK\x03\x04", b"\x93NUMPY", b"\x1f\x8b", b"ARROW1", b"\xff\xff\xff\x7f"),
    *(b"'descr'", b"'shape'", b"(9,)", b"<i8", b"<f4", b"<U1", b"|O", b"'fortran_order': True"),
    *(b"<node id=", b"<edge ", b"<data key=", b"</graphml>", b"<!ENTITY", b"encoding=", b"]]>"),
]


@dataclass(frozen=True)
class Reader:
    """One way into graphham for a stranger's bytes.

    Args:
        read: Reads bytes; is given a folder of its own.
        seeds: Good bytes to begin with.
    """

    read: Callable[[Path, bytes], None]
    seeds: Callable[[], list[bytes]]


# -- files of edges, features and labels ------------------------------------------------------


def _graph() -> Any:
    import numpy as np

    from graphham.graph.graph import build_graph
    from graphham.graph.ids import NodeIds

    return build_graph(np.array([0, 1]), np.array([1, 2]), 3, ids=NodeIds(["a", "b", "c"]))


def _edges(name: str, pack: Callable[[bytes], bytes] = bytes) -> Callable[[Path, bytes], None]:
    def read(work: Path, data: bytes) -> None:
        from graphham.io import read_graph

        file = work / name
        file.write_bytes(pack(data))
        read_graph(file, skip_bad_rows=len(data) % 2 == 0).validate()

    return read


def _features(name: str, pack: Callable[[bytes], bytes] = bytes) -> Callable[[Path, bytes], None]:
    def read(work: Path, data: bytes) -> None:
        from graphham.io import attach_features

        file = work / name
        file.write_bytes(pack(data))
        how: dict[str, Any] = {"skip_bad_rows": True, "fill_missing": "mean"}
        attach_features(_graph(), file, **(how if len(data) % 2 else {"isolated": True})).validate()

    return read


def _labels(name: str) -> Callable[[Path, bytes], None]:
    def read(work: Path, data: bytes) -> None:
        from graphham.io import attach_labels

        (work / name).write_bytes(data)
        attach_labels(_graph(), f"{work / name}:label", isolated=True).validate()

    return read


_CSV = [b'id,label\n"a","b"\n# note\nb,c\nc,a\n', b"a;b;w\n1;2;0.5\n2;3;1e3\n", b"a\tb\r\nc\td\r\n"]
_TXT = [b"1 2 0.5\n2  3\t0.1\n% c\n3 1 9\n", b"x y\n'a b' c\n"]
_TABLE = [b"id,x,y,label\na,1,0.5,red\nb,2,,blue\nc,3,7,\n", b"a\t1\t2\nb\t3\t4\nc\t5\t6\n"]
_GRAPHML = [
    b'<?xml version="1.0" encoding="utf-8"?><graphml><key id="k" for="edge" attr.name="w" '
    b'attr.type="double"/><graph edgedefault="undirected"><node id="a"/><node id="b"/>'
    b'<edge source="a" target="b"><data key="k">1.5</data></edge></graph></graphml>',
    b'<graphml><key id="f" for="node" attr.name="x" attr.type="int"><default>2</default></key>'
    b'<graph edgedefault="directed"><node id="1"><data key="f">3</data></node><node id="2"/>'
    b'<edge source="1" target="2"/></graph></graphml>',
]


def _parquet() -> list[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = []
    for columns in (
        {"id": ["a", "b", "c"], "to": ["b", "c", "a"], "w": [1.0, 2, 3]},
        {"id": ["a", "b", "c"], "x": [1.0, 2, None], "label": [["r"], ["s", "t"], []]},
    ):
        file = io.BytesIO()
        pq.write_table(pa.table(columns), file, compression="none", write_statistics=False)
        made.append(file.getvalue())
    return made


_CUT = b"\n--array "


def _arrays(**arrays: Any) -> bytes:
    """Return arrays as the text that :func:`_zipped` packs: a name and the bytes of each."""
    import numpy as np

    parts = []
    for name, values in arrays.items():
        file = io.BytesIO()
        np.save(file, values, allow_pickle=False)
        parts.append(name.encode() + b"\n" + file.getvalue())
    return _CUT.join([b"", *parts])


def _npz() -> list[bytes]:
    import numpy as np

    parts = {"indices": np.array([1, 0]), "indptr": np.array([0, 1, 2]), "shape": np.array([2, 2])}
    return [
        _arrays(edges=np.array([[0, 1], [1, 2]]), ids=np.array(["a", "b", "c"])),
        _arrays(data=np.ones(2), **parts),
        _arrays(ids=np.array(["a", "b", "c"]), x=np.eye(3)),
        _arrays(ids=np.array(["a", "b"]), data=np.ones(2), **parts),
    ]


def _zipped(data: bytes) -> bytes:
    """Pack arrays into an npz, so that mutants are not all refused for a wrong checksum."""
    if not data.startswith(_CUT):
        return data
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the same name twice
        for part in data.split(_CUT)[1:]:
            name, _, content = part.partition(b"\n")
            text = "".join(sign for sign in name.decode("latin-1")[:40] if sign.isprintable())
            archive.writestr(text + ".npy", content)
    return file.getvalue()


def _gzipped(data: bytes) -> bytes:
    return data if data.startswith(b"\x1f\x8b") else gzip.compress(data, 1)


# -- stores and runs --------------------------------------------------------------------------


def _files_of(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def _seeds_of(folder: Path) -> list[bytes]:
    """Return each file of a folder behind the byte that names it."""
    names = _files_of(folder)
    return [bytes([i]) + (folder / name).read_bytes() for i, name in enumerate(names)]


_replaced: dict[Path, str] = {}


def _replace_file(original: Path, place: Path, data: bytes) -> str:
    """Copy a folder with one file replaced by the bytes given; return which."""
    names = _files_of(original)
    name = names[data[0] % len(names)] if data else names[0]
    if not place.exists():
        shutil.copytree(original, place)
    before = _replaced.get(place)
    if before is not None:
        shutil.copyfile(original / before, place / before)
    (place / name).write_bytes(data[1:])
    _replaced[place] = name
    return name


def _sealed(text: bytes) -> bytes:
    """Give a manifest the checksum of its content, as somebody does who means harm."""
    from graphham.system.checksums import sealed

    with contextlib.suppress(ValueError, RecursionError, TypeError):
        value = json.loads(text)
        if isinstance(value, dict):
            return json.dumps(sealed(value)).encode()
    return text


def _read_store(work: Path, data: bytes) -> None:
    from graphham.graph.store import open_store
    from graphham.system.checksums import file_checksum

    place = work / "store"
    name = _replace_file(FIXTURES / "store-2", place, data)
    manifest = place / "store.json"
    if name == "store.json":
        manifest.write_bytes(_sealed(data[1:]))
    else:
        file = place / name
        about = json.loads((FIXTURES / "store-2" / "store.json").read_text())
        about["files"][name].update(bytes=file.stat().st_size, blake2b=file_checksum(file))
        manifest.write_bytes(_sealed(json.dumps(about).encode()))
    graph = open_store(place)
    graph.validate()
    graph.fingerprint()
    for row in (0, graph.num_nodes - 1):
        graph.neighbors(row)


def _read_run(work: Path, data: bytes) -> None:
    from graphham.results.run_folder import Run
    from graphham.system.checksums import file_checksum

    place = work / "run"
    name = _replace_file(FIXTURES / "run-3", place, data)
    summary = place / "summary.json"
    if name == "summary.json":
        summary.write_bytes(_sealed(data[1:]))
    else:
        about = json.loads((FIXTURES / "run-3" / "summary.json").read_text())
        file = place / name
        if name in about["files"]:
            about["files"][name] = file.stat().st_size
        if name in about["checksums"]:
            about["checksums"][name] = file_checksum(file)
        summary.write_bytes(_sealed(json.dumps(about).encode()))
    run = Run.open(place)
    run.result()
    run.state()
    for _ in (run.config, run.metrics, run.groups, run.hierarchy):
        pass
    run.graph()


def _read_map(work: Path, data: bytes) -> None:
    from graphham.results.projection import MAP_FILE, read_map
    from graphham.results.run_folder import Run

    place = work / "mapped"
    if not place.exists():
        shutil.copytree(FIXTURES / "run-3", place)
    (place / MAP_FILE).write_bytes(_zipped(data))
    read_map(Run.open(place))


def _maps() -> list[bytes]:
    import numpy as np

    from graphham.results.projection import _FORMAT, _mark
    from graphham.results.run_folder import Run

    mark = _mark(Run.open(FIXTURES / "run-3"))
    about = {"format": _FORMAT, "embedding": mark, "method": "PCA", "laid_out": 3}
    xy = np.zeros((30, 2), np.float32)
    return [_arrays(about=np.array(json.dumps(about)), xy=xy)]


def _run_zips() -> list[bytes]:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in _files_of(FIXTURES / "run-3"):
            archive.write(FIXTURES / "run-3" / name, f"run/{name}")
    return [file.getvalue()]


def _read_run_zip(work: Path, data: bytes) -> None:
    from graphham.results import unpacked_run
    from graphham.results.run_folder import Run

    file = work / "run.zip"
    file.write_bytes(data)
    unpacked_run._unpack.cache_clear()
    try:
        Run.open(file).result()
    finally:
        for folder in list(unpacked_run._UNPACKED):
            shutil.rmtree(folder, ignore_errors=True)
            unpacked_run._UNPACKED.discard(folder)


def _read_settings(work: Path, data: bytes) -> None:
    from graphham.config.settings import make_config, read_config

    file = work / "config.toml"
    file.write_bytes(data)
    make_config(read_config(file))


def _settings() -> list[bytes]:
    return [
        b'task = "embed"\ngroups = [12, 5]\nseed = 3\ndim = 64\n[train]\nlr = 0.01\nepochs = 4\n',
        b'preset = "paper"\n[inputs]\n[loss]\n[train]\nbatch = "sampled"\nbatch_size = 64\n',
    ]


def _read_tree(work: Path, data: bytes) -> None:
    from graphham.methods.tree_reading import read_tree

    file = work / ("tree.json" if data[:1] in (b"{", b"[") else "tree.txt")
    file.write_bytes(data)
    read_tree(file, _graph().ids)


_TREES = [b'{"top": ["a", {"x": ["b", "c"]}]}', b'[["a"], ["b", ["c"]]]', b"r x\nr c\nx a\nx b\n"]

READERS = {
    "edges csv": Reader(_edges("a.csv"), lambda: _CSV),
    "edges text": Reader(_edges("a.txt"), lambda: _TXT),
    "edges gzip": Reader(_edges("a.csv.gz", _gzipped), lambda: [*_CSV, gzip.compress(_CSV[0])]),
    "edges graphml": Reader(_edges("a.graphml"), lambda: _GRAPHML),
    "edges parquet": Reader(_edges("a.parquet"), _parquet),
    "edges npz": Reader(_edges("a.npz", _zipped), _npz),
    "features csv": Reader(_features("a.csv"), lambda: _TABLE),
    "features parquet": Reader(_features("a.parquet"), _parquet),
    "features npz": Reader(_features("a.npz", _zipped), _npz),
    "labels csv": Reader(_labels("a.csv"), lambda: _TABLE),
    "labels parquet": Reader(_labels("a.parquet"), _parquet),
    "store": Reader(_read_store, lambda: _seeds_of(FIXTURES / "store-2")),
    "run": Reader(_read_run, lambda: _seeds_of(FIXTURES / "run-3")),
    "map": Reader(_read_map, _maps),
    "run zip": Reader(_read_run_zip, _run_zips),
    "settings": Reader(_read_settings, _settings),
    "tree": Reader(_read_tree, lambda: _TREES),
}


# -- one execution ----------------------------------------------------------------------------


def execute(reader: Reader, work: Path, data: bytes, counts: Counter[str]) -> bool:
    """Give bytes to a reader and count what it does; return whether that was a finding."""
    from graphham.errors import InputError

    counts["executions"] += 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.monotonic()
    bad = None
    try:
        reader.read(work, data)
        counts["read"] += 1
    except InputError as error:
        counts["clear errors"] += 1
        if not str(error).strip() or len(str(error)) > 1600:
            bad = "unclear"
    except Exception:
        bad = "traceback"
        traceback.print_exc()
    if time.monotonic() - begin > _SECONDS:
        bad = "hung"
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > _MIB << 10:
        bad = "memory"
    if bad:
        counts[bad] += 1
    return bad is not None


def _keep_finding(name: str, data: bytes) -> None:
    FINDINGS.mkdir(exist_ok=True)
    count = len(list(FINDINGS.iterdir()))
    if count < 200:
        (FINDINGS / f"{name.replace(' ', '-')}-{count}").write_bytes(data)


# -- what drives it ---------------------------------------------------------------------------


def stored_corpus(name: str) -> list[bytes]:
    """Return what earlier fuzzing found to reach more than the seeds."""
    known = json.loads(CORPUS.read_text()) if CORPUS.is_file() else {}
    return [base64.b64decode(text) for text in known.get(name, [])]


def mutate(pool: list[bytes], rng: random.Random) -> bytes:
    """Change one of several inputs in a few places."""
    data = bytearray(rng.choice(pool))
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(6)
        if how == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif how == 1 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif how == 2:
            data[at:at] = rng.choice(WORDS)
        elif how == 3:
            del data[at : at + rng.randint(1, 8)]
        elif how == 4:
            data[at:at] = data[at // 2 : at // 2 + rng.randint(1, 40)]
        else:
            other = rng.choice(pool)
            cut = rng.randrange(len(other) + 1)
            data[at : at + rng.randint(0, 30)] = other[cut : cut + rng.randint(1, 30)]
    return bytes(data[:20_000])


def guided(
    reader: Reader,
    corpus: list[bytes],
    runs: int,
    rng: random.Random,
    counts: Counter[str],
    found: Callable[[bytes], None],
) -> list[bytes]:
    """Mutate a corpus so many times; keep what reaches new lines. Return what was kept."""
    pool, kept = list(corpus), []
    seen: set[tuple[str, int]] = set()
    hits: set[tuple[str, int]] = set()
    inside = str(ROOT / "src" / "graphham")

    def trace(frame: Any, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if event == "call" and not file.startswith(inside):
            return None
        hits.add((file, frame.f_lineno))
        return trace

    with tempfile.TemporaryDirectory() as folder:
        for number in range(runs):
            data = pool[number] if number < len(corpus) else mutate(pool, rng)
            hits.clear()
            sys.settrace(trace)
            try:
                is_bad = execute(reader, Path(folder), data, counts)
            finally:
                sys.settrace(None)
            if is_bad:
                found(data)
            if not hits <= seen:
                seen |= hits
                kept.append(data)
                if number >= len(corpus):
                    pool.append(data)
    counts["lines reached"] = max(counts["lines reached"], len(seen))
    return kept


def _with_atheris(name: str, runs: int, seed: int, counts: Counter[str], save: Any) -> None:
    """Let libFuzzer drive one reader; this does not return."""
    folder = Path(tempfile.mkdtemp(prefix="graphham-fuzz-"))
    corpus, work = folder / "corpus", folder / "work"
    corpus.mkdir()
    work.mkdir()
    reader = READERS[name]
    for number, data in enumerate([*reader.seeds(), *stored_corpus(name)]):
        (corpus / f"seed-{number}").write_bytes(data)
    words = folder / "words"
    lines = ("".join(f"\\x{byte:02x}" for byte in word) for word in WORDS)
    words.write_text("".join(f'"{line}"\n' for line in lines))

    def one(data: bytes) -> None:
        if execute(reader, work, data, counts):
            _keep_finding(name, data)
        if counts["executions"] % 200 == 0 or counts["executions"] >= runs:
            save()

    limits = [f"-timeout={_SECONDS}", f"-rss_limit_mb={2 * _MIB}", "-max_len=16384"]
    more = [f"-seed={seed}", f"-dict={words}", "-len_control=0", "-print_final_stats=0"]
    FINDINGS.mkdir(exist_ok=True)
    artifacts = f"-artifact_prefix={FINDINGS}/crash-"
    given = ["fuzz", f"-runs={runs}", *limits, *more, artifacts, "-verbosity=0", str(corpus)]
    atheris.Setup(given, one)
    atheris.Fuzz()


def _import_all() -> None:
    """Load the readers, with counters of what they reach where atheris is there to count."""
    import importlib

    how = contextlib.nullcontext() if atheris is None else None
    with how or atheris.instrument_imports(include=_PACKAGES):
        for package in _PACKAGES:
            folder = ROOT / "src" / Path(*package.split("."))
            for file in sorted(folder.glob("*.py")):
                text = file.read_text()
                # Compiled loops take no counters.
                if file.stem != "__init__" and "jit" not in text and "import torch\n" not in text:
                    importlib.import_module(f"{package}.{file.stem}")


def fuzz(work: Path, done: int, rng: random.Random, counts: Counter[str]) -> int:
    """Give one reader, each in its turn, a few thousand mutants in a process of its own."""
    runs = 2_500 if counts["executions"] or done else 500
    name = list(READERS)[(done // 500) % len(READERS)]
    return fuzz_reader(work, name, runs, rng.randrange(1 << 30), counts)


def fuzz_reader(work: Path, name: str, runs: int, seed: int, counts: Counter[str]) -> int:
    """Fuzz one reader in a process of its own, add up what it counted; return its executions."""
    told = work / "fuzz-counts.json"
    told.unlink(missing_ok=True)
    command = [sys.executable, __file__, name, "--runs", str(runs), "--seed", str(seed)]
    with (work / "fuzz-log").open("w") as log:
        job = subprocess.Popen(
            [*command, "--counts", str(told)],
            env={**os.environ, "TMPDIR": str(work), "GRAPHHAM_FINDINGS": str(FINDINGS.parent)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            code = job.wait(timeout=60 + runs)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            code = job.wait()
            counts["hung"] += 1
    seen = json.loads(told.read_text()) if told.is_file() else {}
    if code != 0:
        counts["crashed"] += 1
    if code != 0 or any(seen.get(key) for key in ("traceback", "unclear", "hung", "memory")):
        print(name, "ended with", code, (work / "fuzz-log").read_text()[-3000:], file=sys.stderr)
    reached = seen.pop("lines reached", 0)
    counts.update(seen)
    counts[f"of {name}"] += seen.get("executions", 0)
    if reached:
        counts["lines reached"] = max(counts["lines reached"], reached)
    return int(seen.get("executions", 0)) or 1


def main(arguments: list[str] | None = None) -> int:
    """Fuzz one reader in this process, or look for a small corpus of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", nargs="?", choices=sorted(READERS))
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--counts", type=Path, help="JSON file for what was counted")
    parser.add_argument("--keep", type=Path, help="JSON file for inputs that reach new lines")
    asked = parser.parse_args(arguments)
    counts: Counter[str] = Counter()

    def save() -> None:
        if asked.counts:
            early = asked.counts.with_suffix(".early")
            early.write_text(json.dumps(counts))
            early.replace(asked.counts)

    _import_all()
    if atheris is not None and asked.reader and not asked.keep:
        _with_atheris(asked.reader, asked.runs, asked.seed, counts, save)
        return 0
    kept: dict[str, list[str]] = {}
    for name in [asked.reader] if asked.reader else READERS:
        reader, rng = READERS[name], random.Random(f"{name} {asked.seed}")
        corpus = [*reader.seeds(), *stored_corpus(name)]
        found = guided(
            reader, corpus, asked.runs, rng, counts, lambda data, n=name: _keep_finding(n, data)
        )
        small = sorted((d for d in found if d not in reader.seeds()), key=len)
        kept[name] = [base64.b64encode(data).decode() for data in small[:40] if len(data) < 600]
    if asked.keep:
        asked.keep.write_text(json.dumps(kept, indent=1) + "\n")
    save()
    print(dict(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
