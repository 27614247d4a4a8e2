"""A side that runs in a process of its own, for peers that cannot live beside graphham."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from benchmarks import peers
from benchmarks.measure import Sample
from benchmarks.results import ROOT


class Remote:
    """A process that answers every line it is sent with what one round took.

    Args:
        environment: The peers' environment it runs in.
        module: Module to run; prints ``{"ready": true}`` and then one sample per line it reads.
        *arguments: Its arguments.
    """

    def __init__(self, environment: str, module: str, *arguments: str) -> None:
        command = [str(peers.python(environment)), "-m", module, *arguments]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=peers.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        answer = self._answer()
        self.failure: str | None = None if answer.get("ready") else str(answer.get("failure"))
        if self.failure:
            self.close()

    def side(self) -> Sample:
        """Run one round."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        answer = self._answer()
        if "failure" in answer:
            raise RuntimeError(f"the peer's process ended: {answer['failure']}")
        return Sample(float(answer["cpu"]), float(answer["wall"]))

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self) -> dict[str, Any]:
        """Read lines until one is ours; packages print what they like in between."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith('{"bench"'):
                held: dict[str, Any] = json.loads(line)
                return held
        assert self._process.stderr is not None
        last = [line for line in self._process.stderr.read().splitlines() if line.strip()]
        return {"failure": (last or ["it said nothing"])[-1].strip()[:200]}
