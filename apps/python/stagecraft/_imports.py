"""Configurations of other programs."""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple, Sequence, Union

from . import _core
from ._config import Config, json_text, path_text
from ._words import options, repeated

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class ImportedModel(NamedTuple):
    """A model file made of another program's configuration."""

    text: str
    """The model file, YAML; `load` takes its path, or the mapping below, as `model`."""
    model: dict[str, Any]
    """The same as a mapping."""
    notes: list[str]
    """What was assumed, approximated, ignored, or left out although it matters."""


class ImportedRun(NamedTuple):
    """A run file made of another program's flags."""

    text: str
    """The run file, YAML."""
    config: Config
    """The same, read."""
    notes: list[str]
    """What was assumed, approximated, ignored, or left out although it matters."""


def import_huggingface(
    source: Any,
    *,
    sequence: int | None = None,
    attention: str | None = None,
    precision: str | None = None,
    ignore: Sequence[str] = (),
    strict: bool = False,
) -> ImportedModel:
    """A model of Hugging Face's transformers.

    source: the path of a config.json, a mapping with its keys, or a configuration of transformers.
    sequence: tokens per training sequence; None: the longest that the configuration names.
    attention: "flash" (default) or "unfused". precision: None means the file's torch_dtype.
    ignore: keys to ignore although they change the model. strict: what is not modelled is not left out.
    Raises ConfigError with everything that makes it another kind of model or, if strict, cannot be represented.
    """
    import json
    import tempfile

    words = [
        *options(sequence=sequence, attention=attention, precision=precision),
        *repeated("ignore", ignore),
        *(["--strict"] if strict else []),
    ]
    if hasattr(source, "to_dict"):
        source = source.to_dict()
    if isinstance(source, Mapping):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(json_text(source))
            text, model, notes = _core.import_huggingface([path, *words])
    else:
        text, model, notes = _core.import_huggingface([path_text(source), *words])
    return ImportedModel(text, json.loads(model), notes)


def import_megatron(
    flags: str | Sequence[str] = (),
    *,
    script: Path | None = None,
    arguments: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    system: Path | None = None,
    world_size: int | None = None,
    megatron: str | None = None,
    yaml: Path | None = None,
    ignore: Sequence[str] = (),
    strict: bool = False,
) -> ImportedRun:
    """A run of Megatron-LM's pretrain_gpt.py.

    flags: words of its command line, or its text, such as `megatron_flags` of a plan.
    script: a launch script; `arguments` are its $1, $2, ..., and `variables` what it expects to be set.
    system: a file or a name of the package; None: the paper's, selene-a100.
    world_size: ranks of the job; None: the launcher's. megatron: "2022" or "current".
    yaml: a run file with the flags' names, with underscores, such as Megatron-Bridge's.
    ignore: flags to ignore although they change the run. strict: what is not modelled is not left out.
    Raises ConfigError with everything that makes it another kind of program or, if strict, cannot be represented.
    """
    if isinstance(flags, str):
        import shlex

        flags = shlex.split(flags)
    words = [
        *options(script=script, yaml=yaml, system=system, world_size=world_size, megatron=megatron),
        *repeated("variable", [f"{name}={value}" for name, value in (variables or {}).items()]),
        *repeated("ignore", ignore),
        *(["--strict"] if strict else []),
        *arguments,
        *(["--", *flags] if flags else []),
    ]
    text, _, notes = _core.import_megatron(words)
    return ImportedRun(text, Config(_core.load("imported run", text, [])), notes)


def import_framework(
    name: str,
    file: Path,
    *,
    model: Path | None = None,
    world_size: int | None = None,
    micro_batch: int | None = None,
    accumulation: int | None = None,
    sequence: int | None = None,
    system: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    ignore: Sequence[str] = (),
    strict: bool = False,
) -> ImportedRun:
    """A run of DeepSpeed, Accelerate or torchtitan.

    name: "deepspeed", "accelerate" or "torchtitan"; file: its configuration, JSON, YAML or TOML.
    model: a file or a name of the package. world_size: ranks of the job.
    micro_batch: sequences of a rank in a microbatch. accumulation: microbatches of an iteration. None: the file's.
    settings: dotted keys of the file and values that win over it.
    system, ignore, strict: as import_megatron has them.
    Raises ConfigError with everything that is wrong or, if strict, cannot be represented.
    """
    words = [
        path_text(file),
        *options(
            model=model,
            world_size=world_size,
            micro_batch=micro_batch,
            accumulation=accumulation,
            sequence=sequence,
            system=system,
        ),
        *repeated("ignore", ignore),
        *(["--strict"] if strict else []),
        *(["--", *(f"{key}={value}" for key, value in settings.items())] if settings else []),
    ]
    text, _, notes = _core.import_framework(name, words)
    return ImportedRun(text, Config(_core.load("imported run", text, [])), notes)
