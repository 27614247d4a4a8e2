"""The run folder: what a fit leaves behind, written so that no crash can spoil it.

While training, everything goes to the sibling folder ``RUN.partial``: the config, the growing log
and checkpoints. Finishing adds the outputs and renames the folder to ``RUN``. A folder called
``RUN`` is therefore always complete.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphham.errors import DivergedError, InputError
from graphham.results.result import FitResult, nodes_table
from graphham.results.run_folder import (
    DERIVED,
    FORMAT,
    GRAPH_FOLDER,
    OUTPUTS,
    VERSION,
    Run,
    read_config,
    read_summary,
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
from graphham.training import checkpoints
from graphham.version import __version__

if TYPE_CHECKING:
    from graphham.graph.graph import Graph

__all__ = ["Run", "RunWriter", "resume_run", "start_run"]

_LOCK = ".lock"
# A graph up to this size is kept in the run, so that the run can be looked at by itself.
_KEPT_GRAPH_BYTES = 200 << 20


def start_run(out: str | Path, config: Mapping[str, Any], overwrite: bool = False) -> RunWriter:
    """Begin a run that will end as the folder ``out``.

    Args:
        out: The run folder to be; its parents are made if needed.
        config: The resolved settings, enough to repeat the run; entries of ``None`` are left out.
        overwrite: Replace a run (or the rest of one) of that name. The old run stays until the new
            one is finished. A folder that is not a run is never replaced.

    Raises:
        InputError: If ``out`` or its partial folder exists and ``overwrite`` is not given.
    """
    final, partial = _places(out)
    if final.exists() or final.is_symlink():
        if not overwrite:
            raise InputError(
                f"the run folder {final} exists already; choose another --out or give --overwrite"
            )
        _check_replaceable(final)
    if partial.exists() or partial.is_symlink():
        if not overwrite:
            raise InputError(
                f"{partial} holds a run that was not finished; --resume continues it, "
                f"--overwrite starts anew"
            )
        _check_replaceable(partial)
        with _locked(partial):
            remove_folder(partial)
    text = _toml(config)
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            f"cannot make {partial}: {error.strerror}; choose another --out"
        ) from error
    write_bytes(partial / "config.toml", text)
    return RunWriter(final, partial, replaces=final.exists(), is_new=True)


def resume_run(out: str | Path) -> RunWriter:
    """Continue the run of that name from its last checkpoint.

    Works for a run that was killed (``RUN.partial`` is there) and for one that was stopped, whose
    folder is complete but says ``interrupted`` and still holds its checkpoint.
    """
    final, partial = _places(out)
    _settle(final, partial)
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
        copy = _beside(final, "resuming")
        remove_folder(copy)
        copy.mkdir()
        for path in (final / "config.toml", final / "metrics.jsonl", *kept):
            if path.exists():
                shutil.copyfile(path, copy / path.name)
                sync(copy / path.name)
        sync(copy)
        copy.rename(partial)
    if not (partial / "config.toml").is_file():
        raise InputError(f"{partial} has no config.toml, so it is no run; remove it to start anew")
    return RunWriter(final, partial, replaces=final.exists())


class RunWriter:
    """A run in progress; made by :func:`start_run` or :func:`resume_run`.

    Args:
        final: Where the finished folder will stand.
        partial: The folder in progress.
        replaces: Whether an older run stands at ``final`` and shall be replaced at the end.
        is_new: Whether nothing of the run is older than this writer.
    """

    def __init__(self, final: Path, partial: Path, replaces: bool, is_new: bool = False) -> None:
        self._is_new = is_new
        self.final = final
        self.partial = partial
        self._replaces = replaces
        self._log = partial / "metrics.jsonl"
        self._held = contextlib.ExitStack()
        self._held.enter_context(_locked(partial))

    @property
    def config(self) -> dict[str, Any]:
        """The settings as they were written when the run began."""
        return read_config(self.partial / "config.toml")

    def save_checkpoint(
        self, arrays: Mapping[str, Any], meta: Mapping[str, Any], number: int | None = None
    ) -> None:
        """Keep the training state; a crash at any moment leaves this or the former one, whole."""
        if self._log.exists():
            sync(self._log)  # a checkpoint must not be ahead of the log it belongs to
        checkpoints.save_checkpoint(self.partial, arrays, meta, number)

    def load_checkpoint(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return arrays and meta data of the last checkpoint, ``None`` when there is none yet."""
        return checkpoints.load_checkpoint(self.partial)

    def log(self, record: Mapping[str, Any]) -> None:
        """Append one record to ``metrics.jsonl``; numbers that are not finite become null."""
        with self._log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(plain(record), allow_nan=False) + "\n")

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
    ) -> Run:
        """Write every output and give the folder its final name.

        Args:
            result: What the fit found.
            state: The model's weights by name.
            graph: The graph that was fitted, in the same row order.
            summary: What else to remember; entries join ``summary.json``.
            status: ``complete``, or ``interrupted`` for a run that may be resumed.
            keep_checkpoint: Leave the last checkpoint in the folder.
        """
        result.validate()
        folder = self.partial
        hierarchy, metrics = self._write_tables(result, graph)
        checkpoints.write_tensors(folder / "model.safetensors", state)
        is_kept = self._write_graph(graph)
        self._log.touch()
        write_json(folder / "hierarchy.json", hierarchy)
        about = {
            "format": FORMAT,
            "format_version": VERSION,
            "graphham_version": __version__,
            "status": status,
            "graph": {
                "name": graph.name,
                "nodes": graph.num_nodes,
                "edges": graph.num_edges,
                "features": graph.num_features,
                "fingerprint": graph.fingerprint(),
                "source": "" if graph.report is None else graph.report.source,
                "is_kept": is_kept,
            },
            "layer_dims": result.layer_dims,
            "hierarchy": metrics,
        }
        extra = {k: v for k, v in summary.items() if k not in about}
        files = {name: (folder / name).stat().st_size for name in OUTPUTS if name != "summary.json"}
        write_json(folder / "summary.json", {**about, **extra, "files": files})
        # summary.json is the last output: from here on only the folder's name is not final.
        if not keep_checkpoint:
            checkpoints.remove_checkpoints(folder)
        if self.final.exists() and not self._replaces:
            self.close()
            raise InputError(
                f"{self.final} appeared while this run was training; the results are in {folder}, "
                f"rename it yourself"
            )
        _publish(self.final, folder)
        self.close()
        return Run.open(self.final)

    def _write_tables(self, result: FitResult, graph: Graph) -> tuple[Any, dict[str, Any]]:
        import pyarrow.parquet as pq

        from graphham.results.describe import groups_table
        from graphham.results.hierarchy import Hierarchy, hierarchy_metrics

        # Of a split graph this process has seen some nodes' features, which describe no group.
        shown = graph if graph.part is None else replace(graph, features=None)
        groups = groups_table(result, shown)
        nodes = nodes_table(result, graph.titles)
        # Dictionaries pay off for repeated codes and labels, never for probabilities.
        coded = [n for n in nodes.column_names if n.startswith(("group_", "evidence_"))]
        coded += [n for n in ("label", "prediction") if n in nodes.column_names]
        with replacing(self.partial / "nodes.parquet") as temporary:
            pq.write_table(nodes, temporary, compression="zstd", use_dictionary=coded)
        with replacing(self.partial / "groups.parquet") as temporary:
            pq.write_table(groups, temporary, compression="zstd")
        with replacing(self.partial / "embedding.npy") as temporary, temporary.open("wb") as file:
            np.save(file, np.ascontiguousarray(result.embedding, np.float32), allow_pickle=False)
        levels = np.array(groups.column("level").to_pylist())
        all_names = groups.column("name").to_pylist()
        names = [
            [all_names[i] for i in np.flatnonzero(levels == level)]
            for level in range(1, result.num_levels + 1)
        ]
        return Hierarchy.from_result(result, names).to_json(), hierarchy_metrics(result)

    def _write_graph(self, graph: Graph) -> bool:
        """Keep the graph in the run unless it is large; return whether it was kept."""
        for leftover in self.partial.glob(f".{GRAPH_FOLDER}.*"):
            if leftover.is_dir():  # a crash in the middle of an earlier finish
                remove_folder(leftover)
        remove_folder(self.partial / GRAPH_FOLDER)
        if graph.part is not None or _graph_bytes(graph) > _KEPT_GRAPH_BYTES:
            return False
        from graphham.graph.store import write_store

        write_store(graph, self.partial / GRAPH_FOLDER)
        return True

    def close(self) -> None:
        """Let go of the folder without finishing; what is there can be resumed."""
        self._held.close()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # A state that is not finite is no use to --resume, and would stand in the next run's way.
        if isinstance(error, DivergedError) and self._is_new:
            remove_folder(self.partial)
        self.close()


def _places(out: str | Path) -> tuple[Path, Path]:
    final = Path(out)
    if final.name in ("", ".."):
        raise InputError(f"{str(out)!r} is no name for a run folder; give one such as runs/first")
    if final.name.endswith(".partial"):
        final = final.with_name(final.name.removesuffix(".partial"))
    for parent in final.parents:
        if parent.exists() and not parent.is_dir():
            raise InputError(f"cannot write {final}: {parent} is a file; choose another --out")
    return final, final.with_name(f"{final.name}.partial")


def _check_replaceable(path: Path) -> None:
    """Refuse to replace anything but an empty folder or a run, finished or not."""
    if path.is_dir() and not path.is_symlink():
        if not any(path.iterdir()):
            return
        # A kill while the folder was begun or removed leaves parts of ours without their config.
        ours = all(_is_ours(part.name) for part in path.iterdir())
        if path.name.endswith(".partial") and (ours or (path / "config.toml").is_file()):
            return
        with contextlib.suppress(InputError):
            read_summary(path)
            return
    raise InputError(
        f"{path} exists and is not a run folder, so it is not overwritten; choose another --out"
    )


def _is_ours(name: str) -> bool:
    temporary = name.startswith(".") and name.endswith(".tmp")
    known = name in (*OUTPUTS, *DERIVED, GRAPH_FOLDER, checkpoints.POINTER, _LOCK)
    return known or temporary or name.startswith("checkpoint-")


def _graph_bytes(graph: Graph) -> int:
    """Return about how many bytes a store of the graph takes."""
    matrix: Any = graph.features
    parts: list[Any] = [graph.indptr, graph.indices, graph.weights]
    if matrix is not None:
        is_sparse = hasattr(matrix, "indptr")
        parts += [matrix.indptr, matrix.indices, matrix.data] if is_sparse else [matrix]
    known = sum(int(part.nbytes) for part in parts if part is not None)
    # Ids and titles are not measured: reading a mapped column of titles would cost more than it
    # is worth, and a line of text per node is the usual size.
    return known + graph.num_nodes * (16 + 64 * (graph.titles is not None))


def _toml(config: Mapping[str, Any]) -> bytes:
    import tomli_w

    return tomli_w.dumps(without_none(plain(config))).encode("utf-8")


def _settle(final: Path, partial: Path) -> None:
    """Complete a finish that was cut off between its last output and its last rename."""
    if (partial / "summary.json").is_file():
        with _locked(partial):
            _publish(final, partial)
    elif final.exists():
        _clear(_beside(final, "previous"), final)


def _publish(final: Path, partial: Path) -> None:
    """Rename the finished folder; an older run steps aside first and is removed last.

    At every moment ``RUN`` or a complete ``RUN.partial`` stands, so :func:`resume_run` can always
    tell what happened.
    """
    for path in partial.iterdir():
        if path.name == _LOCK or (path.name.startswith(".") and path.name.endswith(".tmp")):
            path.unlink()
    sync(partial)
    previous = _beside(final, "previous")
    if final.exists():
        _clear(previous, final)
        final.rename(previous)
    partial.rename(final)
    sync(final.parent)
    _clear(previous, final)


def _clear(previous: Path, final: Path) -> None:
    """Remove a replaced run; what the user kept in its folder moves to the new one."""
    if not previous.is_dir():
        return
    for path in previous.iterdir():
        if _is_ours(path.name):
            if path.is_dir() and not path.is_symlink():
                remove_folder(path)
            else:
                path.unlink()
        elif not (final / path.name).exists():
            path.rename(final / path.name)
    with contextlib.suppress(OSError):  # a name the new folder has as well stays where it is
        previous.rmdir()


def _beside(final: Path, role: str) -> Path:
    return final.with_name(f".{final.name}.{role}")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the system lets go of it even when we are killed."""
    try:
        import fcntl
    except ImportError:  # Windows: no protection against two writers, everything else holds
        yield
        return
    with (folder / _LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(
                f"another process is writing {folder}; wait for it or choose another --out"
            ) from error
        yield
