"""Says what experiments/gpu/run.sh measured.

usage: summary.py FOLDER
"""

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


def main():
    out = pathlib.Path(sys.argv[1])
    say_facts(out)
    say_layer(out, "layer-22b", "softmax and dropout separate")
    say_layer(out, "layer-22b-fused", "softmax and dropout fused")
    say_predictions(out)
    say_snapshots(out)
    say_shards(out)


if __name__ == "__main__":
    main()
