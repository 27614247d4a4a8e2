"""Exit codes and sentences for what is not the user's input."""

import errno
import os

import pytest

from graphham.cli.failures import run_safely


def _raise(error: BaseException):
    def command(**_: object) -> None:
        raise error

    return command


def test_a_bug_is_one_sentence_and_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_safely(_raise(KeyError("x\ny")), []) == 1
    seen = capsys.readouterr().err
    assert seen.startswith("This is a bug in graphham: KeyError")
    assert "GRAPHHAM_TRACEBACK=1" in seen
    assert len(seen.splitlines()) == 1


def test_the_traceback_is_shown_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHHAM_TRACEBACK", "1")
    assert run_safely(_raise(KeyError("x")), []) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "mention"),
    [
        (MemoryError(), "memory"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/x"), "No space left"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/root/x"), "/root/x"),
    ],
)
def test_trouble_of_the_machine_is_code_2(
    error: Exception, mention: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_safely(_raise(error), []) == 2
    seen = capsys.readouterr().err
    assert seen.startswith("Error: ")
    assert mention in seen
    assert len(seen.splitlines()) == 1


def test_ctrl_c_is_code_130_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_safely(_raise(KeyboardInterrupt()), []) == 130
    assert capsys.readouterr().err.startswith("Stopped by Ctrl-C")
