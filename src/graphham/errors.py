"""The one exception a user's mistake may raise."""


class InputError(ValueError):
    """Something handed to graphham cannot be used; one sentence says what and what to do.

    The command line prints the message alone and exits with code 2; Python users see it as an
    ordinary ``ValueError``.
    """
