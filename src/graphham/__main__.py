"""Entry point of ``graphham`` and ``python -m graphham``."""

import sys

from graphham.cli import main

if __name__ == "__main__":
    sys.exit(main())
