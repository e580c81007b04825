"""Records what PyTorch makes of pipeline orders for sharded stages: writes fsdp_lowered.json beside this file.

usage: fsdp_lowered.py   (with PyTorch 2.15 from PyPI; nothing of it runs on a device)

The schedules are PyTorch's, their stages stubs. Each case has the actions of all ranks, in PyTorch's words.
"""

import json
import pathlib
import random

import torch
from torch.distributed.pipelining import schedules

# Our name, PyTorch's, and the chunks of a rank if they are fixed.
KINDS = [("interleaved", "ScheduleInterleaved1F1B", None), ("gpipe", "ScheduleLoopedBFS", None),
         ("interleaved_zb", "ScheduleInterleavedZeroBubble", None), ("zbv", "ScheduleZBVZeroBubble", 2),
         ("dualpipev", "ScheduleDualPipeV", 2)]


class Stage:
    """As much of a stage as a schedule asks for when it is made."""

    def __init__(self, index, ranks, stages):
        self.stage_index, self.num_stages, self.group_size, self.group_rank = index, stages, ranks, 0
        self.is_first, self.is_last = index == 0, index == stages - 1
        self.submod, self.device, self.group = torch.nn.Module(), torch.device("cpu"), None


def lowered(name, ranks, chunks, microbatches, placed_in_v, parameters):
    indices = [0, 2 * ranks - 1] if placed_in_v else [ranks * chunk for chunk in range(chunks)]
    stages = [Stage(index, ranks, ranks * chunks) for index in indices]
    schedule = getattr(schedules, name)(stages, microbatches, loss_fn=lambda output, target: None, **parameters)
    actions = schedule.pipeline_order_with_comms
    return [" ".join(str(action) for action in actions[rank]) for rank in range(ranks)]


def main():
    draw = random.Random(2)
    cases = []
    while len(cases) < 40:
        kind, name, fixed = KINDS[len(cases) % len(KINDS)]
        ranks, microbatches = draw.choice([2, 2, 3, 4]), draw.choice([2, 3, 4, 6, 8])
        chunks = fixed or draw.choice([1, 2, 3, 4, 5])
        parameters = {}
        if draw.random() < 0.5:
            parameters["max_active_stages"] = draw.choice([1, 2, 3, 4])
        if draw.random() < 0.3:
            parameters["unshard_lookahead"] = "auto"
        if draw.random() < 0.3:
            parameters["defer_reduce_grad_wait"] = True
        try:
            actions = lowered(name, ranks, chunks, microbatches, fixed is not None, parameters)
        except ValueError:  # a shape that the schedule refuses
            continue
        cases.append({"schedule": kind, "p": ranks, "chunks": chunks, "microbatches": microbatches,
                      "parameters": parameters, "actions": actions})
    file = pathlib.Path(__file__).with_name("fsdp_lowered.json")
    file.write_text(json.dumps({"recorded": f"PyTorch {torch.__version__}", "cases": cases}, indent=0) + "\n")


if __name__ == "__main__":
    main()
