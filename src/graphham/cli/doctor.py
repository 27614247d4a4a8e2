"""``graphham doctor``: is everything in a run or a store as it was written?"""

from __future__ import annotations

from typing import Annotated

import typer

from graphham.errors import InputError

_SHOWN = 20


def doctor(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A run folder, finished or not, a zip of it, a store, or a split one.",
        ),
    ],
) -> None:
    """Compare every file of a run or a store with its checksum; say what can be made again.

    The exit code is 0 if nothing is damaged and 2 otherwise. Nothing is changed.

    Example:
      graphham doctor runs/cora
    """
    from graphham.results.diagnosis import diagnose
    from graphham.system.console import Screen

    screen = Screen()
    found = diagnose(path)
    count = len(found.whole)
    screen.say("Whole", f"{count} files of the {found.kind} {path}, {found.num_bytes:,} bytes read")
    if found.edited:
        screen.say("Edited", f"{', '.join(found.edited)}, which is yours to edit")
    if found.unchecked:
        screen.say("Unchecked", f"no checksum is known for {', '.join(found.unchecked)}")
    if found.damaged:
        lines = [f"{name} {what}" for name, what in found.damaged.items()]
        more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        screen.say("Damaged", [*lines[:_SHOWN], *more])
    if found.remedies:
        screen.say("Remedy" if found.damaged else "Next", found.remedies)
    if found.damaged:
        names = ", ".join(list(found.damaged)[:3])
        more_names = f" and {len(found.damaged) - 3} more" if len(found.damaged) > 3 else ""
        raise InputError(f"{path} is damaged: {names}{more_names}; see the remedy above")
