"""The exceptions a user's mistake may raise; all of them are an :class:`InputError`."""


class InputError(ValueError):
    """Something handed to graphham cannot be used; one sentence says what and what to do.

    The command line prints the message alone and exits with code 2; Python users see it as an
    ordinary ``ValueError``.
    """


class DivergedError(InputError):
    """Training ended in numbers that are not finite, so that its state is of no use to anybody."""
