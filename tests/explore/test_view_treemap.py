"""The groups as areas."""

from graphham.explore.launch import RunningExplorer
from tests.explore.conftest import GROUP, Tab, check_group_everywhere


def test_a_group_of_the_treemap_is_selected(tab: Tab, served: RunningExplorer) -> None:
    page, run = tab.open(f"{served.address}#tab=treemap"), served.explorer.view.run
    page.evaluate(
        """key => { const plot = document.getElementById('treemap');
        const at = plot.data[0].ids.indexOf(key);
        const box = plot.querySelectorAll('g.slice')[at].getBoundingClientRect();
        window.target = [box.left + box.width / 2, box.top + 6]; }""",
        GROUP,
    )
    page.mouse.click(*page.evaluate("window.target"))
    tab.settle()
    check_group_everywhere(tab, run)
    tab.check()
