"""Runs a command with both programs, each in an empty folder, and compares everything that it leaves behind."""

import dataclasses
import json
import os
import re
import shutil
import subprocess

import h5py
import numpy
import yaml


@dataclasses.dataclass
class Case:
    """One command. What it writes has names relative to its folder, and what it reads has absolute ones."""

    kind: str
    name: str
    arguments: list
    program: str = "stagecraft"
    source: str = ""  # the configuration that a report names
    measures: bool = False  # the numbers are of this machine's clock: only what does not depend on it is compared


@dataclasses.dataclass
class Outcome:
    case: Case
    code: int  # exit code of the base
    difference: str = ""
    gained: tuple = ()


# Members that depend on the machine's clock: the time that a search or a sweep took, and all times of an executed plan.
CLOCK = re.compile(r"\.seconds$")
MEASURED = re.compile(r"[._](seconds|start|duration|time)$")
PROGRESS = re.compile(r"^note: [\w ]+ \d+ %(, .* s left)?\n", re.MULTILINE)
VERSION = {"program_version", "command_line"}


class Gains:
    """Members that the new program has and the base does not."""

    def __init__(self):
        self.paths = set()

    def note(self, path):
        self.paths.add(re.sub(r"\[\d+\]", "[]", path).lstrip("."))


def first_difference(base, new, path, gains, skips=lambda path: False):
    """The first path at which the values differ, and both values there; None if there is none."""
    if skips(path):
        return None
    if isinstance(base, dict) and isinstance(new, dict):
        for key in new.keys() - base.keys():
            gains.note(f"{path}.{key}")
        for key, value in base.items():
            if key not in new:
                return f"{path}.{key}: {value!r:.80} against nothing"
            found = first_difference(value, new[key], f"{path}.{key}", gains, skips)
            if found:
                return found
        return None
    if isinstance(base, list) and isinstance(new, list):
        for i, (one, other) in enumerate(zip(base, new)):
            found = first_difference(one, other, f"{path}[{i}]", gains, skips)
            if found:
                return found
        return None if len(base) == len(new) else f"{path}: {len(base)} entries against {len(new)}"
    same = type(base) is type(new) and (base == new or base != base and new != new)
    return None if same else f"{path}: {base!r:.120} against {new!r:.120}"


def text_difference(base, new, path):
    if base == new:
        return None
    rows = (base.splitlines(), new.splitlines())
    place = next((i for i, (a, b) in enumerate(zip(*rows)) if a != b), min(map(len, rows)))
    a, b = (repr(row[place])[:200] if place < len(row) else "nothing" for row in rows)
    return f"{path}:{place + 1}: {a} against {b}"


def document_difference(texts, path, gains, skips):
    """Of two texts, read as JSON if both are."""
    try:
        documents = [json.loads(text) for text in texts]
    except ValueError:
        return text_difference(*texts, path)
    return first_difference(*documents, path, gains, skips)


def yaml_difference(texts, path, gains):
    """Comments by their text, the rest by its values."""
    comments = ["\n".join(line for line in text.splitlines() if line.startswith("#")) for text in texts]
    documents = [yaml.load(text, Loader=yaml.CSafeLoader) for text in texts]
    return text_difference(*comments, path) or first_difference(*documents, path, gains)


def attributes_difference(base, new, path, gains):
    """Version and command line apart. Configurations are compared by their values, and the fingerprint of a sweep only
    if these are the same text, because it is of them."""
    found = first_difference(dict.fromkeys(base.attrs, 0), dict.fromkeys(new.attrs, 0), path + "@", gains)
    same_text = True
    for name in base.attrs:
        if found or name in VERSION or name == "fingerprint" and not same_text:
            continue
        values = [object.attrs[name] for object in (base, new)]
        if name in ("config", "base", "sweep") and path == "":
            texts = [value.decode() if isinstance(value, bytes) else str(value) for value in values]
            same_text = same_text and texts[0] == texts[1]
            found = texts[0] != texts[1] and yaml_difference(texts, ".config", gains)
        elif not numpy.array_equal(*values):
            found = f"{path}@{name}: {values[0]!r:.120} against {values[1]!r:.120}"
    return found


def hdf5_difference(base, new, path, gains, skips):
    """Every dataset and attribute."""
    found = attributes_difference(base, new, path, gains)
    if found or not isinstance(base, h5py.Group):
        return found
    for name in new.keys() - base.keys():
        gains.note(re.sub(r"/\d+(?=/)", "/*", f"{path}/{name}"))
    for name in base:
        below = f"{path}/{name}"
        if name not in new:
            return f"{below}: missing"
        if isinstance(base[name], h5py.Group):
            found = hdf5_difference(base[name], new[name], below, gains, skips)
        else:
            values = (base[name][()], new[name][()])
            if base[name].dtype != new[name].dtype:
                found = f"{below}: {base[name].dtype} against {new[name].dtype}"
            elif not skips(below) and not numpy.array_equal(*values, equal_nan=values[0].dtype.kind == "f"):
                rows = min(map(len, values))
                place = next((i for i in range(rows) if values[0][i] != values[1][i]), rows)
                a, b = (value[place] if place < len(value) else "nothing" for value in values)
                found = f"{below}[{place}] of {len(values[0])} and {len(values[1])}: {a} against {b}"
            found = found or attributes_difference(base[name], new[name], below, gains)
        if found:
            return found
    return None


def file_difference(paths, name, gains, skips):
    if name.endswith(".h5"):
        with h5py.File(paths[0]) as base, h5py.File(paths[1]) as new:
            return hdf5_difference(base, new, "", gains, lambda path: skips(path.replace("/", ".")))
    contents = [path.read_bytes() for path in paths]
    if name.endswith(".et"):  # the first message, whose length its first byte says, has the program's version
        contents = [content[1 + content[0]:] for content in contents]
    if contents[0] == contents[1]:
        return None
    try:
        texts = [content.decode() for content in contents]
    except UnicodeDecodeError:
        return f"{name}: other bytes, {len(contents[0])} and {len(contents[1])}"
    if name.endswith(".yaml"):
        return yaml_difference(texts, ".config", gains)
    return document_difference(texts, name, gains, skips)


def skips_of(case):
    """Which paths of a document are not compared."""
    if case.kind in ("plan", "sweep"):
        return lambda path: CLOCK.match(path) is not None
    if case.measures:
        return lambda path: MEASURED.search(path) is not None
    return lambda path: False


def normalised(text, source, measures):
    """Without the place of the program's own files, which both find by name, progress, and measured times."""
    text = PROGRESS.sub("", text.replace(f"{source}/configs", "<configs>"))
    return re.sub(r"[0-9.]+ (s|tokens/s)\b", r"_ \1", text) if measures else text


def execute(case, build, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [build.program(case.program), *map(str, case.arguments)]
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=900, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    return done.returncode, *(normalised(text, build.source, case.measures) for text in (done.stdout, done.stderr))


def compare(case, builds, folder):
    """Outcome of one case. Its folders stay if it differs."""
    folders = [folder / case.kind / case.name / side for side in ("base", "new")]
    runs = [execute(case, build, below) for build, below in zip(builds, folders)]
    gains, skips = Gains(), skips_of(case)
    (code, *texts), (new_code, *new_texts) = runs
    found = None
    if code != new_code:
        found = f"exit code: {code} against {new_code}: {texts[1][-200:]!r} {new_texts[1][-200:]!r}"
    if "--print-config" in case.arguments:
        found = found or yaml_difference((texts[0], new_texts[0]), ".config", gains)
    else:
        found = found or document_difference((texts[0], new_texts[0]), "", gains, skips)
    found = found or text_difference(texts[1], new_texts[1], "standard error")
    names = [sorted(str(path.relative_to(side)) for path in side.rglob("*") if path.is_file()) for side in folders]
    found = found or (None if names[0] == names[1] else f"files: {names[0]} against {names[1]}")
    for name in names[0]:
        found = found or file_difference([below / name for below in folders], name, gains, skips)
    if found:
        for below, (_, output, errors) in zip(folders, runs):
            (below / "stdout").write_text(output)
            (below / "stderr").write_text(errors)
    else:
        shutil.rmtree(folder / case.kind / case.name)
    return Outcome(case, code, found or "", tuple(sorted(gains.paths)))
