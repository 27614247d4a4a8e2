"""Make the pictures of the README: the explorer and the report of a run.

    python scripts/screenshots.py runs/debian --out docs/images

Needs Chromium (Debian: apt-get install chromium) and the dev extra.
"""

import argparse
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

from graphham.explore.launch import RunningExplorer
from graphham.report import write_report

FLAGS = (
    "--no-sandbox",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
MAX_BYTES = 300_000


def main() -> None:
    """Open the pages in a headless browser and save what it shows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="a finished run folder")
    parser.add_argument("--out", default="docs/images", help="folder for the pictures")
    parser.add_argument("--view", default="", help="address of the explorer's view, after the #")
    parser.add_argument("--width", type=int, default=1400)
    parser.add_argument("--height", type=int, default=880)
    parser.add_argument("--theme", choices=["light", "dark"], default="light")
    asked = parser.parse_args()
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if browser is None:
        sys.exit("Chromium is not installed; apt-get install chromium, or set CHROMIUM to its path")
    from playwright.sync_api import sync_playwright

    out = Path(asked.out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        report = write_report(asked.run, Path(folder) / "report.html")
        chromium = play.chromium.launch(executable_path=browser, args=list(FLAGS))
        size = {"width": asked.width, "height": asked.height}
        page = chromium.new_page(viewport=size, color_scheme=asked.theme)
        page.on("pageerror", lambda error: print("page error:", error, file=sys.stderr))

        def save(address: str, name: str) -> None:
            page.goto(address)
            page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=120_000)
            page.wait_for_timeout(2500)
            _save(page.screenshot(), out / name)

        save(f"{report.as_uri()}#map", "report.png")
        with RunningExplorer(asked.run) as running:
            running.explorer.prepare()
            save(f"{running.address}#{asked.view}", "explorer.png")
        chromium.close()


def _save(png: bytes, path: Path) -> None:
    """Write a picture, with fewer colours only where it would be too large."""
    if len(png) > MAX_BYTES:
        from PIL import Image

        file = io.BytesIO()
        kept = Image.Quantize.FASTOCTREE
        Image.open(io.BytesIO(png)).convert("RGB").quantize(256, kept, dither=0).save(
            file, "PNG", optimize=True
        )
        png = file.getvalue()
    if len(png) > MAX_BYTES:
        sys.exit(f"{path} would have {len(png):,} bytes, more than {MAX_BYTES:,}; use --width")
    path.write_bytes(png)
    print(f"{path}: {len(png):,} bytes")


if __name__ == "__main__":
    main()
