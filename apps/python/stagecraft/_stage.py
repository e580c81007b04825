"""A pipeline stage of a prediction."""

from __future__ import annotations

from typing import Any, Mapping, Protocol

from ._config import Named


class _Documents(Protocol):
    """What a stage is read from: a prediction's document before the allocator's replay, and after it."""

    @property
    def _played(self) -> dict[str, Any]: ...
    @property
    def _whole(self) -> dict[str, Any]: ...


_of_allocator = frozenset(
    (
        "fits",
        "verdict",
        "reserved_bytes",
        "allocated_bytes",
        "first_allocated_bytes",
        "resident_bytes",
        "inactive_split_bytes",
        "device_bytes",
        "outside_bytes",
        "margin_bytes",
        "retries",
        "runs_out",
        "fits_probability",
    )
)


class Stage(Mapping[str, Any]):
    """What a pipeline stage holds in memory, per GPU, and how long it computes.

    The keys are those of `stages` of `simulate --json`; each is an attribute too.
    """

    __slots__ = ("_simulation", "_number")

    def __init__(self, simulation: _Documents, number: int) -> None:
        self._simulation = simulation
        self._number = number

    def __getitem__(self, key: str) -> Any:
        stage = self._simulation._played["stages"][self._number]
        if key in _of_allocator or stage[key] is None:
            stage = self._simulation._whole["stages"][self._number]
        value = stage[key]
        return dict(value) if isinstance(value, dict) else value

    def __iter__(self) -> Any:
        return iter(self._simulation._played["stages"][self._number])

    def __len__(self) -> int:
        return len(self._simulation._played["stages"][self._number])

    @property
    def stage(self) -> int:
        """Number of the stage, from 0."""
        return self._number

    @property
    def layers(self) -> int:
        """Layers of the stage."""
        return int(self["layers"])

    @property
    def in_flight_chunks(self) -> int:
        """Most chunk passes whose forward has run and whose backward has not."""
        return int(self["in_flight_chunks"])

    @property
    def busy_seconds(self) -> float:
        """Time for which its compute stream works, in seconds."""
        return float(self["busy_seconds"])

    @property
    def fits(self) -> bool:
        """Whether it fits in the accelerator's memory."""
        return bool(self["fits"])

    @property
    def verdict(self) -> str:
        """ "fits", "fits_with_retries" (the allocator gives its cache back on the way) or "does_not_fit"."""
        return str(self["verdict"])

    @property
    def peak_bytes(self) -> int:
        """Bytes at its peak, without the reserve."""
        return int(self["peak_bytes"])

    @property
    def peak_at_seconds(self) -> float:
        """When the peak is, in seconds from the start of the iteration."""
        return float(self["peak_at_seconds"])

    @property
    def at_peak(self) -> dict[str, int]:
        """Bytes by category at the peak."""
        return Named(self["at_peak"])

    @property
    def activation_peak_bytes(self) -> int:
        """Most bytes of activations, recomputed tensors and communication together."""
        return int(self["activation_peak_bytes"])

    @property
    def ranks(self) -> dict[str, float] | None:
        """How the stage's ranks differ, if routing gives them different numbers of rows; else None.

        `distinct` kinds of ranks; `fullest` and `emptiest` by number in the stage; `least_peak_bytes`, what the
        emptiest holds; `hottest` and `coldest`, whose experts have most and least to do, and the seconds for which
        they would be busy without waiting for others. Other bytes are of the fullest.
        """
        value: dict[str, float] | None = self["ranks"]
        return value

    @property
    def reserved_bytes(self) -> int | None:
        """Bytes that the framework's allocator reserves. Replays the allocator when first read."""
        value: int | None = self["reserved_bytes"]
        return value

    @property
    def allocated_bytes(self) -> int | None:
        """The most bytes of the reserved ones that tensors have, over all iterations."""
        value: int | None = self["allocated_bytes"]
        return value

    @property
    def first_allocated_bytes(self) -> int | None:
        """The same until the first iteration has ended, in whose step the optimizer's state appears."""
        value: int | None = self["first_allocated_bytes"]
        return value

    @property
    def host_bytes(self) -> int:
        """What a rank holds in the memory of its node, in bytes."""
        return int(self["host_bytes"])

    @property
    def resident_bytes(self) -> int | None:
        """Bytes that are allocated between two iterations."""
        value: int | None = self["resident_bytes"]
        return value

    @property
    def inactive_split_bytes(self) -> int | None:
        """Bytes of the reserved ones that are free parts of blocks in use."""
        value: int | None = self["inactive_split_bytes"]
        return value

    @property
    def retries(self) -> int | None:
        """How often the allocator gives its cache back because the device is full."""
        value: int | None = self["retries"]
        return value

    @property
    def runs_out(self) -> bool | None:
        """Whether a request fails even then."""
        value: bool | None = self["runs_out"]
        return value

    @property
    def outside_bytes(self) -> dict[str, int] | None:
        """Bytes outside the allocator by what has them (driver, CUDA context, NCCL); None if the system does not say."""
        value: dict[str, int] | None = self["outside_bytes"]
        return value

    @property
    def fits_probability(self) -> float | None:
        """Probability that it does not die of memory, by measured runs; None if there are none."""
        value: float | None = self["fits_probability"]
        return value

    @property
    def device_bytes(self) -> int | None:
        """Bytes of the accelerator's memory that are taken, the reserve among them."""
        value: int | None = self["device_bytes"]
        return value

    @property
    def margin_bytes(self) -> int | None:
        """Bytes that the accelerator has beyond that; may be negative."""
        value: int | None = self["margin_bytes"]
        return value

    def __repr__(self) -> str:
        return f"<stagecraft.Stage {self.stage}: {self.layers} layers, {self.peak_bytes / 2**30:.1f} GiB>"
