"""The pictures that planners want, drawn by matplotlib. Each function returns the axes that it drew in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from ._frames import Trace, Validation
from ._simulation import Simulation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_gibibyte = 2**30


def _axes(axes: Axes | None) -> Axes:
    if axes is not None:
        return axes
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def memory_by_stage(simulation: Simulation, axes: Axes | None = None) -> Axes:
    """What each stage holds at its peak, in GiB by category, and the accelerator's memory."""
    axes = _axes(axes)
    stages = simulation.stages
    bottom = [0.0] * len(stages)
    for category in stages[0].at_peak:
        heights = [stage.at_peak[category] / _gibibyte for stage in stages]
        if any(heights):
            axes.bar(range(len(stages)), heights, bottom=bottom, label=category)
        bottom = [below + height for below, height in zip(bottom, heights)]
    capacity = simulation.config["system.accelerator.memory"]
    axes.axhline(_quantity_gib(capacity), color="black", linestyle="--", label="capacity")
    axes.set(xlabel="stage", ylabel="GiB at the peak")
    axes.legend()
    return axes


def _quantity_gib(value: Any) -> float:
    """A size of a configuration, `80 GiB` or {value: 80 GiB, ...}, in GiB."""
    text = value["value"] if isinstance(value, Mapping) else value
    number, unit = str(text).split()
    bytes_of = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
    bytes_of |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
    return float(number) * bytes_of[unit] / _gibibyte


def front(plan: Mapping[str, Any], axes: Axes | None = None) -> Axes:
    """Iteration time and peak memory of the best plans of `plan()`, and of its Pareto front."""
    axes = _axes(axes)
    for name, marker in (("best", "o"), ("pareto", ".-")):
        rows = plan.get(name) or []
        if rows:
            axes.plot(
                [row["iteration_seconds"] for row in rows],
                [row["peak_bytes"] / _gibibyte for row in rows],
                marker,
                label=name,
            )
    axes.set(xlabel="iteration, seconds", ylabel="peak of the fullest stage, GiB")
    axes.legend()
    return axes


def pipeline(trace: Trace, axes: Axes | None = None) -> Axes:
    """What the compute stream of each stage does when: one bar per op, by phase."""
    axes = _axes(axes)
    ops = trace.ops[trace.ops["stream"] == "compute"]
    for number, (phase, rows) in enumerate(ops.groupby("phase", observed=True)):
        # One collection of bars per phase and stage: a trace has tens of thousands of ops.
        for stage, bars in rows.groupby("stage"):
            spans = bars[["start", "duration"]].to_numpy() * 1e-12
            axes.broken_barh(spans, (stage - 0.4, 0.8), facecolors=f"C{number}")
        axes.plot([], [], color=f"C{number}", linewidth=6, label=str(phase))
    axes.invert_yaxis()
    axes.set(xlabel="seconds", ylabel="stage")
    # Above the axes: there is no free place among the bars, and looking for the best one takes seconds.
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    return axes


def predicted_against_measured(validation: Validation, axes: Axes | None = None) -> Axes:
    """Predicted over measured seconds of each row, and the line on which they would be equal."""
    axes = _axes(axes)
    rows = validation.rows.dropna(subset=["predicted_seconds", "measured_seconds"])
    axes.plot(rows["measured_seconds"], rows["predicted_seconds"], ".")
    ends = [rows["measured_seconds"].min(), rows["measured_seconds"].max()]
    axes.plot(ends, ends, color="black", linewidth=1)
    axes.set(xlabel="measured, seconds", ylabel="predicted, seconds", xscale="log", yscale="log")
    return axes
