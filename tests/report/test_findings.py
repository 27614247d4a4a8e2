"""The sentences above the pictures say what the run's own tables say."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from graphham.report import RunView, findings
from tests.report.conftest import write_run


def numbers(text: str) -> list[float]:
    return [float(n.replace(",", "")) for n in re.findall(r"[\d,.]*\d", text)]


def test_maps_say_how_far_colours_stand_together(view: RunView) -> None:
    xy = view.layout.xy
    apart = ((xy[:, None] - xy[None]) ** 2).sum(axis=2) + np.diag(np.full(len(xy), np.inf))
    near = np.argsort(apart, axis=1)[:, :10]
    groups = view.result.groups[0]
    share = (groups[near] == groups[:, None]).mean()
    said = findings.map_finding(view, 1)
    assert numbers(said) == [10, round(100 * share)]
    assert "fine group" in said
    assert "coarse group" in findings.map_finding(view, 2)
    values = view.result.concentration
    found = numbers(findings.map_finding(view, "concentration"))
    assert found[0] == round(float(np.median(values)), 2)
    assert found[2] == round(100 * float((values < 0.5).mean()), 1)


def test_nodes_without_a_label_are_counted(view: RunView) -> None:
    unknown = int((view.label_codes < 0).sum())
    said = findings.map_finding(view, "label")
    assert (f"{unknown:,} nodes without a label are grey" in said) == (unknown > 0)


def test_the_tree_names_the_largest_and_the_smallest(view: RunView) -> None:
    said = findings.tree_finding(view)
    top, fine = view.tree.sizes[-1], view.tree.sizes[0]
    assert view.tree.names[-1][int(top.argmax())][:50] in said
    used = fine[fine > 0]
    assert numbers(said)[-1] == used.min()
    assert f"of {len(used)} fine groups" in said


def test_a_tree_of_one_group_has_no_smallest(tmp_path: Path) -> None:
    view = RunView.of(write_run(tmp_path / "run", groups=(1,)))
    assert findings.tree_finding(view).endswith("there is no other.")


def test_levels_that_do_not_nest_say_how_much_goes_elsewhere(tmp_path: Path) -> None:
    view = RunView.of(write_run(tmp_path / "run", tree=False))
    flow = view.tree.flows(1, 2)
    apart = 1 - flow.max(axis=1).sum() / flow.sum()
    assert f"{apart:.1%} of the nodes go elsewhere" in findings.flow_finding(view)
    share = (flow.max(axis=1) / np.maximum(flow.sum(axis=1), 1))[flow.sum(axis=1) > 0]
    assert f"{share.min():.0%} in one" in findings.levels_finding(view)


def test_labels_name_the_most_and_the_least_gathered(view: RunView) -> None:
    codes, groups = view.label_codes, view.result.groups[1]
    share = {
        view.label_names[c]: np.bincount(groups[codes == c]).max() / (codes == c).sum()
        for c in np.unique(codes[codes >= 0])
    }
    said = findings.labels_finding(view, 2)
    assert said.startswith(f"{max(share, key=lambda k: share[k])} lies most")
    assert f"{max(share.values()):.0%} in" in said
    assert f"{min(share.values()):.0%} in its largest" in said


def test_predictions_name_the_commonest_mistake(tmp_path: Path) -> None:
    view = RunView.of(write_run(tmp_path / "run", classify=True))
    labels, said = view.result.labels, view.result.prediction
    assert labels is not None
    assert said is not None
    known = labels.known & (labels.codes != said.codes)
    pairs, count = np.unique(
        np.stack([labels.codes[known], said.codes[known]]), axis=1, return_counts=True
    )
    sentence = findings.confusion_finding(view)
    share = count.max() / (labels.codes == pairs[0, count.argmax()]).sum()
    assert f"takes {share:.0%} of" in sentence
    view.__dict__["result"] = replace(view.result, prediction=labels)
    assert findings.confusion_finding(view).endswith("nothing is mistaken.")


def test_boundary_attention_and_training_repeat_the_tables(view: RunView) -> None:
    said = findings.boundary_finding(view)
    assert numbers(said)[:2] == [int(view.is_boundary.sum()), 80]
    gap = view.result.attention_gap[0]  # type: ignore[index]
    middle, high = np.quantile(gap, [0.5, 0.95])
    found = numbers(findings.attention_finding(view))
    assert found[1:3] == [round(float(middle), 3), round(float(high), 3)]
    assert "fell from 3 to 1 in 3 epochs" in findings.training_finding(view)
