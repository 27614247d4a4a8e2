"""The footer of a Parquet file says the same to us as to Arrow, and harms nobody when damaged."""

import io
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphham.io.parquet_footer import read_chunks

FIXTURE = Path(__file__).parents[1] / "fixtures" / "contradicting.parquet"


def written(**how: object) -> bytes:
    rows = 500
    table = pa.table(
        {
            "id": [f"node {i}" for i in range(rows)],
            "number": pa.array(range(rows), pa.int32()),
            "truth": [i % 2 == 0 for i in range(rows)],
            "weight": pa.array([i / 7 for i in range(rows)], pa.float32()),
            "labels": [["a", "b"][: i % 3] for i in range(rows)],
            "point": [{"x": i, "ä": "y"} for i in range(rows)],
        }
    )
    file = io.BytesIO()
    pq.write_table(table, file, **how)
    return file.getvalue()


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"row_group_size": 20, "compression": "zstd"},
        {"use_dictionary": False, "column_encoding": {"id": "DELTA_BYTE_ARRAY"}},
        {"write_statistics": False, "version": "1.0", "data_page_version": "2.0"},
    ],
)
def test_it_reads_what_arrow_reads(how: dict[str, object]) -> None:
    raw = written(**how)
    about = pq.ParquetFile(io.BytesIO(raw)).metadata
    found = list(read_chunks(raw))
    assert len(found) == about.num_row_groups * about.num_columns
    for number, chunk in enumerate(found):
        group, place = divmod(number, about.num_columns)
        column = about.row_group(group).column(place)
        assert (chunk.group, chunk.path) == (group, column.path_in_schema)
        assert chunk.physical_type == column.physical_type
        assert chunk.num_values == column.num_values
        assert chunk.num_bytes == column.total_uncompressed_size
        assert chunk.has_dictionary == column.has_dictionary_page
        assert chunk.is_delta == ("DELTA_BYTE_ARRAY" in column.encodings)


def test_damage_is_a_value_error_and_takes_no_memory() -> None:
    raw = written(row_group_size=100)
    rng = random.Random(0)
    start = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    refused = 0
    for _ in range(300):
        damaged = bytearray(raw)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(start, len(raw))] = rng.randrange(256)
        try:
            list(read_chunks(bytes(damaged)))
        except ValueError:
            refused += 1
    assert refused > 50
    for cut in (b"", b"PAR1", raw[:-1], raw[-9:], b"\xff" * 4 + b"PAR1", b"\x0c" * 99 + raw[-8:]):
        with pytest.raises(ValueError, match="footer"):
            list(read_chunks(cut))


def test_a_column_that_contradicts_itself_does_not_end_the_process(tmp_path: Path) -> None:
    shutil.copyfile(FIXTURE, tmp_path / "a.parquet")  # found by fuzzing
    done = subprocess.run(
        [sys.executable, "-m", "graphham", "info", str(tmp_path / "a.parquet")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "is not a complete Parquet file" in done.stderr
