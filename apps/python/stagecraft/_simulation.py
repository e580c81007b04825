"""Predictions of an iteration."""

from __future__ import annotations

from typing import Any, Iterable

from . import _core
from ._config import Config, parsed, run_of
from ._progress import Progress, listener
from ._stage import Stage

class Simulation:
    """The predicted iteration of a run. Times are in seconds, bytes are integers and per GPU, FLOPs are
    of the whole job. The names are those of `simulate --json`.

    `iteration_seconds` and `peak_bytes` are there at once. Everything else is computed when it is first
    read. Threads may share it.
    """

    __slots__ = ("_config", "_run", "_played_document", "_whole_document")

    def __init__(self, config: Config, run: _core.SimulatedRun) -> None:
        self._config = config
        self._run = run
        self._played_document: dict[str, Any] | None = None
        self._whole_document: dict[str, Any] | None = None

    @property
    def _played(self) -> dict[str, Any]:
        if self._whole_document is not None:
            return self._whole_document
        if self._played_document is None:
            self._played_document = parsed(self._run.played_document())
        return self._played_document

    @property
    def _whole(self) -> dict[str, Any]:
        if self._whole_document is None:
            self._whole_document = parsed(self._run.document(0))
        return self._whole_document

    def to_dict(self) -> dict[str, Any]:
        """The document of `stagecraft simulate --json`."""
        from copy import deepcopy

        return deepcopy(self._whole)

    @property
    def config(self) -> Config:
        """The run that was simulated."""
        return self._config

    @property
    def parameters(self) -> int:
        """Parameters of the model."""
        return int(self._played["parameters"])

    @property
    def iteration_seconds(self) -> float:
        """Predicted time of an iteration, in seconds."""
        return self._run.iteration_seconds

    @property
    def peak_bytes(self) -> int:
        """Bytes that the fullest stage holds at its peak, without the reserve."""
        return self._run.peak_bytes

    @property
    def plan(self) -> str:
        """Fingerprint of the plan: SHA-256, 64 hexadecimal digits."""
        return str(self._played["plan"])

    @property
    def iteration_interval_seconds(self) -> tuple[float, float] | None:
        """The 80 % interval of the iteration's time, in seconds; None if nothing stands behind one."""
        interval = self._played["iteration_interval_seconds"]
        return None if interval is None else (float(interval[0]), float(interval[1]))

    @property
    def iteration_interval_reason(self) -> str:
        """What stands behind the interval, or why there is none."""
        return str(self._played["iteration_interval_reason"])

    @property
    def relative_error(self) -> float:
        """Relative standard deviation of the iteration's time by its error terms, before any calibration."""
        return float(self._played["relative_error"])

    @property
    def ideal_seconds(self) -> float:
        """Busy time of the busiest stage, without any waiting, in seconds."""
        return float(self._played["ideal_seconds"])

    @property
    def bubble_fraction(self) -> float:
        """(iteration - ideal) / ideal: waiting and the fixed overhead of an iteration, over the ideal time."""
        return float(self._played["bubble_fraction"])

    @property
    def waiting_seconds(self) -> float:
        """Waiting of the busiest stage: bubble and exposed communication, in seconds."""
        return float(self._played["waiting_seconds"])

    @property
    def model_flops(self) -> float:
        """Matrix-product FLOPs of an iteration, nothing recomputed."""
        return float(self._played["model_flops"])

    @property
    def hardware_flops(self) -> float:
        """Matrix-product FLOPs that the programs really do."""
        return float(self._played["hardware_flops"])

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization, a fraction of the peak."""
        return float(self._played["mfu"])

    @property
    def mfu_causal(self) -> float:
        """The same with causal attention counted half."""
        return float(self._played["mfu_causal"])

    @property
    def mfu_precision(self) -> str:
        """The precision of whose peak both are fractions: the model's, or tf32."""
        return str(self._played["mfu_precision"])

    @property
    def hfu(self) -> float:
        """Hardware FLOPs utilization, a fraction of the peak."""
        return float(self._played["hfu"])

    @property
    def hfu_paper(self) -> float | None:
        """The same by the paper's equation 8; None if that does not apply."""
        value: float | None = self._played["hfu_paper"]
        return value

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of the whole job."""
        return float(self._played["tokens_per_second"])

    @property
    def gpu_hours_per_trillion_tokens(self) -> float:
        """Accelerators times hours for 10^12 tokens, without interruptions."""
        return float(self._played["gpu_hours_per_trillion_tokens"])

    @property
    def layer(self) -> dict[str, Any] | None:
        """One middle layer and one microbatch: seconds and bytes; None if layers differ in policy."""
        layer: dict[str, Any] | None = self._played["layer"]
        return None if layer is None else dict(layer)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The pipeline stages."""
        return tuple(Stage(self, number) for number in range(len(self._played["stages"])))

    @property
    def breakdown_seconds(self) -> dict[str, float]:
        """What the busiest stage's time goes to, in seconds; sums to `iteration_seconds`."""
        return dict(self._played["breakdown_seconds"])

    @property
    def host_wait_seconds(self) -> float:
        """Time for which the busiest stage waits for the host to issue kernels, in seconds; that of the breakdown."""
        return float(self._played["host_wait_seconds"])

    @property
    def fits(self) -> bool:
        """Whether every stage fits in memory."""
        return all(stage.fits for stage in self.stages)

    @property
    def verdict(self) -> str:
        """That of the stage that is worst off: "fits", "fits_with_retries" or "does_not_fit". Replays the allocator
        when first read."""
        return str(self._whole["verdict"])

    @property
    def fits_probability(self) -> float | None:
        """Probability that no stage dies of memory, by measured runs; None if there are none. Replays the allocator."""
        value: float | None = self._whole["fits_probability"]
        return value

    @property
    def fits_probability_reason(self) -> str:
        """What stands behind the probability, or why there is none."""
        return str(self._whole["fits_probability_reason"])

    @property
    def not_validated_for(self) -> list[str]:
        """Settings of the run with which no measured run was held against a prediction."""
        return list(self._played["not_validated_for"])

    @property
    def warnings(self) -> list[str]:
        """What to know before trusting the numbers, each with its place."""
        return list(self._played["warnings"])

    def __reduce__(self) -> tuple[Any, ...]:
        """A Simulation is sent to other processes as its Config, and made again there."""
        return simulate, (self._config,)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{stage.stage}</td><td>{stage.layers}</td><td>{stage.peak_bytes / 2**30:.1f}</td>"
            f"<td>{stage.activation_peak_bytes / 2**30:.1f}</td><td>{'yes' if stage.fits else 'no'}</td></tr>"
            for stage in self.stages
        )
        return (
            f"<p>{self.iteration_seconds:.4g} s per iteration, MFU {100 * self.mfu:.1f} %, "
            f"waiting {100 * self.waiting_seconds / self.iteration_seconds:.1f} %</p><table><tr><th>stage</th><th>layers</th>"
            f"<th>peak GiB</th><th>activations GiB</th><th>fits</th></tr>{rows}</table>"
        )

    def __repr__(self) -> str:
        return f"<stagecraft.Simulation: {self.iteration_seconds:.4g} s, {self.peak_bytes / 2**30:.1f} GiB>"


def simulate(cfg: Config, require_fit: bool = False) -> Simulation:
    """Predicts memory and time of an iteration of a run.

    require_fit: raise DoesNotFit, which names the stages, if one does not fit in memory.
    """
    run = _core.simulate(run_of(cfg))
    if require_fit:
        run.require_fit(0)
    return Simulation(cfg, run)


def simulate_many(cfgs: Iterable[Config], threads: int = 0, progress: Progress = None) -> list[Simulation]:
    """Predicts many runs at once, without the interpreter's lock. Ctrl-C ends it.

    threads: how many; 0 means all cores.
    progress: see Progress.
    Returns one Simulation per Config, in their order.
    """
    configs = list(cfgs)
    runs = _core.simulate_many([run_of(config) for config in configs], threads, listener(progress))
    return [Simulation(config, run) for config, run in zip(configs, runs)]
