"""Holds apps/stagecraft/JSON.md against what the commands print with --json.

usage: json_page_test.py REPOSITORY STAGECRAFT [STAGECRAFT-EXEC]

Every document has a `schema` whose section is in the page, each of its members is in that section, and each member that
the page names occurs in some document. Without STAGECRAFT-EXEC the documents of that program are not printed.
"""

import collections
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile

# Members that no command here prints: they need traces of executed runs.
NOT_PRINTED = {"stagecraft.reproduction/1": {"*[].executed", "executed.*"}}


def sections(page):
    """Members by schema; a section may be of several schemas."""
    members = collections.defaultdict(set)
    for title, text in re.findall(r"^## (stagecraft\..*)\n((?:(?!^## ).*\n?)*)", page, re.MULTILINE):
        names = set()
        for row in re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE):
            names |= set(re.findall(r"`([^`]+)`", row))
        for schema in title.split(", "):
            members[schema] |= names
    return members


def leaves(value, path=""):
    """Paths of all values; objects and lists only if they are empty. `config` is a run file."""
    if path == "config" or path.endswith(".config"):
        yield path
    elif isinstance(value, dict) and value:
        for name, member in value.items():
            yield from leaves(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        for entry in value:
            yield from leaves(entry, path + "[]")
    else:
        yield path


def pattern_of(name):
    """A regular expression for the paths that a name of the page stands for."""
    text = re.escape(name).replace(r"\*", "[^.]+?")
    return re.compile(re.sub(r"\[\^\.\]\+\?$", ".+", text) + "$")


def is_named(path, names, patterns):
    if any(patterns[name].match(path) for name in names):
        return True
    # What is null or empty has no members to show.
    return any(name.startswith((path + ".", path + "[]")) for name in names)


def print_documents(repository, program, executor, folder):
    """(command, document) of every command."""
    paper = repository / "configs/paper"

    def run(*words, of=program):
        done = subprocess.run([of, *map(str, words), "--json"], capture_output=True, text=True, check=False, cwd=folder)
        if not done.stdout:
            sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
        return " ".join(map(str, words)), json.loads(done.stdout)

    def quiet(*words):
        subprocess.run([program, *map(str, words)], capture_output=True, check=True, cwd=folder)

    operation = ["--price", "2/gpu-hour", "--power", "800W", "--tokens", "3B", "--gpu-hours-per-failure", "40k"]
    example = repository / "configs/examples/eight.yaml"
    quiet("simulate", example, "--detail", "op", "--trace", "a.h5")
    quiet("simulate", example, "--set", "recompute=full", "--detail", "op", "--trace", "b.h5")
    quiet("export", "a.h5", "--format", "memory-snapshot", "-o", "a.pickle")
    (folder / "recorded.txt").write_bytes(gzip.decompress(
        (repository / "tests/oracle/allocator/meg0.txt.gz").read_bytes())[:4000].rpartition(b"\n")[0] + b"\n")
    (folder / "sweep.yaml").write_text(f"base: {paper / '22b-present.yaml'}\nvalues: {{parallel.tensor: [1, 2, 8]}}\n")
    yield run("simulate", paper / "22b-present.yaml", "--against", paper / "22b-full.yaml", *operation)
    yield run("plan", "gpt-22b", "--system", "selene-a100", "--gpus", "8", "--global-batch", "4", *operation)
    yield run("explain", paper / "22b-full.yaml", "--pairs")
    yield run("layer", paper / "22b-present.yaml")
    yield run("schedule", "--schedule", "searched", "-p", "4", "-n", "4", "--memory-limit", "3", "--iterations", "9")
    yield run("reproduce", "table2", "figure9", "headline")
    yield run("compare", "a.h5", "a.h5")
    yield run("compare", "a.h5", "b.h5", "--force")
    yield run("compare", "--snapshot", "a.pickle", "b.h5")
    yield run("allocator", "recorded.txt")
    yield run("system", "selene-a100")
    yield run("system", "--keys")
    yield run("software", "megatron-2022")
    yield run("software", "--keys")
    yield run("simulate", "--keys")
    yield run("import", "huggingface", repository / "tests/libsim/import/configs/llama-3-8b.json")
    yield run("import", "megatron", "--script", repository / "tests/libsim/import/scripts/train_llama3_8b_h100_fp8.sh")
    yield run("validate", repository / "experiments/validation/table5.csv", "--by", "recompute")
    yield run("fit", paper / "22b-present.yaml", "--measured", "1.13s")
    yield run("fit", paper / "22b-present.yaml", "--died")
    yield run("fit", repository / "experiments/validation/data/vtrain-single-node.csv", "--base",
              repository / "experiments/validation/vtrain-single-node.yaml")
    yield run("sweep", "sweep.yaml", "--dry-run")
    yield run("sweep", "sweep.yaml", "-o", "sweep.h5")
    if executor:
        yield run("run", example, "--steps", "1", of=executor)
        yield run("devices", of=executor)


def main(repository, program, executor=None):
    page = sections((repository / "apps/stagecraft/JSON.md").read_text())
    patterns = {name: pattern_of(name) for names in page.values() for name in names}
    wrong = []
    seen = collections.defaultdict(set)
    with tempfile.TemporaryDirectory() as folder:
        for command, document in print_documents(repository, program, executor, pathlib.Path(folder)):
            schema = document.get("schema")
            if next(iter(document), None) != "schema" or schema not in page:
                wrong.append(f"{command}: schema {schema}, of which the page has no section")
                continue
            paths = set(leaves(document)) - {"schema"}
            seen[schema] |= paths
            wrong += [f"{schema}: the page does not name {path}" for path in sorted(paths)
                      if not is_named(path, page[schema], patterns)]
    sections_of = collections.defaultdict(set)
    for schema, names in page.items():
        for name in names - NOT_PRINTED.get(schema, set()):
            sections_of[name, frozenset(names)].add(schema)
    for (name, _), schemas in sorted(sections_of.items(), key=lambda entry: entry[0][0]):
        printed = set().union(*(seen.get(schema, ()) for schema in schemas))
        if not printed:
            continue  # another program's
        found = any(patterns[name].match(path) or path.startswith((name + ".", name + "[]")) for path in printed)
        if not found and not any(name.startswith((path + ".", path + "[]")) for path in printed):
            wrong.append(f"{sorted(schemas)[0]}: no document has {name}")
    print("\n".join(dict.fromkeys(wrong)) or f"{len(seen)} schemas agree with the page")
    return 1 if wrong else 0


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    sys.exit(main(*(pathlib.Path(argument).resolve() for argument in sys.argv[1:])))
