"""The method that remembers what it was shown, under a name of its own."""

from typing import Any

import pytest

from tests.evaluate.spy import SEEN, Spy


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> None:
    import graphham.methods.registry as registry

    real = registry.make_method

    def make(name: str, **settings: Any) -> Any:
        return Spy(**settings) if name == "spy" else real(name, **settings)

    monkeypatch.setattr(registry, "make_method", make)
    SEEN.clear()
