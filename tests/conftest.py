"""Fixtures and settings that every test shares."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

if os.environ.get("GRAPHHAM_TEST_AS_WINDOWS"):
    from tests.other_systems import hide

    hide()

# The first torch or numba call is slower than hypothesis' default deadline; derandomize keeps CI
# repeatable.
settings.register_profile("graphham", deadline=None, derandomize=True)
settings.load_profile("graphham")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of raw public graphs; tests that need it skip where it does not exist."""
    named = os.environ.get("GRAPHHAM_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the raw data folder {folder} is not here; set GRAPHHAM_DATA to run this test")
    return folder


@pytest.fixture(autouse=True)
def _same_draws_every_time() -> None:
    """Seed torch's global source, so that a test that draws plainly sees the same numbers in CI."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
