"""What a benchmark found, one line in the file of its day; the page shows only what is here."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.measure import Sample, Spread, fitted_exponent, ratio
from benchmarks.roof import Roof

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks" / "results"
OURS = "graphham"


@dataclass(frozen=True)
class Comparison:
    """Several sides that did the same work in the same rounds.

    Args:
        name: Short name, unique within the benchmark.
        title: What was done, in words.
        unit: What is counted, such as ``edges``.
        work: How many of them one run handles.
        cpu: Per side the CPU-seconds of each round.
        wall: Per side the clock seconds of each round.
        streamed: Bytes any method must at least stream through memory.
        gathered: Bytes any method must at least read in random rows.
        roof: Bandwidths of the same run, or ``None`` where memory is not the limit.
        ours: Which side is ours.
    """

    name: str
    title: str
    unit: str
    work: float
    cpu: dict[str, list[float]]
    wall: dict[str, list[float]]
    streamed: float = 0.0
    gathered: float = 0.0
    roof: Roof | None = None
    ours: str = OURS

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        unit: str,
        work: float,
        samples: Mapping[str, Sequence[Sample]],
        roof: Roof | None = None,
        streamed: float = 0.0,
        gathered: float = 0.0,
    ) -> Comparison:
        """Take over the samples of an interleaving but for those of the roof."""
        kept = {side: list(rows) for side, rows in samples.items() if not side.startswith("roof")}
        return cls(
            name,
            title,
            unit,
            work,
            {side: [s.cpu for s in rows] for side, rows in kept.items()},
            {side: [s.wall for s in rows] for side, rows in kept.items()},
            streamed,
            gathered,
            roof,
        )

    def ratio(self, peer: str, clock: str = "cpu", ours: str | None = None) -> Spread:
        """Return how many times faster we are than a peer."""
        rows = self.cpu if clock == "cpu" else self.wall
        return ratio(rows[ours or self.ours], rows[peer])

    def rate(self, side: str) -> float:
        """Return units per CPU-second in the best round."""
        return self.work / min(self.cpu[side])

    def share_of_roof(self, side: str) -> float | None:
        """Return the least time memory allows over the time taken in the best round."""
        if self.roof is None or not self.streamed + self.gathered:
            return None
        return self.roof.seconds(self.streamed, self.gathered) / min(self.cpu[side])


@dataclass(frozen=True)
class Curve:
    """How a cost grows with a size.

    Args:
        name: Short name, unique within the benchmark.
        title: What was measured, in words.
        x_label: What grows.
        x: Its values, ascending.
        y_label: What is paid.
        y: Per value of ``x`` one number per round.
    """

    name: str
    title: str
    x_label: str
    x: list[float]
    y_label: str
    y: list[list[float]]

    def middles(self) -> list[float]:
        """Return the median cost at each size."""
        return [Spread.of(values).median for values in self.y]

    def exponent(self) -> float:
        """Return the slope in log-log."""
        return fitted_exponent(self.x, self.middles())


@dataclass(frozen=True)
class Value:
    """One measured number, or several of the same, such as a peak of memory."""

    name: str
    title: str
    unit: str
    values: list[float]

    @property
    def spread(self) -> Spread:
        """Smallest, middle and largest."""
        return Spread.of(self.values)


@dataclass
class Result:
    """Everything one benchmark found.

    Args:
        benchmark: Its name.
        comparisons: Ratios with peers.
        curves: Growth with a size.
        values: Other numbers.
        missing: Peers that could not take part, with the reason.
        notes: What a reader must know.
        facts: Where, when and with what it was measured.
    """

    benchmark: str
    comparisons: list[Comparison] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def comparison(self, name: str) -> Comparison | None:
        """Return a comparison by name."""
        return next((c for c in self.comparisons if c.name == name), None)

    def curve(self, name: str) -> Curve | None:
        """Return a curve by name."""
        return next((c for c in self.curves if c.name == name), None)

    def value(self, name: str) -> Value | None:
        """Return a value by name."""
        return next((v for v in self.values if v.name == name), None)

    def to_json(self) -> str:
        """Return the line that is kept; numbers with six digits, which no ratio here needs."""
        return json.dumps(_rounded(asdict(self))) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Read what :meth:`to_json` wrote."""
        held: dict[str, Any] = json.loads(text)
        comparisons = []
        for entry in held.pop("comparisons"):
            roof = entry.pop("roof")
            comparisons.append(Comparison(**entry, roof=None if roof is None else Roof(**roof)))
        curves = [Curve(**entry) for entry in held.pop("curves")]
        values = [Value(**entry) for entry in held.pop("values")]
        return cls(comparisons=comparisons, curves=curves, values=values, **held)


def facts(quick: bool) -> dict[str, Any]:
    """Return where, when and with what something is measured; no names of hosts or folders."""
    commit, dirty = _commit()
    names = ["torch", "numpy", "numba", "torch_geometric", "scikit-network"]
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit,
        "dirty": dirty,
        "machine": machine(),
        "load": [round(value, 1) for value in os.getloadavg()],
        "quick": quick,
        "python": platform.python_version(),
        "versions": {name: v for name in names if (v := _version(name)) is not None},
    }


def machine() -> str:
    """Return processor, cores and memory in words."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB"


def identity(benchmark: str, held: Mapping[str, Any]) -> str:
    """Return what a day's file holds once: a benchmark at a commit on a machine."""
    where = hashlib.sha256(held["machine"].encode()).hexdigest()[:6]
    return f"{benchmark}-{held['commit'][:7]}-{where}"


def read_day(path: Path) -> dict[str, Result]:
    """Return the results in the file of one day, by identity."""
    if not path.is_file():
        return {}
    found = [Result.from_json(line) for line in path.read_text("utf-8").splitlines()]
    return {identity(result.benchmark, result.facts): result for result in found}


def day_file(held: Mapping[str, Any], folder: Path = FOLDER) -> Path:
    """Return the file that results of these facts belong into."""
    return folder / f"{held['date']}.jsonl"


def save(result: Result, folder: Path = FOLDER) -> Path:
    """Write a result into the file of its day, one line each, whole or not at all."""
    path = day_file(result.facts, folder)
    known = read_day(path)
    known[identity(result.benchmark, result.facts)] = result
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".partial")
    temporary.write_text("".join(known[name].to_json() for name in sorted(known)), "utf-8")
    temporary.replace(path)
    return path


def history(folder: Path = FOLDER) -> dict[str, list[Result]]:
    """Return every full result of every benchmark, by name, the newest first."""
    found: dict[str, list[Result]] = {}
    for path in sorted(folder.glob("????-??-??.jsonl")):
        for result in read_day(path).values():
            if not result.facts["quick"]:
                found.setdefault(result.benchmark, []).append(result)
    # Within a day the later run is the newer; commits have no order here.
    return {
        name: sorted(found[name], key=lambda r: (r.facts["date"], r.facts.get("time", "")))[::-1]
        for name in sorted(found)
    }


def latest(folder: Path = FOLDER) -> dict[str, Result]:
    """Return the newest full result of every benchmark, by name."""
    return {name: runs[0] for name, runs in history(folder).items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list) else value


def _commit() -> tuple[str, bool]:
    """Return the commit, and whether code that is measured differs from it."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    commit = git("rev-parse", "HEAD") or "unknown"
    return commit, bool(git("status", "--porcelain", "--", "src", "benchmarks/cases"))


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
