"""A manifest carries a checksum of its content, and files one of their bytes."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphham.errors import InputError
from graphham.system.checksums import CheckedFile, check_files, file_checksum, is_intact, sealed

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text().filter(lambda name: name != "checksum"), VALUES, max_size=4))
def test_a_seal_holds_however_the_manifest_is_laid_out(content: dict[str, object]) -> None:
    again = json.loads(json.dumps(sealed(content), indent=3, sort_keys=True))
    assert is_intact(again, must_be_sealed=True)
    assert not is_intact({**again, "more": 1}, must_be_sealed=True)


def test_a_missing_seal_is_what_an_older_format_has() -> None:
    assert is_intact({"a": 1}, must_be_sealed=False)
    assert not is_intact({"a": 1}, must_be_sealed=True)
    # A tuple and numpy's numbers are written as what JSON knows.
    whole = json.loads(json.dumps({**sealed({"a": (1, np.int64(2))}), "a": [1, 2]}))
    assert is_intact(whole, must_be_sealed=True)


def test_files_are_compared_by_size_and_by_content(tmp_path: Path) -> None:
    with CheckedFile(tmp_path / "x") as file:
        file.write(b"abc")
        file.skip(5)
        file.write(b"def")
        entry = file.finish()
    assert file_checksum(tmp_path / "x", entry["holes"]) == entry["blake2b"]
    check_files(tmp_path, {"x": entry}, verify=True)
    (tmp_path / "x").write_bytes(b"abd" + bytes(5) + b"def")
    check_files(tmp_path, {"x": entry}, verify=False)
    with pytest.raises(InputError, match="content of x has changed"):
        check_files(tmp_path, {"x": entry}, verify=True)
    (tmp_path / "x").write_bytes(b"abc")
    with pytest.raises(InputError, match="3 bytes and not 11"):
        check_files(tmp_path, {"x": entry}, verify=False)
