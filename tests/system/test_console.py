"""What the person at the terminal sees while a fit runs."""

import io

import pytest
from rich.console import Console

from graphham.system.console import (
    FitBar,
    Screen,
    TrainingProgress,
    Unheard,
    clock,
    group_lines,
    loss_text,
    tree_lines,
)


@pytest.fixture(autouse=True)
def no_forced_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)


class Plan:
    def lines(self) -> list[str]:
        return ["2 layers", "about 10 MB"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-:--"), (0, "0:00"), (59.6, "1:00"), (61, "1:01"), (3600, "1:00:00"), (-3, "0:00")],
)
def test_clock(seconds: float | None, text: str) -> None:
    assert clock(seconds) == text


def test_loss_text_names_the_parts() -> None:
    record = {
        "epoch": 3,
        "loss": 1.93,
        "context": 1.71,
        "nesting_loss": 0.02,
        "validation": 0.8,
        "seconds": 2.0,
    }
    assert loss_text(record) == "loss 1.930 (context 1.710, nesting 0.020)  validation 0.800"


def test_a_file_gets_few_lines_and_the_last_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("graphham.system.console.time.monotonic", lambda: now[0])
    file = io.StringIO()
    with TrainingProgress(Screen(file=file)) as progress:
        progress.on_plan(Plan())
        progress.on_start(100, 0)
        for epoch in range(1, 101):
            now[0] += 0.5
            progress.on_epoch(epoch, {"loss": 2.0 / epoch})
        progress.on_note("a group is empty")
        progress.on_end("complete")
    lines = file.getvalue().splitlines()
    assert lines[:2] == ["Plan      2 layers", "          about 10 MB"]
    training = [line for line in lines if line.startswith("Training")]
    assert len(training) == 11  # one each five seconds, and the last
    assert "epoch 51/100" in training[5]
    assert training[5].endswith("left 0:24")  # 49 epochs of half a second
    assert "epoch 100/100" in training[-1]
    assert lines[-1] == "Note      a group is empty"


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"loss": 1.0}, "the loss has settled"),
        ({"loss": 1.0, "validation": 0.5}, "the validation score no longer rose"),
    ],
)
def test_an_early_end_is_said_once(record: dict[str, float], why: str) -> None:
    for kind in (TrainingProgress, lambda screen: FitBar(screen, is_asked=True)):
        file = io.StringIO()
        with kind(Screen(file=file)) as progress:
            progress.on_start(80, 0)
            for epoch in range(1, 24):
                progress.on_epoch(epoch, record)
            progress.on_end("complete")
        lines = file.getvalue().splitlines()
        assert lines[-1] == f"Training  ended at epoch 23 of 80: {why}"
        assert sum("ended" in line for line in lines) == 1


def test_an_end_that_is_not_early_is_not_said() -> None:
    for reached, status in ((80, "complete"), (23, "interrupted")):
        file = io.StringIO()
        with TrainingProgress(Screen(file=file)) as progress:
            progress.on_start(80, 0)
            progress.on_epoch(reached, {"loss": 1.0})
            progress.on_end(status)
        assert "ended" not in file.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_live_bar() -> None:
    file = Terminal()
    screen = Screen(file=file)
    # A terminal whatever this machine's environment says about terminals and colours.
    screen.console = Console(
        file=file, force_terminal=True, color_system="standard", width=120, _environ={}
    )
    screen.say("Reading", "plain text")
    with TrainingProgress(screen) as progress:
        progress.on_start(4, 2)
        progress.on_epoch(3, {"loss": 1.5})
        progress.on_epoch(4, {"loss": 1.25})
    assert "\x1b[1mReading   \x1b[0mplain text\n" in file.getvalue()  # only the label is bold
    assert "epoch 4/4" in file.getvalue()
    assert "loss 1.250" in file.getvalue()


def test_quiet_keeps_remarks() -> None:
    file = io.StringIO()
    progress = TrainingProgress(Screen(quiet=True, file=file))
    progress.on_plan(Plan())
    progress.on_start(1, 0)
    progress.on_epoch(1, {"loss": 1.0})
    progress.on_note("level 2 collapsed")
    assert file.getvalue() == "Note      level 2 collapsed\n"


def test_group_lines_for_one_and_two_levels() -> None:
    one = {"levels": 1, "used_1": 3, "groups_1": 4, "largest_share_1": 0.5, "nesting": None}
    assert group_lines(one) == [
        "level 1: 3 of 4 groups in use, largest 50%",
        "in use is a group that at least one node is shown in",
    ]
    two = {
        **{"levels": 2, "nesting": 0.9},
        **{"used_1": 3, "groups_1": 4, "largest_share_1": 0.5, "nmi_1": 0.61},
        **{"used_2": 2, "groups_2": 2, "largest_share_2": 0.7, "nmi_2": None},
    }
    lines = group_lines(two)
    assert lines[0].startswith("level 2")
    assert lines[1].endswith("NMI with the labels 0.61")
    assert "0.900" in lines[2]


def test_tree_lines_put_children_below_their_parent() -> None:
    rows = [
        {"level": 1, "group": 0, "name": "apples", "size": 3, "parent": 1},
        {"level": 1, "group": 1, "name": "pears", "size": 5, "parent": 1},
        {"level": 1, "group": 2, "name": "cars", "size": 1, "parent": 0},
        {"level": 1, "group": 3, "name": "nothing", "size": 0, "parent": 0},
        {"level": 2, "group": 0, "name": "things", "size": 1, "parent": None},
        {"level": 2, "group": 1, "name": "fruit", "size": 8, "parent": None},
    ]
    names = [line[:48].rstrip() for line in tree_lines(rows)]
    assert names == ["fruit", "  pears", "  apples", "things", "  cars"]


def test_tree_lines_name_groups_as_commands_take_them_and_stay_in_columns() -> None:
    rows = [
        {"level": 1, "group": 7, "name": "a name that is longer " * 3, "size": 3, "parent": 0},
        {"level": 1, "group": 2, "name": "cars", "size": 1234, "parent": 0},
        {"level": 2, "group": 0, "name": "things", "size": 1237, "parent": None},
    ]
    lines = tree_lines(rows)
    assert [line.split()[-2:] for line in lines] == [
        ["1,237", "2-0"],
        ["1,234", "1-2"],
        ["3", "1-7"],
    ]
    assert len({line.rindex(line.split()[-1]) for line in lines}) == 1


def test_a_fit_from_python_shows_a_bar_only_where_one_can_be_drawn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(FitBar.wanted(None), Unheard)  # pytest's output is no terminal
    assert isinstance(FitBar.wanted(False), Unheard)
    shown = FitBar.wanted(True)
    assert isinstance(shown, FitBar)
    monkeypatch.setattr(Screen, "is_live", property(lambda self: True))
    assert isinstance(FitBar.wanted(None), FitBar)
    assert isinstance(FitBar.wanted(False), Unheard)
    silent = Unheard()
    silent.on_start(3, 0)
    silent.on_epoch(3, {"loss": 1.0})
    silent.on_note("nothing")
    silent.on_end("complete")
    assert capsys.readouterr().out == ""
