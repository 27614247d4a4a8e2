"""List the packages that graphham needs at run time, with their versions and licences."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, distribution

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def licence_of(name: str) -> str:
    """Return what a package says about its licence, in a few words."""
    about = distribution(name).metadata
    said = about.get("License-Expression") or ""
    classified = [
        line.rpartition(" :: ")[2]
        for line in about.get_all("Classifier") or []
        if line.startswith("License :: ")
    ]
    first_line = (about.get("License") or "").strip().splitlines()[:1]
    return said or ", ".join(classified) or " ".join(first_line)[:60] or "not said"


def needed(root: str) -> dict[str, tuple[str, str]]:
    """Return version and licence of every package that one needs, without extras."""
    found: dict[str, tuple[str, str]] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        try:
            package = distribution(name)
        except PackageNotFoundError:  # of another system, or of an extra
            continue
        if key in found:
            continue
        found[key] = (package.version, licence_of(name))
        for line in package.requires or []:
            match = _NAME.match(line)
            if match and "extra ==" not in line:
                waiting.append(match[0])
    found.pop(root, None)
    return found


if __name__ == "__main__":
    rows = needed("graphham")
    for name, (version, licence) in sorted(rows.items()):
        print(f"{name:<28}{version:<16}{licence}")
    sys.exit(0 if rows else 1)
