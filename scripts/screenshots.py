"""Take pictures of the explorer and the report: two for the README, or every view to look at.

    python scripts/screenshots.py runs/debian --view "node=id:droidlysis&tab=treemap"
    python scripts/screenshots.py runs/cora --all --with-run runs/other --out /tmp/pictures

The first writes explorer.png and report.png into docs/images. The second writes every view at
1400 and 400 pixels, light and dark, the report from top to bottom and as it prints, and the
comparison with another run. Needs Chromium (Debian: apt-get install chromium) and the dev extra;
pictures of the printed pages need pdftoppm (Debian: poppler-utils).
"""

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from graphham.explore.launch import RunningExplorer
from graphham.report import write_report
from graphham.results.run_folder import Run

FLAGS = (
    "--no-sandbox",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
MAX_BYTES = 300_000
SIZES = {1400: 880, 400: 800}
# Full pictures longer than this are cut into pieces that a person can look at.
PIECE = 2600


def main() -> None:
    """Open the pages in a headless browser and save what it shows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="a finished run folder")
    parser.add_argument("--out", default="docs/images", help="folder for the pictures")
    parser.add_argument("--view", default="", help="address of the explorer's view, after the #")
    parser.add_argument("--all", action="store_true", help="every view, size and theme")
    parser.add_argument("--with-run", help="with --all: another run to compare with")
    parser.add_argument("--only", default="", help="with --all: views whose name contains this")
    asked = parser.parse_args()
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if browser is None:
        sys.exit("Chromium is not installed; apt-get install chromium, or set CHROMIUM to its path")
    from playwright.sync_api import sync_playwright

    out = Path(asked.out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=browser, args=list(FLAGS))
        report = write_report(asked.run, Path(folder) / "report.html")
        if asked.all:
            take_all(chromium, asked, report, out)
        else:
            page = open_page(chromium, 1400, "light")
            show(page, f"{report.as_uri()}#map")
            _save(page.screenshot(), out / "report.png")
            with RunningExplorer(asked.run) as running:
                running.explorer.prepare()
                show(page, f"{running.address}#{asked.view}")
                _save(page.screenshot(), out / "explorer.png")
        chromium.close()


def open_page(chromium: Any, width: int, theme: str) -> Any:
    """Return a new page of a size and theme; what goes wrong in it is printed."""
    size = {"width": width, "height": SIZES[width]}
    page = chromium.new_context(viewport=size, color_scheme=theme).new_page()
    page.set_default_timeout(300_000)  # also on a busy machine
    page.on("pageerror", lambda error: print("page error:", error, file=sys.stderr))
    return page


def show(page: Any, address: str) -> None:
    """Open an address and wait until everything is drawn."""
    page.goto("about:blank")
    page.goto(address, wait_until="commit")
    page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=300_000)
    page.wait_for_function(
        "(document.documentElement.dataset.busy || 'no') === 'no'", timeout=300_000
    )
    page.wait_for_timeout(700)


def views(run: Run) -> dict[str, str]:
    """Return the explorer's views to look at, by name: the part of the address after the #."""
    tree, nodes = run.hierarchy, run.nodes
    top = tree.num_levels
    large = max(range(tree.group_counts[-1]), key=lambda g: int(tree.sizes[-1][g]))
    fine = max(range(tree.group_counts[0]), key=lambda g: int(tree.sizes[0][g]))
    firm = nodes["concentration"].to_numpy()
    graph = run.graph()
    # The least decided node among those that have somebody to listen to.
    torn = nodes["id"][int(np.where(graph.degrees() >= 4, firm, np.inf).argmin())].as_py()
    from graphham.results.projection import run_map

    xy = run_map(run).xy
    x, y = (float(v) for v in xy[len(xy) // 3])
    corners = [(x - 0.4, y - 0.4), (x + 0.4, y - 0.4), (x + 0.4, y + 0.4), (x - 0.4, y + 0.4)]
    lasso = ";".join(f"{a:.3f},{b:.3f}" for a, b in corners)
    window = f"{x - 0.25:.3f},{x + 0.25:.3f},{y - 0.2:.3f},{y + 0.2:.3f}"
    return {
        "map-tree": "",
        "treemap": f"tab=treemap&group={top}-{large}",
        "flow": "tab=flow&color=1",
        "flow-group": f"tab=flow&group=1-{fine}",
        "node": f"node=id:{torn}",
        "group": f"group={top}-{large}",
        "boundary": "bar=5",
        "firm": "color=firm",
        "label": "color=label",
        "selection": f"lasso={lasso}",
        "window": f"range={window}",
    }


def take_all(chromium: Any, asked: Any, report: Path, out: Path) -> None:
    """Save every view at both sizes in both themes."""
    run = Run.open(asked.run)
    pages = {"report": report.as_uri()}
    if asked.with_run:
        from graphham.report.run_comparison import write_comparison
        from graphham.results.compare import compare_runs

        comparison = compare_runs(run, Run.open(asked.with_run))
        pages["compare"] = write_comparison(comparison, report.with_name("compare.html")).as_uri()
    with RunningExplorer(run) as running:
        running.explorer.prepare()
        wanted = {n: f"{running.address}#{v}" for n, v in views(run).items()} | pages
        wanted = {n: a for n, a in wanted.items() if asked.only in n}
        for width in SIZES:
            for theme in ("light", "dark"):
                page = open_page(chromium, width, theme)
                for name, address in wanted.items():
                    show(page, address)
                    whole = name in pages or width == 400
                    picture = page.screenshot(full_page=whole)
                    _pieces(picture, out / f"{name}-{width}-{theme}.png")
                page.context.close()
    if asked.only in "print":
        page = open_page(chromium, 1400, "light")
        show(page, report.as_uri())
        page.pdf(path=str(out / "print.pdf"), format="A4", print_background=True)
        if shutil.which("pdftoppm"):
            command = ["pdftoppm", "-png", "-r", "60", str(out / "print.pdf"), str(out / "print")]
            subprocess.run(command, check=True)


def _pieces(png: bytes, path: Path) -> None:
    from PIL import Image

    image = Image.open(io.BytesIO(png))
    if image.height <= PIECE:
        path.write_bytes(png)
        return
    for number, top in enumerate(range(0, image.height, PIECE), 1):
        part = image.crop((0, top, image.width, min(image.height, top + PIECE)))
        part.save(path.with_stem(f"{path.stem}-{number}"))


def _save(png: bytes, path: Path) -> None:
    """Write a picture, with fewer colours only where it would be too large."""
    if len(png) > MAX_BYTES:
        from PIL import Image

        file = io.BytesIO()
        kept = Image.Quantize.FASTOCTREE
        Image.open(io.BytesIO(png)).convert("RGB").quantize(
            256, kept, dither=Image.Dither.NONE
        ).save(file, "PNG", optimize=True)
        png = file.getvalue()
    if len(png) > MAX_BYTES:
        sys.exit(f"{path} would have {len(png):,} bytes, more than {MAX_BYTES:,}")
    path.write_bytes(png)
    print(f"{path}: {len(png):,} bytes")


if __name__ == "__main__":
    main()
