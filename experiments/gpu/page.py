"""Writes the tables of this folder's page, README.md, from the results that it is about.

usage: page.py             from those that are kept, in results/h200
       page.py FOLDER      of what run.sh has written, keeps what the tables are made from, in place of all that was kept
       page.py --check     writes nothing, and exits with 1 if a table is not what the results say
"""

import pathlib
import re
import shutil
import statistics
import sys

from summary import (PEERS, attention_rows, clocks, computation, copy_rates, counted, fp8_rows, layer_rows, layer_runs, load,
                     mean, peer_of, predicted_seconds, prediction_errors, seconds, shard_runs)

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results" / "h200"
KEPT = ("facts.txt", "test_*.txt", "sanitizer-*.txt", "reproduced.txt", "*.failed", "calibrated.yaml", "layer-*.json", "peer*.json",
        "predicted-*.json", "shard-*.json", "fp8-*.jsonl", "attention-*.csv")


def row(*cells):
    return "| " + " | ".join(cells) + " |\n"


def table(*headings):
    return row(*headings) + "|" + "---|" * len(headings) + "\n"


def number(value, form):
    """A dash is what was not measured."""
    return "-" if value is None else format(value, form)


def layer():
    """The shard of the 22B layer, a run before its peer and one after it, each case by its mean."""
    text = table("case", "forward", "backward", "predicted, together", "error %", "computation", "PyTorch's", "ratio")
    peer = load(RESULTS / "peer.json")
    for case in PEERS:
        same = [entry for run in layer_runs(RESULTS, "layer-22b") for entry in run["rows"] if entry["case"] == case]
        if not same:
            continue
        together, predicted = 1e3 * mean(same, seconds), 1e3 * mean(same, predicted_seconds)
        own, its = 1e3 * mean(same, computation), peer_of(peer, case)
        text += row(case, f"{1e3 * mean(same, lambda r: r['forward_seconds']):.2f}",
                    f"{1e3 * mean(same, lambda r: r['backward_seconds']):.2f}", f"{predicted:.2f}",
                    f"{100 * (predicted / together - 1):+.1f}", f"{own:.2f}", number(its, ".2f"), number(its and own / its, ".2f"))
    return text


def flash_layer():
    """The same layer with flash attention, without recompute."""
    text = table("dropout", "forward", "backward", "computation", "PyTorch's", "ratio")
    for dropout in ("0", "0.1"):
        for run in layer_runs(RESULTS, f"layer-22b-flash-{dropout}"):
            entry = next(entry for entry in run["rows"] if entry["case"] == "baseline")
            own, its = 1e3 * computation(entry), peer_of(load(RESULTS / f"peer-flash-{dropout}.json"), "baseline")
            text += row(dropout, f"{1e3 * entry['forward_seconds']:.2f}", f"{1e3 * entry['backward_seconds']:.2f}", f"{own:.2f}",
                        number(its, ".2f"), number(its and own / its, ".2f"))
    return text


def calibrated():
    """How far the layers of four models are from what `calibrate` lets predict, in percent, and the means without signs."""
    text = table("model", *PEERS, "mean")
    models = {}
    for model in ("22b", "175b", "530b", "1t"):
        run = load(RESULTS / f"predicted-{model}.json")
        if run:
            models[model] = prediction_errors(run)

    def size(errors):
        return f"{statistics.mean(map(abs, errors)):.1f}"

    for model, errors in models.items():
        text += row(model.upper(), *(number(errors.get(case), "+.1f") for case in PEERS), size(errors.values()))
    if models:
        cases = {case: [errors[case] for errors in models.values() if case in errors] for case in PEERS}
        text += row("mean", *(size(errors) if errors else "-" for errors in cases.values()), size(sum(cases.values(), [])))
    return text


def beside_peer(heading, rows):
    """Milliseconds of ours and PyTorch's, and their ratio."""
    text = table(heading, "ms", "PyTorch's", "ratio")
    for name, ours, its in rows:
        if ours is not None:
            text += row(name, f"{1e3 * ours:.2f}", number(its and 1e3 * its, ".2f"), number(its and ours / its, ".2f"))
    return text


def fp8():
    """The products of a layer of 70B in bf16 and FP8, and the copies that FP8 needs."""
    return beside_peer("what", fp8_rows(RESULTS))


def copies():
    """How fast those copies are made."""
    text = table("what", "TB/s", "of a copy's rate")
    for name, rate, share in copy_rates(RESULTS):
        if rate:
            text += row(name, f"{1e-12 * rate:.2f}", number(share, ".2f"))
    return text


def layer_70b():
    """That layer with its own attention and cuDNN's, in bf16 and FP8."""
    return beside_peer("layer", layer_rows(RESULTS))


def attention():
    """That layer's attention alone."""
    return beside_peer("attention", attention_rows(RESULTS))


def clock():
    """How calibrate found the clock to move."""
    text = table("precision", "in layers", "among products")
    for said in clocks(RESULTS):
        text += row(*said)
    return text


def shard_table(runs):
    text = table("run", "stage", "counted", "predicted", "seconds")
    for name, stage, got, wanted, took in runs:
        text += row(name, str(stage), f"{counted(got):,} B", number(wanted and counted(wanted), ",") + (" B" if wanted else ""),
                    f"{took:.3f}")
    return text


def stages():
    """Stages of the runs of table 5, each alone."""
    sizes = ["22b", "175b", "530b", "1t"]
    runs = [run for run in shard_runs(RESULTS) if run[0].split("-")[0] in sizes]
    return shard_table(sorted(runs, key=lambda run: (sizes.index(run[0].split("-")[0]), run[:2])))


def units():
    """FSDP2's plan: what a rank of 64 holds alone (fsdp2), and a job of one rank over NCCL (fsdp2-alone)."""
    return shard_table(run for run in shard_runs(RESULTS) if run[0].startswith("fsdp2"))


def keep(folder):
    if not (folder / "facts.txt").is_file() or folder.resolve() == RESULTS.resolve():
        sys.exit(f"page.py: found {folder}; accepted: --check, or a folder that run.sh has written")
    # What an earlier run measured is not beside what this one did.
    shutil.rmtree(RESULTS)
    RESULTS.mkdir()
    for pattern in KEPT:
        for path in folder.glob(pattern):
            shutil.copy(path, RESULTS)


def main():
    page = HERE / "README.md"
    only_checks = "--check" in sys.argv
    if len(sys.argv) > 1 and not only_checks:
        keep(pathlib.Path(sys.argv[1]))
    old = new = page.read_text()
    for maker in (layer, flash_layer, calibrated, clock, stages, units, fp8, copies, layer_70b, attention):
        made = maker()
        is_empty = made.count("\n") == 2  # nothing but its headings
        new = re.sub(rf"(<!-- {maker.__name__}\(\) of page.py -->\n)(\|.*\n)*",
                     lambda found, made="" if is_empty else made: found[1] + made, new)
    if not only_checks:
        page.write_text(new)
    elif new != old:
        sys.exit("README.md: its tables are not what the results say; experiments/gpu/page.py writes them")


if __name__ == "__main__":
    main()
