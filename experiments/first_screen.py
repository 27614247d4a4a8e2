"""The first screen of RESULTS.md: verdicts in a few sentences, then graphs nobody tuned on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments import hierarchy_study
from experiments.cell_file import read_cells
from experiments.label_rows import FEWEST, LAMBDA, OURS, PARTS, SURE, Condition, Scores
from experiments.planted_cases import is_planted
from experiments.planted_labels import BARE
from experiments.unseen import TASKS, Place, Unseen, standard_error
from graphham.evaluate.cells import Record
from graphham.evaluate.significance import Comparison, holm
from graphham.evaluate.tables import Column, Table

_NAMES = {
    "amazon-photo": "Photo",
    "amazon-computers": "Computers",
    "wordnet": "WordNet",
    "homophilous": "planted homophilous",
    "heterophilous": "planted heterophilous (75%)",
    "partners": "planted heterophilous",
    "copied": "planted copies",
    "copied-directed": "planted copies, directed",
    "missing_features": "planted, features missing",
    "tree-unequal": "planted unequal tree",
    "chain": "planted chain, measured features",
    "unlinked": "planted, links without sense",
    "interests": "planted, several labels",
    "interests-partners": "planted, several labels, heterophilous",
}
_NAMED = 4  # cases a sentence names at most


def graph_name(graph: str) -> str:
    """Return what people call a graph, with the noise added to it."""
    base, plus, percent = graph.partition("+")
    whole = base.removesuffix(BARE)
    name = _NAMES.get(whole, whole if is_planted(whole) else whole.capitalize())
    name += ", no features" if whole != base else ""
    return f"{name} + {percent}% noise" if plus else name


def case_name(condition: Condition) -> str:
    """Return a graph and its labels in words."""
    graph, protocol = condition
    few = protocol.removeprefix("few")
    return f"{graph_name(graph)}, {protocol if few == protocol else f'{few} labels'}"


def place_name(place: Place) -> str:
    """Return a graph and its task in words."""
    return f"{graph_name(place[0])}: {TASKS[place[1]]}"


def shown_cases(scores: Scores) -> list[Condition]:
    """Return the cases of development graphs and few labels, in the order they are read in."""

    def order(condition: Condition) -> tuple[Any, ...]:
        graph, protocol = condition
        base, _, percent = graph.partition("+")
        few = protocol.removeprefix("few")
        labels = int(few) if few.isdecimal() else 10_000 + (protocol == "links")
        return (is_planted(base), base, int(percent or 0), labels)

    return sorted(scores.conditions(), key=order)


def leads(scores: Scores, condition: Condition) -> bool:
    """Tell whether no other method has the higher mean on the draws it shares with ours."""
    found = [scores.against(m, condition) for m in scores.methods if m != OURS]
    return all(one.difference < 0 for one in found if one is not None)


def part_tests(scores: Scores) -> dict[tuple[str, Condition], tuple[Comparison, float | None]]:
    """Return ours without each part against ours, with p after Holm over all of them.

    A p is ``None`` below ten draws.
    """
    found = {
        (part, condition): one
        for part in dict.fromkeys((*PARTS.values(), LAMBDA))
        for condition in shown_cases(scores)
        if (one := scores.against(part, condition, part=True)) is not None
    }
    sure = {key: one.p for key, one in found.items() if one.count >= SURE}
    adjusted = dict(zip(sure, holm(list(sure.values())), strict=True))
    return {key: (one, adjusted.get(key)) for key, one in found.items()}


def summary(root: Path, scores: Scores, unseen: Unseen) -> str:
    """Return the verdicts as a short list; nothing where nothing was measured."""
    told = [
        *rank_sentences(unseen),
        *_case_sentence(scores),
        *_group_sentence(read_cells(root / "hierarchy_study.jsonl")),
        *_part_sentence(scores),
    ]
    return "\n".join(["In short:", "", *(f"- {line}" for line in told), ""]) if told else ""


def rank_sentences(unseen: Unseen) -> list[str]:
    """Say whether ours is first on graphs nobody tuned on, and where another is ahead."""
    if not unseen.places:
        return []
    rank, count = unseen.mean_ranks()[OURS]
    rivals = sorted(unseen.rivals().items(), key=lambda item: item[1])
    graphs = len({graph for graph, _ in unseen.places})
    tasks = ", ".join(t for p, t in TASKS.items() if any(q == p for _, q in unseen.places))
    text = (
        f"**On {graphs} graphs nobody tuned it on ({tasks}; {count} cases) its mean rank is "
        f"{rank:.1f}"
    )
    if not rivals:
        text += "**; nobody else has cells in half of them."
    elif rivals[0][1] > rank:
        text += (
            f": first of {len(rivals) + 1} single models**, before {rivals[0][0]} with "
            f"{rivals[0][1]:.1f}."
        )
    else:
        before = [f"{name} {value:.1f}" for name, value in rivals if value <= rank]
        text += f": not the first of {len(rivals) + 1} single models** ({', '.join(before)})."
    lost = unseen.losses()
    if not lost:
        return [text, "Nobody is ahead of it there by more than a standard error."]
    cases = [f"{place_name(place)} ({next(iter(found))})" for place, found in lost.items()]
    named = "; ".join(cases[:_NAMED])
    more = f"; and {len(cases) - _NAMED} more" if len(cases) > _NAMED else ""
    few = sum(all(one.count < FEWEST for one in found.values()) for found in lost.values())
    return [
        text,
        f"Another is ahead of it there in {len(lost)} of {count} cases, {len(lost) - few} by more "
        f"than a standard error and {few} on fewer than {FEWEST} draws: {named}{more}.",
    ]


def _case_sentence(scores: Scores) -> list[str]:
    cases = shown_cases(scores)
    if not cases:
        return []
    text = (
        f"On graphs it was made with, few labels or many, its mean is the highest in "
        f"{sum(leads(scores, c) for c in cases)} of {len(cases)} cases"
    )
    found = [
        (one.difference, method, case)
        for case in cases
        for method in scores.methods
        if method != OURS and (one := scores.against(method, case)) is not None
    ]
    worst = max(found, default=(0.0, "", cases[0]))
    if worst[0] > 0:
        text += f"; it loses most to {worst[1]} ({case_name(worst[2])}: {worst[0]:+.3f})"
    return [f"{text}."]


def _group_sentence(records: Mapping[str, Record]) -> list[str]:
    best: dict[str, dict[str, tuple[float, float]]] = {}
    for cell in hierarchy_study.study_cells():
        record = records.get(cell.key, {})
        if cell.protocol == hierarchy_study.GIVEN and record.get("status") == "done":
            scores = record["metrics"]
            best.setdefault(cell.graph, {})[cell.method] = (scores["ami_1"], scores["ami_2"])
    graphs = [found for found in best.values() if OURS in found and len(found) > 1]
    if not graphs:
        return []
    fine, coarse = (
        sum(found[OURS][at] >= max(pair[at] for pair in found.values()) for found in graphs)
        for at in (0, 1)
    )
    return [
        f"Its groups, found without labels, agree best of all with the true ones on {fine} of "
        f"{len(graphs)} graphs at the fine level and {coarse} at the coarse one, everybody asked "
        f"for as many."
    ]


def _part_sentence(scores: Scores) -> list[str]:
    groups = next(iter(PARTS.values()))
    found = {case: pair for (part, case), pair in part_tests(scores).items() if part == groups}
    told = []
    for words, few in (("with few labels", True), ("with four fifths of them", False)):
        kind = [pair for case, pair in found.items() if case[1].startswith("few") == few]
        if kind:
            points = sorted(100 * one.difference for one, _ in kind)
            span = " to ".join(dict.fromkeys(f"{p:+.1f}" for p in (points[0], points[-1])))
            sure = sum(p is not None and p < 0.05 and one.difference < 0 for one, p in kind)
            told.append(
                f"{span} points {words}, a loss with p < 0.05 after Holm in {sure} of {len(kind)} "
                f"{'case' if len(kind) == 1 else 'cases'}"
            )
    return [f"Without its groups its accuracy changes by {'; '.join(told)}."] if told else []


def unseen_section(unseen: Unseen) -> str:
    """Return the table over graphs nobody tuned on, and where another method is ahead."""
    if not unseen.places:
        return ""
    methods = unseen.methods
    rows: list[dict[str, Any]] = []
    draws = []
    for place, found in unseen.places.items():
        best = max(f"{s.mean:.3f}" for s in found.values())
        row: dict[str, Any] = {"case": place_name(place)}
        for method, standing in found.items():
            row[method] = bold_if(f"{standing.mean:.3f}", f"{standing.mean:.3f}" == best)
        rows.append(row)
        draws.append(max([s.ahead.count for s in found.values() if s.ahead is not None] or [1]))
    ranks = unseen.mean_ranks()
    last = {m: "{:.1f} ({})".format(*ranks[m]) for m in methods}
    rows.append({"case": "**mean rank** (cases)", **last})
    columns = (Column("case", "graph: task"), *(Column(m, m) for m in methods))
    low, high = min(draws), max(draws)
    note = (
        f"Accuracy with four fifths of the labels (micro-F1 where nodes have several) or a few a "
        f"class, AUC of held-out links; mean over {low if low == high else f'{low} to {high}'} "
        f"draws. Of a rival the better on validation of its settings (ours, its paper's, those of "
        f"the shared budget, told how frequent classes are); "
        f"ours has its defaults. Who has fewer draws is placed by the difference to ours on shared "
        f"ones. A rank is among the methods of its row, the mean over the rows a method has. "
        f"Versions before the block model were tuned on Pubmed and Facebook; few labels of Pubmed "
        f"do not count here, since doubting the teacher was decided on them (looks.md)."
    )
    lines = [note, "", Table("", columns, tuple(rows)).markdown().rstrip(), ""]
    lost = unseen.losses()
    if not lost:
        return "\n".join([*lines, "Nobody is ahead of ours by more than a standard error.", ""])
    lines += [
        f"Who is ahead of ours by more than the standard error of the difference (by anything, "
        f"where there are fewer than {FEWEST} draws):",
        "",
    ]
    graphs: dict[str, list[str]] = {}
    for (graph, protocol), ahead in lost.items():
        told = ", ".join(f"{method} {_lead(one)}" for method, one in ahead.items())
        graphs.setdefault(graph, []).append(f"{TASKS[protocol]} {told}")
    lines += [f"- {graph_name(graph)}: {'; '.join(told)}" for graph, told in graphs.items()]
    return "\n".join([*lines, ""])


def _lead(one: Comparison) -> str:
    if one.count < FEWEST:
        return f"{one.difference:+.3f} ({one.count} draw{'s' * (one.count > 1)})"
    return f"{one.difference:+.3f} ± {standard_error(one):.3f} ({one.count} draws)"


def bold_if(text: str, is_best: bool) -> str:
    """Return text, in bold if it is the best of its row."""
    return f"**{text}**" if is_best else text


def small(values: Iterable[float]) -> str | None:
    """Return a mean with the standard error of its last digit in brackets, as 0.883(8)."""
    held = np.array(list(values))
    if not len(held):
        return None
    mean = f"{held.mean():.3f}"
    if len(held) == 1:
        return mean
    return f"{mean}({round(1000 * held.std(ddof=1) / np.sqrt(len(held)))})"
