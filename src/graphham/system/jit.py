"""Compile the inner loops: one decorator, and the few primitives every compiled loop may use.

Numba keeps compiled code keyed by the content of the file that holds the *outer* function. After
changing a primitive here while developing, run with an empty ``NUMBA_CACHE_DIR``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

Array = npt.NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered and fused so that they vectorise; NaN and infinity keep their meaning,
# because a diverging model must show up as NaN and not as a plausible number.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


_DiskCache: Any = FunctionCache


class _LenientCache(_DiskCache):  # type: ignore[misc]
    """Keep compiled code on disk, and carry on without it when the disk refuses."""

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write one compiled function; a full or read-only disk only costs the next start."""
        try:
            super().save_overload(sig, data)
        except OSError:
            self.disable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Read one compiled function, or ``None`` when it is absent or unreadable."""
        try:
            return super().load_overload(sig, target_context)
        except OSError:
            return None


def jit(function: F) -> F:
    """Compile a function on first use, without the interpreter lock, and remember it on disk.

    Where neither the package folder nor the user's cache folder can be written the function is
    compiled anew in every process, which is slower to start and otherwise the same.

    For functions that Python calls. What another compiled function calls is :func:`inlined` or
    :func:`exact`: such a function has one copy of its code by itself and one inside each caller,
    optimised apart, and which of them runs depends on what the process found on disk. Where sums
    may be reordered the copies differ in the last bits.
    """
    return _compiled(function, _FAST)


def exact(function: F) -> F:
    """Compile a function that other compiled functions call, with no liberty in its arithmetic."""
    return _compiled(function, False)


def _compiled(function: F, fast: Any) -> F:
    compiled: Any = numba.njit(nogil=True, fastmath=fast, error_model="numpy")(function)
    # Numba raises RuntimeError when it finds no folder to write to, OSError when it cannot look.
    with contextlib.suppress(RuntimeError, OSError):
        compiled._cache = _LenientCache(function)
    typed: F = compiled
    return typed


def inlined(function: F) -> F:
    """Compile a small function into its callers."""
    compiled: Any = numba.njit(nogil=True, inline="always", error_model="numpy")(function)
    typed: F = compiled
    return typed


def frozen(array: Any, dtype: Any = None) -> Array:
    """Return a contiguous read-only view, or a copy where the layout or type is another.

    Memory-mapped graphs are read-only and a compiled function has one machine code per argument
    type, so handing everything over as read-only avoids compiling every loop twice.
    """
    view = np.ascontiguousarray(array, dtype=dtype).view(np.ndarray).view()
    view.flags.writeable = False
    return view


@intrinsic
def _prefetch(typing_context: Any, array: Any, position: Any) -> Any:
    """Ask the processor to fetch ``array.flat[position]`` soon; never faults."""
    if not isinstance(array, types.Array) or not isinstance(position, types.Integer):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        array = context.make_array(kind)(context, builder, arguments[0])
        offset = context.cast(builder, arguments[1], signature.args[1], types.intp)
        byte = ir.IntType(8).as_pointer()
        flag = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        insert: Any = cgutils.get_or_insert_function
        call = insert(builder.module, shape, "llvm.prefetch.p0")
        address = builder.bitcast(builder.gep(array.data, [offset]), byte)
        # Read access, keep in every cache level, data cache.
        builder.call(call, [address, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, position), generate


# Compiled code calls this with two arguments; the typing context above is numba's own.
prefetch: Any = _prefetch


@intrinsic
def _bits_to_float(typing_context: Any, bits: Any) -> Any:
    """Read the 32 bits of an int32 as a float32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), generate


_as_float: Any = _bits_to_float


@intrinsic
def _float_to_bits(typing_context: Any, value: Any) -> Any:
    """Read the 32 bits of a float32 as an int32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.int32(types.float32), generate


_as_bits: Any = _float_to_bits


@intrinsic
def _read_float(typing_context: Any, value: Any) -> Any:
    """Return a float32 as it is, and the 16 bits of an int16 as the float16 they stand for."""
    if value == types.float32:
        return types.float32(value), lambda context, builder, signature, args: args[0]
    if value != types.int16:
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.int16), generate


# Numba has no float16 on the CPU; an int16 view and the processor's own conversion do.
read_float: Any = _read_float


@inlined
def exp_below_zero(value: Any) -> Any:
    """Return e**value for a float32 that is not positive, to about 1e-7 of the result.

    The C library's exp is called once per number; this one is plain arithmetic that the compiler
    turns into vector code. Below -87 it stays at e**-87; NaN stays NaN.
    """
    bounded = value if not value < np.float32(-87.0) else np.float32(-87.0)
    whole = np.floor(bounded * np.float32(1.4426950408889634) + np.float32(0.5))
    rest = bounded - whole * np.float32(0.6931471805599453)
    # Taylor series of degree 6 on |rest| <= ln(2) / 2: truncation error below 2e-7.
    series = np.float32(1 / 720)
    series = series * rest + np.float32(1 / 120)
    series = series * rest + np.float32(1 / 24)
    series = series * rest + np.float32(1 / 6)
    series = series * rest + np.float32(1 / 2)
    series = series * rest + np.float32(1.0)
    series = series * rest + np.float32(1.0)
    return series * _as_float((np.int32(whole) + np.int32(127)) << np.int32(23))


@inlined
def log_positive(value: Any) -> Any:
    """Return the natural logarithm of a positive normal float32, to about 1e-7 of one.

    Plain arithmetic like :func:`exp_below_zero`, so that it vectorises.
    """
    bits = _as_bits(value)
    # Split into 2**whole and a rest between the roots of one half and of two.
    whole = np.int32((bits - np.int32(0x3F3504F3)) >> np.int32(23))
    rest = _as_float(np.int32(bits - (whole << np.int32(23)))) - np.float32(1.0)
    # Minimax polynomial of the Cephes library for log(1 + rest).
    series = np.float32(7.0376836292e-2)
    series = series * rest - np.float32(1.1514610310e-1)
    series = series * rest + np.float32(1.1676998740e-1)
    series = series * rest - np.float32(1.2420140846e-1)
    series = series * rest + np.float32(1.4249322787e-1)
    series = series * rest - np.float32(1.6668057665e-1)
    series = series * rest + np.float32(2.0000714765e-1)
    series = series * rest - np.float32(2.4999993993e-1)
    series = series * rest + np.float32(3.3333331174e-1)
    square = rest * rest
    series = series * rest * square - np.float32(0.5) * square + rest
    return series + np.float32(whole) * np.float32(0.6931471805599453)


@inlined
def mix(key: Any, part: Any) -> Any:
    """Return 64 random bits determined by a key and a counter (the SplitMix64 finaliser)."""
    bits = np.uint64(key) + (np.uint64(part) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@inlined
def unit(bits: Any) -> Any:
    """Turn 64 random bits into a float64 in [0, 1)."""
    return np.float64(np.int64(np.uint64(bits) >> np.uint64(11))) * (1.0 / 9007199254740992.0)


@inlined
def below(bits: Any, count: Any) -> Any:
    """Turn 64 random bits into an integer in ``0..count-1``, even to one part in 2**53 / count."""
    return np.int64(unit(bits) * np.float64(count))
