"""Holds README.md and the pages that it links to against the repository and the program.

usage: pages_test.py REPOSITORY [STAGECRAFT]

In every page: each file that an example reads is there, or is written by another example; what examples write is ignored
by git; each link leads to a file. So do the configurations that the programs' own --help names. README.md links to every
page and has at most 180 lines.

With STAGECRAFT, the program, its examples are run too, and print what the pages show: `...` stands for any lines, and the time
that a command took may differ. Examples that read what only another program writes are not run.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

OUTPUTS = ("-o", "--csv", "--trace")
# Blocks without a command line, each with the command that prints it.
PRINTED_BY = {"table5: ": "stagecraft reproduce table5"}
PYTHON = "/usr/bin/python3"  # the one for which Debian has h5py
RUN = ("stagecraft", "head", "cat", PYTHON)


def pages(repository):
    """README.md first, then the pages of the folders."""
    folders = (entry for entry in repository.iterdir() if entry.is_dir() and entry.name not in ("build", "out", ".git"))
    return [repository / "README.md", *sorted(page for folder in folders for page in folder.rglob("*.md"))]


def examples(text):
    """(command line, lines of output) of the code blocks, continued lines joined."""
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for start, command in PRINTED_BY.items():
            if block.startswith(start):
                yield command, block.splitlines()
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.replace("\\\n", ""), re.MULTILINE):
            yield command, output.splitlines()


def words_of(command):
    return re.split(r"[ =]", command)


def written_by(command):
    words = words_of(command)
    return {word for option, word in zip(words, words[1:]) if option in OUTPUTS}


def check_files(repository, texts):
    """What is wrong with the files that examples and --help name."""
    commands = [command for text in texts.values() for command, _ in examples(text)]
    written = set().union(*map(written_by, commands))
    read = {word for command in commands for word in words_of(command)
            if re.search(r"\.(yaml|json|sh)$", word) and not word.startswith(("-", "SWEEP"))}
    for source in (repository / "apps").rglob("*.cpp"):
        text = re.sub(r'"\s*"', "", source.read_text())  # a literal of several lines is one text
        read |= set(re.findall(r"\bconfigs/[\w/.-]+\.yaml", text))
    for file in sorted(read - written):
        if not (repository / file).is_file():
            yield f"{file}: named by an example, and not there"
    for file in sorted(written):
        if subprocess.run(["git", "-C", repository, "check-ignore", "-q", file]).returncode == 1:
            yield f"{file}: written by an example, and not ignored by git"


def check_links(repository, texts):
    linked = set()
    for page, text in texts.items():
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            file = (page.parent / target).resolve()
            linked.add(file)
            if not file.exists():
                yield f"{page.relative_to(repository)}: links to {target}, which is not there"
    for page in texts:
        if page not in linked and page != repository / "README.md":
            yield f"{page.relative_to(repository)}: no page links to it"
    # The number of plans whose memory was compared to the byte, as its pages have it.
    small = re.search(r"\d+ small plans", texts[repository / "README.md"])[0]
    for page in ("twins", "validation"):
        if small not in texts[repository / "experiments" / page / "README.md"]:
            yield f"experiments/{page}/README.md: does not say '{small}', as README.md does"
    lines = len(texts[repository / "README.md"].splitlines())
    if lines > 180:
        yield f"README.md: {lines} lines, more than 180"


def without_times(line):
    return re.sub(r"in [\d.]+ s \(\d+", "in TIME s (RATE", line.rstrip())


def agrees(shown, printed):
    """Whether `printed` agrees with `shown`, in which a line `...` stands for any number of lines."""
    pattern = "".join("(?:.*\n)*?" if line == "..." else re.escape(without_times(line) + "\n") for line in shown)
    return re.fullmatch(pattern, "".join(without_times(line) + "\n" for line in printed)) is not None


def has_h5py():
    return subprocess.run([PYTHON, "-c", "import h5py"], capture_output=True, check=False).returncode == 0


def check_output(repository, texts, program):
    """Runs the examples of each page in an empty folder that shows the repository's files."""
    commands = [command for text in texts.values() for command, _ in examples(text)]
    unavailable = set().union(*(written_by(command) for command in commands if words_of(command)[0] not in RUN))
    unavailable |= {"build", "parts"}
    if not has_h5py():
        unavailable.add(PYTHON)
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    run = 0
    for page, text in texts.items():
        with tempfile.TemporaryDirectory() as folder:
            for entry in repository.iterdir():
                if entry.name != "build" and not entry.name.startswith("."):
                    (pathlib.Path(folder) / entry.name).symlink_to(entry)
            for command, shown in examples(text):
                words = words_of(command)
                if words[0] not in RUN or any(word in unavailable or word.split("/")[0] in unavailable for word in words):
                    continue
                done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                run += 1
                # A page may leave out the warnings and notes on standard error.
                printed = done.stdout.splitlines()
                essential = [line for line in printed if not line.startswith(("warning: ", "note: "))]
                if shown and not agrees(shown, printed) and not agrees(shown, essential):
                    yield f"{page.relative_to(repository)}: '{command}' prints something else:\n{done.stdout}"
    print(f"{run} examples run")


def main(repository, program=None):
    texts = {page: page.read_text() for page in pages(repository)}
    wrong = [*check_files(repository, texts), *check_links(repository, texts)]
    if program is not None:
        wrong += check_output(repository, texts, program)
    print("\n".join(wrong) or f"{len(texts)} pages")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*(pathlib.Path(argument).resolve() for argument in sys.argv[1:])))
