"""Turn whatever goes wrong into one sentence and an exit code.

Code 2 is something the user can change, 130 a stop by Ctrl-C, 1 a mistake of ours.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Any

import typer

from graphham.errors import InputError, cut_middle
from graphham.system.disk_room import is_full, reason_of, said_by
from graphham.system.memory_limit import explain_short, is_short

TRACEBACK_VARIABLE = "GRAPHHAM_TRACEBACK"

# The common base of usage errors; typer exports it under different names in different versions.
_COMPLAINT: Any = typer.BadParameter.__mro__[2]


class StoppedError(Exception):
    """A command was stopped by Ctrl-C and has already said what it left behind."""


def run_safely(command: Any, arguments: list[str] | None) -> int:
    """Run the command line and return its exit code; never let a traceback out by itself."""
    try:
        code = command(args=arguments, prog_name="graphham", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except StoppedError:
        return 130
    except BaseException as error:
        if isinstance(error, SystemExit):
            raise
        if os.environ.get(TRACEBACK_VARIABLE):
            traceback.print_exc()
        sentence, failure = explain_failure(error)
        complain(sentence)
        return failure
    if code == 130:  # typer turns Ctrl-C into this code and says nothing
        complain("Stopped by Ctrl-C; every file is either whole or was not written.")
    return code if isinstance(code, int) else 0


def explain_failure(error: BaseException) -> tuple[str, int]:
    """Return the sentence for an exception and the exit code it deserves."""
    if isinstance(error, InputError):
        return f"Error: {error}", 2
    if isinstance(error, _COMPLAINT):
        return f"Error: {_usage(error)}", 2
    if is_short(error):
        return f"Error: {explain_short(error)}", 2
    if isinstance(error, RecursionError):
        return (
            "Error: something in a file is nested too deeply to be read; settings and tables have "
            "a few levels at most",
            2,
        )
    if is_full(error):
        place = f", {named}" if (named := getattr(error, "filename", None)) else ""
        return (
            f"Error: the disk is full ({said_by(error)}{place}); nothing was replaced, so make "
            f"room and run the command again",
            2,
        )
    if isinstance(error, OSError):
        place = f" ({error.filename})" if error.filename else ""
        return f"Error: the system refused: {reason_of(error)}{place}; nothing was replaced", 2
    where = _origin(error)
    return (
        f"This is a bug in graphham: {type(error).__name__}: {error}{where}; set "
        f"{TRACEBACK_VARIABLE}=1 to see the traceback, and please report it",
        1,
    )


def complain(sentence: str) -> None:
    """Print one line to standard error, whatever characters are in it."""
    signs = cut_middle(sentence)
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in signs)
    print(shown, file=sys.stderr, flush=True)


def _usage(error: Any) -> str:
    near = getattr(error, "possibilities", None)
    message = str(error.message if near else error.format_message()).strip().rstrip(".")
    message = " ".join(message.split())
    if near:
        message += f"; did you mean {' or '.join(sorted(near))}?"
    context = getattr(error, "ctx", None)
    if context is not None and not near and "Did you mean" not in message:
        message += f"; see '{context.command_path} --help'"
    return message


def _origin(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
