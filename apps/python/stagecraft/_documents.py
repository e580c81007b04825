"""What commands compute, as documents."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Mapping, Sequence, Union

from . import _core
from ._config import Config, Named, path_text, run_of, value_text
from ._progress import Progress, listener
from ._words import jobs, options, repeated, settings

if TYPE_CHECKING:
    import pandas

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
"""A file, or "stagecraft:configs/..." for one of the package."""

_tables = {"plan": "best", "explanation": "changes", "fit": "constants"}
"""The list that is the answer, by the name in `schema`."""


class Document(Named[Any]):
    """A document of `--json`, or a part of one."""

    def to_dataframe(self, member: str | None = None) -> pandas.DataFrame:
        """A list of the document as a table, one row per item; nested members have dotted names.

        member: its key; None: what was asked for, which is `best` of `plan`, `changes` of `explain` and `constants`
            of `fit`.
        """
        import pandas

        name = member if member is not None else _tables.get(str(self.get("schema")).split("/")[0].split(".")[-1])
        rows = None if name is None else self[name]
        if not isinstance(rows, list):
            lists = ", ".join(key for key, value in self.items() if isinstance(value, list))
            raise ValueError(f"member: found {member!r}; accepted: {lists or 'none: it has no list'}")
        return pandas.json_normalize(rows)


def _document(text: str) -> Document:
    import json

    document: Document = json.loads(text, object_hook=Document)
    return document


def explain(cfg: Config, threads: int = 0, pairs: bool = False) -> Document:
    """Why the fullest stage is full, what the time is made of, and what each single change would do.

    threads: how many; 0 means all cores. pairs: also what every two changes would do together.
    Returns the document of `stagecraft explain --json`.
    """
    return _document(_core.explain(run_of(cfg), threads, pairs))


def layer(cfg: Config) -> Document:
    """One layer for one microbatch on one rank, op by op: FLOPs, bytes, seconds.

    Returns the document of `stagecraft layer --json`.
    """
    return _document(_core.layer(run_of(cfg)))


def plan(
    model: Path,
    system: Path | Sequence[Path],
    gpus: int | Sequence[int],
    global_batch: int,
    *,
    software: Path | None = None,
    top: int = 10,
    fix: Mapping[str, Any] | None = None,
    set: Mapping[str, Any] | None = None,
    price: str | Mapping[str, float] | None = None,
    power: str | None = None,
    pue: float | None = None,
    tokens: float | str | None = None,
    gpu_hours_per_failure: float | str | None = None,
    checkpoint_time: str | None = None,
    restart_time: str | None = None,
    margin: str | None = None,
    safety: float | None = None,
    launchable: str | None = None,
    rank: str | None = None,
    exhaustive: bool = False,
    threads: int = 0,
    progress: Progress = None,
) -> Document:
    """Searches layouts, schedules and recompute policies for the fastest plans that fit in memory.

    model, system, software: files, or names of the package such as "gpt3-175b" and "selene-a100".
    gpus: how many accelerators; every plan uses all of them. Lists of systems and numbers pair up if they are equally
        long, and are compared; one value serves all.
    global_batch: sequences per optimizer step.
    top: how many of the fastest plans to return.
    fix: values that plans may have, such as {"tensor": [4, 8], "recompute": "selective"}.
    set: other values of keys that are not searched, such as {"memory.reserve": "4 GiB"}.
    price: per GPU hour, such as "2.5/gpu-hour" or "2.5 EUR/gpu-hour", or by system {"dgx-h100": 2.5, "b200-hgx": 5}.
    power: mean power of a node per GPU, such as "850W"; pue: power of the building per power of its computers.
    tokens: to train on; adds days and, with a price, the cost.
    gpu_hours_per_failure: GPU hours between interruptions, such as 40e3; adds the goodput.
    checkpoint_time, restart_time: what saving a checkpoint ("60 s") and an interruption ("1200 s") cost.
    margin: what each GPU keeps free beside memory.reserve, such as "5%" (the default), "4 GiB" or "0".
    safety: only plans that fit with this probability, such as 0.99; for software of which runs were measured.
    launchable: "megatron-2022", "megatron-core" or "torchtitan": only plans that this framework's flags can say and run.
    rank: what plans of several clusters are ordered by: "iteration" (the default), "tokens", "cost" or "energy".
    exhaustive: simulate every plan and dismiss none by bounds.
    threads: how many; 0 means all cores.
    Returns the document of `stagecraft plan --json`: seconds, bytes per GPU; `best` has a `config` each,
        which `load` takes.
    Raises DoesNotFit if no plan fits, ConfigError for wrong arguments and files.
    """
    fixes = [
        f"{name}={','.join(map(value_text, value if isinstance(value, (list, tuple, range)) else [value]))}"
        for name, value in (fix or {}).items()
    ]
    words = [
        path_text(model),
        *options(
            system=system,
            software=software,
            gpus=gpus,
            global_batch=global_batch,
            top=top,
            price=price,
            power=power,
            pue=pue,
            tokens=tokens,
            gpu_hours_per_failure=gpu_hours_per_failure,
            checkpoint_time=checkpoint_time,
            restart_time=restart_time,
            margin=margin,
            safety=safety,
            launchable=launchable,
            rank=rank,
            exhaustive=exhaustive,
            jobs=jobs(threads),
        ),
        *repeated("fix", fixes),
        *settings(set),
    ]
    return _document(_core.plan(words, listener(progress)))


def schedule(
    kind: str,
    pipeline: int,
    microbatches: int,
    *,
    chunks: int | None = None,
    group: int | None = None,
    forward: float = 1,
    input_gradient: float | None = None,
    weight_gradient: float | None = None,
    backward: float | None = None,
    transfer: float = 0,
    p2p: str | None = None,
    memory: tuple[float, float, float] | None = None,
    memory_limit: float | None = None,
    variant: str | None = None,
    expert_overlap: bool = False,
    recompute_chunks: int | None = None,
    order: Path | None = None,
    seed: int | None = None,
    iterations: int | None = None,
    seconds: float | None = None,
) -> Document:
    """A pipeline schedule alone: what each stage computes when, makespan, bubble, chunks in flight.

    kind: "1f1b", "interleaved", "zb_h1", ... as `stagecraft schedule --schedule` takes them.
    pipeline, microbatches, chunks: stages, microbatches per iteration, chunks per stage.
    forward, input_gradient, weight_gradient, transfer: costs per chunk or message, in any unit.
        A gradient that is None costs 1; backward: their sum, instead of both.
    The others are the options of `stagecraft schedule`.
    Returns the document of `stagecraft schedule --json`, in the unit of the costs.
    """
    words = options(
        schedule=kind,
        pipeline=pipeline,
        microbatches=microbatches,
        chunks=chunks,
        group=group,
        forward=forward,
        input_gradient=input_gradient,
        weight_gradient=weight_gradient,
        backward=backward,
        transfer=transfer,
        p2p=p2p,
        memory=memory,
        memory_limit=memory_limit,
        variant=variant,
        expert_overlap=expert_overlap,
        recompute_chunks=recompute_chunks,
        order=order,
        seed=seed,
        iterations=iterations,
        seconds=seconds,
    )
    return _document(_core.schedule(words))


def fit(
    *data: Path,
    system: Path | None = None,
    software: Path | None = None,
    constants: Sequence[str] | None = None,
    measured: str | float | None = None,
    died: bool = False,
    reserved: str | None = None,
    allocated: str | None = None,
    stage: int | None = None,
    tried_bytes: str | None = None,
    base: Path | None = None,
    set: Mapping[str, Any] | None = None,
    output: Path | None = None,
    threads: int = 0,
    progress: Progress = None,
) -> Document:
    """Fits constants of a system and its software to measured runs.

    data: data files (CSV); with what one run showed, its run file: `measured`, the time of its iteration, such as
        "12.9s" or 12.9 in seconds; `died`, that a rank ran out of memory; `reserved` or `allocated`, bytes of a rank, such as "71.3GiB".
    stage: the stage of that rank; None: the fullest.
    tried_bytes: with `died`: what it tried to allocate.
    constants: keys such as "system.calibration.gemm_efficiency"; None: those that the files mark as fitted.
    base: a run file with the values that no column sets.
    output: a folder for the fitted files.
    Returns the document of `stagecraft fit --json`, with `notes`, the lines that the command adds.
    Raises Error if no row can be used.
    """
    words = [
        *map(path_text, data),
        *options(
            system=system,
            software=software,
            constants=constants,
            measured=f"{measured}s" if isinstance(measured, (int, float)) else measured,
            died=died,
            reserved=reserved,
            allocated=allocated,
            stage=stage,
            tried_bytes=tried_bytes,
            base=base,
            output=output,
            jobs=jobs(threads),
        ),
        *settings(set),
    ]
    text, notes = _core.fit(words, listener(progress))
    document = _document(text)
    document["notes"] = notes.splitlines()
    return document
