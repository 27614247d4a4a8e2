"""Run one command as several processes of this machine, and watch over them.

``fit --processes N`` is what ``torchrun --nproc-per-node N`` does, without its noise: the same
command line runs N times with the environment of torch.distributed, and when one process dies the
others are ended and one sentence says so. No torch in here; the children load it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from graphham.errors import InputError

if TYPE_CHECKING:
    from graphham.parallel.ranks import Ranks

LAUNCHED = "GRAPHHAM_LAUNCHED"
# The exit code of a process that only stopped because another one did.
FOLLOWED = 75
_GRACE_SECONDS = 10.0


def is_child() -> bool:
    """Whether this process was started by :func:`run_processes`."""
    return LAUNCHED in os.environ


def is_first() -> bool:
    """Whether this process is the one that talks to the user."""
    return int(os.environ.get("RANK", "0")) == 0


def is_member() -> bool:
    """Whether this process is one of several, whoever started them."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def leave(work: Callable[[], int]) -> NoReturn:
    """Do the work and end the process at once with its exit code.

    The threads of torch.distributed may outlive the interpreter by a moment, and then abort a
    process that has done everything right ("terminate called without an active exception").
    """
    try:
        code: Any = work()
    except SystemExit as error:
        code = error.code
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def run_processes(count: int, arguments: list[str]) -> None:
    """Run ``graphham`` with these arguments in ``count`` processes and wait for all of them.

    Raises:
        InputError: One of them was killed.
        SystemExit: The first process refused or failed and has said why.
    """
    with tempfile.TemporaryDirectory(prefix="graphham-") as folder:
        children = [_start(rank, count, arguments, Path(folder)) for rank in range(count)]
        try:
            failed = _watch(children)
        except KeyboardInterrupt:
            _end(children)
            raise
        if failed is None:
            return
        _end(children)
        _explain(failed, children, Path(folder))


def die_with_parent() -> None:
    """Ask the system to end this child when its parent is gone, where it knows how."""
    if not is_child() or not sys.platform.startswith("linux"):
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


@contextlib.contextmanager
def joined_job(device: str) -> Iterator[Ranks]:
    """Join the other processes, if there are any; end quietly when the parent says why."""
    from graphham.parallel.ranks import LostPeerError, joined

    try:
        with joined(device) as ranks:
            yield ranks
    except LostPeerError:
        if is_child():
            raise SystemExit(FOLLOWED) from None
        raise


def _start(rank: int, count: int, arguments: list[str], folder: Path) -> subprocess.Popen[bytes]:
    port = folder / "port"
    if rank == 0:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port.write_text(str(free.getsockname()[1]))
    environment = {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port.read_text(),
        # One thread each: several threads per process are slower and waste the others' cores.
        "OMP_NUM_THREADS": "1",
        LAUNCHED: "1",
    }
    if sys.platform.startswith("linux"):
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    command = [sys.executable, "-m", "graphham", *arguments]
    if rank == 0:
        return subprocess.Popen(command, env=environment)
    with (folder / f"errors-{rank}").open("wb") as errors:
        # What a further process has to say is kept, and shown if it was the one that failed.
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=errors)


def _watch(children: list[subprocess.Popen[bytes]]) -> int | None:
    """Wait until all have ended well, or one has not; return the number of that one."""
    while True:
        codes = [child.poll() for child in children]
        for rank, code in enumerate(codes):
            if code not in (None, 0, FOLLOWED):
                return rank
        if None not in codes:
            return codes.index(FOLLOWED) if FOLLOWED in codes else None
        time.sleep(0.05)


def _end(children: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + _GRACE_SECONDS
    for child in children:
        # The others notice by themselves as a rule; the first may still be writing.
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(max(0.1, min(2.0, deadline - time.monotonic())))
        if child.poll() is None:
            child.terminate()
    for child in children:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(max(0.1, deadline - time.monotonic()))
        if child.poll() is None:
            child.kill()
            child.wait()


def _explain(rank: int, children: list[subprocess.Popen[bytes]], folder: Path) -> NoReturn:
    code, said = children[rank].returncode, children[0].returncode
    if rank and said > 0 and said != FOLLOWED:
        raise SystemExit(said)  # the first refused as well, and has told the user why
    if code < 0:
        raise InputError(
            f"process {rank} of {len(children)} was killed (signal {-code}), so the job ended; "
            f"the same command with --resume goes on from the last checkpoint"
        )
    if rank:
        errors = (folder / f"errors-{rank}").read_text("utf-8", errors="replace").strip()
        line = errors.splitlines()[-1] if errors else f"it ended with code {code}"
        raise InputError(f"process {rank} of {len(children)} failed: {line}")
    raise SystemExit(code)
