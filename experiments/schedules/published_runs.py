"""The runs of published tables as run files, as far as the papers say how they were done."""
import json
import subprocess
import sys
import tempfile

VOCABULARY = 50257  # of GPT-2, padded to 50304 by the program; no source names its own
SCHEDULES = {
    "1F1B": "kind: 1f1b, p2p: overlapped",
    "1F1B-R": "kind: 1f1b, p2p: overlapped",  # with full recompute
    "ZB-H1": "kind: zb_h1",  # the quick variant
    "ZB-1p": "kind: zb_auto, memory_limit: {p}",
    "ZB-2p": "kind: zb_auto, memory_limit: {twice}",
    "ZB-2p-barrier": "kind: zb_auto, memory_limit: {twice}",
    "ZB-V": "kind: zbv, variant: auto",
    "V-Half": "kind: v_half",
    "V-Min": "kind: v_min",
}
IN_A_V = ("ZB-V", "V-Half", "V-Min")
RUN = """
model: {{layers: {layers}, hidden: {hidden}, heads: {heads}, sequence: {sequence}, vocabulary: {vocabulary}, tied_embeddings: false, causal_mask: none}}
system: selene-a100
parallel: {{pipeline: {pipeline}, tensor: {tensor}, data: {data}}}
batch: {{global: {batch}, micro: {micro_batch}}}
schedule: {{{settings}}}
recompute: {recompute}
memory: {{distributed_optimizer: {sharded}}}
"""


def is_known(row):
    return row["schedule"] in SCHEDULES


def run_file(row, step="barrier"):
    """The text of a row's run file. `step`: what split schedules do before the optimizer step."""
    stages, micro, data = int(row["pipeline"]), int(row["micro_batch"]), int(row.get("data") or 1)
    kind = row["schedule"]
    settings = SCHEDULES[kind].format(p=stages, twice=2 * stages)
    if step != "barrier" and not kind.startswith("1F1B") and not kind.endswith("barrier"):
        settings += f", step: {step}"
    text = RUN.format(**{key: row[key] for key in ("layers", "hidden", "heads", "sequence", "pipeline", "micro_batch")},
                      tensor=row.get("tensor") or 1, data=data, batch=micro * int(row["microbatches"]) * data,
                      vocabulary=VOCABULARY, settings=settings, recompute="full" if kind == "1F1B-R" else "none",
                      sharded="true" if row.get("zero") == "1" else "false")
    layers = int(row["layers"])
    if layers % stages == 0:
        return text
    per_stage = (layers + 2) // stages  # the first and the last stage have a layer fewer
    if kind in IN_A_V:  # one rank has both ends, so it has two layers fewer than the others
        halves = per_stage // 2
        return text + f"layout: {[halves - 1] + [halves] * (2 * stages - 2) + [halves - 1]}\n"
    return text + f"layout: {{first: {per_stage - 1}, last: {per_stage - 1}}}\n"


def simulate(program, row, step="barrier"):
    """What `simulate --json` says of a row."""
    text = run_file(row, step)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        result = subprocess.run([program, "simulate", "--json", file.name], capture_output=True, text=True)
    if not result.stdout:
        sys.exit(f"{row['id']}: {text}\n{result.stderr}")
    return json.loads(result.stdout)
