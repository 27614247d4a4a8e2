"""The groups as a flow between levels."""

from graphham.explore.launch import RunningExplorer
from tests.explore.conftest import GROUP, Tab, check_group_everywhere


def test_a_group_of_the_flow_is_selected(tab: Tab, served: RunningExplorer) -> None:
    page, run = tab.open(f"{served.address}#tab=flow"), served.explorer.view.run
    page.evaluate(
        """key => { const plot = document.getElementById('flow');
        const at = plot.data[0].node.customdata.indexOf(key);
        const bars = Array.from(plot.querySelectorAll('.sankey-node'));
        const bar = bars.find(b => b.__data__.node.pointNumber === at).querySelector('.node-rect');
        const box = bar.getBoundingClientRect();
        window.target = [box.left + box.width / 2, box.top + box.height / 2]; }""",
        GROUP,
    )
    page.mouse.click(*page.evaluate("window.target"))
    tab.settle()
    check_group_everywhere(tab, run)
    tab.check()


def test_the_flow_carries_the_nodes_of_the_run(tab: Tab, served: RunningExplorer) -> None:
    page, tree = tab.open(f"{served.address}#tab=flow"), served.explorer.view.tree
    link = page.evaluate("document.getElementById('flow').data[0].link")
    flows, start = tree.flows(1, 2), tree.group_counts[0]
    drawn = {
        (a, b - start): n
        for a, b, n in zip(link["source"], link["target"], link["value"], strict=True)
    }
    assert drawn == {(a, b): int(flows[a, b]) for a, b in zip(*flows.nonzero(), strict=True)}
    tab.check()
