"""Holds the maps of libsim/DESIGN.md and libexec/DESIGN.md against the folders: each has a row, in the order in which folders
may use each other, with its lines of C++, which may have changed by a fifth and 200 since. What the pages name as
`folder/file`, and comments as file.hpp, exists. No folder has more than 40 files of its own.

usage: map.py SOURCE [--write]

--write puts today's lines, rounded to hundreds, into the pages.
"""

import pathlib
import re
import sys

CODE = (".cpp", ".hpp", ".cu", ".cuh", ".def")
ROW = re.compile(r"^\| `(\w+)` \| (\d+) \|", re.MULTILINE)


NAMED = re.compile(r"`([a-z_-]+(?:/[a-z_.]+)+)`")
COMMENT = re.compile(r"//.*?\b(\w+\.(?:hpp|cuh))\b")
MOST_FILES = 40


def lines_of(folder):
    return sum(path.read_text().count("\n") for path in folder.rglob("*") if path.suffix in CODE)


def wrong_rows(part):
    """What is wrong with the map of a part."""
    folders = re.findall(r"^add_subdirectory\((\w+)\)", (part / "CMakeLists.txt").read_text(), re.MULTILINE)
    rows = ROW.findall((part / "DESIGN.md").read_text())
    if [name for name, _ in rows] != folders:
        yield f"{part.name}/DESIGN.md: the map has {', '.join(name for name, _ in rows)}; folders are {', '.join(folders)}"
    for name, said in rows:
        lines = lines_of(part / name)
        if abs(int(said) - lines) > lines / 5 + 200:
            yield f"{part.name}/DESIGN.md: {name} has {lines} lines, not {said} (tests/map.py . --write)"


def exists(name, roots):
    return any(path.exists() for root in roots for path in [root / name, *(root / (name + ending) for ending in CODE)])


def stale_names(root, parts):
    """What pages and comments name and is not there, and folders that are too full."""
    for part in parts:
        for name in NAMED.findall((part / "DESIGN.md").read_text()):
            if not exists(name, [root, part, *parts]):
                yield f"{part.name}/DESIGN.md: there is no {name}"
    sources = [path for part in [*parts, root / "apps"] for path in part.rglob("*") if path.suffix in CODE]
    names = {path.name for path in sources}
    for path in sources:
        for name in COMMENT.findall(path.read_text()):
            if name not in names and not name.startswith("cuda"):
                yield f"{path.relative_to(root)}: there is no {name}"
    for folder in sorted({path.parent for path in sources}):
        files = sum(path.is_file() for path in folder.iterdir())
        if files > MOST_FILES:
            yield f"{folder.relative_to(root)}: {files} files; accepted: up to {MOST_FILES}"


def write(part):
    page = part / "DESIGN.md"
    page.write_text(ROW.sub(lambda row: f"| `{row[1]}` | {round(lines_of(part / row[1]), -2)} |", page.read_text()))


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1])
    parts = [root / name for name in ("libsim", "libexec")]
    if "--write" in sys.argv:
        for part in parts:
            write(part)
    found = [line for part in parts for line in wrong_rows(part)] + list(stale_names(root, parts))
    print("\n".join(found) or "the pages are as the folders are")
    sys.exit(1 if found else 0)
