"""Write the paper's tables and figures as one page, from the stored cells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.label_rows import SURE
from experiments.large import large_section
from experiments.paper_sentences import (
    ablation_sentence,
    collapse_sentence,
    gap_sentences,
    surface_sentences,
)
from experiments.paper_tables import (
    ABLATIONS,
    ablation_table,
    best_on_validation,
    tables_beside_paper,
)
from experiments.published import ODDITIES
from experiments.stored import commits, earlier_note, read_known
from experiments.studies import load_study, study_names, study_rank
from experiments.verdict import verdict_section
from graphham.errors import InputError
from graphham.evaluate.cells import LEARNED, Cell, Record
from graphham.evaluate.reporting import (
    TITLES,
    compare_groups,
    group_records,
    having,
    hierarchy_table,
    link_detail_table,
    select,
)
from graphham.evaluate.splits import PROTOCOLS
from graphham.evaluate.tables import Column, Table, join_markdown, text_columns

OURS = "graphham"
_SCORERS = (
    "Links are ranked by cosines: of the first layer for GraphHAM, as printed or not, of their "
    "vectors for other methods (asp2vec by its own products). Tables of the learned scorer are "
    "apart: there every method is one clue beside shared neighbours, degrees and features, and "
    "the row clues has these without a network."
)


def paper_text(root: str | Path, pictures: str = "experiments/results/figures") -> str:
    """Return the paper's tables and figures as one page, from the cells stored below ``root``.

    Args:
        root: Results folder.
        pictures: Where the pictures are, seen from the page.
    """
    records = read_known(root)
    if not records:
        raise InputError(
            f"there are no finished cells in {root}; run 'graphham reproduce table2 --quick' first"
        )
    whole = {name: load_study(name) for name in study_names()}
    studies = {n: select(records, study.cells) for n, study in whole.items() if not study.page}
    # Surfaces vary the settings on purpose; their cells are no part of any mean.
    plain = {
        name: best_on_validation(rows)
        for name, rows in studies.items()
        if not name.startswith("figure")
    }
    measured = {Cell.from_dict(r["cell"]).key: r for rows in plain.values() for r in rows}
    parts = [_head(measured), verdict_section(measured), _losses(measured)]
    seen: set[str] = set()
    for name in sorted(studies, key=study_rank):
        if studies[name]:
            parts += [_section(name, studies[name], seen, pictures)]
    parts.append(large_section(root))
    parts.append(_chosen(measured))
    parts.append(_protocols())
    return "\n".join(part.rstrip() + "\n" for part in parts if part)


def study_tables(name: str, records: list[Record]) -> list[Table]:
    """Return the tables of one study from its finished cells; figures have none of numbers."""
    if name == "table1":
        return [_data_table(records)]
    if name == "table4":
        return [ablation_table(records)]
    if name == "presets":
        return [_metric_table(records, name)]
    tables = []
    for kind in ("classify", "links"):
        chosen = having(records, lambda cell, kind=kind: cell["kind"] == kind)  # type: ignore[misc]
        if chosen and not name.startswith("figure"):
            tables += tables_beside_paper(chosen, kind, OURS, load_study(name).cells)
            chosen = best_on_validation(chosen)
            if kind == "links":
                tables.append(link_detail_table(chosen))
            # A fit has the same groups whoever scores its links.
            chosen = having(chosen, lambda cell: not cell["protocol"].endswith(LEARNED))
            found = hierarchy_table(chosen, "hierarchy", "The hierarchy of the same runs")
            if found.rows:
                tables.append(found)
    if name == "figure5":
        tables += _surface_tables(records)
    return tables


def _section(name: str, records: list[Record], seen: set[str], pictures: str) -> str:
    study = load_study(name)
    seen.add(study.title)
    total = len(study.cells)
    blocks = [
        f"## {study.title}",
        f"`graphham reproduce {name}`: {len(records)} of {total} cells finished.",
    ]
    if name.startswith("figure"):
        blocks.append("\n".join(_pictures(name, records, pictures)))
    said = _sentences(name, records)
    earlier = earlier_note(records)
    if earlier:
        said = [f"**{earlier}**", *said]
    if said:
        blocks.append("\n".join(f"- {line}" for line in said))
    blocks.append(join_markdown(study_tables(name, records), seen))
    return "\n\n".join(blocks)


def _sentences(name: str, records: list[Record]) -> list[str]:
    """Return what is seen, in words."""
    if name == "figure5":
        from experiments.paper_figures import surfaces

        return surface_sentences(surfaces(records))
    if name == "figure6":
        return gap_sentences(records)
    if name == "table3":
        return [_SCORERS]
    found = [collapse_sentence(records)] if name in ("table2", "table4") else []
    if name == "table4":
        found.append(ablation_sentence(ablation_table(records).rows))
    return [text for text in found if text]


def _pictures(name: str, records: list[Record], folder: str) -> list[str]:
    """Return links to the figure, one per graph where each graph has its own."""
    cells = [record["cell"] for record in records]
    files = [name]
    if name == "figure6":
        files = [gap_picture(cell) for cell in cells]
    elif name in ("figure3", "figure4"):
        files = [f"{name}-{picture_name(cell)}" for cell in cells]
    files = list(dict.fromkeys(files))
    return [f"![{file}]({folder}/{file}.png)" for file in files]


def picture_name(cell: Mapping[str, Any]) -> str:
    """Return what the picture of a portrait is called: its graph, and the preset if not ours."""
    preset = cell["settings"].get("preset")
    return f"{cell['graph']}-{preset}" if preset else str(cell["graph"])


def gap_picture(cell: Mapping[str, Any]) -> str:
    """Return the picture of Figure 6 that a portrait is part of: graphs stand side by side."""
    preset = cell["settings"].get("preset")
    return f"figure6-{preset}" if preset else "figure6"


def _head(records: Mapping[str, Record]) -> str:
    known = commits(records.values())
    shown = ", ".join(f"`{commit}`" for commit in known[:12]) or "unknown"
    more = f" and {len(known) - 12} more" if len(known) > 12 else ""
    return f"""# The paper's tables

This page is generated by `graphham reproduce results` from the records of {len(records):,}
finished cells in `experiments/results/*.jsonl`; no number in it is typed. A cell is one method on
one fold of one graph. Every table can be measured again with the command above it; settings stand
in `experiments/*.toml`. Values are mean ± population deviation over cells; n is their number.

Source versions measured: {shown}{more}.

What the paper prints cannot be compared without care:

{chr(10).join(f"- {line}" for line in ODDITIES)}
"""


def _losses(records: Mapping[str, Record]) -> str:
    """List every rival that is ahead of graphham, significant or not."""
    rows = []
    for kind, metrics in (("classify", ("accuracy", "macro_f1")), ("links", ("auc", "mrr"))):
        groups = group_records(r for r in records.values() if r["cell"]["kind"] == kind)
        for (graph, protocol, method), group in groups.items():
            ours = groups.get((graph, protocol, OURS))
            if method == OURS or ours is None or not len(ours):
                continue
            for metric in metrics:
                found = compare_groups(group, ours, metric, fewest=SURE)
                if found is not None and found.difference > 0:
                    rows.append(
                        {
                            "graph": graph,
                            "protocol": protocol,
                            "metric": TITLES[metric],
                            "rival": method + (" (ablation)" if method in ABLATIONS else ""),
                            "ahead": found.difference,
                            "p": found.p,
                            "count": found.count,
                        }
                    )
    columns = (
        *text_columns("graph", "protocol", "metric", "rival"),
        Column("ahead", "ahead by", "change"),
        Column("p", "p", "p"),
        Column("count", "n", "count"),
    )
    text = (
        "Every case in which another method has the higher mean on the same folds, whether or not "
        "the difference is more than luck (p as in the tables below, not adjusted for number; from "
        f"{SURE} folds on)."
    )
    body = (
        Table("", columns, tuple(rows)).markdown() if rows else "None among the cells measured.\n"
    )
    return f"## Where graphham loses\n\n{text}\n\n{body}"


def _data_table(records: list[Record]) -> Table:
    names = (
        ("nodes", "count"),
        ("paper_nodes", "count"),
        ("edges", "count"),
        ("raw_edges", "count"),
        ("paper_edges", "count"),
        ("classes", "count"),
        ("paper_classes", "count"),
        ("clustering", "score"),
        ("paper_clustering", "score"),
    )
    columns = (
        Column("name", "graph"),
        *(Column(name, name.replace("_", " "), kind) for name, kind in names),  # type: ignore[arg-type]
    )
    note = "edges: pairs of neighbours, each once, no loops; raw edges: counted as the paper does."
    rows = tuple(record["metrics"] for record in records if record.get("status") == "done")
    return Table("Table 1: data", columns, rows, (note,))


def _metric_table(records: list[Record], name: str) -> Table:
    """Return every number of every group of cells; the documentation shows some of them."""
    rows = [
        {"graph": graph, "protocol": protocol, "method": method, "metric": metric,
         "value": group.spread(metric), "count": len(group)}
        for (graph, protocol, method), group in group_records(records).items()
        for metric in next(iter(group.records.values()), {}).get("metrics", {})
    ]  # fmt: skip
    columns = (
        *text_columns("graph", "protocol", "method", "metric"),
        Column("value", "mean", "score"),
        Column("count", "n", "count"),
    )
    return Table(load_study(name).title, columns, tuple(rows))


def _surface_tables(records: list[Record]) -> list[Table]:
    from experiments.paper_figures import surfaces

    tables = []
    for surface in surfaces(records):
        columns = (
            Column("row", surface.row_name),
            *(Column(f"c{i}", f"{v:g}", "score") for i, v in enumerate(surface.columns)),
        )
        rows = tuple(
            {"row": f"{value:g}", **{f"c{i}": v for i, v in enumerate(line)}}
            for value, line in zip(surface.rows, surface.values, strict=True)
        )
        title = f"{surface.graph}: accuracy over {surface.row_name} x {surface.column_name}"
        tables.append(Table(title, columns, rows, name=surface.row_name.split()[0].lower()))
    return tables


def _chosen(records: Mapping[str, Record]) -> str:
    """Count how often validation chose which settings, where there was a choice."""
    counts: dict[tuple[str, str, str, str], int] = {}
    for record in records.values():
        cell = record["cell"]
        if record.get("tried"):
            key = (cell["graph"], cell["protocol"], cell["method"], json.dumps(record["chosen"]))
            counts[key] = counts.get(key, 0) + 1
    if not counts:
        return ""
    names = ("graph", "protocol", "method", "settings")
    rows = [
        {**dict(zip(names, key, strict=True)), "count": count}
        for key, count in sorted(counts.items())
    ]
    columns = (*(Column(name, name) for name in names), Column("count", "cells", "count"))
    text = "Chosen on validation data, the same number of settings tried for every method."
    return f"## Settings chosen\n\n{text}\n\n{Table('', columns, tuple(rows)).markdown()}"


def _protocols() -> str:
    lines = [f"- **{name}**: {text}." for name, text in PROTOCOLS.items()]
    return "## Protocols\n\n" + "\n".join(lines) + "\n"
