"""Read a finished run folder back.

Every method leaves the same files: ``config.toml`` (the settings), ``model.safetensors`` (what was
learned), ``nodes.parquet`` and ``embedding.npy`` (one row per node), ``metrics.jsonl`` (the
training log) and ``summary.json``. Where the method finds groups there are ``groups.parquet`` and
``hierarchy.json`` too; ``files`` of the summary names all of them.
"""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.results.hierarchy import Hierarchy
from graphham.results.model_card import CARD_FILE
from graphham.results.names import renamed_table
from graphham.results.result import FitResult
from graphham.results.result_table import result_from_table
from graphham.results.run_checks import RunChecks
from graphham.results.unpacked_run import is_unpacked, unpack_run
from graphham.system.atomic import write_json
from graphham.system.checksums import is_intact, sealed
from graphham.system.memory_limit import is_short
from graphham.training import checkpoints

if TYPE_CHECKING:
    import pyarrow as pa

    from graphham.graph.graph import Graph

FORMAT = "graphham-run"
# Since version 3 the summary carries the checksum of every file and its own.
VERSION = 3
_SEALED_SINCE = 3
MAX_NAME = 200
ALWAYS = (
    "config.toml",
    "model.safetensors",
    "nodes.parquet",
    "embedding.npy",
    "metrics.jsonl",
    "summary.json",
)
OUTPUTS = (*ALWAYS, "groups.parquet", "hierarchy.json", CARD_FILE)
GROUP_FILES = ("groups.parquet", "hierarchy.json")
GRAPH_FOLDER = "graph"
GRAPH_MANIFEST = f"{GRAPH_FOLDER}/store.json"
NAMES_FILE = "names.json"
LOCK_FILE = ".lock"
# Made from a run when somebody looks at it; of no use to the run that replaces it.
DERIVED = (NAMES_FILE, "map.npz", "report.html")


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run folder, checked when opened and read piece by piece when asked.

    Args:
        path: The folder.
        summary: The content of ``summary.json``.
    """

    path: Path
    summary: dict[str, Any]

    @classmethod
    def open(cls, path: str | Path, verify: bool = False) -> Run:
        """Open a run folder; anything that is not a whole one is an :class:`InputError`.

        Small files are compared with their checksums at once, large ones when they are first read.

        Args:
            path: The folder, or a zip of it.
            verify: Compare every file at once, those of the graph that the run keeps included.
        """
        folder = Path(path)
        if folder.suffix.lower() == ".zip" and folder.is_file():
            folder = unpack_run(folder)
        partial = folder.with_name(f"{folder.name}.partial") if folder.name else folder
        if not folder.exists() and folder.name and (partial / "summary.json").is_file():
            # Finished, but killed before its last rename; the summary is written last.
            with contextlib.suppress(OSError):
                if not _is_held(partial):
                    partial.rename(folder)
        if not folder.exists():
            if folder.name and partial.is_dir():
                raise InputError(f"the run {folder} was not finished; continue it with --resume")
            raise InputError(f"there is no run folder {folder}; give the --out of an earlier fit")
        if not folder.is_dir():
            raise InputError(f"{folder} is a file, not a run folder; give the --out of a fit")
        summary = read_summary(folder)
        sizes = summary.get("files")
        if not isinstance(sizes, dict):
            sizes = dict.fromkeys((*ALWAYS, *GROUP_FILES))
        # The card is for people to edit, or to leave out; nothing is read from it.
        for name in sorted({*ALWAYS, *sizes} - {CARD_FILE}):
            file = folder / name
            if not file.is_file():
                raise InputError(f"the run {folder} is incomplete: {name} is missing; fit it again")
            expected = sizes.get(name)
            if expected not in (None, file.stat().st_size):
                if name == "config.toml" and not summary.get("checksums"):
                    continue  # what an older graphham let people edit by hand
                raise InputError(
                    f"the run {folder} is damaged: {name} has {file.stat().st_size:,} bytes "
                    f"instead of {expected:,}; fit it again"
                )
        run = cls(folder, summary)
        run.checks.on_open(verify)
        if verify and run.keeps_graph:
            from graphham.graph.store import verify_store

            verify_store(folder / GRAPH_FOLDER)
        return run

    @cached_property
    def checks(self) -> RunChecks:
        """The comparison of this run's files with their checksums."""
        return RunChecks(self.path, self.summary)

    def _file(self, name: str) -> Path:
        """Return a file's path once its content was found whole."""
        self.checks.check(name)
        return self.path / name

    @property
    def method(self) -> str:
        """The name of the method that was fitted."""
        about = self.summary.get("method")
        return str(about.get("name", "graphham")) if isinstance(about, dict) else "graphham"

    @property
    def has_groups(self) -> bool:
        """Whether the method found groups, so that there are a tree and a table of them."""
        return (self.path / "hierarchy.json").is_file()

    def _need_groups(self) -> None:
        if not self.has_groups:
            raise InputError(
                f"the run {self.path} of the method {self.method} has no groups; fit a method that "
                f"finds some, such as graphham"
            )

    @cached_property
    def config(self) -> dict[str, Any]:
        """The settings that repeat the run."""
        return read_config(self._file("config.toml"))

    @cached_property
    def nodes(self) -> pa.Table:
        """The table of nodes, one row per node."""
        return _read_parquet(self._file("nodes.parquet"))

    @cached_property
    def groups(self) -> pa.Table:
        """The table of groups, one row per group of every level; renamed groups as renamed."""
        self._need_groups()
        return renamed_table(_read_parquet(self._file("groups.parquet")), self.renamed)

    @cached_property
    def embedding(self) -> npt.NDArray[np.float32]:
        """The ``(num_nodes, dim)`` vectors, memory-mapped; rows follow :attr:`nodes`."""
        path = self._file("embedding.npy")
        try:
            vectors: npt.NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception as error:  # a damaged header is read by Python's tokenizer
            if is_short(error):
                raise
            raise InputError(f"{path} is damaged ({error}); fit the run again") from error
        return vectors

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """The tree of groups."""
        self._need_groups()
        tree = read_tree(self._file("hierarchy.json"))
        given = self.renamed
        return tree.named(
            [given.get((level, group), name) for group, name in enumerate(of_level)]
            for level, of_level in enumerate(tree.names, 1)
        )

    @property
    def renamed(self) -> dict[tuple[int, int], str]:
        """The names that groups were given after the fit, by level and group."""
        return {key: name for key, (name, _) in self.given_names().items()}

    def given_names(self) -> dict[tuple[int, int], tuple[str, str]]:
        """Return the names given after the fit and by whom: ``person``, ``namer``, ``labels``."""
        path = self.path / NAMES_FILE
        if not path.is_file():
            return {}
        found = _read_json(path)
        try:
            # Files from before they carried a checksum hold the names and nothing else.
            if not is_intact(found, must_be_sealed=set(found) != {"names"}):
                raise ValueError("it has changed since it was written")
            return {
                (int(n["level"]), int(n["group"])): (str(n["name"]), str(n.get("by", "person")))
                for n in found["names"]
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path} is damaged ({error}); remove it to lose new names") from error

    def rename_group(self, level: int, group: int, name: str) -> Run:
        """Give a group another name, kept in the run; an empty name brings the first one back.

        Returns:
            The run, read anew: tables already read keep their old names.
        """
        tree = self.hierarchy
        if not (1 <= level <= tree.num_levels and 0 <= group < tree.group_counts[level - 1]):
            raise InputError(f"the run has no group {group} on level {level}")
        clean = " ".join("".join(c if c.isprintable() else " " for c in name).split())
        if len(clean) > MAX_NAME:
            raise InputError(f"a group's name has at most {MAX_NAME} signs, not {len(clean)}")
        given = {**self.given_names(), (level, group): (clean, "person")}
        if not clean:
            del given[level, group]
        others = [n for g, n in enumerate(tree.names[level - 1]) if g != group]
        if clean in others:
            raise InputError(f"another group of level {level} is called {clean!r} already")
        return self._write_names(given)

    def keep_names(self, names: Mapping[tuple[int, int], str], by: str | None) -> Run:
        """Keep names in the run in place of all those that no person gave.

        Args:
            names: By level and group.
            by: Who gave them: ``namer`` or ``labels``.

        Returns:
            The run, read anew.
        """
        self._need_groups()
        given = {key: (name, str(by)) for key, name in names.items()}
        return self._write_names(
            given
            | {k: (name, who) for k, (name, who) in self.given_names().items() if who == "person"}
        )

    def _write_names(self, given: Mapping[tuple[int, int], tuple[str, str]]) -> Run:
        if is_unpacked(self.path):
            raise InputError("names cannot be kept in a zip; unpack the run and name its groups")
        names = [
            {"level": key[0], "group": key[1], "name": name, "by": by}
            for key, (name, by) in sorted(given.items())
        ]
        write_json(self.path / NAMES_FILE, sealed({"names": names}))
        return Run(self.path, self.summary)

    @property
    def keeps_graph(self) -> bool:
        """Whether the run holds the graph it was fitted on."""
        return (self.path / GRAPH_FOLDER).is_dir()

    def graph(self) -> Graph:
        """Open the graph that the run keeps; a run of a large graph keeps none."""
        folder = self.path / GRAPH_FOLDER
        if not self.keeps_graph:
            raise InputError(
                f"the run {self.path} does not hold its graph (it was too large or the run is "
                f"older); name the graph with --graph"
            )
        from graphham.graph.store import open_store

        self.checks.check(GRAPH_MANIFEST)
        advice = "name the graph with --graph or fit the run again"
        return self.check_graph(open_store(folder, advice=advice))

    def check_graph(self, graph: Graph) -> Graph:
        """Return the graph, or refuse one that is not what the run was fitted on."""
        seen = self.summary.get("graph", {})
        if graph.num_nodes != seen.get("nodes") or graph.num_edges != seen.get("edges"):
            raise InputError(
                f"the graph has {graph.num_nodes:,} nodes and {graph.num_edges:,} edges, the run "
                f"was fitted on {seen.get('nodes')} and {seen.get('edges')}; give that graph"
            )
        return graph

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """The records of the training log, in order."""
        path = self._file("metrics.jsonl")
        try:
            return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
        except ValueError as error:
            raise InputError(f"{path} is damaged ({error})") from error

    def state(self, framework: Literal["numpy", "torch"] = "numpy") -> dict[str, Any]:
        """Return the model's weights by name, as numpy arrays or torch tensors."""
        path = self._file("model.safetensors")
        if framework == "numpy":
            return checkpoints.read_tensors(path)
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            tensors: dict[str, Any] = load_file(str(path))
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path} is damaged or not a safetensors file ({error})") from error
        return tensors

    def result(self) -> FitResult:
        """Return the fit as it was handed to the writer, bit for bit.

        Raises:
            InputError: A file is damaged, or the files do not fit together.
        """
        tree = self.hierarchy if self.has_groups else None
        try:
            dims = self.summary.get("layer_dims") or [self.embedding.shape[1]]
            result = result_from_table(self.nodes, self.embedding, dims, tree)
            return result.validate()  # a stranger's run may hold groups that do not exist
        except (KeyError, TypeError, ValueError, IndexError) as error:
            reason = " ".join(str(error).split())[:200]
            if isinstance(error, InputError) and str(self.path) in reason:
                raise
            raise InputError(
                f"the run {self.path} is damaged: its files do not fit together ({reason}); fit "
                f"it again"
            ) from error

    def __repr__(self) -> str:
        shown = repr(self.hierarchy) if self.has_groups else f"{len(self.embedding):,} nodes"
        return f"Run({self.path}: {self.method}, {shown})"


def _is_held(partial: Path) -> bool:
    """Whether a living process is still writing a folder in progress."""
    try:
        import fcntl

        with (partial / LOCK_FILE).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, FileNotFoundError):
        return False
    except OSError:
        return True
    return False


def read_summary(folder: Path) -> dict[str, Any]:
    """Read the ``summary.json`` of a finished run in a format we know, or refuse."""
    if not (folder / "summary.json").is_file():
        raise InputError(f"{folder} is not a finished run folder: it has no summary.json")
    summary = _read_json(folder / "summary.json")
    if isinstance(summary, dict) and summary.get("format") == "graphham-method":
        raise InputError(
            f"{folder} was written by an older graphham, whose runs of other methods had a format "
            f"of their own; fit it again from its config.toml"
        )
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        raise InputError(f"{folder} is not a run folder: its summary.json is not from graphham")
    version = summary.get("format_version")
    if type(version) is not int or not 1 <= version <= VERSION:
        writer = str(summary.get("graphham_version", "a newer one"))[:40]
        raise InputError(
            f"{folder} has run format {str(version)[:40]}, this graphham reads 1 to {VERSION}; "
            f"install a newer graphham (the run was written by {writer})"
        )
    if not is_intact(summary, version >= _SEALED_SINCE):
        raise InputError(
            f"the run {folder} is damaged: summary.json has changed since it was written; fit it "
            f"again, or see what is whole with 'graphham doctor {folder}'"
        )
    return summary


def read_config(path: Path) -> dict[str, Any]:
    """Read a ``config.toml``; one that cannot be read is an :class:`InputError`."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} cannot be read ({reason})") from error


def read_tree(path: Path) -> Hierarchy:
    """Read a ``hierarchy.json``."""
    return Hierarchy.from_json(_read_json(path), str(path))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} is damaged or cut short ({reason}); fit the run again") from error


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Not pq.read_table, which loads pandas and the dataset machinery for one plain file.
        with pq.ParquetFile(path) as file:
            table = file.read()
            # A stranger's table: an offset that leads out of it must not be followed.
            table.validate(full=True)
            return table
    except (pa.ArrowException, OSError, ValueError) as error:  # names may not be UTF-8
        if is_short(error):
            raise
        raise InputError(f"{path} is damaged ({error}); fit the run again") from error
