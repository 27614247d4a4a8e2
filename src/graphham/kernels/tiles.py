"""Products of small tiles, summed in vector registers.

The sums of a tile stay in registers while a loop runs along the shared side, so every number loaded
takes part in several multiplications. Compilers do not find this form by themselves, hence the
vector instructions spelled out; a processor with narrower registers takes two for one.

A tile is four rows by sixteen columns; what does not divide is padded by the caller.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

ROWS = 4
COLUMNS = 16

_LANES = 8
_REGISTERS = COLUMNS // _LANES
_VECTOR = ir.VectorType(ir.FloatType(), _LANES)
_WORD = ir.IntType(64)
_INDEX = ir.IntType(32)
_helpers: Any = cgutils


@intrinsic
def _add_tile(
    typing_context: Any,
    left: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any,
    step: Any,
    right: Any,
    start: Any,
    columns: Any,
    count: Any,
    out: Any,
    place: Any,
) -> Any:
    """Add ``sum_t left[row_r + t * step] * right[start + t * columns + k]`` to a tile.

    Positions are those of the flat arrays. The four rows begin at ``a``, ``b``, ``c``, ``d`` in
    ``left``; ``t`` runs below ``count``; entry ``r, k`` of the tile is
    ``out[place + r * columns + k]``.
    """
    for held in (left, right, out):
        if not isinstance(held, types.Array) or held.dtype != types.float32 or held.layout != "C":
            return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def data(at: int) -> Any:
            return context.make_array(signature.args[at])(context, builder, arguments[at]).data

        def vector(at: Any, place: Any, offset: int) -> Any:
            moved = builder.gep(at, [builder.add(place, _WORD(offset))])
            return builder.bitcast(moved, _VECTOR.as_pointer())

        given, other, tile = data(0), data(6), data(10)
        rows: list[Any] = arguments[1:5]
        stride: Any = arguments[5]
        first: Any = arguments[7]
        width: Any = arguments[8]
        length: Any = arguments[9]
        where: Any = arguments[11]
        nothing = ir.Constant(_VECTOR, [0.0] * _LANES)
        sums = [[_helpers.alloca_once(builder, _VECTOR) for _ in range(_REGISTERS)] for _ in rows]
        for place in (place for row in sums for place in row):
            builder.store(nothing, place)
        shape = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        fused = _helpers.get_or_insert_function(builder.module, shape, "llvm.fmuladd.v8f32")
        with _helpers.for_range(builder, length) as loop:
            base = builder.add(first, builder.mul(loop.index, width))
            factors = [builder.load(vector(other, base, _LANES * v)) for v in range(_REGISTERS)]
            for factor in factors:
                factor.align = 4
            moved = builder.mul(loop.index, stride)
            for row, begin in zip(sums, rows, strict=True):
                number = builder.load(builder.gep(given, [builder.add(begin, moved)]))
                spread = _splat(builder, number)
                for place, factor in zip(row, factors, strict=True):
                    total = builder.call(fused, [spread, factor, builder.load(place)])
                    builder.store(total, place)
        for r, row in enumerate(sums):
            base = builder.add(where, builder.mul(width, _WORD(r)))
            for v, held in enumerate(row):
                there = vector(tile, base, _LANES * v)
                before = builder.load(there)
                before.align = 4
                builder.store(builder.fadd(before, builder.load(held)), there).align = 4
        return context.get_dummy_value()

    place_kind = types.intp
    kinds = (left, *[place_kind] * 5, right, *[place_kind] * 3, out, place_kind)
    return types.void(*kinds), generate


def _splat(builder: Any, value: Any) -> Any:
    """Return a vector with one number in all its lanes."""
    empty = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(empty, value, _INDEX(0))
    zeros = ir.Constant(ir.VectorType(_INDEX, _LANES), [0] * _LANES)
    return builder.shuffle_vector(first, empty, zeros)


# Compiled code calls this without the typing context, which is numba's own.
add_tile: Any = _add_tile
