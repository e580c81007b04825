"""The program `stagecraft`, which the package installs too."""

from __future__ import annotations

import signal
import sys

from . import _core


def main() -> int:
    """Runs the command line and returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the program knows nothing of the interpreter
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return _core.run_program(sys.argv[1:])
