"""Says what experiments/gpu/run.sh measured.

usage: summary.py FOLDER
"""

import csv
import json
import pathlib
import re
import statistics
import sys

# Cases of table 4 as the peer's script calls them: recompute, parallel.
PEERS = {
    "baseline": ("none", "tp"),
    "sequence": ("none", "sp"),
    "full": ("full", "tp"),
    "selective": ("selective", "tp"),
    "selective_sequence": ("selective", "sp"),
}


def load(path):
    """The JSON of a file, or None if the step did not write it."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def say_facts(out):
    facts = out / "facts.txt"
    if facts.exists():
        print("\n".join(facts.read_text().splitlines()[:3]))
    for path in sorted(out.glob("test_*.txt")):
        lines = [line for line in path.read_text().splitlines() if line.strip("= ")]
        print(f"{path.stem}: {lines[-1] if lines else 'no output'}")
    for path in sorted(out.glob("sanitizer-*.txt")):
        found = re.findall(r"ERROR SUMMARY.*|RACECHECK SUMMARY.*", path.read_text())
        print(f"{path.stem}: {found[-1] if found else 'no summary'}")
    for path in sorted(out.glob("*.failed")):
        print(f"{path.stem}: FAILED: {path.read_text().strip()}")


def mean(rows, value):
    return statistics.mean(map(value, rows))


def seconds(row):
    """Forward and backward of a layer; recompute is a part of backward."""
    return row["forward_seconds"] + row["backward_seconds"]


def predicted_seconds(row):
    return row["predicted_forward_seconds"] + row["predicted_backward_seconds"]


def computation(row):
    """Without collectives, which one device does not run."""
    return seconds(row) - row["forward_communication_seconds"] - row["backward_communication_seconds"]


def peer_of(peer, case):
    """Milliseconds of PyTorch's layer; None if it did not run."""
    for other in peer["layers"] if peer else []:
        if (other.get("recompute"), other.get("parallel")) == PEERS[case] and "forward_ms" in other:
            return other["forward_ms"]["median"] + other["backward_ms"]["median"]
    return None


def layer_runs(out, name):
    """What was measured before and after the peer, or alone."""
    return [run for run in (load(out / f"{name}{when}.json") for when in ("-before", "-after", "")) if run]


def say_layer(out, name, peer, what):
    """The layer shard of 22B, and its computation beside PyTorch's."""
    runs = layer_runs(out, name)
    if not runs:
        return
    peer = load(out / f"{peer}.json")
    print(f"\n22B layer shard, t = 8, {what}, on {runs[0]['device']}: ms forward, backward (recompute included)")
    for row in runs[0]["rows"]:
        same = [r for run in runs for r in run["rows"] if r["case"] == row["case"]]
        forward, backward = (1e3 * mean(same, lambda r, part=part: r[f"{part}_seconds"]) for part in ("forward", "backward"))
        print(f"  {row['case']:20} {forward:8.3f} {backward:8.3f}  spread {row['spread_percent']:.1f} %,"
              f" kept {row['saved_bytes']:,} B, predicted {1e3 * predicted_seconds(row):.3f} together")
        own, its = 1e3 * mean(same, computation), peer_of(peer, row["case"])
        if its:
            print(f"  {'':20} computation {own:.3f}, PyTorch's {its:.3f}: {own / its:.3f} of it")


def prediction_errors(run):
    """Of each case of a layer, how far its prediction is from what was measured, in percent."""
    return {row["case"]: 100 * (predicted_seconds(row) / seconds(row) - 1) for row in run["rows"]}


def say_predictions(out):
    errors = []
    for path in sorted(out.glob("predicted-*.json")):
        run = load(path)
        if not run:
            continue
        measured = [seconds(row) for row in run["rows"]]
        predicted = [predicted_seconds(row) for row in run["rows"]]
        own = prediction_errors(run)
        errors += own.values()

        def order(times):
            return sorted(range(len(times)), key=times.__getitem__)

        print(f"  {path.stem[10:]:5} " + " ".join(f"{case} {error:+.1f} %" for case, error in own.items())
              + ("" if order(measured) == order(predicted) else "  (in another order)"))
    for precision, in_layers, among_products in clocks(out):
        print(f"clock, {precision}: {in_layers} in layers\n  {among_products} among products")
    if errors:
        print(f"predicted after calibrate: {statistics.mean(map(abs, errors)):.1f} % on average,"
              f" {max(map(abs, errors)):.1f} % at most off")


def say_snapshots(out):
    for path in sorted(out.glob("replay-*.json")):
        name = path.stem.removeprefix("replay-")
        case, replay = load(out / f"{name}.json"), load(path)
        if not case or not replay:
            continue
        stats, end = case["stats"], replay["end"]
        pairs = {
            "peak allocated": (end["peak_allocated"], stats["allocated_bytes.all.peak"]),
            "peak reserved": (end["peak_reserved"], stats["reserved_bytes.all.peak"]),
            "reserved": (end["reserved"], stats["reserved_bytes.all.current"]),
            "segments": (end["segments"], stats["segment.all.current"]),
            "retries": (end["retries"], stats["num_alloc_retries"]),
            "failed requests": (end["ooms"], stats["num_ooms"]),
            "died": (replay["oom_at"] is not None, case["died"]),
        }
        different = [f"{what} {got:,} for {wanted:,}" for what, (got, wanted) in pairs.items() if got != wanted]
        print(f"allocator, {name}: reserved {stats['reserved_bytes.all.peak'] / 2**30:.2f} GiB at the peak,"
              f" {stats['num_alloc_retries']} retries; replayed {'equal' if not different else ', '.join(different)}")


def shard_runs(out):
    """Of each stage that ran: the run's name, the stage, bytes at the peak by category as executed and as predicted (None:
    no prediction), and the seconds of its last iteration."""
    for path in sorted(out.glob("shard-*.json")):
        run = load(path)
        if path.name.endswith(".predicted.json") or not run:
            continue
        name = re.sub(r"-\d+$", "", path.stem)
        predicted = load(out / f"{name}.predicted.json")
        for rank in run["ranks"]:
            wanted = predicted["stages"][rank["stage"]]["at_peak"] if predicted else None
            yield name.removeprefix("shard-"), rank["stage"], rank["at_peak"], wanted, run["steps"][-1]["seconds"]


def counted(peak):
    """Without the kernels' workspace, which differs from device to device."""
    return sum(count for category, count in peak.items() if category != "workspace")


def say_shards(out):
    for name, stage, got, wanted, took in shard_runs(out):
        different = [key for key in wanted or () if key != "workspace" and wanted[key] != got[key]]
        said = ("no prediction" if not wanted else "not as predicted: " + ", ".join(different) if different
                else "as predicted, to the byte")
        print(f"{name}, stage {stage}: {counted(got) / 2**30:.2f} GiB counted, {said}, {took:.3f} s alone")


def load_lines(path):
    """The JSON of each line of a file, which may have been cut off."""
    found = []
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def peer_lines(out):
    """What PyTorch took, of each kind in a file of its own."""
    return [line for path in sorted(out.glob("fp8-torch*.jsonl")) for line in load_lines(path)]


def of_kind(lines, kind, **values):
    """The lines of a kind which have these values."""
    return [line for line in lines if line["kind"] == kind and all(line[key] == value for key, value in values.items())]


def total(lines, key, count=1):
    """The sum of what all lines have; None if one lacks it, or if there are fewer than `count`."""
    values = [line.get(key) for line in lines]
    return sum(values) if len(values) >= count and None not in values else None


LINEARS = 4  # of a layer, each with lines of its own
RECIPES = {"bf16": "bf16", "tensor": "FP8, a scale for a tensor", "blocks": "FP8, 1 x 128 and 128 x 128"}
PASSES = {"forward": "forward", "input_gradient": "gradients of inputs", "weight_gradient": "gradients of weights"}
COPIES = {"inputs and gradients": ("input", "gradient"), "weights": ("weight",)}


def product_seconds(lines, recipe, name):
    """What the products of all linear layers take in one pass; None if one was refused."""
    return total(of_kind(lines, "product", **{"pass": name}), f"{recipe}_seconds", LINEARS)


def copy_seconds(lines, recipe, tensors):
    found = [line for tensor in tensors for line in of_kind(lines, "copy", recipe=recipe, tensor=tensor)]
    return total(found, "seconds", LINEARS * len(tensors))


def fp8_rows(out):
    """What a layer's products take by pass: name, and ours and PyTorch's in seconds (None: not measured). A microbatch
    makes copies of inputs and gradients; those of weights may be kept for all microbatches, and stand apart."""
    both = ours, peer = load_lines(out / "fp8-products.jsonl"), peer_lines(out)
    rows = []
    for recipe, what in RECIPES.items():
        for name, said in PASSES.items():
            is_narrow = any(line.get(f"{recipe}_is_bf16") for line in of_kind(ours, "product", **{"pass": name}))
            rows.append((f"{said}, {what}" + (" (into bf16)" if is_narrow else ""),
                         *(product_seconds(lines, recipe, name) for lines in both)))
    for recipe in ("tensor", "blocks"):
        for name, tensors in COPIES.items():
            rows.append((f"copies of {name}, {RECIPES[recipe]}", *(copy_seconds(lines, recipe, tensors) for lines in both)))
    return rows


def copy_rates(out):
    """Name, bytes per second, and the share of what a copy within the device reaches: that copy, and what writes 8-bit
    copies and their transposes of all linear layers. None if not measured."""
    lines = load_lines(out / "fp8-products.jsonl")

    def rate(found):
        moved, took = total(found, "bytes"), total(found, "seconds")
        return moved / took if moved and took else None

    fastest = rate(of_kind(lines, "memcpy"))
    rows = [("a copy within the device", fastest)]
    for recipe in ("tensor", "blocks"):
        for tensor in ("input", "weight", "gradient"):
            rows.append((f"{tensor}, {RECIPES[recipe]}", rate(of_kind(lines, "copy", recipe=recipe, tensor=tensor))))
    return [(name, value, value / fastest if value and fastest else None) for name, value in rows]


def layer_rows(out):
    """The layer in bf16 with each attention, and in FP8 (its products and copies in place of those of bf16) beside
    PyTorch's, in seconds."""
    lines = load_lines(out / "fp8-products.jsonl")
    peers = {line["precision"]: line["forward_seconds"] + line["backward_seconds"]
             for line in of_kind(peer_lines(out), "layer") if line.get("backward_seconds")}

    def products(recipe):
        passes = [product_seconds(lines, recipe, name) for name in PASSES]
        return None if None in passes else sum(passes)

    rows = []
    for attention in ("own", "cudnn"):
        run = load(out / f"layer-70b-{attention}.json")
        if not run:
            continue
        own = computation(next(row for row in run["rows"] if row["case"] == "baseline"))
        rows.append((f"bf16, attention {attention}", own, peers.get("bf16")))
        for recipe in ("tensor", "blocks"):
            parts = [products(recipe), products("bf16"), *(copy_seconds(lines, recipe, tensors) for tensors in COPIES.values())]
            if None not in parts:
                rows.append((f"{RECIPES[recipe]}, attention {attention}", own + parts[0] - parts[1] + parts[2] + parts[3],
                             peers.get("fp8") if recipe == "tensor" else None))
    return rows


def attention_rows(out):
    """Flash attention alone, forward and backward: name, and ours and PyTorch's in seconds. Of ours, the median over the
    microbatches of a trace."""
    peers = {line["backend"]: line for line in of_kind(peer_lines(out), "attention")}
    rows = []
    for attention, peer in (("own", "flash"), ("cudnn", "flash"), ("cudnn", "cudnn")):
        try:
            with open(out / f"attention-{attention}.csv", newline="") as file:
                ops = [op for op in csv.DictReader(file) if op["op"] in ("core_attention.flash", "core_attention.flash_backward")]
        except OSError:
            continue
        for part in ("forward", "backward"):
            own = [1e-12 * int(op["duration_ps"]) for op in ops if op["op"].endswith(".flash") == (part == "forward")]
            if own:
                rows.append((f"{attention}, {part}, beside PyTorch's {peer}", statistics.median(own),
                             peers.get(peer, {}).get(f"{part}_seconds")))
    return rows


def clocks(out):
    """What calibrate says of the clock, by precision: in layers, and among products."""
    try:
        text = (out / "calibrated.yaml").read_text()
    except OSError:
        return []
    said = re.findall(r"(\w+): ([^;]*; [^;]*) in layers, ([^;]*; [^;]*) among products", " ".join(text.split()))
    return list(dict.fromkeys(said))


def say_fp8(out):
    for title, rows in (("products of a 70B layer, t = 8, 8192 tokens", fp8_rows(out)), ("the layer, computation", layer_rows(out)),
                        ("attention alone", attention_rows(out))):
        known = [row for row in rows if row[1] is not None]
        if not known:
            continue
        print(f"\n{title}: ms, PyTorch's")
        for name, ours, its in known:
            print(f"  {name:48} {1e3 * ours:8.3f}" + (f" {1e3 * its:8.3f}  {ours / its:.3f} of it" if its else ""))
    for name, rate, share in copy_rates(out):
        if rate:
            print(f"  {name:48} {1e-12 * rate:8.3f} TB/s" + (f"  {share:.3f} of a copy's" if share else ""))


def main():
    out = pathlib.Path(sys.argv[1])
    say_facts(out)
    say_layer(out, "layer-22b", "peer", "softmax and dropout separate")
    say_layer(out, "layer-22b-fused", "peer", "softmax and dropout fused")
    for dropout in ("0", "0.1"):
        say_layer(out, f"layer-22b-flash-{dropout}", f"peer-flash-{dropout}", f"flash attention, dropout {dropout}")
    say_predictions(out)
    say_snapshots(out)
    say_shards(out)
    say_fp8(out)


if __name__ == "__main__":
    main()
