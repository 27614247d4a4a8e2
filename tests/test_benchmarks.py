"""The benchmark framework: fair rounds, honest numbers, and a page that says what was stored."""

import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import bars, measure, page, peers, plots, results, runner  # noqa: E402
from benchmarks.cases import CASES  # noqa: E402
from benchmarks.measure import Sample, Spread  # noqa: E402
from benchmarks.results import Comparison, Curve, Result, Value  # noqa: E402
from benchmarks.roof import Roof  # noqa: E402

SECONDS = st.floats(1e-6, 1e3)


def test_the_page_is_what_the_stored_results_give() -> None:
    for path, text in page.outputs().items():
        assert path.is_file(), f"{path.name} is missing; run: python -m benchmarks page"
        assert path.read_text("utf-8") == text, f"{path.name} is stale: python -m benchmarks page"
    assert set(page.PLOTS.glob("*.svg")) == set(page.outputs()) - {page.PAGE}


def test_stored_results_name_no_host_and_no_folder() -> None:
    paths = sorted(results.FOLDER.glob("*.jsonl"))
    assert paths
    for path in paths:
        text = path.read_text("utf-8")
        assert str(ROOT) not in text
        assert str(Path.home()) not in text
        found = results.read_day(path)
        assert len(found) == len(text.splitlines())
        assert list(found) == sorted(found)
        assert {results.day_file(result.facts) for result in found.values()} == {path}
        assert {result.benchmark for result in found.values()} <= set(CASES)


def test_order_is_reversed_every_other_round() -> None:
    seen: list[str] = []

    def side(name: str) -> measure.Side:
        def run() -> Sample:
            seen.append(name)
            return Sample(1.0, 1.0)

        return run

    samples = measure.interleave({"a": side("a"), "b": side("b")}, rounds=3)
    assert "".join(seen) == "ab" + "abbaab"
    assert [len(rows) for rows in samples.values()] == [3, 3]


def test_every_sample_repeats_short_work_equally_often() -> None:
    calls = 0

    def work() -> None:
        nonlocal calls
        calls += 1
        sum(range(20_000))

    side = measure.timed(work, at_least=0.02)
    side()
    counts = []
    for _ in range(3):
        before = calls
        side()
        counts.append(calls - before)
    assert counts[0] > 1
    assert len(set(counts)) == 1


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=9))
def test_a_ratio_is_taken_within_rounds(rounds: list[tuple[float, float]]) -> None:
    ours, theirs = [list(side) for side in zip(*rounds, strict=True)]
    spread = measure.ratio(ours, theirs)
    assert spread.low <= spread.median <= spread.high
    # A machine that slows down by any factor for a whole round changes nothing.
    slowed = measure.ratio([8 * v for v in ours], [8 * v for v in theirs])
    assert math.isclose(slowed.median, spread.median)


@given(st.floats(-2, 3), st.floats(1e-3, 1e3), st.integers(2, 6))
def test_the_exponent_of_a_power_is_its_exponent(power: float, scale: float, count: int) -> None:
    x = [10.0**k for k in range(count)]
    assert math.isclose(
        measure.fitted_exponent(x, [scale * v**power for v in x]), power, abs_tol=1e-6
    )


def _result() -> Result:
    roof = Roof(triad=2e10, gather=4e9, row_bytes=256, table_bytes=1 << 20)
    cpu = {"graphham": [0.1, 0.2, 0.1], "GATConv": [2.0, 3.0, 1.9]}
    comparison = Comparison(
        "1-nox", "one head", "edges", 1e5, cpu, cpu, streamed=0.0, gathered=1e8, roof=roof
    )
    curve = Curve("c", "a < b", "edges", [10.0, 100.0], "seconds", [[1.0, 1.2], [10.0, 11.0]])
    held = {
        "date": "2026-01-02",
        "commit": "abcdef0123",
        "dirty": False,
        "machine": "m",
        "load": [0.5],
    }
    held |= {"quick": False, "python": "3.11", "versions": {"torch": "2"}}
    return Result(
        "attention",
        [comparison],
        [curve],
        [Value("rss", "peak", "GiB", [3.0])],
        {"pecanpy": "no wheel"},
        ["a note"],
        held,
    )


def test_a_result_survives_its_file(tmp_path: Path) -> None:
    path = results.save(_result(), tmp_path)
    assert Result.from_json(path.read_text("utf-8")) == _result()
    # Measured again, it takes the place of the first; another benchmark stands beside it.
    other = _result()
    other.benchmark = "walks"
    for result in (_result(), other):
        assert results.save(result, tmp_path) == path
    assert len(path.read_text("utf-8").splitlines()) == 2
    assert results.latest(tmp_path).pop("walks") == other
    path.unlink()
    results.save(_result(), tmp_path)
    assert results.latest(tmp_path) == {"attention": _result()}


def test_quick_results_never_reach_the_page(tmp_path: Path) -> None:
    quick = _result()
    quick.facts["quick"] = True
    results.save(quick, tmp_path)
    assert results.latest(tmp_path) == {}


def test_the_newest_result_counts(tmp_path: Path) -> None:
    old, new = _result(), _result()
    old.facts |= {"date": "2026-01-01", "commit": "fff"}
    results.save(new, tmp_path)
    results.save(old, tmp_path)
    assert results.latest(tmp_path)["attention"].facts["date"] == "2026-01-02"


def test_share_of_the_roof_is_the_least_time_over_the_time_taken() -> None:
    comparison = _result().comparisons[0]
    # 1e8 bytes at 4e9 bytes per second are 25 ms; ours took 100 ms at best.
    assert comparison.share_of_roof("graphham") == pytest.approx(0.25)
    assert comparison.share_of_roof("GATConv") == pytest.approx(0.025 / 1.9)


def test_the_page_tells_met_from_missed_and_unmeasured() -> None:
    text = page.build({"attention": _result()})
    rows = {bar.title: line for bar in bars.BARS for line in text.split("\n") if bar.title in line}
    first = next(t for t in rows if t.startswith("attention block, 1 head, input without"))
    assert rows[first].endswith("19.0x (15.0 to 20.0) | met |")
    assert "not measured" in rows["walks against PecanPy"]
    assert "pecanpy could not take part: no wheel" in text
    slow = bars.Bar("t", "", 20, True, "x", lambda found: None)
    assert not slow.is_met(Spread(15, 19, 25))
    assert bars.Bar("t", "", 1.1, False, "", lambda found: None).is_met(Spread(1, 1.05, 1.2))


def test_plots_are_valid_and_escape_their_labels() -> None:
    held = _result()
    for text in (
        plots.log_log(held.curves[0]),
        plots.bars("<title>", [("x & y", Spread(1.5, 2, 3), 8.0)]),
    ):
        assert ET.fromstring(text).tag.endswith("svg")
    assert "exponent 0.9" in plots.log_log(held.curves[0])


def test_what_is_measured_already_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "QUICK", tmp_path)
    ran: list[str] = []
    monkeypatch.setattr(runner, "_run_apart", lambda name, *rest: ran.append(name) or 0)
    done = _result()
    done.benchmark, done.facts = "cora", results.facts(quick=True)
    results.save(done, tmp_path)
    assert runner.run(["cora", "sampling"], quick=True, again=False, with_peers=False) == []
    assert ran == ["sampling"]
    runner.run(["cora"], quick=True, again=True, with_peers=False)
    assert ran == ["sampling", "cora"]


def test_a_peer_that_failed_is_named_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "HOME", tmp_path)
    assert "not installed" in (peers.reason_missing("torch_geometric") or "")
    held = {"pecanpy": {"ok": False, "version": "", "reason": "no wheel"}}
    (tmp_path / "status.json").write_text(json.dumps(held))
    assert peers.reason_missing("pecanpy") == "no wheel"
    assert peers._run([sys.executable, "-c", "raise ValueError('why')"], 20) == "ValueError: why"
    assert "longer than" in peers._run([sys.executable, "-c", "import time; time.sleep(9)"], 1)


@pytest.mark.parametrize("name", ["attention", "walks"])
def test_a_quick_run_measures_graphham_without_peers(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "measure", name, "--quick"]
    environment = peers.environment()
    environment |= {"GRAPHHAM_BENCH_CACHE": str(tmp_path / "cache")}
    environment |= {"GRAPHHAM_BENCH_VENV": str(tmp_path / "nowhere")}
    done = subprocess.run(
        [*command, "--folder", str(tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.jsonl")
    result = Result.from_json(path.read_text("utf-8"))
    assert result.facts["quick"]
    assert result.missing
    for comparison in result.comparisons:
        assert min(comparison.cpu["graphham"]) > 0
        share = comparison.share_of_roof("graphham")
        assert share is not None
        assert 0 < share < 5


def test_limits_are_worked_out_from_the_same_runs() -> None:
    from benchmarks.cases.names import GAT
    from benchmarks.results import Comparison, Curve, Result, Value

    cpu = {"graphham": [0.1], GAT: [0.4]}
    step = Result("training", comparisons=[Comparison("paper", "t", "seeds", 256, cpu, cpu)])
    step.values += [Value(name, name, "CPU-s", [0.02]) for name in bars._SHARED_PARTS]
    wall = {"graphham": [0.1], "one process": [0.16]}
    two = Result("workers", comparisons=[Comparison("processes", "t", "steps", 1, wall, wall)])
    two.values.append(Value("processes-roof", "t", "x", [1.7]))
    edges, sampled = [1e5, 1e8], [1e5, 1e9]
    curves = [
        Curve(name, "t", "x", x, "y", [[0.1], [1e4]])
        for name, x in zip(bars._EPOCHS, (edges, sampled), strict=True)
    ]
    found = {"training": step, "scaling": Result("scaling", curves=curves), "workers": two}
    first, second, third = bars.limits(found)
    assert "leaves 50 ms" in first
    assert "take 60 ms" in first
    assert "exponent 1.33" in second
    assert "1.60x is 94%" in third
    assert bars.limits({}) == []
