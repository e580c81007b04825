"""Arguments as the words of a command line, so that commands and functions read them alike."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Iterable

from ._config import path_text, value_text
from ._errors import ConfigError, Problem


def options(**values: Any) -> list[str]:
    """`--some-option=value` for each some_option=value; nothing for None and False, a switch for True.

    A list, tuple or range gives one value with commas, a mapping one with KEY=VALUE.
    """
    words = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, (list, tuple, range)):
            words.append(f"{option}={','.join(value_text(one) for one in value)}")
        elif isinstance(value, Mapping):
            words.append(f"{option}={','.join(f'{key}={value_text(one)}' for key, one in value.items())}")
        elif isinstance(value, (str, bytes, os.PathLike)):
            words.append(f"{option}={path_text(value)}")
        else:
            words.append(f"{option}={value_text(value)}")
    return words


def settings(overrides: Mapping[str, Any] | None) -> list[str]:
    """`--set=KEY=VALUE` for each key."""
    return [f"--set={key}={value_text(value)}" for key, value in (overrides or {}).items()]


def repeated(option: str, texts: Iterable[str] | None) -> list[str]:
    """The option once per text."""
    return [f"--{option}={text}" for text in texts or ()]


def jobs(threads: int) -> int | None:
    """The value of `--jobs` for `threads` of a function: none for 0, which means all cores."""
    if threads == 0:
        return None
    if not 0 < threads <= 1024:
        accepted = "a whole number from 0 (all cores) to 1024"
        problem = Problem(None, None, None, "threads", f"'{threads}'", accepted)
        raise ConfigError(f"threads: found '{threads}'; accepted: {accepted}", [problem])
    return threads
