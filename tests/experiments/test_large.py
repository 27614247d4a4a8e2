"""The section of RESULTS.md about the planted graph of Amazon size."""

import json

from experiments.large import FILE, large_section

ABOUT = {
    "part": "about",
    "nodes": 2_449_029,
    "stored_edges": 123_675_964,
    "settings": {"groups": [48, 8]},
    "when": "2026-11-16",
    "sample": 20_000,
    "inputs_cpu_hours": 0.01,
    "nmi_1": 0.5,
    "nmi_2": 0.3,
}
EPOCHS = [
    {"part": "epoch", "steps": 100, "loss": 9.5, "nmi_1": 0.6, "nmi_2": 0.79, "cpu_hours": 0.1},
    {"part": "epoch", "steps": 200, "loss": 9.25, "nmi_1": 0.7, "nmi_2": 0.85, "cpu_hours": 0.2},
]
END = {"part": "end", "nmi_1": 0.91, "nmi_2": 0.99, "cpu_hours": 0.3, "hours": 1, "peak_gib": 4}


def write(folder, *lines):
    (folder / FILE).write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def test_nothing_is_said_about_a_run_that_was_never_made(tmp_path):
    assert large_section(tmp_path) == ""
    write(tmp_path, ABOUT)
    assert large_section(tmp_path) == ""


def test_the_goal_is_reached_at_the_first_epoch_above_it(tmp_path):
    write(tmp_path, ABOUT, EPOCHS[0])
    assert "not reached yet" in large_section(tmp_path)
    write(tmp_path, ABOUT, *EPOCHS, END)
    text = large_section(tmp_path)
    assert "reached after 200 steps and 0.20 CPU-hours" in text
    assert "NMI level 1 0.910, level 2 0.990; 0.30 CPU-hours" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert [row.split("|")[4].strip() for row in table[2:]] == ["0.300", "0.790", "0.850"]
