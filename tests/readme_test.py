"""Holds the README's examples against the repository they are run in.

usage: readme_test.py REPOSITORY

Every file that a command line reads is there, or made by a command line; what command lines write is ignored by git;
so are the configurations that the programs' own --help names.
"""

import pathlib
import re
import subprocess
import sys

OUTPUTS = ("-o", "--csv", "--trace")


def command_lines(text):
    """Lines of code blocks that begin with `$`, continued ones joined."""
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from re.findall(r"^\$ (.*)", block.replace("\\\n", ""), re.MULTILINE)


def main(repository):
    wrong = []
    written = set()
    read = set()
    for line in command_lines((repository / "README.md").read_text()):
        words = re.split(r"[ =]", line)
        written |= {word for option, word in zip(words, words[1:]) if option in OUTPUTS}
        read |= {word for word in words if word.endswith(".yaml") and not word.isupper() and word != "SWEEP.yaml"}
    for source in repository.glob("apps/*/*.cpp"):
        # Texts of several lines, as one.
        text = re.sub(r'"\s*"', "", source.read_text())
        read |= set(re.findall(r"\bconfigs/[\w/.-]+\.yaml", text))
    wrong += [f"{file}: named by an example, and not there" for file in sorted(read - written)
              if not (repository / file).is_file()]
    for file in sorted(written):
        ignored = subprocess.run(["git", "-C", repository, "check-ignore", "-q", file]).returncode
        if ignored == 1:
            wrong.append(f"{file}: written by an example, and not ignored by git")
    print("\n".join(wrong) or f"{len(read)} files that examples read, {len(written)} that they write")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
