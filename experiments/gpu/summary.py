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


def say_layer(out, name, what):
    """The layer shard of 22B, and its computation beside PyTorch's."""
    runs = [run for run in (load(out / f"{name}-before.json"), load(out / f"{name}-after.json")) if run]
    if not runs:
        return
    peer = load(out / "peer.json")
    print(f"\n22B layer shard, t = 8, {what}, on {runs[0]['device']}: ms forward, backward (recompute included)")
    for row in runs[0]["rows"]:
        same = [r for run in runs for r in run["rows"] if r["case"] == row["case"]]
        forward, backward = (1e3 * mean(same, lambda r, part=part: r[f"{part}_seconds"]) for part in ("forward", "backward"))
        print(f"  {row['case']:20} {forward:8.3f} {backward:8.3f}  spread {row['spread_percent']:.1f} %,"
              f" kept {row['saved_bytes']:,} B, predicted {1e3 * predicted_seconds(row):.3f} together")
        own, its = 1e3 * mean(same, computation), peer_of(peer, row["case"])
        if its:
            print(f"  {'':20} computation {own:.3f}, PyTorch's {its:.3f}: {own / its:.3f} of it")


def say_predictions(out):
    errors = []
    for path in sorted(out.glob("predicted-*.json")):
        run = load(path)
        if not run:
            continue
        measured = [seconds(row) for row in run["rows"]]
        predicted = [predicted_seconds(row) for row in run["rows"]]
        own = [100 * (p / m - 1) for p, m in zip(predicted, measured)]
        errors += own

        def order(times):
            return sorted(range(len(times)), key=times.__getitem__)

        print(f"  {path.stem[10:]:5} " + " ".join(f"{row['case']} {error:+.1f} %" for row, error in zip(run["rows"], own))
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


def say_shards(out):
    for path in sorted(out.glob("shard-*.json")):
        run = load(path)
        if path.name.endswith(".predicted.json") or not run:
            continue
        predicted = load(out / (re.sub(r"-\d+$", "", path.stem) + ".predicted.json"))
        if not predicted:
            print(f"{path.stem}: no prediction to hold it against")
            continue
        for rank in run["ranks"]:
            wanted = predicted["stages"][rank["stage"]]["at_peak"]
            different = [key for key in wanted if key != "workspace" and wanted[key] != rank["at_peak"][key]]
            print(f"{path.stem}: {rank['peak_bytes'] / 2**30:.2f} GiB counted,"
                  f" {'as predicted, to the byte' if not different else 'not as predicted: ' + ', '.join(different)},"
                  f" {run['steps'][-1]['seconds']:.3f} s alone")


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


def of_kind(lines, kind):
    return [line for line in lines if line["kind"] == kind]


def total(lines, key):
    """The sum of what all lines have; None if one lacks it."""
    values = [line.get(key) for line in lines]
    return sum(values) if values and None not in values else None


def fp8_rows(out):
    """What a layer's products take: name, and ours and PyTorch's in seconds (None: not measured). A microbatch makes
    copies of inputs and gradients; those of weights may be kept for all microbatches, and stand apart."""
    ours, peer = (load_lines(out / f"fp8-{name}.jsonl") for name in ("products", "torch"))
    rows = [(f"products, {name}", *(total(of_kind(lines, "product"), f"{key}_seconds") for lines in (ours, peer)))
            for name, key in (("bf16", "bf16"), ("FP8, a scale for a tensor", "tensor"), ("FP8, 1 x 128 and 128 x 128", "blocks"))]
    for recipe in ("tensor", "blocks"):
        for name, tensors in (("inputs and gradients", ("input", "gradient")), ("weights", ("weight",))):
            rows.append((f"copies of {name}, scales of {'a tensor' if recipe == 'tensor' else 'blocks'}",
                         *(total([line for line in of_kind(lines, "copy") if line["recipe"] == recipe and line["tensor"] in tensors],
                                 "seconds") for lines in (ours, peer))))
    return rows


def layer_rows(out):
    """The layer in bf16 with each attention, and in FP8 (its products and copies in place of those of bf16) beside
    PyTorch's, in seconds."""
    products = dict((name, (ours, its)) for name, ours, its in fp8_rows(out))
    peers = {line["precision"]: line["forward_seconds"] + line["backward_seconds"]
             for line in of_kind(load_lines(out / "fp8-torch.jsonl"), "layer") if line.get("backward_seconds")}
    rows = []
    for attention in ("own", "cudnn"):
        run = load(out / f"layer-70b-{attention}.json")
        if not run:
            continue
        own = computation(next(row for row in run["rows"] if row["case"] == "baseline"))
        rows.append((f"bf16, attention {attention}", own, peers.get("bf16")))
        for name, recipe, scales in (("a scale for a tensor", "FP8, a scale for a tensor", "a tensor"),
                                     ("scales of blocks", "FP8, 1 x 128 and 128 x 128", "blocks")):
            parts = [products[f"products, {recipe}"][0], products["products, bf16"][0],
                     *(products[f"copies of {tensors}, scales of {scales}"][0] for tensors in ("inputs and gradients", "weights"))]
            if None not in parts:
                rows.append((f"FP8, {name}, attention {attention}", own + parts[0] - parts[1] + parts[2] + parts[3],
                             peers.get("fp8") if scales == "a tensor" else None))
    return rows


def attention_rows(out):
    """Flash attention alone, forward and backward: name, and ours and PyTorch's in seconds. Of ours, the median over the
    microbatches of a trace."""
    peers = {line["backend"]: line for line in of_kind(load_lines(out / "fp8-torch.jsonl"), "attention")}
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


def main():
    out = pathlib.Path(sys.argv[1])
    say_facts(out)
    say_layer(out, "layer-22b", "softmax and dropout separate")
    say_layer(out, "layer-22b-fused", "softmax and dropout fused")
    say_predictions(out)
    say_snapshots(out)
    say_shards(out)
    say_fp8(out)


if __name__ == "__main__":
    main()
