"""Ends runs by signals, and resumes them.

usage: end_by_signal.py STAGECRAFT_EXEC SYSTEM

Exits 1 where a run that saves does not end after its iteration with the shell's exit code, does not say what it did, or a
run resumed from it does not go on as one that was never ended; where a second signal does not end it at once; or where
--keep keeps other checkpoints than the newest.
"""

import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from kill_while_saving import RUN

STEP = re.compile(r"^step (\d+)  (loss \S+  gradient norm \S+)", re.MULTILINE)


def end(command, number, after, times=1):
    """Sends a signal once `after` iterations are over; the exit code and standard error."""
    text = ""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            text += line
            if line.startswith(f"step {after - 1} "):
                for _ in range(times):
                    process.send_signal(number)
        process.wait()
    return process.returncode, text


def main(program, system):
    with tempfile.TemporaryDirectory() as name:
        config = pathlib.Path(name, "run.yaml")
        config.write_text(RUN.format(system=system))
        run = [program, "run", config, "--gemm", "plain", "--steps"]
        for number, after in ((signal.SIGINT, 3), (signal.SIGTERM, 5)):
            folder = pathlib.Path(name, number.name)
            code, text = end([*run, "100000", "--save", folder, "--save-every", "1", "--keep", "2"], number, after)
            assert code == 128 + number, (code, text)
            assert "will save and end after this iteration" in text, text
            last = max(int(step) for step, _ in STEP.findall(text))
            saved = f"({last + 1} of 100000); saved in {folder}: the same command with --resume {folder} continues"
            assert f"ended by a signal after step {last} {saved}" in text, text
            assert last + 1 >= after, text
            checkpoints = sorted(path.name for path in folder.iterdir())
            assert checkpoints == sorted(["latest", f"step-{last}", f"step-{last + 1}"]), checkpoints
            resumed = subprocess.run([*run, "2", "--resume", folder], capture_output=True, text=True, check=True)
            whole = subprocess.run([*run, str(last + 3)], capture_output=True, text=True, check=True)
            assert STEP.findall(resumed.stderr) == STEP.findall(whole.stderr)[-2:], (resumed.stderr, whole.stderr)
        code, _ = end([*run, "100000", "--save", folder], signal.SIGTERM, 1, times=50)
        assert code in (-signal.SIGTERM, 128 + signal.SIGTERM), code
        code, text = end([*run, "100000"], signal.SIGINT, 1)
        assert code == -signal.SIGINT and "will save" not in text, (code, text)


if __name__ == "__main__":
    main(*sys.argv[1:])
