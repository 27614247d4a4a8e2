"""The outline of the groups."""

from graphham.explore.launch import RunningExplorer
from tests.explore.conftest import GROUP, Tab, check_group_everywhere


def test_a_group_of_the_tree_is_selected_and_cleared(tab: Tab, served: RunningExplorer) -> None:
    page, run = tab.open(served.address), served.explorer.view.run
    page.click(f"[data-group='{GROUP}']")
    tab.settle()
    check_group_everywhere(tab, run)
    page.click("#tablebox tbody .link")
    page.wait_for_selector("#nodename")
    tab.settle()
    page.click(f"[data-group='{GROUP}']")  # from one of its nodes back to the group
    tab.settle()
    check_group_everywhere(tab, run)
    page.keyboard.press("Escape")
    tab.settle()
    assert page.get_attribute("#map", "data-selected") == "0"
    for _ in range(2):  # the second click takes the selection back
        page.click(f"[data-group='{GROUP}']")
        tab.settle()
    assert page.get_attribute("#map", "data-selected") == "0"
    tab.check()


def test_the_tree_lists_every_group_below_its_parent(tab: Tab, served: RunningExplorer) -> None:
    page, tree = tab.open(served.address), served.explorer.view.tree
    for group in range(tree.group_counts[1]):
        below = page.eval_on_selector_all(
            f"li:has(> [data-group='2-{group}']) ul button", "all => all.map(b => b.dataset.group)"
        )
        sizes = [int(tree.sizes[0][int(key.split("-")[1])]) for key in below]
        assert sorted(below) == sorted(f"1-{child}" for child in tree.children(2, group))
        assert sizes == sorted(sizes, reverse=True)
    page.focus("[role=treeitem]")
    page.keyboard.press("ArrowDown")
    second = page.locator("[role=treeitem]").nth(1).get_attribute("data-group")
    assert page.evaluate("document.activeElement.dataset.group") == second
    tab.check()
