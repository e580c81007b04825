"""Completes command lines as bash and zsh do, and holds the scripts against --help.

usage: completion_test.py PROGRAM...

Every command and option that --help shows is in both scripts and the manual page; bash loads the script and completes commands, options,
values and files by it; zsh, where it is installed, completes options and files as a person types them.
"""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from zsh_session import ZshSession

COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@")
# As bash splits words: at `=` too.
COMP_CWORD=$(($# - 1))
"$(complete -p "$1" | sed -E 's/.*-F ([^ ]+) .*/\\1/')"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


# Commands whose next word says what of; they have no options without it.
WITH_SUBJECT = ("import", "measure")


def commands_of(program):
    """(words, help text) of each command, by what --help prints."""
    page = run(program, "--help")
    names = re.findall(r"^  (\w+)  +\S", page.split("commands:\n")[1].split("\n\n")[0], re.MULTILINE)
    for name in names:
        text = run(program, name, "--help")
        yield [name], text
        for word in re.findall(rf"^(?:usage:|      ) {pathlib.Path(program).name} {name} ([a-z]+) ", text, re.MULTILINE):
            below = run(program, name, word, "--help") if name in WITH_SUBJECT else ""
            if below:
                yield [name, word], below


def options_of(text):
    """Spellings of options in the table of a help page."""
    table = text.split("options:\n")[1].split("\n\n")[0] if "options:\n" in text else ""
    for line in table.splitlines():
        found = re.match(r"  (?:(-\w) \[ )?(--[\w-]+)", line)
        if found:
            yield from (spelling for spelling in found.groups() if spelling)


def check_zsh(name, zsh):
    """Commands whose words are files with one extension, with several, and values of an option."""
    if name == "stagecraft":
        assert {"simulate", "sweep"} <= zsh.offered("stagecraft s")
        assert {"--trace", "--require-fit", "--set"} <= zsh.offered("stagecraft simulate --")
        assert zsh.completed("stagecraft simulate ru") == "stagecraft simulate run.yaml"
        assert zsh.completed("stagecraft plan gpt3") == "stagecraft plan gpt3-175b"
        assert zsh.completed("stagecraft plan --system selene") == "stagecraft plan --system selene-a100"
        assert zsh.completed("stagecraft simulate --set parallel.ten") == "stagecraft simulate --set parallel.tensor="
        assert zsh.completed("stagecraft simulate --set model.precision=bf") == "stagecraft simulate --set model.precision=bf16"
        assert zsh.completed("stagecraft plan --fix sch") == "stagecraft plan --fix schedule="
        assert zsh.completed("stagecraft plan --fix schedule=1f1b_") == "stagecraft plan --fix schedule=1f1b_v"
        assert zsh.completed("stagecraft plan --fix schedule=1f1b,zbv,dualpi") == "stagecraft plan --fix schedule=1f1b,zbv,dualpipe"
        assert zsh.completed("stagecraft plan --sharding fsdp2,zero1,di") == "stagecraft plan --sharding fsdp2,zero1,distributed_optimizer"
        assert zsh.completed("stagecraft plan --system selene-a100,b200-h") == "stagecraft plan --system selene-a100,b200-hgx"
        assert zsh.completed("stagecraft plan --precision none,mx") == "stagecraft plan --precision none,mxfp8"
        assert zsh.completed("stagecraft simulate su") == "stagecraft simulate sub/"
        assert zsh.completed("stagecraft compare tr") == "stagecraft compare trace.h5"
        assert zsh.completed("stagecraft sweep tr") == "stagecraft sweep trace.h5"
        assert zsh.completed("stagecraft sweep ru") == "stagecraft sweep run.yaml"
        assert zsh.completed("stagecraft import huggingface co") == "stagecraft import huggingface config.json"
        assert zsh.completed("stagecraft simulate run.yaml --detail ch") == "stagecraft simulate run.yaml --detail chunk"
    else:
        assert {"--save", "--memory-limit"} <= zsh.offered("stagecraft-exec run --")
        assert zsh.completed("stagecraft-exec run ru") == "stagecraft-exec run run.yaml"
        assert zsh.completed("stagecraft-exec run run.yaml --data no") == "stagecraft-exec run run.yaml --data notes.txt"


def check_sourced_zsh(program, name):
    """`source <(... completion zsh)` after compinit registers the completion, and says so if compinit is missing."""
    source = f"source <({shlex.quote(program)} completion zsh)"
    assert run("zsh", "-f", "-c", f"autoload -Uz compinit; compinit -D -u; {source}; print ${{_comps[{name}]}}").strip() == f"_{name}"
    without = subprocess.run(["zsh", "-f", "-c", source], capture_output=True, text=True)
    assert "call compinit before" in without.stderr, without


def check(program):
    name = pathlib.Path(program).name
    with tempfile.TemporaryDirectory(prefix="stagecraft-completion-") as folder:
        folder = pathlib.Path(folder)
        script = folder / "script"
        script.write_text(run(program, "completion", "bash"))
        run("bash", "-n", script)

        def complete(*words):
            output = run("bash", "-c", COMPLETE, "bash", script, name, *words, cwd=folder)
            return set(output.split("\n")) - {""}

        zsh_text = run(program, "completion", "zsh")
        manual = run(program, "manual")
        sections = {part.split("\n")[0]: part for part in manual.split("\n.SS ")[1:]}
        if shutil.which("groff"):
            page = subprocess.run(["groff", "-ww", "-man", "-Tutf8"], input=manual, capture_output=True, text=True, check=True)
            assert page.stdout and not page.stderr, page.stderr
        total = 0
        for words, text in commands_of(program):
            if len(words) == 1:
                assert words[0] in complete(words[0][:2]), words
                assert f"'{words[0]}:" in zsh_text, words
            else:
                assert words[1] in complete(words[0], words[1][:2]), words
            shown = set(options_of(text))
            assert shown == complete(*words, "-") or words[-1] in WITH_SUBJECT, (words, shown, complete(*words, "-"))
            block = zsh_text.split(f"    '{' '.join(words)}')\n")[1].split(";;")[0]
            assert words[-1] in WITH_SUBJECT or all(f"'*{option}" in block for option in shown), words
            section = sections[words[0]]
            assert all("\\fB" + option.replace("-", "\\-") + "\\fR" in section for option in shown), words
            total += len(shown)
        assert "--version" in complete("--v")

        for file in ("run.yaml", "trace.h5", "notes.txt", "config.json"):
            (folder / file).touch()
        (folder / "sub").mkdir()
        (folder / ".hidden").mkdir()
        if name == "stagecraft":
            assert complete("simulate", "x.yaml", "--detail", "") == {"chunk", "op"}
            assert complete("simulate", "x.yaml", "--detail", "=", "o") == {"op"}
            assert {"gpipe", "1f1b", "interleaved", "zb_h1", "zbv", "dualpipe", "searched"} <= complete("schedule", "--schedule", "")
            assert complete("export", "t.h5", "--format", "c") == {"chrome", "csv", "chakra"}
            assert {"run.yaml", "sub", "175b-present"} <= complete("simulate", "") and ".hidden" not in complete("simulate", "")
            assert complete("simulate", "ru") == {"run.yaml"}
            assert complete("plan", "gpt3") == {"gpt3-175b"}
            assert complete("plan", "--system", "selene") == {"selene-a100"}
            assert {"nanotron", "megatron-core"} <= complete("plan", "--software", "")
            # Items of lists with commas, which bash's script completes with what stands before them.
            assert complete("plan", "--system", "selene-a100,dgx-h1") == {"selene-a100,dgx-h100"}
            assert {"any", "none", "current", "mxfp8", "nvfp4"} <= complete("plan", "--precision", "")
            assert complete("plan", "--precision", "none,mx") == {"none,mxfp8"}
            assert complete("plan", "--sharding", "fsdp2,zero1,zero3,ze") == {f"fsdp2,zero1,zero3,zero{stage}" for stage in (1, 2, 3)}
            assert complete("plan", "--fix", "recompute", "=", "none,sel") == {"none,selective"}
            assert complete("plan", "--fix", "expert") == {"expert=", "expert_tensor="}
            assert complete("compare", "") == {"trace.h5", "sub"}
            assert complete("sweep", "") == {"run.yaml", "trace.h5", "sub", "layouts", "strategies"}
            assert complete("fit", "22b-full-") == {"22b-full-twin"}
            assert complete("import", "huggingface", "") == {"config.json", "sub"}
            assert complete("reproduce", "table") == {"table2", "table4", "table5"}
            assert complete("simulate", "--set", "parallel.ten") == {"parallel.tensor="}
            assert complete("simulate", "--set", "=", "parallel.ten") == {"parallel.tensor="}
            assert complete("simulate", "--set", "model.prec") == {"model.precision="}
            assert complete("simulate", "--set", "model.precision", "=") == {"fp16", "bf16", "fp32", "fp64"}
            assert complete("simulate", "--set", "=", "model.precision", "=", "b") == {"bf16"}
            assert complete("simulate", "--set", "system", "=", "selene") == {"selene-a100"}
            assert complete("simulate", "--set", "parallel.sequence", "=", "t") == {"true"}
            assert complete("simulate", "--set", "parallel.tensor", "=") == set()
            assert complete("plan", "--fix", "sch") == {"schedule="}
            assert complete("plan", "--fix", "schedule", "=", "zb_h") == {"zb_h1", "zb_h2"}
            assert complete("plan", "--fix", "layout", "=") == {"even"}
            assert complete("schedule", "--stages", "") == set()
        else:
            assert complete("run", "run.yaml", "--clock", "") == {"wall", "virtual"}
            assert complete("run", "run.yaml", "--save", "") == {"sub"}
            assert complete("run", "run.yaml", "--save", ".h") == {".hidden"}
        if shutil.which("zsh"):
            (folder / f"_{name}").write_text(zsh_text)
            run("zsh", "-n", folder / f"_{name}")
            check_sourced_zsh(program, name)
            with ZshSession(folder) as zsh:
                check_zsh(name, zsh)
        print(f"{name}: {total} options{'' if shutil.which('zsh') else ', without zsh'}")


if __name__ == "__main__":
    for path in sys.argv[1:]:
        check(path)
