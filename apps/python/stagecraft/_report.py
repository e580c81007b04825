"""Reports: one HTML page about one or several traces."""

from __future__ import annotations

import os
from typing import Sequence, Union

from . import _core
from ._config import Config, path_text
from ._frames import write_trace
from ._words import options

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class Report:
    """A self-contained page: what each stage does when, and what it holds in memory.

    A notebook shows it in its cell; `save` writes it as a file that a browser opens without network.
    """

    def __init__(self, html: str) -> None:
        self.html = html
        """The page."""

    def save(self, path: Path) -> None:
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def _repr_html_(self) -> str:
        import base64

        page = base64.b64encode(self.html.encode()).decode()
        return f'<iframe src="data:text/html;base64,{page}" width="100%" height="720" style="border:0"></iframe>'

    def __repr__(self) -> str:
        return f"<stagecraft.Report: {len(self.html)} characters>"


def report(*sources: Config | Path, title: str | None = None, ranks: Sequence[int] | None = None) -> Report:
    """A page about one to eight traces, side by side.

    sources: trace files, predicted or executed; or runs, which are simulated.
    title: of the page; None: the names of the files. ranks: those to draw; None: the fullest of each stage.
    Raises Error if a file is not a trace.
    """
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, source in enumerate(sources):
            if isinstance(source, Config):
                path = os.path.join(folder, f"run {number + 1}.h5")
                write_trace(source, path)
                paths.append(path)
            else:
                text = path_text(source)
                paths.append("./" + text if text.startswith("-") else text)  # a file, never an option
        page = os.path.join(folder, "report.html")
        _core.write_report([*paths, *options(output=page, title=title, ranks=ranks)])
        with open(page, encoding="utf-8") as file:
            return Report(file.read())
