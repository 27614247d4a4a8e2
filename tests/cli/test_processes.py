"""One command as several processes: all end well, or the job ends with the reason of one."""

import subprocess
import sys
from pathlib import Path

import pytest

from graphham.cli.processes import FOLLOWED, is_first, is_member, run_processes
from graphham.errors import InputError

# Stands for the package in the folder where the processes start; exits as its arguments say.
CHILD = """
import os, signal, sys, time
rank = int(os.environ["RANK"])
with open(f"seen-{rank}", "w") as file:
    print(*(os.environ[n] for n in ("WORLD_SIZE", "MASTER_PORT", "OMP_NUM_THREADS")), file=file)
end = sys.argv[1 + rank]
if end == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if end == "wait":
    time.sleep(60)
print("first line\\nreason of", rank, file=sys.stderr)
sys.exit(int(end))
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "graphham.py").write_text(CHILD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("graphham.cli.processes._GRACE_SECONDS", 1.0)
    return tmp_path


def test_every_process_is_told_its_place_and_one_meeting_point(job: Path) -> None:
    run_processes(3, ["0", "0", "0"])
    seen = [(job / f"seen-{rank}").read_text().split() for rank in range(3)]
    assert seen[0] == seen[1] == seen[2]
    assert (seen[0][0], seen[0][2]) == ("3", "1")


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        (["wait", "kill"], r"process 1 of 2 was killed \(signal 9\).*--resume"),
        (["wait", "3"], "process 1 of 2 failed: reason of 1"),
        ([str(FOLLOWED), "3"], "process 1 of 2 failed: reason of 1"),
    ],
)
@pytest.mark.usefixtures("job")
def test_the_job_ends_with_the_reason_of_the_one_that_failed(ends: list[str], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        run_processes(2, ends)


@pytest.mark.parametrize("ends", [["2", "wait"], ["2", "2"]])
@pytest.mark.usefixtures("job")
def test_what_the_first_process_said_is_not_said_again(ends: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_processes(2, ends)
    assert ended.value.code == 2


def test_a_process_knows_whether_it_is_one_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert (is_first(), is_member()) == (True, False)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert (is_first(), is_member()) == (False, True)


@pytest.mark.parametrize(
    ("work", "code"), [("lambda: 3", 3), ("lambda: sys.exit('why')", 1), ("sys.exit", 0)]
)
def test_leaving_keeps_the_code_and_what_was_printed(work: str, code: int) -> None:
    text = f"import sys; from graphham.cli.processes import leave; print('kept'); leave({work})"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "kept\n")
