"""The run folder: what a fit leaves behind, written so that no crash can spoil it.

While training, everything goes to the sibling folder ``RUN.partial``: the config, the growing log
and checkpoints. Finishing adds the outputs and renames the folder to ``RUN``. A folder called
``RUN`` is therefore always complete.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphham.errors import DivergedError, InputError
from graphham.graph.store import store_bytes, write_store
from graphham.results.model_card import CARD_FILE, model_card
from graphham.results.result import FitResult
from graphham.results.result_table import nodes_table
from graphham.results.run_folder import (
    ALWAYS,
    FORMAT,
    GRAPH_FOLDER,
    GRAPH_MANIFEST,
    VERSION,
    Run,
    read_config,
    read_tree,
)
from graphham.results.run_places import (
    beside,
    check_place,
    is_hollow,
    locked,
    places,
    publish,
    settle,
)
from graphham.system.atomic import (
    plain,
    remove_folder,
    replacing,
    sync,
    without_none,
    write_bytes,
    write_json,
)
from graphham.system.checksums import file_checksum, sealed
from graphham.system.disk_room import naming_full_disk
from graphham.system.scratch import scratch_beside
from graphham.training import checkpoints
from graphham.version import __version__

if TYPE_CHECKING:
    from graphham.graph.graph import Graph

__all__ = ["Run", "RunWriter", "finished_run", "resume_run", "start_run"]

# A graph up to this size is kept in the run, so that the run can be looked at by itself.
_KEPT_GRAPH_BYTES = 200 << 20


def start_run(
    out: str | Path,
    config: Mapping[str, Any],
    overwrite: bool = False,
    is_resumable: bool = True,
) -> RunWriter:
    """Begin a run that will end as the folder ``out``.

    Args:
        out: The run folder to be; its parents are made if needed.
        config: The resolved settings, enough to repeat the run; entries of ``None`` are left out.
        overwrite: Replace a run (or the rest of one) of that name. The old run stays until the new
            one is finished. A folder that is not a run is never replaced.
        is_resumable: Whether to leave what there is when the run ends with an error.

    Raises:
        InputError: If ``out`` or its partial folder exists and ``overwrite`` is not given.
    """
    final, partial = places(out)
    if overwrite:
        settle(final, partial)
    check_place(out, overwrite)
    if partial.exists():
        with locked(partial):
            remove_folder(partial)
    text = _toml(config)
    # The folder appears with its config, so that no kill leaves one that cannot be resumed.
    with scratch_beside(partial) as scratch:
        try:
            made = scratch / "run"
            made.mkdir()
            write_bytes(made / "config.toml", text)
            made.rename(partial)
        except OSError as error:
            raise InputError(
                f"cannot make {partial}: {error.strerror}; choose another --out"
            ) from error
    return RunWriter(final, partial, final.exists(), True, is_resumable)


def resume_run(out: str | Path) -> RunWriter:
    """Continue the run of that name from its last checkpoint.

    Works for a run that was killed (``RUN.partial`` is there) and for one that was stopped, whose
    folder is complete but says ``interrupted`` and still holds its checkpoint.
    """
    final, partial = places(out)
    settle(final, partial)
    if not partial.is_dir():
        if not final.exists():
            raise InputError(
                f"there is no run to resume at {final}; leave out --resume to start it"
            )
        run = Run.open(final)
        if run.summary.get("status") != "interrupted":
            raise InputError(f"the run {final} is finished; choose another --out for a new one")
        kept = checkpoints.checkpoint_files(final)
        if not kept:
            raise InputError(f"the run {final} has no checkpoint left; it cannot be resumed")
        # Copied under a third name first: a half-copied folder must not pass for a partial run.
        copy = beside(final, "resuming")
        remove_folder(copy)
        copy.mkdir()
        for path in (final / "config.toml", final / "metrics.jsonl", *kept):
            if path.exists():
                shutil.copyfile(path, copy / path.name)
                sync(copy / path.name)
        sync(copy)
        copy.rename(partial)
    if is_hollow(partial):
        raise InputError(
            f"the run {final} was stopped before it began, so there is nothing to resume; leave "
            f"out --resume to start it"
        )
    if not (partial / "config.toml").is_file():
        raise InputError(f"{partial} has no config.toml, so it is no run; remove it to start anew")
    return RunWriter(final, partial, replaces=final.exists())


def finished_run(out: str | Path) -> Run | None:
    """Return the run of that name if nothing is left to do for it, ``None`` otherwise.

    A finish that was cut off before its last rename is completed first.
    """
    final, partial = places(out)
    settle(final, partial)
    if partial.exists() or not final.exists():
        return None
    run = Run.open(final)
    return None if run.summary.get("status") == "interrupted" else run


class RunWriter:
    """A run in progress; made by :func:`start_run` or :func:`resume_run`.

    Args:
        final: Where the finished folder will stand.
        partial: The folder in progress.
        replaces: Whether an older run stands at ``final`` and shall be replaced at the end.
        is_new: Whether nothing of the run is older than this writer.
        is_resumable: Whether to leave what there is when the run ends with an error.
    """

    def __init__(
        self,
        final: Path,
        partial: Path,
        replaces: bool,
        is_new: bool = False,
        is_resumable: bool = True,
    ) -> None:
        self._is_new = is_new
        self._is_resumable = is_resumable
        self.final = final
        self.partial = partial
        self._replaces = replaces
        self._log = partial / "metrics.jsonl"
        self._held = contextlib.ExitStack()
        self._held.enter_context(locked(partial))

    @property
    def _advice(self) -> str:
        """What to do about a full disk."""
        if self._is_resumable:
            return "what was trained is kept; make room, and --resume goes on from there"
        return "nothing was kept, so make room or choose another place and write it again"

    @property
    def config(self) -> dict[str, Any]:
        """The settings as they were written when the run began."""
        return read_config(self.partial / "config.toml")

    def save_checkpoint(
        self, arrays: Mapping[str, Any], meta: Mapping[str, Any], number: int | None = None
    ) -> None:
        """Keep the training state; a crash at any moment leaves this or the former one, whole."""
        needed = sum(int(getattr(values, "nbytes", 0)) for values in arrays.values())
        with naming_full_disk(self.partial, needed, self._advice):
            if self._log.exists():
                sync(self._log)  # a checkpoint must not be ahead of the log it belongs to
            checkpoints.save_checkpoint(self.partial, arrays, meta, number)

    def load_checkpoint(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return arrays and meta data of the last checkpoint, ``None`` when there is none yet."""
        return checkpoints.load_checkpoint(self.partial)

    def log(self, record: Mapping[str, Any]) -> None:
        """Append one record to ``metrics.jsonl``; numbers that are not finite become null."""
        line = json.dumps(plain(record), allow_nan=False) + "\n"
        with (
            naming_full_disk(self.partial, len(line), self._advice),
            self._log.open("a", encoding="utf-8") as file,
        ):
            file.write(line)

    def truncate_log(self, epoch: int) -> None:
        """Forget records after ``epoch``, and lines cut short, so that resuming repeats none."""
        if not self._log.exists():
            return
        kept = []
        for line in self._log.read_text("utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if (record.get("epoch") or 0) <= epoch:
                    kept.append(line + "\n")
        write_bytes(self._log, "".join(kept).encode())

    def finish(
        self,
        result: FitResult,
        state: Mapping[str, Any],
        graph: Graph,
        summary: Mapping[str, Any],
        status: str = "complete",
        keep_checkpoint: bool = False,
        write_more: Callable[[Path], list[str]] | None = None,
    ) -> Run:
        """Write every output and give the folder its final name.

        Args:
            result: What the fit found.
            state: The model's weights by name.
            graph: The graph that was fitted, in the same row order.
            summary: What else to remember; entries join ``summary.json``.
            status: ``complete``, or ``interrupted`` for a run that may be resumed.
            keep_checkpoint: Leave the last checkpoint in the folder.
            write_more: Writes what only this method finds into the folder; returns the names.
        """
        needed = _output_bytes(result, state, graph)
        with naming_full_disk(self.partial, needed, self._advice):
            return self._finish(result, state, graph, summary, status, keep_checkpoint, write_more)

    def _finish(
        self,
        result: FitResult,
        state: Mapping[str, Any],
        graph: Graph,
        summary: Mapping[str, Any],
        status: str,
        keep_checkpoint: bool,
        write_more: Callable[[Path], list[str]] | None,
    ) -> Run:
        result.validate()
        folder = self.partial
        names = self._write_tables(result, graph)
        checkpoints.write_tensors(folder / "model.safetensors", state)
        is_kept = self._write_graph(graph)
        self._log.touch()
        names += [] if write_more is None else write_more(folder)
        about: dict[str, Any] = {
            "format": FORMAT,
            "format_version": VERSION,
            "graphham_version": __version__,
            "status": status,
            "graph": summary.get("graph") or graph_facts(graph),
            "keeps_graph": is_kept,
            "layer_dims": result.layer_dims,
        }
        if result.groups:
            about["hierarchy"] = result.metrics
        extra = {k: v for k, v in summary.items() if k not in about}
        names.append(self._write_card({**about, **extra}, [*ALWAYS, *names], result))
        written = [name for name in (*ALWAYS, *names) if name != "summary.json"]
        files = {name: (folder / name).stat().st_size for name in written}
        kept = [*written, GRAPH_MANIFEST] if is_kept else written
        checksums = {name: file_checksum(folder / name) for name in kept}
        manifest = {**about, **extra, "files": files, "checksums": checksums}
        write_json(folder / "summary.json", sealed(manifest))
        # summary.json is the last output: from here on only the folder's name is not final.
        if not keep_checkpoint:
            checkpoints.remove_checkpoints(folder)
        if self.final.exists() and not self._replaces:
            self.close()
            raise InputError(
                f"{self.final} appeared while this run was training; the results are in {folder}, "
                f"rename it yourself"
            )
        publish(self.final, folder)
        self.close()
        return Run.open(self.final)

    def _write_tables(self, result: FitResult, graph: Graph) -> list[str]:
        """Write the nodes, and the groups where there are any; return the files of the latter."""
        import pyarrow.parquet as pq

        nodes = nodes_table(result, graph.titles)
        # Dictionaries pay off for repeated codes and labels, never for probabilities.
        coded = [n for n in nodes.column_names if n.startswith("group_")]
        coded += [n for n in ("label", "prediction") if n in nodes.column_names]
        with replacing(self.partial / "nodes.parquet") as temporary:
            pq.write_table(nodes, temporary, compression="zstd", use_dictionary=coded)
        with replacing(self.partial / "embedding.npy") as temporary, temporary.open("wb") as file:
            np.save(file, np.ascontiguousarray(result.embedding, np.float32), allow_pickle=False)
        if not result.groups:
            return []
        from graphham.results.describe import groups_table

        # Of a split graph this process has seen some nodes' features, which describe no group.
        shown = graph if graph.part is None else replace(graph, features=None)
        groups = groups_table(result, shown)
        with replacing(self.partial / "groups.parquet") as temporary:
            pq.write_table(groups, temporary, compression="zstd")
        levels = np.array(groups.column("level").to_pylist())
        all_names = groups.column("name").to_pylist()
        names = [
            [all_names[i] for i in np.flatnonzero(levels == level)]
            for level in range(1, result.num_levels + 1)
        ]
        write_json(self.partial / "hierarchy.json", result.hierarchy.named(names).to_json())
        return ["groups.parquet", "hierarchy.json"]

    def _write_card(self, summary: Mapping[str, Any], names: list[str], result: FitResult) -> str:
        """Write the model card; return its name."""
        examples: list[str] = []
        if result.groups:
            tree = read_tree(self.partial / "hierarchy.json")
            order = np.argsort(-tree.sizes[-1], kind="stable")[:5]
            examples = [tree.names[-1][int(group)] for group in order]
        card = model_card(plain(summary), self.config, names, examples)
        write_bytes(self.partial / CARD_FILE, card.encode("utf-8", errors="replace"))
        return CARD_FILE

    def _write_graph(self, graph: Graph) -> bool:
        """Keep the graph in the run unless it is large; return whether it was kept."""
        for leftover in self.partial.glob(f".{GRAPH_FOLDER}.*"):
            if leftover.is_dir():  # a crash in the middle of an earlier finish
                remove_folder(leftover)
        remove_folder(self.partial / GRAPH_FOLDER)
        if graph.part is not None or store_bytes(graph) > _KEPT_GRAPH_BYTES:
            return False
        write_store(graph, self.partial / GRAPH_FOLDER)
        return True

    def close(self) -> None:
        """Let go of the folder without finishing; what is there can be resumed."""
        self._held.close()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # A state that is not finite is no use to --resume, and would stand in the next run's way.
        is_useless = isinstance(error, DivergedError) and self._is_new
        if is_useless or (error is not None and not self._is_resumable):
            remove_folder(self.partial)
        self.close()


def _output_bytes(result: FitResult, state: Mapping[str, Any], graph: Graph) -> int:
    """Return about how many bytes a finished run takes."""
    known = [result.embedding, *result.memberships, *result.groups, *state.values()]
    size = sum(int(getattr(values, "nbytes", 0)) for values in known)
    stored = store_bytes(graph)
    return size + (stored if graph.part is None and stored <= _KEPT_GRAPH_BYTES else 0)


def graph_facts(graph: Graph) -> dict[str, Any]:
    """Return what a run remembers of its graph."""
    return {
        "name": graph.name,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "directed": graph.directed,
        "weighted": graph.weights is not None,
        "classes": 0 if graph.labels is None else len(graph.labels.classes),
        "source": "" if graph.report is None else graph.report.source,
        "fingerprint": graph.fingerprint(),
    }


def _toml(config: Mapping[str, Any]) -> bytes:
    import tomli_w

    return tomli_w.dumps(without_none(plain(config))).encode("utf-8")
