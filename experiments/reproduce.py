"""Make the paper's tables and figures again: run the cells, then write what they say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.hierarchy_peers import PEERS
from experiments.measuring import measure
from experiments.paper_figures import (
    cooccurrence_figure,
    gap_figure,
    map_figure,
    save_figure,
    surface_figure,
    surfaces,
)
from experiments.paper_page import gap_picture, picture_name, study_tables
from experiments.results_page import write_results
from experiments.stale import stale_parts, stale_text
from experiments.stored import gather, is_fresh, read_shared, read_stored
from experiments.studies import Study, load_study, study_names, study_variants
from experiments.versions import table_version
from graphham.errors import InputError
from graphham.evaluate.cells import Cell, CellStore, Record
from graphham.evaluate.learned_links import CLUES
from graphham.evaluate.reporting import select
from graphham.evaluate.running import Outcome, run_cells
from graphham.methods.registry import method_class

if TYPE_CHECKING:
    from graphham.system.console import Screen


def reproduce(
    names: Sequence[str],
    out: str | Path,
    screen: Screen,
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    budget: int | None = None,
    quick: bool = False,
    keep: bool = False,
    renew: bool = False,
) -> Outcome:
    """Run the unfinished cells of some studies and write their tables and figures.

    Args:
        names: Studies, or ``all``.
        out: Results folder: ``cells``, ``tables`` and ``figures`` below it.
        screen: Where progress and tables are shown.
        datasets: Only these graphs.
        methods: These methods instead of the studies' own.
        seeds: These seeds instead of the studies' own.
        budget: Settings to choose among for every method.
        quick: Small versions.
        keep: Leave the fitted method as a run folder in every cell.
        renew: Measure cells of other versions of the code again; those whose stored line is of the
            present one are taken as they are.
    """
    wanted = study_names() if "all" in names else list(dict.fromkeys(names))
    check_methods(methods, wanted)
    studies: list[Study] = []
    refusal: InputError | None = None
    for name in wanted:
        try:
            studies.append(
                load_study(
                    name,
                    datasets=datasets,
                    methods=methods,
                    seeds=seeds,
                    budget=budget,
                    quick=quick,
                )
            )
        except InputError as error:
            # With "all", a study without the graphs asked for has nothing to do.
            refusal = refusal or error
    if not studies:
        assert refusal is not None
        raise refusal
    store = CellStore(out)
    cells = [cell for study in studies for cell in study.cells]
    screen.say(
        "Plan",
        [f"{', '.join(s.name for s in studies)}: {len({c.key for c in cells})} cells", str(out)],
    )
    known = _current_lines(out, cells) if renew else {}
    todo = [cell for cell in cells if cell.key not in known]
    outcome = run_cells(
        todo, store, screen, keep=keep, work=measure, version=table_version, renew=renew
    )
    outcome.records |= known
    for study in studies:
        write_study(study, outcome.records, store, screen)
    return outcome


def write_stale(out: str | Path, names: Sequence[str], screen: Screen) -> None:
    """Show which stored cells are of other versions of the code, and how to renew them."""
    screen.plain(stale_text(stale_parts(out, names)))


def _current_lines(out: str | Path, cells: Sequence[Cell]) -> dict[str, Record]:
    stored, shared = read_stored(out), read_shared(out)
    found: dict[str, Record] = {}
    for cell in cells:
        if is_fresh(cell, stored.get(cell.key)):
            found[cell.key] = stored[cell.key]
        elif is_fresh(cell, shared.get(cell.key), shared=True):
            found[cell.key] = shared[cell.key]
    return found


def write_page(out: str | Path, file: str | Path, screen: Screen) -> None:
    """Bring finished cells into the stored ones and write RESULTS.md from all of them."""
    count, paths = gather(out)
    screen.say("Gathered", f"{count} cells into {len(paths)} files")
    screen.say("Wrote", str(write_results(out, file)))


def write_study(
    study: Study, records: dict[str, Record], store: CellStore, screen: Screen
) -> list[Path]:
    """Write the tables and figures of a study from its finished cells, and show the tables."""
    done = select(records, study.cells)
    paths: list[Path] = []
    tables = study_tables(study.name, done)
    for table in tables:
        screen.plain(f"\n{table.title}\n")
        screen.plain(table.plain())
        paths += table.write(store.root / "tables", f"{study.name}-{table.name}".strip("-"))
    if study.name.startswith("figure"):
        paths += draw_study(study, done, store)
    screen.say("Wrote", [str(path) for path in paths])
    return paths


def draw_study(study: Study, records: list[Record], store: CellStore) -> list[Path]:
    """Draw a figure, one file per graph (and one for all where graphs stand side by side)."""
    folder = store.root / "figures"
    if study.name == "figure5":
        return save_figure(surface_figure(surfaces(records)), folder, study.name)
    loaded: dict[str, tuple[Record, Any]] = {}
    for record in records:
        if record.get("status") == "done":
            arrays = store.read_arrays(Cell.from_dict(record["cell"]))
            if arrays:
                loaded.setdefault(picture_name(record["cell"]), (record, arrays))
    if study.name == "figure6":
        together: dict[str, dict[str, Any]] = {}
        for record, arrays in loaded.values():
            file = gap_picture(record["cell"])
            together.setdefault(file, {})[record["cell"]["graph"]] = arrays
        return [
            path
            for file, named in together.items()
            for path in save_figure(gap_figure(named), folder, file)
        ]
    draw = map_figure if study.name == "figure3" else cooccurrence_figure
    paths: list[Path] = []
    for name, (record, arrays) in loaded.items():
        figure = draw(arrays, name, record.get("classes", ()))
        paths += save_figure(figure, folder, f"{study.name}-{name}")
    return paths


def check_methods(methods: Sequence[str] | None, studies: Sequence[str]) -> None:
    """Refuse unknown names before any work."""
    varied = [study_variants(study) for study in studies if study in study_names()]
    known = {CLUES, *PEERS, *(name for variants in varied for name in variants)}
    for name in methods or ():
        if name not in known:
            method_class(name)
