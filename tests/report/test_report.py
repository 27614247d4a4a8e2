"""The report and its figures, compared with the run they show."""

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphham.cli import main
from graphham.errors import InputError
from graphham.report import RunView, figures, plotlyjs, write_report
from graphham.report.palette import group_colors, spread
from graphham.report.safe_text import one_line, plot_text
from graphham.results.compare import compare_runs, write_comparison
from graphham.results.run_writer import Run, start_run
from tests.hostile import ATTACKS, write_hostile_run
from tests.outputs import make_graph, make_result


def write_run(place: Path, **about: Any) -> Run:
    result = make_result(**{"count": 80, **about})
    with start_run(place, {"seed": 1, "task": "embed"}) as writer:
        for epoch in range(1, 4):
            writer.log({"epoch": epoch, "loss": 3.0 / epoch, "context": 2.0 / epoch, "used_1": 6})
        return writer.finish(result, {}, make_graph(result), {"cost": {"seconds": 3.0}})


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    return RunView.of(write_run(tmp_path_factory.mktemp("report") / "run"))


@pytest.mark.parametrize("color", [1, 2, "label", "concentration"])
def test_the_map_shows_every_node_once_and_the_boundary_again(view: RunView, color: Any) -> None:
    data = figures.node_map(view, color).data
    nodes = [t for t in data if t.name != "boundary nodes"]
    assert sum(len(t.x) for t in nodes) == 80
    edge = next(t for t in data if t.name == "boundary nodes")
    firm = view.run.nodes["concentration"].to_numpy()
    assert len(edge.x) == (firm <= np.quantile(firm, 0.05)).sum()
    if color == 2:
        sizes = {t.name: len(t.x) for t in nodes}
        expected = dict(zip(view.tree.names[1], view.tree.sizes[1].tolist(), strict=True))
        assert sizes == {plot_text(k, 34): v for k, v in expected.items() if v}


def test_flow_tree_and_heat_maps_add_up(view: RunView) -> None:
    flow = figures.merge_flow(view).data[0]
    assert sum(flow.link.value) == 80
    tree = figures.group_tree(view).data[0]
    sizes = dict(zip(tree.ids, tree.values, strict=True))
    assert sizes["all"] == 80
    for group in range(3):
        below = [i for i, p in zip(tree.ids, tree.parents, strict=True) if p == f"2-{group}"]
        assert sizes[f"2-{group}"] == sum(sizes[i] for i in below)
    levels = figures.level_heatmap(view).data[0]
    assert np.sum(levels.customdata) == 80
    labels = figures.label_heatmap(view).data[0]
    assert np.sum(labels.customdata) == (view.label_codes >= 0).sum()
    np.testing.assert_allclose(np.sum(labels.z, axis=1), 1)
    histogram = figures.attention_histogram(view)
    assert [float(np.sum(t.y)) for t in histogram.data] == pytest.approx([1, 1])
    curves = {t.name: list(t.y) for t in figures.training_curves(view).data}
    assert curves == {"loss": [3.0, 1.5, 1.0], "context": [2.0, 1.0, 2 / 3]}


def test_what_cannot_be_drawn_says_why(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", groups=(4,), labels="none")
    with pytest.raises(InputError, match="one level"):
        figures.merge_flow(run)
    with pytest.raises(InputError, match="no labels"):
        figures.node_map(run, "label")
    with pytest.raises(InputError, match="cannot colour by 3"):
        figures.node_map(run, 3)
    assert write_report(run).is_file()


@pytest.mark.parametrize("labels", ["multi", "integer", "none"])
@pytest.mark.parametrize("groups", [(5, 3, 2), (1,), (6, 1)])
def test_every_kind_of_run_has_a_report(tmp_path: Path, labels: str, groups: tuple) -> None:
    page = write_report(write_run(tmp_path / "run", labels=labels, groups=groups)).read_text()
    assert page.count("data-figure") >= 3


def test_the_page_needs_nothing_from_outside(view: RunView) -> None:
    page = write_report(view).read_text("utf-8")
    assert len(page) < 8e6
    ours = page[: page.index('<script type="application/json"')]
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", ours)
    assert "@import" not in ours
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    rules = html.unescape(policy[1])
    assert "default-src 'none'" in rules
    assert "'unsafe-inline'" not in rules.split("style-src")[0]
    assert "connect-src" not in rules  # so default-src forbids every request
    for row in view.groups:
        assert html.escape(row["name"]) in page


def test_hostile_text_never_becomes_markup(tmp_path: Path) -> None:
    run = write_hostile_run(tmp_path / "run")
    page = write_report(run).read_text("utf-8")
    scripts = re.findall(r"<script[^>]*>", page)
    assert len(scripts) == 4
    for attack in ATTACKS[:5]:
        assert attack not in page
    assert ATTACKS[5] in page  # shown as it is, not computed by a template
    figures_json = page.split('id="figures">')[1].split("</script>")[0]
    texts = json.dumps(json.loads(figures_json))
    assert "<script" not in texts
    assert "<img" not in texts
    assert "\u202e" not in page
    assert len(page) < 12e6


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b", "a\\x00b"),
        ("\u202eabc", "\\u202eabc"),
        ("", "''"),
        ("x" * 10_000, "x" * 79 + "…"),
        ("👩 Zürich", "👩 Zürich"),
    ],
)
def test_text_is_shown_on_one_line(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_renamed_groups_have_their_new_name_in_the_report(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run").rename_group(2, 0, "my & own")
    assert "my &amp; own" in write_report(run).read_text("utf-8")


def test_colours_differ_and_children_follow_their_parents(view: RunView) -> None:
    assert len(set(spread(40))) == 40
    levels = group_colors(view.tree)
    assert all(len(set(level)) == len(level) for level in levels)


def test_the_command_writes_one_file_and_never_over_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run")
    out = tmp_path / "page.html"
    assert main(["report", str(run.path), "--out", str(out)]) == 0
    before = out.read_bytes()
    assert main(["report", str(run.path), "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert main(["report", str(run.path)]) == 0
    assert main(["report", str(run.path)]) == 0  # its own report may be written again
    assert main(["report", str(tmp_path / "none")]) == 2


@pytest.mark.parametrize("package", ["plotly", "jinja2"])
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    import importlib.util

    run = write_run(tmp_path / "run")
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *a: None if n == package else real(n, *a)
    )
    with pytest.raises(InputError, match=rf"{package}.*pip install 'graphham\[view\]'"):
        write_report(run)


def test_a_run_compared_with_a_shuffled_copy_has_not_moved(tmp_path: Path) -> None:
    import dataclasses

    result = make_result(80, (6, 3), labels="none")
    order = np.random.default_rng(0).permutation(80)
    swap = np.array([3, 5, 0, 1, 4, 2], dtype=np.int32)
    back = np.argsort(swap)
    other = dataclasses.replace(
        result,
        ids=result.ids.take(order),
        embedding=result.embedding[order],
        memberships=[result.memberships[0][order][:, back], result.memberships[1][order]],
        groups=[swap[result.groups[0][order]], result.groups[1][order]],
        evidence=[swap[result.evidence[0][order]], result.evidence[1][order]],
        parents=[result.parents[0][back]],
        concentration=result.concentration[order],
        attention_gap=None,
    )
    runs = []
    for name, one in (("a", result), ("b", other)):
        with start_run(tmp_path / name, {"seed": 0}) as writer:
            runs.append(writer.finish(one, {}, make_graph(one), {}))
    found = compare_runs(*runs, level=1)
    assert found.ari == pytest.approx(1)
    assert not found.moved.any()
    assert found.partner.tolist() == swap.tolist()
    assert found.moved_table().num_rows == 0


def test_moved_nodes_are_listed_with_both_groups(tmp_path: Path) -> None:
    import dataclasses

    import pyarrow.csv as csv

    result = make_result(80, (6, 3), labels="none", tree=False)
    moved = np.flatnonzero(result.groups[0] == 2)[:3]
    codes = result.groups[0].copy()
    codes[moved] = 4
    other = dataclasses.replace(result, groups=[codes, result.groups[1]])
    runs = []
    for name, one in (("a", result), ("b", other)):
        with start_run(tmp_path / name, {"seed": 0}) as writer:
            runs.append(writer.finish(one, {}, make_graph(one), {}))
    found = compare_runs(*runs, level=1)
    assert found.rows_a[found.moved].tolist() == moved.tolist()
    table = csv.read_csv(write_comparison(found, tmp_path / "moved.csv"))
    assert table["id"].to_pylist() == [result.ids[int(r)] for r in moved]
    assert table["group_b"].to_pylist() == [4, 4, 4]
    page = write_comparison(found, tmp_path / "page.html").read_text("utf-8")
    assert "3 nodes (4%) moved" in page
    with pytest.raises(InputError, match=r"levels 1 to 2, not 3"):
        compare_runs(*runs, level=3)


def test_runs_without_common_nodes_cannot_be_compared(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a")
    two = write_run(tmp_path / "b", ids=[f"x{i}" for i in range(80)])
    with pytest.raises(InputError, match="no node id in common"):
        compare_runs(one, two)


def test_plotly_is_served_as_installed_but_for_one_pair_of_parentheses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = plotlyjs.plotly_path().read_bytes()
    served = plotlyjs.plotly_script()
    bare = served.replace(b": this, (() => {", b": this, () => {", 1).rstrip()
    assert bare.removesuffix(b"})));") + b"}));" == source.rstrip()
    assert len(served) == len(source) + 2
    other = tmp_path / "plotly.min.js"
    other.write_bytes(b"window.Plotly = 1;")
    monkeypatch.setattr(plotlyjs, "plotly_path", lambda: other)
    assert plotlyjs.plotly_script() == other.read_bytes()
