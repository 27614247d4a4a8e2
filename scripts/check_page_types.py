"""Check the types of the explorer's scripts with TypeScript, outside the repository.

    python scripts/check_page_types.py

Needs npm. Installs TypeScript into a temporary folder, copies the scripts there, and runs
``tsc --checkJs``; nothing of Node enters the repository.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

STATIC = Path(__file__).parents[1] / "src" / "graphham" / "explore" / "static"
FLAGS = (
    "--allowJs --checkJs --noEmit --strict false --target es2022 --module es2022 "
    "--lib es2023,dom,dom.iterable --moduleResolution bundler"
)


def main() -> None:
    """Run the check; its exit code is TypeScript's."""
    if shutil.which("npm") is None:
        sys.exit("npm is not installed; apt-get install npm")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        shared = STATIC.parents[1] / "report" / "templates" / "figure_tools.js"
        names = [shutil.copy(file, place) for file in (*sorted(STATIC.glob("*.js")), shared)]
        (place / "plotly.d.ts").write_text("declare const Plotly: any;\n")
        subprocess.run(["npm", "install", "--silent", "typescript@5"], cwd=place, check=True)
        tsc = place / "node_modules" / ".bin" / "tsc"
        done = subprocess.run([tsc, *FLAGS.split(), *names, "plotly.d.ts"], cwd=place)
    print("no errors" if done.returncode == 0 else "errors above")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
