"""Drive the pages in a real browser and compare what they show with the run's own tables."""

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from graphham import GraphHAM, load
from graphham.explore import queries
from graphham.explore.launch import RunningExplorer
from graphham.explore.static_copy import export_static
from graphham.report import write_report
from graphham.report.maps import densest_spots
from graphham.results.run_folder import Run
from tests.explore.conftest import GROUP, PATIENCE, Tab, check_group_everywhere, members
from tests.hostile import ATTACKS


def test_search_leads_to_the_node_and_its_numbers(tab: Tab, served: RunningExplorer) -> None:
    page, run = tab.open(served.address), served.explorer.view.run
    served.explorer.prepare()
    page.keyboard.press("/")
    page.keyboard.type("n219")
    page.wait_for_selector("#results [role=option]")
    assert page.inner_text("#results [role=option] b") == "n219"
    page.keyboard.press("Enter")
    page.wait_for_selector("#nodename")
    tab.settle()
    assert page.inner_text("#nodename") == "n219"
    row = run.nodes["id"].to_pylist().index("n219")
    panel = page.inner_text("#panel")
    for level in (1, 2):
        member = run.nodes[f"membership_{level}"][row].as_py()
        best = max(range(len(member)), key=lambda g: member[g])
        assert f"{member[best]:.1%}" in panel
        assert run.hierarchy.names[level - 1][best] in panel
    graph = run.graph()
    assert f"{len(graph.neighbors(row))} neighbours" in panel
    listened = page.eval_on_selector_all(
        "#panel table.two .link", "all => all.map(a => a.textContent)"
    )
    assert set(listened) <= {graph.ids[r] for r in graph.neighbors(row).tolist()}
    assert page.locator("svg.ego circle").count() > 1
    page.locator("svg.ego circle").nth(1).click()
    tab.settle()
    assert page.inner_text("#nodename") != "n219"
    page.go_back()
    tab.settle()
    assert page.inner_text("#nodename") == "n219"
    tab.check()


def test_the_panel_says_what_explain_says(tab: Tab, served: RunningExplorer) -> None:
    """Same node, same numbers: the pull of each neighbour, and how firm it is."""
    model = load(served.explorer.view.run.path)
    assert isinstance(model, GraphHAM)
    served.explorer.prepare()
    page, pulls = tab.open(served.address), 0
    for row in np.argsort(-model.result_.between, kind="stable")[:5].tolist():
        text = str(model.explain(model.ids_[row]))
        page.evaluate("id => (location.hash = 'node=id:' + id)", model.ids_[row])
        page.wait_for_function(
            "id => (document.getElementById('nodename') || {}).textContent === id",
            arg=model.ids_[row],
        )
        tab.settle()
        panel = page.inner_text("#panel")
        firm = re.search(r"firmer than \d+% of all nodes", panel)
        assert firm is not None
        assert firm[0] in text
        for pull in re.findall(r"pulls it there: (.+)$", panel, re.M):
            assert f"pulled there by {pull}" in text
            pulls += 1
    assert pulls > 0
    tab.check()


def test_a_new_name_is_kept_in_the_run(tab: Tab, served: RunningExplorer) -> None:
    page = tab.open(f"{served.address}#group={GROUP}")
    page.click("#renamebutton")
    page.fill("#rename", "  My <b>own</b> name ")
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('groupname').textContent.includes('My <b>')")
    page.reload()
    page.wait_for_selector("html[data-ready=yes]", state="attached")
    assert page.inner_text("#groupname") == "My <b>own</b> name"
    assert "My <b>own</b> name" in page.inner_text("#tree")
    assert Run.open(served.explorer.view.run.path).hierarchy.names[1][1] == "My <b>own</b> name"
    tab.check()


def test_a_lasso_selection_is_exported_as_the_run_has_it(tab: Tab, served: RunningExplorer) -> None:
    page, run = tab.open(served.address), served.explorer.view.run
    page.click("#lasso")
    box = page.locator("#map").bounding_box()
    x, y, w, h = (box[k] for k in ("x", "y", "width", "height"))
    page.mouse.move(x + 10, y + 10)
    page.mouse.down()
    for a, b in ((0.62, 0.02), (0.6, 0.5), (0.55, 0.97), (0.02, 0.95), (0.01, 0.02)):
        page.mouse.move(x + a * w, y + b * h, steps=6)
    page.mouse.up()
    page.wait_for_function("Number(document.getElementById('map').dataset.selected) > 0")
    tab.settle()
    selected = int(page.get_attribute("#map", "data-selected"))
    assert 0 < selected < 240
    for form in ("csv", "parquet"):
        with page.expect_download() as waiting:
            page.click(f"#{form}")
        data = Path(waiting.value.path()).read_bytes()
        read = csv.read_csv if form == "csv" else pq.read_table
        table = read(io.BytesIO(data))
        assert table.num_rows == selected
        ids = table["id"].to_pylist()
        whole = {r["id"]: r for r in run.nodes.to_pylist()}
        for record in table.to_pylist():
            assert record["group_1"] == whole[record["id"]]["group_1"]
            assert record["concentration"] == pytest.approx(whole[record["id"]]["concentration"])
            assert record["group_name_2"] == run.hierarchy.names[1][record["group_2"]]
    # What the page shows is what a notebook gets.
    assert sorted(served.selection()["id"].to_pylist()) == sorted(ids)
    # The address alone brings the same selection back.
    again = tab.open(page.url)
    assert int(again.get_attribute("#map", "data-selected")) == selected
    assert len(set(ids)) == selected
    tab.check()


def test_the_map_follows_the_hand(tab: Tab, served: RunningExplorer) -> None:
    page = tab.open(served.address)
    under = """([x, y]) => { const map = document.getElementById('map');
        const box = map.getBoundingClientRect(), { xaxis, yaxis } = map._fullLayout;
        return [xaxis.p2l(x - box.left - xaxis._offset),
                yaxis.p2l(y - box.top - yaxis._offset)]; }"""
    moved = "new URLSearchParams(location.hash.slice(1)).get('range')"
    box = page.locator("#map").bounding_box()
    x, y = box["x"] + 0.4 * box["width"], box["y"] + 0.6 * box["height"]
    pointed = page.evaluate(under, [x, y])
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 30, y - 10)
    page.mouse.move(x + 90, y - 50)
    page.mouse.up()
    page.wait_for_function(moved)
    tab.settle()
    assert page.evaluate(under, [x + 90, y - 50]) == pytest.approx(pointed, abs=0.01)
    assert page.locator("#nodename").count() == 0  # a drag is no click
    before = page.evaluate(moved)
    pointed = page.evaluate(under, [x, y])
    page.mouse.move(x, y)
    page.mouse.wheel(0, -120)
    page.wait_for_function(f"range => {moved} !== range", arg=before)
    tab.settle()
    assert page.evaluate(under, [x, y]) == pytest.approx(pointed, abs=0.01)
    assert page.evaluate("document.querySelector('#map .gl-container').style.transform") == ""
    page.click("#whole")
    page.wait_for_function(f"!{moved}")
    tab.settle()
    # A point with room around it: of two on one spot either may answer.
    points = np.asarray(served.explorer.layout.xy, dtype=np.float64)
    gaps = ((points[:, None] - points[None]) ** 2).sum(2) + np.diag(np.full(len(points), np.inf))
    row = int(gaps.min(1).argmax())
    place = page.evaluate(
        """([a, b]) => { const map = document.getElementById('map');
        const box = map.getBoundingClientRect(), { xaxis, yaxis } = map._fullLayout;
        return [box.left + xaxis._offset + xaxis.l2p(a), box.top + yaxis._offset + yaxis.l2p(b)];
        }""",
        [float(v) for v in served.explorer.layout.xy[row]],
    )
    page.mouse.move(place[0] - 40, place[1])
    page.mouse.move(*place, steps=3)
    # A click is on what is pointed at, which a busy machine finds late; the tip may still name a
    # node that the pointer passed on its way.
    page.wait_for_selector("#tip:not([hidden])")
    page.mouse.click(*place)
    page.wait_for_selector("#nodename")
    named = page.inner_text("#nodename")
    page.mouse.move(place[0] + 1, place[1])
    page.wait_for_function(
        "name => document.querySelector('#tip:not([hidden]) b')?.innerText === name", arg=named
    )
    tab.check()


def test_an_address_restores_the_view(tab: Tab, served: RunningExplorer) -> None:
    page, run = tab.open(served.address), served.explorer.view.run
    page.select_option("#color", "label")
    page.fill("#bar", "10")
    page.click("[data-tab=flow]")
    page.click("#tablebox tbody tr:nth-child(3) .link")
    page.wait_for_selector("#nodename")
    page.focus("#map")
    page.keyboard.press("+")
    tab.settle()
    seen = {
        "node": page.inner_text("#nodename"),
        "boundary": page.get_attribute("#map", "data-boundary"),
        "range": page.evaluate(
            "document.getElementById('map').layout.xaxis.range.map(v => +(+v).toFixed(3))"
        ),
    }
    address = page.url
    page.goto("about:blank")
    page = tab.open(address)
    assert page.inner_text("#nodename") == seen["node"]
    assert page.get_attribute("#map", "data-boundary") == seen["boundary"]
    assert page.input_value("#color") == "label"
    assert page.get_attribute("[data-tab=flow]", "aria-selected") == "true"
    restored = page.evaluate(
        "document.getElementById('map').layout.xaxis.range.map(v => +(+v).toFixed(3))"
    )
    assert restored == pytest.approx(seen["range"], abs=0.01)
    between = run.nodes["between"].to_numpy()
    bar = served.explorer.view.between_bar(10)
    assert int(seen["boundary"]) == int((between >= bar).sum())
    tab.check()


def test_a_feature_search_selects_its_nodes(tab: Tab, served: RunningExplorer) -> None:
    page = tab.open(served.address)
    page.fill("#search", "use::topic7")
    page.wait_for_selector("#results [role=option]")
    page.locator("#results [role=option]", has_text="use::topic7").first.click()
    tab.settle()
    page.wait_for_function("Number(document.getElementById('map').dataset.selected) > 0")
    column = served.explorer.view.graph.features[:, 7]  # type: ignore[union-attr,index]
    assert int(page.get_attribute("#map", "data-selected")) == column.nnz
    tab.check()


def test_a_large_run_shows_a_sample_and_then_the_window(
    tab: Tab, small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "WHOLE", 100)
    monkeypatch.setattr(queries, "SAMPLE", 60)
    with RunningExplorer(small_run) as running:
        page = tab.open(f"{running.address}#group={GROUP}")
        assert "Drawn: 60 of 240 nodes" in page.inner_text("#mapnote")
        assert page.locator("canvas.first").count() == 0  # plotly has taken over
        assert page.evaluate("document.getElementById('map').data[0].type") == "heatmap"
        run = running.explorer.view.run
        size = int(run.hierarchy.sizes[1][1])
        assert f"{size} nodes, {page.get_attribute('#map', 'data-selected')} of them" in (
            page.inner_text("#tabletitle")
        )
        with page.expect_download() as waiting:
            page.click("#parquet")
        assert sorted(pq.read_table(waiting.value.path())["id"].to_pylist()) == sorted(
            members(run, 2, 1)
        )
        page.focus("#map")
        for _ in range(4):
            page.keyboard.press("+")
        page.wait_for_function("document.getElementById('mapnote').textContent.includes('window')")
        x0, x1, y0, y1 = page.evaluate(
            "new URLSearchParams(location.hash.slice(1)).get('range').split(',').map(Number)"
        )
        xy = running.explorer.layout.xy
        inside = (xy[:, 0] >= x0) & (xy[:, 0] <= x1) & (xy[:, 1] >= y0) & (xy[:, 1] <= y1)
        page.wait_for_function(
            "count => document.getElementById('mapnote').textContent.includes(`of ${count} nodes`)",
            arg=int(inside.sum()),
        )
        tab.check()


def test_report_and_static_copy_work_from_files(tab: Tab, small_run: Path, tmp_path: Path) -> None:
    page = tab.open(write_report(small_run, tmp_path / "r.html").as_uri())
    assert page.locator(".plot.drawn").count() == page.locator(".plot").count() >= 5
    # A small graph is at most four screens, whatever it has to say.
    assert page.evaluate("document.documentElement.scrollHeight") <= 4 * 900
    for link in page.locator(".tiles a, a.src").all():
        assert page.locator(link.get_attribute("href")).count() == 1
    assert page.is_hidden("#numbers")
    page.locator(".tiles a").first.click()  # a tile leads to its row, folded away or not
    page.wait_for_selector("#numbers", state="visible")
    numbers = page.inner_text("#n-hierarchy-nesting")
    assert f"{Run.open(small_run).summary['hierarchy']['nesting']:.6g}" in numbers
    assert "WebGL is not supported" not in page.inner_text("body")
    # Printing takes what stands there right after the event: nothing may reach beyond the paper.
    right = """() => { window.dispatchEvent(new Event('beforeprint'));
        const parts = document.querySelectorAll('.sankey-node rect, .slice path, .gl-container');
        return Math.max(...Array.from(parts, p => p.getBoundingClientRect().width +
            p.getBoundingClientRect().left - p.closest('.plot').getBoundingClientRect().left)); }"""
    assert 300 < page.evaluate(right) <= 690
    folder = export_static(small_run, tmp_path / "copy")
    page = tab.open((folder / "index.html").as_uri() + f"#group={GROUP}")
    run = Run.open(small_run)
    check_group_everywhere(tab, run)
    page.click("#tablebox tbody .link")
    page.wait_for_selector("#nodename")
    tab.settle()
    row = run.nodes["id"].to_pylist().index(page.inner_text("#nodename"))
    best = max(run.nodes["membership_1"][row].as_py())
    assert f"{best:.1%}" in page.inner_text("#panel")
    assert page.locator("#panel table.two tr").count() > 1
    with page.expect_download() as waiting:
        page.click("#csv")
    table = csv.read_csv(waiting.value.path())
    assert sorted(table["id"].to_pylist()) == sorted(members(run, 2, 1))
    tab.check()


def test_groups_of_the_report_open_close_and_sort(
    tab: Tab, small_run: Path, tmp_path: Path
) -> None:
    page = tab.open(write_report(small_run, tmp_path / "r.html").as_uri())
    tree = Run.open(small_run).hierarchy
    shown = """Array.from(document.querySelectorAll('#groups tbody tr'))
        .filter(r => r.offsetParent).map(r => r.dataset.key)"""
    size = {f"{lv}-{g}": int(n) for lv in (1, 2) for g, n in enumerate(tree.sizes[lv - 1])}
    tops = sorted((k for k in size if k[0] == "2"), key=lambda k: -size[k])
    assert page.evaluate(shown) == tops
    page.click(f"tr[data-key='{tops[0]}'] button.fold")
    below = [f"1-{c}" for c in tree.children(2, int(tops[0][2:]))]
    inside = sorted(below, key=lambda k: -size[k])
    assert page.evaluate(shown) == [tops[0], *inside, *tops[1:]]
    page.click("th button[data-sort=size]")
    assert page.get_attribute("th:has(button[data-sort=size])", "aria-sort") == "ascending"
    upward = sorted(inside, key=lambda k: size[k])
    assert page.evaluate(shown) == [*reversed(tops[1:]), tops[0], *upward]
    page.click("#allgroups")
    assert len(page.evaluate(shown)) == len(size)
    page.click("#allgroups")
    assert sorted(page.evaluate(shown)) == sorted(tops)
    # One map in several colours, each with its own sentence.
    first = page.inner_text("#map .finding:visible")
    page.locator(".switch input[value=map-label]").focus()
    page.keyboard.press("Space")
    page.wait_for_function("document.querySelector('#map .plot').dataset.figure === 'map-label'")
    assert page.inner_text("#map .finding:visible") != first
    names = page.evaluate("document.querySelector('#map .plot').data.map(t => t.name)")
    assert set(names) >= {"kind 0", "kind 1"}
    tab.check()


@pytest.mark.parametrize("kind", ["server", "static", "report"])
def test_hostile_text_is_only_ever_text(
    tab: Tab, hostile_run: Path, tmp_path: Path, kind: str
) -> None:
    if kind == "report":
        page: Any = tab.open(write_report(hostile_run, tmp_path / "r.html").as_uri())
        assert ATTACKS[0] in page.inner_text("body")
        return tab.check()
    if kind == "static":
        start = (export_static(hostile_run, tmp_path / "copy") / "index.html").as_uri()
        return walk(tab, start)
    with RunningExplorer(hostile_run) as running:
        walk(tab, running.address)


def walk(tab: Tab, start: str) -> None:
    page = tab.open(start)
    assert ATTACKS[0] in page.inner_text("h1")
    for name in ("treemap", "flow", "tree"):
        page.click(f"[data-tab={name}]")
        tab.settle()
    page.click("[data-group='1-0']")
    tab.settle()
    assert "\u202e" not in page.inner_text("body")
    for attack in ATTACKS[:7]:
        page.fill("#search", attack)
        page.wait_for_selector("#results [role=option]")
        page.keyboard.press("Enter")
        page.wait_for_selector("#nodename")
        tab.settle()
    page.select_option("#color", "label")
    tab.settle()
    box = page.locator("#map").bounding_box()
    for step in range(8):
        page.mouse.move(box["x"] + box["width"] * (0.2 + 0.08 * step), box["y"] + box["height"] / 2)
    assert page.locator("script:not([src])").count() == 0
    tab.check()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_sticks_out_sideways(
    browser: Any, served: RunningExplorer, tmp_path: Path, width: int, theme: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
    context.set_default_timeout(PATIENCE)
    report = write_report(served.explorer.view.run.path, tmp_path / "r.html")
    try:
        for address in (f"{served.address}#group={GROUP}", report.as_uri()):
            page = context.new_page()
            page.goto(address)
            page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=PATIENCE)
            over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert over <= 1, address
            ink = page.evaluate("getComputedStyle(document.body).color")
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
            bright = [sum(map(int, c.strip("rgb()").split(",")[:3])) for c in (ink, paper)]
            assert (bright[0] > bright[1]) == (theme == "dark")
    finally:
        context.close()


def test_thin_evidence_has_a_mark_and_a_list_of_its_own(tab: Tab, served: RunningExplorer) -> None:
    view = served.explorer.view
    assert len(view.result.evidence)
    evidence = view.result.evidence.copy()
    evidence[:7] = 0.1
    between = view.result.between.copy()
    between[10:30] = np.linspace(0.5, 0.9, 20)
    view.__dict__["result"] = replace(view.result, evidence=evidence, between=between)
    page = tab.open(served.address)
    first = page.inner_text("#tablebox tbody tr:first-child .link")
    assert first == str(view.result.ids[int(np.argmax(view.result.between))])
    page.check("#thin")
    tab.settle()
    thin = int((view.result.evidence < 0.5).sum())
    assert int(page.get_attribute("#map", "data-thin")) == thin >= 7
    assert page.get_attribute("#map", "data-boundary") == "0"
    page.click("#thinlist")
    page.wait_for_function("document.getElementById('tabletitle').textContent.includes('Too')")
    assert f"{thin} nodes" in page.inner_text("#tabletitle")
    page.fill("#bar", "5")
    page.click("#clear")
    tab.settle()
    page.click("#barlist")
    page.wait_for_function("document.getElementById('tabletitle').textContent.includes('5%')")
    assert 0 < view.is_boundary.sum() < 20
    assert f"{int(view.is_boundary.sum())} nodes" in page.inner_text("#tabletitle")
    for color in ("between", "evidence"):
        page.select_option("#color", color)
        tab.settle()
    tab.check()


def test_names_on_the_map_are_coarse_far_out_and_never_overlap(
    tab: Tab, served: RunningExplorer
) -> None:
    page = tab.open(served.address)
    names = served.explorer.view.tree.names
    shown = "Array.from(document.querySelectorAll('#mapnames span'), s => s.textContent)"
    page.wait_for_function(f"{shown}.length > 0")
    assert page.get_attribute("#mapnames", "data-level") == "2"
    assert set(page.evaluate(shown)) <= {name[:34] for name in names[1]}
    # A few nodes side by side are not where a group is: the spots are those of the report.
    rng = np.random.default_rng(0)
    xy = np.vstack([rng.normal((5, 5), 1.0, (57, 2)), np.full((5, 2), 0.0), [[-9, 12]]])
    found = page.evaluate(
        """async ([x, y]) => (await import("./static/map_names.js")).densestSpots(
        { points: { x, y, group1: x.map(() => 0) }, levels: [[{}]] }, 1)""",
        xy.T.tolist(),
    )
    np.testing.assert_allclose(found[0], densest_spots(xy, np.zeros(63, dtype=int))[0], atol=1e-6)
    page.focus("#map")
    for _ in range(4):
        page.keyboard.press("+")
        tab.settle()
    page.wait_for_function("document.getElementById('mapnames').dataset.level === '1'")
    boxes = page.evaluate(
        """() => Array.from(document.querySelectorAll('#mapnames span'), s => {
        const b = s.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; })"""
    )
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[0] >= b[2] or a[2] <= b[0] or a[1] >= b[3] or a[3] <= b[1]
    page.click("#names")
    tab.settle()
    assert page.is_hidden("#mapnames")
    assert "names=0" in page.url
    tab.check()


def test_search_finds_groups_by_name(tab: Tab, served: RunningExplorer) -> None:
    page = tab.open(served.address)
    tree = served.explorer.view.tree
    page.fill("#search", tree.names[1][1])
    page.wait_for_selector("#results [role=option]")
    page.locator("#results [role=option]", has_text="group").first.click()
    page.wait_for_function("Number(document.getElementById('map').dataset.selected) > 0")
    assert int(page.get_attribute("#map", "data-selected")) == tree.sizes[1][1]
    tab.check()
