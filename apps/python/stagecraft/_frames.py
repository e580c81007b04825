"""Results as tables of pandas."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Sequence, Union

from . import _core
from ._config import Config, json_text, load, parsed, path_text, run_of
from ._progress import Progress, listener
from ._words import jobs, options, settings

if TYPE_CHECKING:
    import pandas

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def _frame(columns: Mapping[str, Any], units: Mapping[str, str]) -> pandas.DataFrame:
    """A table over the arrays themselves. Its `attrs["units"]` has the unit of each column that has one."""
    import pandas

    frame = pandas.DataFrame(dict(columns), copy=False)
    frame.attrs["units"] = dict(units)
    return frame


def _spelled_out(spec: Mapping[str, Any]) -> str:
    """A sweep as a sweep file has it."""
    keys = dict(spec)
    base = keys.get("base")
    if isinstance(base, (str, bytes, os.PathLike)):
        base = keys["base"] = path_text(base)
        if any("\ud800" <= character <= "\udfff" for character in base):
            base = load(base)  # JSON has no such names
    if isinstance(base, Config):
        del keys["base"]
        return f'{{"base": {base._run.as_given()}, {json_text(keys)[1:]}'
    return json_text(keys)


def sweep(
    spec: Path | Mapping[str, Any],
    output: Path | None = None,
    *,
    csv: Path | None = None,
    shard: str | None = None,
    resume: bool = False,
    limit: int | None = None,
    price: str | Mapping[str, float] | None = None,
    power: str | None = None,
    pue: float | None = None,
    tokens: float | str | None = None,
    gpu_hours_per_failure: float | str | None = None,
    threads: int = 0,
    progress: Progress = None,
) -> pandas.DataFrame:
    """Simulates the cross product of lists of values; one row per point.

    spec: a sweep file, or a mapping with its keys (base, cases, values, where), in which files are relative
        to the current folder, and `base` may also be a Config or a run file of the package.
    output: an HDF5 file for the rows; a call that was interrupted goes on with resume=True.
    csv: the same as CSV. shard: "I/N", a part of the points. limit: the most rows that may be computed.
    price, power, pue, tokens, gpu_hours_per_failure: as for `plan`; columns of money, energy, goodput and days.
    threads: how many; 0 means all cores.
    Returns the columns of `stagecraft sweep`, times in seconds, bytes per GPU; a point that is impossible
        has `valid` False and a message, and no numbers; a value that no point can have is a ConfigError.
        `reserved_bytes` and `device_bytes` are given if the software says what its framework allocates. attrs: `units`, `warnings`, and `document`, that of `sweep --json`.
    """
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "sweep.h5") if output is None else path_text(output)
        name, text = (path_text(spec), None) if not isinstance(spec, Mapping) else ("<dict>", _spelled_out(spec))
        words = [
            name,
            *options(
                output=out,
                csv=csv,
                shard=shard,
                resume=resume,
                limit=limit,
                price=price,
                power=power,
                pue=pue,
                tokens=tokens,
                gpu_hours_per_failure=gpu_hours_per_failure,
                jobs=jobs(threads),
            ),
        ]
        result = _core.sweep(name, text, words, listener(progress))
    frame = _frame(
        {name: values for name, _, values in result["columns"]},
        {name: unit for name, unit, _ in result["columns"] if unit},
    )
    # Truths of every point, and of every possible one: a point that is impossible has no answer to `fits`.
    frame["valid"] = frame["valid"].astype(bool)
    frame["fits"] = frame["fits"].astype("boolean")
    frame.attrs["warnings"] = result["warnings"]
    frame.attrs["document"] = parsed(result["document"])
    return frame


class Trace(NamedTuple):
    """One iteration, simulated or executed."""

    meta: dict[str, str]
    """program_version, command_line, config (YAML), plan (fingerprint), device, clock."""
    ops: pandas.DataFrame
    """One row per op of each rank in issue order: rank, stage, start and duration in picoseconds, op, phase,
    stream (categories), layer, microbatch, chunk (-1 if they do not apply), bytes, flops."""
    memory: pandas.DataFrame
    """One row per change of memory of each rank: rank, stage, time in picoseconds, bytes by category."""


def read_trace(path: Path) -> Trace:
    """Reads a trace file.

    Raises Error if it is missing, damaged, or not a trace.
    """
    import numpy
    import pandas

    content = _core.read_trace(path_text(path))
    tables: list[dict[str, Any]] = []
    for kind in (2, 3):
        ranks = content["ranks"]
        columns: dict[str, Any] = {}
        lengths = [len(next(iter(rank[kind].values()))) for rank in ranks]
        columns["rank"] = numpy.repeat(numpy.array([rank[0] for rank in ranks], dtype=numpy.int64), lengths)
        columns["stage"] = numpy.repeat(numpy.array([rank[1] for rank in ranks], dtype=numpy.int64), lengths)
        for name in ranks[0][kind] if ranks else ():
            arrays = [rank[kind][name] for rank in ranks]
            columns[name] = arrays[0] if len(arrays) == 1 else numpy.concatenate(arrays)
        tables.append(columns)
    ops, memory = tables
    for name, categories in content["names"].items():
        if name in ops:
            ops[name] = pandas.Categorical.from_codes(ops[name], categories=categories)
    units = {"start": "ps", "duration": "ps", "bytes": "byte", "flops": "FLOP"}
    of_memory = {name: "byte" for name in memory if name not in ("rank", "stage", "time")} | {"time": "ps"}
    return Trace(content["meta"], _frame(ops, units), _frame(memory, of_memory))


class Validation(NamedTuple):
    """Measured runs beside their predictions."""

    rows: pandas.DataFrame
    """One row per run: the members of `rows` of `stagecraft validate --json`."""
    summary: dict[str, Any]
    """Errors, ranking and fit of all rows, in percent."""
    by: dict[str, Any]
    """The same for each value of the keys that were asked for."""


def validate(
    *data: Path,
    base: Path | None = None,
    by: Sequence[str] | None = None,
    set: Mapping[str, Any] | None = None,
    threads: int = 0,
    progress: Progress = None,
) -> Validation:
    """Predicts every row of data files (CSV) and compares it with what was measured.

    base: a run file with the values that no column sets. by: keys whose values divide the rows.
    set: other values of keys of the base. threads: how many; 0 means all cores.
    A row that cannot be predicted has a `problem` and does not count.
    Raises ConfigError if a file is not CSV, or a column is not a key.
    """
    import pandas

    words = [
        *map(path_text, data),
        *options(base=base, by=by, jobs=jobs(threads)),
        *settings(set),
    ]
    document = parsed(_core.validate(words, listener(progress)))
    return Validation(pandas.DataFrame(document["rows"]), document["summary"], document["by"])


def write_trace(cfg: Config, path: Path, detail: str = "chunk") -> None:
    """Writes the simulated iteration of a run as a trace file (HDF5).

    detail: "chunk" (one row per forward or backward) or "op" (one per kernel).
    """
    if detail not in ("chunk", "op"):
        from ._errors import ConfigError, Problem

        problem = Problem(None, None, None, "detail", repr(detail), "chunk, op")
        raise ConfigError(f"detail: found {detail!r}; accepted: chunk, op", [problem])
    _core.write_trace(run_of(cfg), path_text(path), detail == "op")
