"""Talk to the person at the terminal: labelled lines, a progress bar, and group trees.

On a terminal training shows one live bar; where the output is a file or a pipe it prints a line
every few seconds instead. Everything goes to standard output: standard error is for errors.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LABEL_WIDTH = 10
_LINE_SECONDS = 5.0
# What the parts of the objective are called on screen; others keep their own name.
_PART_NAMES = {"nesting_loss": "nesting"}
_NOT_PARTS = {"epoch", "loss", "seconds", "validation", "lr", "tau"}


class Screen:
    """Prints lines that begin with a short label, such as ``Reading`` or ``Groups``.

    Args:
        quiet: Print nothing at all, except remarks.
        file: Where to print; standard output if not given.
    """

    def __init__(self, quiet: bool = False, file: TextIO | None = None) -> None:
        self.quiet = quiet
        self.console = Console(file=file, highlight=False, markup=False, soft_wrap=True)

    @property
    def is_live(self) -> bool:
        """Whether lines can be redrawn; colours forced into a log file do not make it one."""
        if self.console.is_jupyter:
            return True
        return self.console.is_terminal and self.console.file.isatty()

    def say(self, label: str, lines: str | Iterable[str]) -> None:
        """Print one or more lines under a label."""
        if self.quiet:
            return
        for number, line in enumerate([lines] if isinstance(lines, str) else lines):
            head = f"{'' if number else label:<{LABEL_WIDTH}}"
            self.console.print(Text.assemble((head, "bold"), line))

    def remark(self, text: str) -> None:
        """Print something the user should not miss, even when quiet."""
        self.console.print(Text.assemble((f"{'Note':<{LABEL_WIDTH}}", "bold yellow"), text))

    def plain(self, text: str = "") -> None:
        """Print text as it is."""
        if not self.quiet:
            self.console.print(Text(text))


class TrainingProgress:
    """Listens to a fit and shows epoch, loss parts and time left.

    Use it as a context manager: the terminal is restored however the fit ends.

    Args:
        screen: Where to show it.
    """

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self._total = self._reached = 0
        self._is_scored = False
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._ends: deque[float] = deque(maxlen=21)
        self._printed = 0.0

    @property
    def has_begun(self) -> bool:
        """Whether any training was done."""
        return bool(self._ends)

    def on_plan(self, plan: Any) -> None:
        """Show what is about to happen and what it will cost."""
        self.screen.say("Plan", plan.lines())

    def on_start(self, total_epochs: int, start_epoch: int) -> None:
        """Begin counting; a resumed fit starts where it stopped."""
        self._total, self._reached, self._is_scored = total_epochs, start_epoch, False
        self._ends.append(time.monotonic())
        if start_epoch:
            self.screen.say("Resuming", f"after epoch {start_epoch} of {total_epochs}")
        if self.screen.is_live and not self.screen.quiet:
            self._begin_bar(start_epoch)

    def on_epoch(self, epoch: int, record: Mapping[str, Any]) -> None:
        """Show one finished epoch."""
        now = time.monotonic()
        self._ends.append(now)
        self._reached = epoch
        self._is_scored = self._is_scored or record.get("validation") is not None
        status = f"{loss_text(record)}  left {clock(self._seconds_left(epoch))}"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=epoch, status=status)
        elif now - self._printed >= _LINE_SECONDS or epoch == self._total:
            self._printed = now
            self.screen.say("Training", f"epoch {epoch}/{self._total}  {status}")

    def on_note(self, text: str) -> None:
        """Pass a remark on."""
        self.screen.remark(text)

    def on_end(self, status: str) -> None:
        """Put the bar away, and say where training ended if it ended by itself."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if status == "complete" and 0 < self._reached < self._total:
            self._say_early()

    def _say_early(self) -> None:
        why = "the validation score no longer rose" if self._is_scored else "the loss has settled"
        self.screen.say("Training", f"ended at epoch {self._reached} of {self._total}: {why}")

    def __enter__(self) -> TrainingProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.on_end("")

    def _begin_bar(self, start_epoch: int) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self._bar = Progress(
            TextColumn(
                f"[bold]{'Training':<{LABEL_WIDTH}}[/bold]epoch {{task.completed:.0f}}/"
                "{task.total:.0f}"
            ),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[status]}", markup=False),
            console=self.screen.console,
            transient=isinstance(self, FitBar),
        )
        self._task = self._bar.add_task("", total=self._total, completed=start_epoch, status="")
        self._bar.start()

    def _seconds_left(self, epoch: int) -> float | None:
        # The first epoch carries compilation, and the seeding step makes others longer than usual:
        # the last twenty say more about the rest than all of them.
        if len(self._ends) < 3:
            return None
        recent = list(self._ends)[1:]
        return (recent[-1] - recent[0]) / (len(recent) - 1) * (self._total - epoch)


class Unheard(TrainingProgress):
    """Progress that nobody wants to see."""

    def __init__(self) -> None:
        super().__init__(Screen(quiet=True))

    def on_plan(self, plan: Any) -> None:
        """Ignore the plan."""

    def on_start(self, total_epochs: int, start_epoch: int) -> None:
        """Ignore the start."""

    def on_epoch(self, epoch: int, record: Mapping[str, Any]) -> None:
        """Ignore the epoch."""

    def on_note(self, text: str) -> None:
        """Ignore the remark."""


class FitBar(TrainingProgress):
    """The bar of a fit from Python: no plan, and nothing of it stays when the fit is done.

    Args:
        screen: Where to show it.
        is_asked: Whether somebody asked for words, so that an early end is said.
    """

    def __init__(self, screen: Screen, is_asked: bool = False) -> None:
        super().__init__(screen)
        self.is_asked = is_asked

    def _say_early(self) -> None:
        if self.is_asked:
            super()._say_early()

    def on_plan(self, plan: Any) -> None:
        """Keep the plan to oneself."""

    @classmethod
    def wanted(cls, verbose: bool | None) -> TrainingProgress:
        """Return a bar where one can be drawn, lines where they are asked for, else silence.

        Args:
            verbose: ``True`` shows progress anywhere, ``False`` nowhere, and ``None`` in terminals
                and notebooks.
        """
        if verbose is False:
            return Unheard()
        screen = Screen()
        return cls(screen, bool(verbose)) if verbose or screen.is_live else Unheard()


def loss_text(record: Mapping[str, Any]) -> str:
    """Write a training record's loss, its parts and its validation score in a few words."""
    loss = record.get("loss")
    text = "" if loss is None else f"loss {loss:.3f}"
    parts = [
        f"{_PART_NAMES.get(name, name.replace('_', ' '))} {value:.3f}"
        for name, value in record.items()
        if name not in _NOT_PARTS and isinstance(value, float)
    ]
    if parts:
        text += f" ({', '.join(parts)})"
    if record.get("validation") is not None:
        text += f"  validation {record['validation']:.3f}"
    return text


def clock(seconds: float | None) -> str:
    """Write a duration as minutes and seconds, or hours, minutes and seconds."""
    if seconds is None:
        return "-:--"
    whole = max(0, round(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return (f"{hours}:{minutes:02d}" if hours else f"{minutes}") + f":{whole % 60:02d}"


def group_lines(metrics: Mapping[str, Any]) -> list[str]:
    """Say how many groups are in use on each level and how well the levels nest."""
    levels = int(metrics["levels"])
    lines = []
    for level in range(levels, 0, -1):
        line = (
            f"level {level}: {metrics[f'used_{level}']} of {metrics[f'groups_{level}']} groups in "
            f"use, largest {metrics[f'largest_share_{level}']:.0%}"
        )
        if metrics.get(f"nmi_{level}") is not None:
            line += f", NMI with the labels {metrics[f'nmi_{level}']:.2f}"
        lines.append(line)
    if levels > 1:
        score = nesting_of(metrics)
        alone = "the coarsest level is one group of everything"
        lines.append(alone if score is None else f"nesting {score:.3f}")
    return [*lines, "in use is a group that at least one node is shown in"]


def nesting_of(metrics: Mapping[str, Any]) -> float | None:
    """Return the mean nesting over the levels that can nest; ``None`` where none can.

    Below one group of everything all levels lie inside it, which says nothing about them.
    """
    pairs = [i for i in range(1, int(metrics["levels"])) if metrics[f"used_{i + 1}"] > 1]
    told = [float(metrics.get(f"nesting_{i}", metrics["nesting"])) for i in pairs]
    return sum(told) / len(told) if told else None


def tree_lines(groups: Iterable[Mapping[str, Any]]) -> list[str]:
    """Draw the rows of a groups table as an indented tree, coarse groups first, largest first.

    Behind the size stands the group as commands take it, such as ``2-5``: level and number.
    """
    rows = list(groups)
    top = max(row["level"] for row in rows)
    used = [row for row in rows if row["size"]]
    width = max([48, *(len(row["name"]) + 2 * (top - row["level"]) for row in used)])
    lines: list[str] = []

    def draw(row: Mapping[str, Any], depth: int) -> None:
        if not row["size"]:
            return
        label = ""
        if row.get("dominant_label") is not None and row.get("purity") is not None:
            label = f"  {row['purity']:.0%} {row['dominant_label']}"
        name = f"{'  ' * depth}{row['name']}"
        key = f"{row['level']}-{row['group']}"
        lines.append(f"{name:<{width}} {row['size']:>9,}  {key:<4}{label}".rstrip())
        below = [r for r in rows if r["level"] == row["level"] - 1 and r["parent"] == row["group"]]
        for child in sorted(below, key=lambda r: -r["size"]):
            draw(child, depth + 1)

    for row in sorted((r for r in rows if r["level"] == top), key=lambda r: -r["size"]):
        draw(row, 0)
    return lines
