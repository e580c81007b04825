"""Writes the tables of this folder's page, README.md, from the results that it is about.

usage: page.py [--check]     --check: writes nothing, and exits with 1 if a table is not what the results say
"""

import pathlib
import re
import sys

from summary import PEERS, attention_rows, clocks, computation, fp8_rows, layer_rows, load, mean, peer_of, predicted_seconds, seconds

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results" / "h200"


def row(*cells):
    return "| " + " | ".join(cells) + " |\n"


def table(*headings):
    return row(*headings) + "|" + "---|" * len(headings) + "\n"


def layer():
    """The shard of the 22B layer, a run before its peer and one after it, each case by its mean."""
    runs = [load(RESULTS / f"layer-22b-{when}.json") for when in ("before", "after")]
    text = table("case", "forward", "backward", "predicted, together", "error %", "computation", "PyTorch's", "ratio")
    for case in PEERS:
        same = [entry for run in runs for entry in run["rows"] if entry["case"] == case]
        together, predicted = 1e3 * mean(same, seconds), 1e3 * mean(same, predicted_seconds)
        own, peer = 1e3 * mean(same, computation), peer_of(load(RESULTS / "peer.json"), case)
        text += row(case, f"{1e3 * mean(same, lambda r: r['forward_seconds']):.2f}",
                    f"{1e3 * mean(same, lambda r: r['backward_seconds']):.2f}", f"{predicted:.2f}",
                    f"{100 * (predicted / together - 1):+.1f}", f"{own:.2f}", f"{peer:.2f}", f"{own / peer:.2f}")
    return text


def calibrated():
    """How far the layers of four models are from what `calibrate` lets predict, in percent."""
    text = table("model", *PEERS)
    for model in ("22b", "175b", "530b", "1t"):
        rows = {entry["case"]: entry for entry in load(RESULTS / f"predicted-{model}.json")["rows"]}
        errors = (100 * (predicted_seconds(rows[case]) / seconds(rows[case]) - 1) for case in PEERS)
        text += row(model.upper(), *(f"{error:+.1f}" for error in errors))
    return text


def beside_peer(heading, rows):
    """Milliseconds of ours and PyTorch's, and their ratio; a dash is what was not measured."""
    text = table(heading, "ms", "PyTorch's", "ratio")
    for name, ours, its in rows:
        if ours is not None:
            text += row(name, f"{1e3 * ours:.2f}", *((f"{1e3 * its:.2f}", f"{ours / its:.2f}") if its else ("-", "-")))
    return text


def fp8():
    """The products of a layer of 70B in bf16 and FP8, and the copies that FP8 needs."""
    return beside_peer("what", fp8_rows(RESULTS))


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


def units():
    """FSDP2's plan: what a rank of many holds alone, and a job of one rank over NCCL."""
    text = table("run", "counted", "predicted", "seconds")
    for run, what in (("fsdp2", "a rank of 64, alone"), ("fsdp2-alone", "a job of one rank")):
        measured, predicted = load(RESULTS / f"shard-{run}-0.json"), load(RESULTS / f"shard-{run}.predicted.json")
        if measured and predicted:
            rank, wanted = measured["ranks"][0], predicted["stages"][0]["at_peak"]
            counted = [sum(bytes for key, bytes in peak.items() if key != "workspace") for peak in (rank["at_peak"], wanted)]
            text += row(what, *(f"{value:,} B" for value in counted), f"{measured['steps'][-1]['seconds']:.3f}")
    return text


def main():
    page = HERE / "README.md"
    old = new = page.read_text()
    for maker in (layer, calibrated, clock, units, fp8, layer_70b, attention):
        made = maker()
        is_empty = made.count("\n") == 2  # nothing but its headings
        new = re.sub(rf"(<!-- {maker.__name__}\(\) of page.py -->\n)(\|.*\n)*",
                     lambda found, made="" if is_empty else made: found[1] + made, new)
    if "--check" not in sys.argv:
        page.write_text(new)
    elif new != old:
        sys.exit("README.md: its tables are not what the results say; experiments/gpu/page.py writes them")


main()
