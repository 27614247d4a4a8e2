"""Python processes of tests: what they import, and how they are killed."""

import signal
import subprocess
import sys
import time


def imported(code: str, names: tuple[str, ...]) -> list[str]:
    """Run code in a new process and return which of these modules it has loaded."""
    report = f"import sys; {code}; print('#', *(n for n in {names!r} if n in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1].rpartition("#")[2].split()


def kill_when_ready(code: str, arguments: list[str], seconds: float) -> None:
    """Run code that prints ``ready``, and kill it with signal 9 so many seconds later."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
