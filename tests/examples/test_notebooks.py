"""The notebooks run from the first cell to the last, each in less than a minute of work."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
BOOKS = sorted(FOLDER.glob("*.ipynb"))
# A notebook's cells share their names; the last expression of a cell is shown, so it must have a
# text, as in Jupyter.
RUNNER = """
import ast, json, sys, time
names = {"__name__": "__main__"}
for number, cell in enumerate(json.load(open(sys.argv[1], encoding="utf-8"))["cells"]):
    if cell["cell_type"] != "code":
        continue
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {number}", "exec"), names)
    if last is not None:
        shown = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        print(f"cell {number}:", repr(shown)[:2000])
print("seconds of work:", time.process_time())
"""


def test_there_are_four() -> None:
    assert [book.stem for book in BOOKS] == [
        "cora_in_ten_lines",
        "from_pyg_and_back",
        "map_of_debian",
        "your_own_csv",
    ]


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_a_notebook_runs(book: Path, tmp_path: Path) -> None:
    cells = json.loads(book.read_text("utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)  # outputs are the reader's own
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:graphham", "-c", RUNNER, str(book)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    # Of work: a busy machine takes its time.
    assert float(done.stdout.rpartition("seconds of work:")[2]) < 90
    if book.stem == "your_own_csv":
        purity = re.search(r"cell 8: (\{.*\})", done.stdout)
        assert purity is not None
        assert min(ast.literal_eval(purity[1]).values()) > 0.9
        assert "'newcomer'" in done.stdout
        assert (tmp_path / "people.zip").is_file()
