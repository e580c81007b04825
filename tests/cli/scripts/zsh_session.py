"""An interactive zsh on a terminal of its own, which takes keys and shows what it makes of them."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

READY = "ready> "
# A widget that says what stands on the command line, and another that empties it.
SETTINGS = """
unset zle_bracketed_paste; setopt no_prompt_cr no_prompt_sp no_beep; LISTMAX=9999
fpath=({folder} $fpath); autoload -Uz compinit && compinit -D -u
show-line() {{ print -r -- "<line:$BUFFER>"; BUFFER=; zle redisplay }}
zle -N show-line; bindkey '^X' show-line; bindkey '^I' complete-word
PS1='ready> '
"""


class ZshSession:
    """Completes with the scripts of a folder, in which it is."""

    def __init__(self, folder):
        self._process, self._terminal = pty.fork()
        if self._process == 0:
            os.chdir(folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb", "PS1": "start> "})
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 160, 0, 0))
        self._read_until("start> ")
        self._type(f"source {self._settings(folder)}\n")
        self._read_until(READY)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._terminal)
        os.waitpid(self._process, 0)

    def completed(self, line):
        """What stands on the command line after `line` and a tab."""
        return self._press_tab(line)[0].rstrip()

    def offered(self, line):
        """The words that begin the lines of the list that a tab after `line` shows."""
        return set(re.findall(r"^(\S+)", self._press_tab(line)[1], re.MULTILINE))

    @staticmethod
    def _settings(folder):
        path = folder / "settings"
        path.write_text(SETTINGS.format(folder=folder))
        return path

    def _press_tab(self, line):
        self._type(line + "\t\x18")
        shown = self._read_until("<line:")
        text = self._read_until(">")
        self._read_until(READY)
        return text.removesuffix(">"), shown.split("\n", 1)[-1]

    def _type(self, keys):
        os.write(self._terminal, keys.encode())

    def _read_until(self, end, seconds=60):
        """Text up to and with `end`."""
        text = ""
        limit = time.monotonic() + seconds
        while not text.endswith(end):
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, limit - time.monotonic()))
            assert ready, f"no {end!r} after {text!r}"
            text += os.read(self._terminal, 1).decode(errors="replace").replace("\r", "")
        return text
