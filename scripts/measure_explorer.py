"""Measure the explorer in headless Chromium: how soon it shows, how quickly it answers.

    python scripts/measure_explorer.py runs/debian --rounds 3

Times run from the start of the process ``graphham explore``. A server that does nothing is started
in between, so that a busy machine shows in the numbers. Chromium without a graphics card draws in
software; with one it is faster.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

NOTHING = """
import socket, uvicorn
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(5)
print(f"http://127.0.0.1:{s.getsockname()[1]}/", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none")).run(sockets=[s])
"""
# The page's own clock notes when it was shown and ready: asking it would wait behind its work.
NOTE = """
window.noted = {};
new MutationObserver(() => {
  for (const mark of ["shown", "ready"]) {
    if (document.documentElement.dataset[mark] === "yes") window.noted[mark] ??= Date.now() / 1000;
  }
}).observe(document, {
  attributes: true, subtree: true, attributeFilter: ["data-shown", "data-ready"],
});
"""
# Milliseconds from an action until the page has followed it and every point is drawn: reading one
# pixel back waits for the drawing itself.
FOLLOW = """async (act) => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  const start = performance.now();
  eval(act);
  do { await frame(); } while (document.documentElement.dataset.busy === "yes");
  for (const canvas of document.querySelectorAll("#map .gl-container canvas")) {
    const gl = canvas.getContext("webgl");
    if (gl) gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
  }
  return performance.now() - start;
}"""
FIND = """async () => {
  const start = performance.now();
  await (await fetch("api/search?q=12")).json();
  return performance.now() - start;
}"""
WINDOW = """async () => {
  const map = document.getElementById("map");
  const { xaxis, yaxis } = map._fullLayout;
  const part = ([low, high]) => [low + 0.45 * (high - low), low + 0.55 * (high - low)];
  const start = performance.now();
  Plotly.relayout(map, { "xaxis.range": part(xaxis.range), "yaxis.range": part(yaxis.range) });
  while (!document.getElementById("mapnote").textContent.includes("window")) {
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  }
  return performance.now() - start;
}"""
REDRAW = """async () => {
  const map = document.getElementById("map");
  const times = [];
  for (let i = 0; i < 5; i++) {
    const { xaxis } = map._fullLayout;
    const step = (xaxis.range[1] - xaxis.range[0]) * (i % 2 ? -0.01 : 0.01);
    const start = performance.now();
    await Plotly.relayout(map, { "xaxis.range": xaxis.range.map((v) => v + step) });
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    times.push(performance.now() - start);
  }
  return times;
}"""
# Notes the time between frames until told to stop.
WATCH = """() => {
  let last = performance.now();
  window.watched = [];
  window.isWatching = true;
  const tick = () => {
    const now = performance.now();
    window.watched.push(now - last);
    last = now;
    if (window.isWatching) requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}"""


def start(command: list[str]) -> tuple[subprocess.Popen[str], str, float]:
    """Start a server; return it, its address and the seconds until it said the address."""
    begun = time.time()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert server.stdout is not None
    for line in server.stdout:
        found = re.search(r"http://127\.0\.0\.1:\d+/(?:\?token=\S+)?", line)
        if found:
            return server, found.group(0), begun
    sys.exit("the server did not start")


def main() -> None:
    """Print one line per measurement: the median of the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="a finished run folder")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        sys.exit("Chromium is not installed; apt-get install chromium, or set CHROMIUM to its path")
    from playwright.sync_api import sync_playwright

    seen: dict[str, list[float]] = {}
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        explore = [sys.executable, "-m", "graphham", "explore", asked.run, "--no-browser"]
        for turn in range(asked.rounds):
            page = chromium.new_context(viewport={"width": 1400, "height": 900}).new_page()
            page.add_init_script(NOTE)
            server, address, begun = start([sys.executable, "-c", NOTHING])
            page.goto(address)
            seen.setdefault("empty server, page, s", []).append(time.time() - begun)
            server.terminate()
            server, address, begun = start(explore)
            page.goto(address, wait_until="commit")
            page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=120_000)
            noted = page.evaluate("window.noted")
            for name, mark in (("map and table shown, s", "shown"), ("all ready, s", "ready")):
                seen.setdefault(name, []).append(noted[mark] - begun)
            if turn == 0:
                interact(page, seen)
            server.terminate()
            server.wait()
            page.context.close()
        chromium.close()
    for name, values in seen.items():
        spread = f" (worst {max(values):.2f})" if len(values) > 1 else ""
        print(f"{name}: {statistics.median(values):.2f}{spread}")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


def interact(page: Any, seen: dict[str, list[float]]) -> None:
    """Drag, zoom, choose groups and nodes, slide and search, and note how long each takes."""
    page.wait_for_timeout(4000)  # background work of the start is over
    box = page.locator("#map").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    seen["pointer over the map, ms per frame"] = watched(
        page, lambda: [page.mouse.move(x + 3 * i, y - i) for i in range(30)]
    )
    page.mouse.move(x, y)
    page.mouse.down()
    seen["drag the map, ms per frame"] = watched(
        page, lambda: [page.mouse.move(x + 3 * i, y + 2 * i) for i in range(40)]
    )
    page.mouse.up()
    page.wait_for_timeout(1500)
    seen["zoom with the wheel, ms per frame"] = watched(
        page, lambda: [page.mouse.wheel(0, 30 if i % 2 else -30) for i in range(20)]
    )
    page.wait_for_timeout(1500)
    seen["draw the map anew, ms"] = page.evaluate(REDRAW)
    page.click("#whole")
    page.wait_for_timeout(1500)
    click = "document.querySelectorAll('[data-group]')[{}].click()"
    seen["choose a group, ms"] = [page.evaluate(FOLLOW, click.format(i)) for i in (1, 2, 3, 4, 5)]
    link = "document.querySelectorAll('#tablebox tbody .link')[{}].click()"
    seen["choose a node, ms"] = [page.evaluate(FOLLOW, link.format(i)) for i in (1, 2, 3, 4, 5)]
    slide = "const b = byId('bar'); b.value = {}; b.dispatchEvent(new Event('input'))"
    slide = slide.replace("byId", "document.getElementById")
    seen["move the slider, ms"] = [page.evaluate(FOLLOW, slide.format(v)) for v in (5, 10, 20)]
    seen["search, ms"] = [page.evaluate(FIND) for _ in range(3)]
    tab = "document.querySelector('[data-tab={}]').click()"
    names = ("treemap", "flow", "tree")
    if "sample over" in page.inner_text("#mapnote"):
        seen["all nodes of a window, ms"] = [page.evaluate(WINDOW)]
    seen["switch the tab, ms"] = [page.evaluate(FOLLOW, tab.format(n)) for n in names]


def watched(page: Any, act: Callable[[], object]) -> list[float]:
    """Return the milliseconds of each frame while something is done to the page."""
    page.evaluate(WATCH)
    act()
    page.evaluate("window.isWatching = false")
    times: list[float] = page.evaluate("window.watched")
    return times


if __name__ == "__main__":
    main()
