"""People's own text is shown on one line."""

import pytest

from graphham.report.safe_text import one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b", "a\\x00b"),
        ("\u202eabc", "\\u202eabc"),
        ("", "''"),
        ("x" * 10_000, "x" * 79 + "…"),
        ("👩 Zürich", "👩 Zürich"),
    ],
)
def test_text_is_shown_on_one_line(text: str, shown: str) -> None:
    assert one_line(text) == shown
