"""Holds the maps of libsim/DESIGN.md and libexec/DESIGN.md against the folders: each has a row, in the order in which folders
may use each other, with its lines of C++, which may have changed by a fifth and 200 since.

usage: map.py SOURCE [--write]

--write puts today's lines, rounded to hundreds, into the pages.
"""

import pathlib
import re
import sys

CODE = (".cpp", ".hpp", ".cu", ".cuh", ".def")
ROW = re.compile(r"^\| `(\w+)` \| (\d+) \|", re.MULTILINE)


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


def write(part):
    page = part / "DESIGN.md"
    page.write_text(ROW.sub(lambda row: f"| `{row[1]}` | {round(lines_of(part / row[1]), -2)} |", page.read_text()))


if __name__ == "__main__":
    parts = [pathlib.Path(sys.argv[1]) / name for name in ("libsim", "libexec")]
    if "--write" in sys.argv:
        for part in parts:
            write(part)
    found = [line for part in parts for line in wrong_rows(part)]
    print("\n".join(found) or "the maps are as the folders are")
    sys.exit(1 if found else 0)
