"""Where a run is made and stands: the folder in progress, the finished one, and how they swap.

While training, everything goes to ``RUN.partial`` beside the final folder. Where the system can
swap two folders, ``RUN`` stands at every moment while it is replaced; elsewhere ``RUN`` or a
complete ``RUN.partial`` does. A mark inside the new folder is the journal: the next command sees
where a killed one had come to. Nothing that is not a run is ever replaced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator
from pathlib import Path

from graphham.errors import InputError
from graphham.results.run_folder import DERIVED, GRAPH_FOLDER, LOCK_FILE, OUTPUTS, read_summary
from graphham.system.atomic import remove_folder, sync
from graphham.system.exchange import exchange
from graphham.training import checkpoints

# Stands in a folder that is about to take the place of another, until that one is out of the way.
_MARK = ".replacing"


def check_place(out: str | Path, overwrite: bool = False) -> None:
    """Refuse a place where a run cannot begin: something stands there that may not be replaced.

    Args:
        out: The run folder to be.
        overwrite: Whether a run there may be replaced.
    """
    final, partial = places(out)
    if final.exists() or final.is_symlink():
        if not overwrite:
            raise InputError(
                f"the run folder {final} exists already; choose another --out or give --overwrite"
            )
        _check_replaceable(final)
    if (partial.exists() or partial.is_symlink()) and not is_hollow(partial):
        if not overwrite:
            raise InputError(
                f"{partial} holds a run that was not finished; --resume continues it, "
                f"--overwrite starts anew"
            )
        _check_replaceable(partial)


def places(out: str | Path) -> tuple[Path, Path]:
    """Return where the finished run and the one in progress stand; refuse what is no such place."""
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
        if path.name.endswith(".partial") and (is_hollow(path) or (path / "config.toml").is_file()):
            return
        with contextlib.suppress(InputError):
            read_summary(path)
            return
    raise InputError(
        f"{path} exists and is not a run folder, so it is not overwritten; choose another --out"
    )


def is_hollow(partial: Path) -> bool:
    """Whether a folder in progress holds nothing to go on with, and nothing but parts of ours.

    A kill while it was begun or removed leaves it so, without its config.
    """
    if not partial.is_dir() or partial.is_symlink():
        return False
    if any((partial / name).is_file() for name in ("config.toml", "summary.json")):
        return False
    return all(_is_ours(part.name) for part in partial.iterdir())


def _is_ours(name: str, files: Container[str] = ()) -> bool:
    temporary = name.startswith(".") and name.endswith(".tmp")
    known = name in (*OUTPUTS, *DERIVED, GRAPH_FOLDER, checkpoints.POINTER, LOCK_FILE, _MARK)
    return known or temporary or name.startswith("checkpoint-") or name in files


def settle(final: Path, partial: Path) -> None:
    """Complete a finish that was cut off between its last output and its last rename."""
    if (final / _MARK).is_file():
        _step_aside(final, partial)
    elif (partial / "summary.json").is_file():
        with locked(partial):
            publish(final, partial)
    elif final.exists():
        _clear(beside(final, "previous"), final)


def publish(final: Path, partial: Path) -> None:
    """Give the finished folder its final name; an older run is removed last.

    The two swap in one step where the system can do that; elsewhere the older one steps aside
    first. :func:`settle` can tell from any moment what happened.
    """
    for path in partial.iterdir():
        if path.name.startswith(".") and path.name.endswith(".tmp"):
            path.unlink()
    sync(partial)
    # Last: as long as it is there and held, nobody else gives the folder its final name.
    (partial / LOCK_FILE).unlink(missing_ok=True)
    previous = beside(final, "previous")
    if final.exists():
        _clear(previous, final)
        (partial / _MARK).touch()
        sync(partial)
        if exchange(partial, final):
            sync(final.parent)
            _step_aside(final, partial)
            return
        (partial / _MARK).unlink()
        final.rename(previous)
    try:
        partial.rename(final)
    except FileNotFoundError:
        # Somebody who wanted to read the run found it finished and gave it its name.
        if not (final / "summary.json").is_file():
            raise
    sync(final.parent)
    _clear(previous, final)


def _step_aside(final: Path, partial: Path) -> None:
    """After a swap: take the older run, now at the place in progress, away and then the mark."""
    previous = beside(final, "previous")
    if partial.is_dir() and not (partial / _MARK).exists():
        _clear(previous, final)
        partial.rename(previous)
    (final / _MARK).unlink()
    sync(final)
    _clear(previous, final)


def _clear(previous: Path, final: Path) -> None:
    """Remove a replaced run; what the user kept in its folder moves to the new one."""
    if not previous.is_dir():
        return
    files: Container[str] = ()
    with contextlib.suppress(InputError):
        files = read_summary(previous).get("files") or ()
    for path in previous.iterdir():
        if _is_ours(path.name, files):
            if path.is_dir() and not path.is_symlink():
                remove_folder(path)
            else:
                path.unlink()
        elif not (final / path.name).exists():
            path.rename(final / path.name)
    with contextlib.suppress(OSError):  # a name the new folder has as well stays where it is
        previous.rmdir()


def beside(final: Path, role: str) -> Path:
    """Return the place of a helper folder of a run."""
    return final.with_name(f".{final.name}.{role}")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the system lets go of it even when we are killed."""
    try:
        import fcntl
    except ImportError:  # Windows: no protection against two writers, everything else holds
        yield
        return
    with (folder / LOCK_FILE).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(
                f"another process is writing {folder}; wait for it or choose another --out"
            ) from error
        yield
