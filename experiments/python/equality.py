"""Whether Python and the command line give the same numbers: random runs, every member of the document.

usage: equality.py [RUNS]   (default: 500; PYTHONPATH and STAGECRAFT_PROGRAM as tests/python/run.sh sets them)
Counts only runs that are possible; of the others the messages must be equal. Exits 1 at the first difference.
"""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests/python"))

import command  # noqa: E402
import stagecraft  # noqa: E402


def main(wanted):
    draw = random.Random(2026)
    equal = refused = 0
    while equal < wanted:
        path, overrides = command.random_run(draw)
        words = ("simulate", path, *command.set_options(overrides))
        try:
            cfg = stagecraft.load(path).with_(overrides)
        except stagecraft.ConfigError as error:
            if command.run(*words).stderr != str(error) + "\n":
                sys.exit(f"other messages: {words}")
            refused += 1
            continue
        if stagecraft.simulate(cfg).to_dict() != command.document(*words):
            sys.exit(f"other numbers: {words}")
        equal += 1
    print(f"{equal} runs with equal documents, {refused} refused with equal messages")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
