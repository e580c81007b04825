"""Progress of long calls."""

from __future__ import annotations

from typing import Any, Callable, Union

Progress = Union[bool, Callable[[str, float], object], None]
"""True: a bar of tqdm; or a function that is called with the part of the work and the share of it that
is done, from 0 to 1, a few times a second."""


class _Bar:
    """A bar of tqdm, in percent."""

    def __init__(self) -> None:
        from tqdm.auto import tqdm

        self._bar: Any = tqdm(total=100, unit="%", leave=False)

    def __call__(self, what: str, share: float) -> None:
        self._bar.set_description(what, refresh=False)
        self._bar.n = round(100 * share, 1)
        self._bar.refresh()


def listener(progress: Progress) -> Callable[[str, float], object] | None:
    """The function that the compiled module calls."""
    if progress is True:
        return _Bar()
    if progress is False or progress is None:
        return None
    return progress
