"""The exceptions a user's mistake may raise; all of them are an :class:`InputError`."""

from collections.abc import Mapping

_MOST_SIGNS = 1500


def cut_middle(text: str) -> str:
    """Return a message with the middle left out if it is longer than anybody reads."""
    half = _MOST_SIGNS // 2
    return text if len(text) <= _MOST_SIGNS else f"{text[:half]} ... {text[-half:]}"


class InputError(ValueError):
    """Something handed to graphham cannot be used; one sentence says what and what to do.

    The command line prints the message alone and exits with code 2; Python users see it as an
    ordinary ``ValueError``. What a file or a request says is echoed in it; a message that became
    long by that is cut in the middle, where the value stands.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(cut_middle(str(message)))


class DivergedError(InputError):
    """Training ended in numbers that are not finite, so that its state is of no use to anybody."""


class ShortMemoryError(InputError, MemoryError):
    """The work needs more memory than there is; to Python users it is a ``MemoryError`` as well."""


def blame_rates(rates: Mapping[str, tuple[float, float]]) -> tuple[str, str]:
    """Return words for the likely cause of numbers that went astray, and what to do about it.

    Args:
        rates: Learning rates by the name of their setting, each with the usual value. The one
            furthest above it is named, since too large steps are what makes training diverge.
    """
    advice = "scale down very large features and weights"
    if not rates:
        return "", advice
    name = max(rates, key=lambda key: rates[key][0] / rates[key][1])
    value, usual = rates[name]
    return f" with {name} = {value:g}", f"give a smaller {name} ({usual:g} is usual), or {advice}"
