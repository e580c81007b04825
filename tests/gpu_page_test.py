"""Holds the tables that experiments/gpu/page.py makes of few results, of none and of a new run, and the cases that
keep_snapshots.py keeps, against what was put in.

usage: gpu_page_test.py
"""

import json
import pathlib
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "experiments" / "gpu"))
import keep_snapshots  # noqa: E402
import page  # noqa: E402

MAKERS = (page.layer, page.flash_layer, page.calibrated, page.clock, page.stages, page.units, page.fp8, page.copies, page.layer_70b,
          page.attention)


def write(path, **content):
    path.write_text(json.dumps(content))


def measured(case, forward, backward, predicted=0):
    return {"case": case, "forward_seconds": forward, "backward_seconds": backward, "forward_communication_seconds": 1e-3,
            "backward_communication_seconds": 0, "predicted_forward_seconds": predicted, "predicted_backward_seconds": 0}


def cells(table):
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def check_tables(folder):
    page.RESULTS = folder / "kept"
    page.RESULTS.mkdir()
    assert all(cells(maker()) == [] for maker in MAKERS)

    write(page.RESULTS / "predicted-530b.json", rows=[])  # of an earlier run
    run = folder / "run"
    run.mkdir()
    write(run / "layer-22b-before.json", rows=[measured("full", 2e-3, 6e-3, 7e-3)])
    write(run / "layer-22b-flash-0.json", rows=[measured("baseline", 3e-3, 4e-3)])
    write(run / "peer-flash-0.json", layers=[{"recompute": "none", "parallel": "tp", "forward_ms": {"median": 1},
                                               "backward_ms": {"median": 3}}])
    write(run / "predicted-22b.json", rows=[measured("baseline", 1e-3, 3e-3, 5e-3), measured("full", 4e-3, 4e-3, 7e-3)])
    (run / "predicted-1t.json").write_text('{"rows": [{"ca')  # cut off
    peak = {"parameters": 1000, "activations": 500, "workspace": 7}
    write(run / "shard-1t-present.predicted.json", stages=[{"at_peak": peak}, {"at_peak": peak}])
    for stage in (0, 1):
        write(run / f"shard-1t-present-{stage}.json", ranks=[{"stage": stage, "at_peak": peak | {"workspace": 8}}],
              steps=[{"seconds": 9}, {"seconds": 2.5}])
    write(run / "shard-22b-full-0.json", ranks=[{"stage": 0, "at_peak": peak}], steps=[{"seconds": 1}])
    (run / "facts.txt").write_text("")
    page.keep(run)
    # 8 ms measured, 7 predicted, 1 of communication.
    assert cells(page.layer()) == [["full", "2.00", "6.00", "7.00", "-12.5", "7.00", "-", "-"]]
    assert cells(page.flash_layer()) == [["0", "3.00", "4.00", "6.00", "4.00", "1.50"]]
    assert cells(page.calibrated()) == [["22B", "+25.0", "-", "-12.5", "-", "-", "18.8"],
                                        ["mean", "25.0", "-", "12.5", "-", "-", "18.8"]], page.calibrated()
    assert cells(page.stages()) == [["22b-full", "0", "1,500 B", "-", "1.000"],
                                    ["1t-present", "0", "1,500 B", "1,500 B", "2.500"],
                                    ["1t-present", "1", "1,500 B", "1,500 B", "2.500"]]
    assert all(cells(maker()) == [] for maker in (page.clock, page.units, page.fp8, page.copies, page.layer_70b, page.attention))


def check_snapshots(folder):
    """A new case beside those that are kept, and one of them again."""
    kept = folder / "allocator"
    shutil.copytree(keep_snapshots.KEPT, kept)
    before = json.loads((kept / "cases.json").read_text())
    keep_snapshots.KEPT = kept
    recorded = folder / "recorded"
    recorded.mkdir()
    keep_snapshots.write_kept(recorded, "steady")
    for ending in ("json", "pickle.gz"):
        shutil.copy(recorded / f"steady.{ending}", recorded / f"sharded.{ending}")
    keep_snapshots.keep(recorded)
    after = {case["name"]: case for case in json.loads((kept / "cases.json").read_text())}
    assert list(after) == sorted([case["name"] for case in before] + ["sharded"])
    assert all(after[case["name"]] | {"ranks": 0} == case | {"ranks": 0} for case in before)
    assert after["sharded"] == after["steady"] | {"name": "sharded"}


with tempfile.TemporaryDirectory() as scratch:
    check_tables(pathlib.Path(scratch))
    check_snapshots(pathlib.Path(scratch))
