"""Several processes fit one graph: the same bits as one, a clear end, and a resumed rest."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from graphham.config.settings import make_config
from graphham.graph.store import open_store, write_store
from graphham.methods.run_fitting import fit_to_run
from tests.reference.graphs import planted

BASE = {
    "groups": (6, 2),
    "dim": 16,
    "train.epochs": 4,
    "train.batch": "sampled",
    "train.batch_size": 64,
    "train.fanouts": (5, 4),
    "train.shards": 4,
    "train.workers": 0,
}
TABLES = {
    "loss.context": "skipgram",
    "loss.context_table": "factored",
    "loss.walks": 2,
    "train.checkpoint_every": 0,
}
FULL = {**TABLES, "loss.context_table": "full", "model.straight_through": True}
# Losses of all groups are mixed, so rows are looked up and their gradients written out.
LOOKED_UP = {**TABLES, "loss.mix": "loss"}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_store(planted(200).graph, tmp_path_factory.mktemp("jobs") / "store")


def command(store, out, settings, *more, start=(sys.executable,)):
    config = out.with_suffix(".toml")
    lines = [f"{k} = {json.dumps(v)}" for k, v in settings.items() if "." not in k]
    config.write_text("\n".join(lines))
    inner = [f"--set={k}={json.dumps(v)}" for k, v in settings.items() if "." in k]
    return [
        *start,
        "-m",
        "graphham",
        "fit",
        str(store),
        "--out",
        str(out),
        "-q",
        f"--config={config}",
        *inner,
        *more,
    ]


def run(arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.run(
        arguments, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def assert_same_run(one, other):
    def losses(run):
        lines = (run.path / "metrics.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(x).items() if k != "seconds"} for x in lines]

    assert losses(one) == losses(other)
    np.testing.assert_array_equal(one.embedding, other.embedding)
    a, b = one.result(), other.result()
    for x, y in zip(a.memberships + a.groups, b.memberships + b.groups, strict=True):
        np.testing.assert_array_equal(x, y)


def alone(store, out, settings, **more):
    return fit_to_run(open_store(store), make_config(settings), out, **more)


CASES = {"full": FULL, "looked up": LOOKED_UP, "torchrun": {"train.workers": 1}}


@pytest.mark.parametrize("case", CASES)
def test_two_processes_give_the_bits_of_one(case, store, tmp_path):
    settings = {**BASE, **CASES[case]}
    out = tmp_path / "two"
    start = TORCHRUN if case == "torchrun" else (sys.executable,)
    more = [] if case == "torchrun" else ["--processes=2"]
    done = run(command(store, out, settings, *more, start=start))
    assert done.returncode == 0, done.stderr
    from graphham.results.run_writer import Run

    assert_same_run(alone(store, tmp_path / "one", settings), Run.open(out))


@pytest.mark.parametrize("tables", [TABLES, LOOKED_UP], ids=["pairs", "looked up"])
def test_processes_that_share_no_memory_give_the_bits_of_one_too(tables, store, tmp_path):
    from graphham.results.run_writer import Run

    settings = {**BASE, **tables}
    out = tmp_path / "two"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    # What two machines look like: each process is the only one where it runs.
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    meet |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0", "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            command(store, out, settings),
            env={**os.environ, **meet, "RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=240)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    assert_same_run(alone(store, tmp_path / "one", settings), Run.open(out))


def test_more_processes_than_shards_are_refused_before_anything_is_written(store, tmp_path):
    settings = {**BASE, "train.shards": 2}
    done = run(command(store, tmp_path / "run", settings, "--processes=3"))
    assert done.returncode == 2
    assert "3 processes cannot share 2 shards" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


def kill_one(store, out, settings, processes):
    """Start a job, kill its last process after some epochs, and return how it ended."""
    job = subprocess.Popen(
        command(store, out, settings, f"--processes={processes}"),
        stderr=subprocess.PIPE,
        text=True,
    )
    log = Path(f"{out}.partial") / "metrics.jsonl"
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and job.poll() is None:
        if log.exists() and len(log.read_text().splitlines()) >= 3:
            break
        time.sleep(0.02)
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    assert len(children) == processes
    os.kill(int(children[-1]), signal.SIGKILL)
    _, errors = job.communicate(timeout=60)
    return job.returncode, errors


def test_a_killed_process_ends_the_job_and_another_number_goes_on(store, tmp_path):
    if not Path("/proc/self/task").exists():
        pytest.skip("finds the processes through /proc")
    settings = {**BASE, **TABLES, "train.epochs": 40}
    code, errors = kill_one(store, tmp_path / "killed", settings, 2)
    assert code == 2
    lines = errors.strip().splitlines()
    assert len(lines) == 1, errors
    assert "process 1 of 2 was killed (signal 9)" in lines[0]
    assert "--resume" in lines[0]
    resumed = alone(store, tmp_path / "killed", settings, resume=True)
    assert_same_run(alone(store, tmp_path / "whole", settings), resumed)


@pytest.mark.slow
def test_four_processes_give_the_bits_of_one_and_take_over_from_two(store, tmp_path):
    settings = {**BASE, **TABLES, "train.epochs": 40}
    whole = alone(store, tmp_path / "whole", settings)
    from graphham.results.run_writer import Run

    done = run(command(store, tmp_path / "four", settings, "--processes=4"))
    assert done.returncode == 0, done.stderr
    assert_same_run(whole, Run.open(tmp_path / "four"))
    code, _ = kill_one(store, tmp_path / "killed", settings, 2)
    assert code == 2
    more = ["--resume", "--processes=4"]
    done = run(command(store, tmp_path / "killed", settings, *more))
    assert done.returncode == 0, done.stderr
    assert_same_run(whole, Run.open(tmp_path / "killed"))


@pytest.mark.slow
def test_torchrun_says_which_job_was_lost_and_resumes(store, tmp_path):
    """Without our launcher the surviving process itself must notice and speak."""
    settings = {**BASE, **TABLES, "train.epochs": 60}
    out = tmp_path / "run"
    arguments = command(store, out, settings)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29733",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    jobs = [
        subprocess.Popen(
            arguments, env={**environment, "RANK": str(r)}, stderr=subprocess.PIPE, text=True
        )
        for r in range(2)
    ]
    log = Path(f"{out}.partial") / "metrics.jsonl"
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and not (log.exists() and log.read_text().count("\n") > 2):
        time.sleep(0.02)
    jobs[1].kill()
    _, errors = jobs[0].communicate(timeout=30)
    jobs[1].communicate()
    assert jobs[0].returncode == 2
    assert "another process of this job ended" in errors
    resumed = alone(store, out, settings, resume=True)
    assert_same_run(alone(store, tmp_path / "whole", settings), resumed)
