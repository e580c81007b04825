"""Arguments as the words of a command line, so that commands and functions read them alike."""

from __future__ import annotations

import os
from typing import Any, Iterable, Mapping

from ._config import path_text, value_text


def options(**values: Any) -> list[str]:
    """`--some-option=value` for each some_option=value; nothing for None and False, a switch for True.

    A list, tuple or range gives one value with commas.
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
        elif isinstance(value, (str, os.PathLike)):
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
