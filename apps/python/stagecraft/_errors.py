"""What can go wrong, as exceptions whose text is that of the commands, with arguments in place of options."""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

_setting = re.compile(r"--set (?=[^\s=]+=)")
_option = re.compile(
    r"--(gpus|global-batch|fix|set|top|price|power|pue|tokens|gpu-hours-per-failure|checkpoint-time|restart-time|margin|safety"
    r"|launchable|exhaustive|system|software|constants|measured|base|output|jobs|require-fit|pipeline|microbatches|chunks|group"
    r"|forward|input-gradient|weight-gradient|backward|transfer|p2p|memory|memory-limit|variant|expert-overlap"
    r"|recompute-chunks|order|seed|iterations|seconds|rank|sharding|precision|died|reserved|allocated|stage|tried-bytes|schedule)\b(?!-)"
)

_names = {"schedule": "kind"}
"""Arguments that are not named as their options."""


def in_python(text: str) -> str:
    """A message of a command with the names of arguments in place of options: `gpus` for --gpus, a key for --set KEY."""
    return _option.sub(lambda option: _names.get(option[1], option[1].replace("-", "_")), _setting.sub("", text))


class Problem(NamedTuple):
    """One mistake in a configuration or an argument."""

    file: str | None
    """File as it was named, `KEY=VALUE` for a key that was set, or None for an argument."""
    line: int | None
    """Line in the file, from 1."""
    column: int | None
    """Column in the line, from 1, in bytes."""
    key: str | None
    """Dotted key, such as `parallel.tensor`; of an argument its name, such as `gpus`."""
    found: str | None
    """What was found; in quotes if it is the user's own text."""
    accepted: str | None
    """What would be accepted."""


def _said(part: str | None) -> str | None:
    return None if part is None else in_python(part)


class Error(Exception):
    """Something could not be done. Base of all errors of this package."""

    def __init__(self, message: str, *more: object) -> None:
        super().__init__(in_python(message), *more)


class ConfigError(Error, ValueError):
    """A configuration or an argument is wrong. The text has one line per problem."""

    problems: tuple[Problem, ...]
    """Every problem that was found, not only the first."""

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        self.problems = tuple(
            Problem(_said(one.file), one.line, one.column, _said(one.key), _said(one.found), _said(one.accepted)) for one in problems
        )
        super().__init__(message, self.problems)

    def __str__(self) -> str:
        return str(self.args[0])


class DoesNotFit(Error):
    """A plan does not fit in memory, or no plan of a search does."""
