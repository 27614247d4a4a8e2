"""Build the map of Debian that ships with graphham from the package index on this machine.

Needs a Debian system after ``apt-get update``: the index of the release's main archive is read from
the apt lists. Nodes are packages; an edge joins a package with one it depends on (also before
unpacking), recommends or suggests; alternatives count each. Virtual packages are names without a
package of their own and are left out.

Run: python scripts/build_debian.py [--suite bookworm]
"""

from __future__ import annotations

import argparse
import io
import lzma
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

LISTS = Path("/var/lib/apt/lists")
OUT = Path(__file__).resolve().parents[1] / "src/graphham/datasets/embedded/debian.npz.xz"
RELATIONS = ("Depends", "Pre-Depends", "Recommends", "Suggests")
MAX_WORDS = 5000
MIN_PACKAGES = 10  # a word or tag on fewer packages names a product and says nothing about groups
MAX_SHARE = 0.10
_STOP_TEXT = """a an and any are as at be but by can do does for from has have if in into is it its
like more most no non not of on one only or other our out over own set so some such than that the
their them then there these this those to up use used uses using via was which while who will with
without you your based simple several various many all also"""
STOP = frozenset(_STOP_TEXT.split())
# Parts of package names that describe the packaging, not the software; debtags say it better.
PACKAGING = frozenset(("bin", "common", "data", "dbg", "dev", "doc", "docs", "extra", "utils"))
NOT_A_LIBRARY = ("libre", "liber", "librar")


def find_index(suite: str) -> tuple[Path, Path]:
    """Return the Packages and release files of a suite's main archive among the apt lists."""
    pattern = f"*_debian_dists_{suite}_main_binary-amd64_Packages*"
    packages = sorted(LISTS.glob(pattern))
    releases = sorted(LISTS.glob(f"*_debian_dists_{suite}_*Release"))
    if not packages or not releases:
        sys.exit(f"no {pattern} in {LISTS}; run apt-get update on a Debian {suite} system")
    return packages[0], releases[0]


def read_file(path: Path) -> str:
    """Return the text of an apt list in whatever compression apt keeps it."""
    command = ["/usr/lib/apt/apt-helper", "cat-file", str(path)]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode("utf-8")


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each paragraph, continuation lines joined."""
    for block in text.split("\n\n"):
        unfolded = block.strip("\n").replace("\n ", " ")
        if unfolded:
            yield dict(
                (part.strip() for part in line.split(":", 1)) for line in unfolded.split("\n")
            )


def names_in(field: str) -> Iterator[str]:
    """Yield the package names of a relation field, alternatives included."""
    for choice in re.split(r"[,|]", field):
        name = re.match(r"\s*([a-z0-9][a-z0-9+.-]*)", choice)
        if name:
            yield name[1]


def words_of(name: str, description: str) -> set[str]:
    """Return the words of a package's short description and the parts of its name."""
    parts = {p for p in re.split(r"[-+._0-9]+", name) if p not in PACKAGING}
    # A library's soname is glued to its name: libpng16 should share a word with png.
    libs = {p for p in parts if p.startswith("lib") and not p.startswith(NOT_A_LIBRARY)}
    parts = parts - libs | {p[3:] for p in libs}
    words = set(re.findall(r"[a-z][a-z+#]*", description.lower()))
    return {w for w in words | parts if 2 <= len(w) <= 24 and w not in STOP}


def link(packages: list[dict[str, str]]) -> tuple[np.ndarray, int]:
    """Return the distinct undirected edges and the number of relations they come from."""
    row = {p["Package"]: i for i, p in enumerate(packages)}
    pairs = [
        (i, row[name])
        for i, package in enumerate(packages)
        for relation in RELATIONS
        for name in names_in(package.get(relation, ""))
        if name in row
    ]
    ends = np.array([(i, j) for i, j in pairs if i != j])
    return np.unique(np.sort(ends, axis=1), axis=0), len(ends)


def describe(packages: list[dict[str, str]]) -> tuple[list[str], list[list[int]]]:
    """Return the vocabulary (words, then debtags) and each package's sorted columns."""
    words = [words_of(p["Package"], p.get("Description", "")) for p in packages]
    tags = [
        {t for t in re.findall(r"[^\s,]+::[^\s,]+", p.get("Tag", "")) if not t.endswith("::TODO")}
        for p in packages
    ]
    kept = []
    for sets, limit in ((words, MAX_WORDS), (tags, None)):
        counts = Counter(w for found in sets for w in found)
        ceiling = MAX_SHARE * len(packages) if limit else len(packages)
        usable = [(-n, w) for w, n in counts.items() if MIN_PACKAGES <= n <= ceiling]
        kept.append(sorted(w for _, w in sorted(usable)[:limit]))
    names = kept[0] + kept[1]
    column = {name: i for i, name in enumerate(names)}
    rows = [
        sorted(column[w] for w in (a | b) if w in column) for a, b in zip(words, tags, strict=True)
    ]
    return names, rows


def as_lines(values: list[str]) -> np.ndarray:
    """Pack texts as the bytes of their lines, the form graphham.datasets.packaged reads."""
    assert not any("\n" in value for value in values)
    return np.frombuffer("\n".join(values).encode("utf-8"), dtype=np.uint8)


def main() -> None:
    """Read the index, write the dataset and print its counts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--suite", default="bookworm")
    suite = parser.parse_args().suite
    index, release = find_index(suite)
    about = dict(re.findall(r"^(Version|Date): (.*)$", read_file(release), flags=re.MULTILINE))
    newest = {p["Package"]: p for p in stanzas(read_file(index))}
    packages = [newest[name] for name in sorted(newest)]
    edges, relations = link(packages)
    vocabulary, rows = describe(packages)
    classes, codes = np.unique([p["Section"] for p in packages], return_inverse=True)
    parts = {
        "ids": as_lines([p["Package"] for p in packages]),
        "titles": as_lines([p.get("Description", "") for p in packages]),
        "edge_counts": np.bincount(edges[:, 0], minlength=len(packages)).astype(np.uint16),
        "edge_targets": edges[:, 1].astype(np.uint16),
        "word_counts": np.array([len(r) for r in rows], dtype=np.uint16),
        "word_indices": np.concatenate([np.array(r, dtype=np.uint16) for r in rows]),
        "num_words": np.array(len(vocabulary)),
        "feature_names": as_lines(vocabulary),
        "codes": codes.astype(np.uint8),
        "classes": classes,
        "raw_links": np.array(relations),
        "origin": np.array(
            f"Debian {about['Version']} ({suite}), main, amd64, package index of {about['Date']}"
        ),
    }
    assert len(packages) < 2**16
    content = io.BytesIO()
    np.savez(content, **parts)
    OUT.write_bytes(lzma.compress(content.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    print(
        f"{OUT.name}: {OUT.stat().st_size:,} bytes; {parts['origin']}\n"
        f"{len(packages):,} packages, {len(edges):,} edges from {relations:,} relations, "
        f"{len(classes)} sections, {len(vocabulary):,} features, "
        f"{len(parts['word_indices']):,} non-zeros, "
        f"{int((parts['word_counts'] == 0).sum()):,} packages without any"
    )


if __name__ == "__main__":
    main()
