"""``python -m experiments WHAT...`` is ``graphham reproduce WHAT...`` from the source's folder."""

import sys

from graphham.cli import main

if __name__ == "__main__":
    sys.exit(main(["reproduce", *sys.argv[1:]]))
