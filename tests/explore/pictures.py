"""Small grey pictures of pages: what they look like, and how far two of them are apart."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# A picture is kept this wide: lines of text become grey bars, but every part keeps its place.
WIDTH = 96
FOLDER = Path(__file__).with_name("references")


def small_grey(png: bytes, width: int = WIDTH) -> npt.NDArray[np.float64]:
    """Return a screenshot as grey values from 0 to 1, scaled down."""
    from PIL import Image

    image = Image.open(io.BytesIO(png)).convert("L")
    height = max(1, round(image.height * width / image.width))
    return np.asarray(image.resize((width, height), Image.Resampling.BOX), dtype=np.float64) / 255


def difference(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> tuple[float, float]:
    """Return how far two pictures are apart: on the mean, and at the worst tile of 8 x 8.

    A font or a graphics library of another version moves strokes by a pixel, which a mean over a
    tile hardly sees; a missing panel or a theme that fails changes whole tiles.
    """
    rows = min(len(first), len(second))
    gap = np.abs(first[:rows] - second[:rows])
    tall = rows // 8 * 8
    tiles = gap[:tall, : WIDTH // 8 * 8].reshape(tall // 8, 8, WIDTH // 8, 8).mean(axis=(1, 3))
    return float(gap.mean()), float(tiles.max(initial=0.0))


def read_reference(name: str) -> npt.NDArray[np.float64] | None:
    """Return the reference of a view, ``None`` where there is none yet."""
    file = FOLDER / f"{name}.png"
    return small_grey(file.read_bytes()) if file.is_file() else None


def write_reference(name: str, picture: npt.NDArray[Any]) -> Path:
    """Keep a picture as the reference of a view."""
    from PIL import Image

    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{name}.png"
    Image.fromarray(np.round(picture * 255).astype(np.uint8)).save(file, optimize=True)
    return file
