"""Compare the files of a run with the checksums in its summary: at once, or when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphham.errors import InputError
from graphham.results.model_card import CARD_FILE
from graphham.system.checksums import file_checksum

if TYPE_CHECKING:
    from graphham.graph.integrity import PassedChecks

# Files up to this size are compared when a run is opened, which takes a few milliseconds in all.
SMALL_BYTES = 1 << 20


class RunChecks:
    """The files of one run, each compared with its checksum once.

    A comparison of large files is remembered in the user's cache folder, as it is for stores, and
    repeated only when the file has changed. Runs of formats 1 and 2 have no checksums.

    Args:
        folder: The run.
        summary: The content of its ``summary.json``.
    """

    def __init__(self, folder: Path, summary: dict[str, Any]) -> None:
        self.folder = folder
        found = summary.get("checksums")
        self._expected: dict[str, str] = dict(found) if isinstance(found, dict) else {}
        self._expected.pop(CARD_FILE, None)  # people edit it, and nothing is read from it
        self._whole: set[str] = set()
        self._notes: PassedChecks | None = None

    def on_open(self, verify: bool) -> None:
        """Compare the small files, or to ``verify`` all."""
        for name in self._expected:
            path = self.folder / name
            if not path.is_file():  # a run may be passed on without its graph
                continue
            if verify or path.stat().st_size <= SMALL_BYTES:
                self.check(name, again=verify)

    def check(self, name: str, again: bool = False) -> None:
        """Compare one file unless it was found whole before; ``again`` asks to read it anyway.

        Raises:
            InputError: It is not what was written.
        """
        if name not in self._expected or (name in self._whole and not again):
            return
        path = self.folder / name
        is_small = path.stat().st_size <= SMALL_BYTES
        if not is_small and self._passed().begin(name) and not again:
            return
        if file_checksum(path) != self._expected[name]:
            raise InputError(
                f"the run {self.folder} is damaged: {name} has changed since it was written; "
                f"{_ADVICE.get(name, 'fit it again')}, or see what is whole with 'graphham doctor "
                f"{self.folder}'"
            )
        self._whole.add(name)
        if not is_small:
            self._passed().save()

    def _passed(self) -> PassedChecks:
        if self._notes is None:
            from graphham.graph.integrity import PassedChecks

            entries = {
                name: {"bytes": (self.folder / name).stat().st_size, "blake2b": digest}
                for name, digest in self._expected.items()
                if (self.folder / name).is_file()
            }
            self._notes = PassedChecks(self.folder, {"files": entries})
        return self._notes


_ADVICE = {
    "config.toml": "undo the change (edit a copy of it for another fit)",
}
