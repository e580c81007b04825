"""What can go wrong, as exceptions whose text is that of the commands."""

from __future__ import annotations

from typing import NamedTuple, Sequence


class Problem(NamedTuple):
    """One mistake in a configuration or an argument."""

    file: str | None
    """File as it was named, `--set KEY=VALUE` for a key that was set, or None for an argument."""
    line: int | None
    """Line in the file, from 1."""
    column: int | None
    """Column in the line, from 1, in bytes."""
    key: str | None
    """Dotted key, such as `parallel.tensor`; of an argument its option, such as `--gpus`."""
    found: str | None
    """What was found; in quotes if it is the user's own text."""
    accepted: str | None
    """What would be accepted."""


class Error(Exception):
    """Something could not be done. Base of all errors of this package."""


class ConfigError(Error, ValueError):
    """A configuration or an argument is wrong. The text has one line per problem."""

    problems: tuple[Problem, ...]
    """Every problem that was found, not only the first."""

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message, tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return str(self.args[0])


class DoesNotFit(Error):
    """A plan does not fit in memory, or no plan of a search does."""
