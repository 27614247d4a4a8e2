"""Write every generated table of README.md and docs/ anew; ``--check`` only compares.

python scripts/docs_generate.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import docs_presets
import docs_readme
import docs_scaling
import docs_settings


def outputs() -> dict[Path, str]:
    """Return every generated file that is kept in git, with what it should hold."""
    modules = (docs_settings, docs_presets, docs_readme, docs_scaling)
    return {path: text for module in modules for path, text in module.outputs().items()}


def main() -> None:
    """Write the files, or name those that are out of date."""
    stale = [(p, text) for p, text in outputs().items() if not _holds(p, text)]
    if "--check" in sys.argv[1:]:
        if stale:
            names = ", ".join(path.name for path, _ in stale)
            raise SystemExit(f"out of date: {names}; run: python scripts/docs_generate.py")
        return
    for path, text in stale:
        path.write_text(text, "utf-8")
        print(f"wrote {path.name}")


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text("utf-8") == text


if __name__ == "__main__":
    main()
