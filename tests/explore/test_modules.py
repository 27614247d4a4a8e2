"""The page's modules: in order, in one script, and a new view without touching the others."""

import re
import shutil
from pathlib import Path

import pytest

from graphham.explore import modules
from graphham.explore.launch import RunningExplorer
from graphham.explore.modules import bundle, exported_page, read_modules, served_page
from graphham.explore.static_copy import export_static
from tests.explore.conftest import Tab

VIEW = """// The sizes of the coarse groups, as a list.
import { count, el } from "./dom.js";
import { addView } from "./views.js";

addView({ name: "sizes", title: "Sizes", order: 9, usesPlotly: false, draw: drawSizes });

function drawSizes(root, { model, actions }) {
  const top = model.levels.length;
  root.replaceChildren(...model.levels[top - 1].map((g, i) =>
    el("button", { onclick: () => actions.toggleGroup(`${top}-${i}`) }, count(g.size))));
}
"""


def test_every_module_comes_after_the_ones_it_imports() -> None:
    done: set[str] = set()
    for name, text in read_modules().items():
        assert set(re.findall(r'from "\./(\w+\.js)"', text)) <= done, name
        done.add(name)
    assert list(read_modules())[-1] == "main.js"
    on_disk = {file.name for file in modules.static_folder().iterdir()}
    assert done == {n for n in on_disk if n.endswith(".js")} | {"figure_tools.js"}


def test_modules_share_no_names_so_that_one_script_can_hold_them() -> None:
    pattern = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.M)
    named = [name for text in read_modules().values() for name in pattern.findall(text)]
    assert len(named) == len(set(named))
    assert "import " not in re.sub(r"//.*", "", bundle(read_modules()))


def test_an_export_that_the_bundle_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match=r"odd\.js"):
        bundle({"odd.js": "export default 1;\n"})


def test_the_pages_name_their_scripts() -> None:
    served = served_page(read_modules())
    started = re.findall(r'<script type="module" src="static/(\w+)\.js">', served)
    assert set(started) == {"view_tree", "view_treemap", "view_flow", "main"}
    assert started[-1] == "main"
    exported = exported_page("default-src 'none'")
    assert "module" not in exported
    # A policy governs only what comes after it.
    assert exported.index("default-src") < exported.index("app.css") < exported.index("app.js")


def test_a_view_is_one_file(
    tab: Tab, small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    static = Path(shutil.copytree(str(modules.static_folder()), tmp_path / "static"))
    (static / "view_sizes.js").write_text(VIEW)
    monkeypatch.setattr(modules, "static_folder", lambda: static)
    copy = (export_static(small_run, tmp_path / "copy") / "index.html").as_uri()
    with RunningExplorer(small_run) as running:
        sizes = running.explorer.view.tree.sizes[-1].tolist()
        for address in (running.address, copy):
            page = tab.open(address)
            tabs = page.eval_on_selector_all("[role=tab]", "all => all.map(t => t.textContent)")
            assert tabs == ["Tree", "Treemap", "Flow", "Sizes"]
            page.click("[data-tab=sizes]")
            tab.settle()
            shown = page.eval_on_selector_all("#sizes button", "all => all.map(b => b.textContent)")
            assert shown == [str(size) for size in sizes]
            page.click("#sizes button:nth-child(2)")
            tab.settle()
            assert "group=2-1" in page.url
            assert int(page.get_attribute("#map", "data-selected")) == sizes[1]
            tab.check()
