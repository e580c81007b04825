"""Run files: read, changed, written."""

from __future__ import annotations

import os
from typing import Any, Iterable, Iterator, Mapping, TypeVar, Union

from . import _core

Source = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]", Mapping[str, Any]]
"""What a run can be read from: a path, a name in the package, or a mapping of the keys."""

Value = TypeVar("Value")

_shipped = "stagecraft:configs/"


def value_text(value: object) -> str:
    """A value as `--set KEY=VALUE` takes it, which is YAML. A str is taken as it is written there."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # a column that also has gaps makes whole numbers floats
    if isinstance(value, (bytes, os.PathLike)):
        return os.fsdecode(value)
    return json_text(value)


def json_text(value: object) -> str:
    """A value as JSON, which is YAML too."""
    import json

    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """A value that JSON does not know, as one that it does: numpy's numbers and arrays, ranges, mappings, paths."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, range):
        return list(value)
    if isinstance(value, (bytes, os.PathLike)):
        return os.fsdecode(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"found {value!r}, a {type(value).__name__}; accepted: numbers, texts, lists and mappings")


def parsed(document: str) -> dict[str, Any]:
    """A JSON document. (Modules that not every program needs are imported when they are first used.)"""
    import json

    members: dict[str, Any] = json.loads(document)
    return members


def path_text(path: Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]) -> str:
    """A path, with `stagecraft:configs/...` replaced by the place of the file in the package."""
    text = os.fsdecode(path)
    if "\0" in text:
        from ._errors import ConfigError, Problem

        raise ConfigError(f"found {text!r}; accepted: a path, which has no NUL", [Problem(text, None, None, None, repr(text), "a path, which has no NUL")])
    if text.startswith(_shipped):
        return os.path.join(_core.config_folder(), text[len(_shipped) :])
    return text


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """The nearest of some words as a hint, empty if none is near."""
    import difflib

    near = difflib.get_close_matches(word, list(words), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


class Named(dict[str, Value]):
    """A dict whose KeyErrors name the nearest key."""

    def __missing__(self, key: object) -> Value:
        raise KeyError(f"{key}{did_you_mean(str(key), self)}")


def _keys(config: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in config.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{name}.")


class Config:
    """A run: what is trained, how, and on which system. It was checked when it was read.

    A Config never changes; `with_` makes another one. Threads may share it.
    """

    __slots__ = ("_run",)

    def __init__(self, run: _core.Run) -> None:
        self._run = run

    def with_(self, overrides: Mapping[str, Any]) -> Config:
        """The same run with other values of some keys, as `--set` on a command line.

        overrides: dotted keys of the run file, such as `parallel.tensor`, and their values. A str is
            YAML, as on a command line: "80 GiB", "full", "[6, 5, 5]".
        Raises ConfigError with every problem of the result.
        """
        return Config(self._run.with_([(key, value_text(value)) for key, value in overrides.items()]))

    def to_dict(self) -> dict[str, Any]:
        """The effective configuration: every key, with defaults filled in, model and system in place."""
        return parsed(self._run.json())

    def to_yaml(self) -> str:
        """The same as the text of a run file, which loads from any folder (`--print-config`)."""
        return self._run.yaml()

    @property
    def warnings(self) -> list[str]:
        """Settings without effect, each with its place, and what is uncertain about the system."""
        return self._run.warnings()

    def __getitem__(self, key: str) -> Any:
        """The value of a dotted key of the effective configuration, such as `parallel.tensor`."""
        value: Any = self.to_dict()
        for part in key.split(".") if isinstance(key, str) else [key]:
            if not isinstance(value, dict) or part not in value:
                raise KeyError(f"{key}{did_you_mean(str(key), _keys(self.to_dict()))}")
            value = value[part]
        return value

    def __contains__(self, key: object) -> bool:
        """Whether the effective configuration has a dotted key."""
        return isinstance(key, str) and key in set(_keys(self.to_dict()))

    def __iter__(self) -> Iterator[str]:
        """The sections of the effective configuration."""
        return iter(self.to_dict())

    def __eq__(self, other: object) -> bool:
        return self._run.as_given() == other._run.as_given() if isinstance(other, Config) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._run.as_given())

    def __reduce__(self) -> tuple[Any, ...]:
        """A Config is sent to other processes as its keys, without those that follow from others."""
        return _unpickled, (self._run.as_given(),)

    def __repr__(self) -> str:
        config = self.to_dict()
        parallel, batch = config["parallel"], config["batch"]
        return (
            f"<stagecraft.Config: {config['model']['layers']} layers of {config['model']['hidden']}, "
            f"tensor {parallel['tensor']}, pipeline {parallel['pipeline']}, data {parallel['data']}, "
            f"global batch {batch['global']}, on {config['system']['name']}>"
        )


def run_of(cfg: Config) -> _core.Run:
    """What the functions of the library take of a Config."""
    if not isinstance(cfg, Config):
        raise TypeError(f"found {cfg!r}, a {type(cfg).__name__}; accepted: a Config, which load() gives")
    return cfg._run


def _unpickled(text: str) -> Config:
    return Config(_core.load("<pickle>", text, []))


def load(source: Source, overrides: Mapping[str, Any] | None = None) -> Config:
    """Reads and checks a run.

    source: the path of a run file; a name of the package, such as "175b-full"; a file of the package,
        "stagecraft:configs/paper/175b-full.yaml"; or a mapping with a run file's keys, in which files are relative to the current folder, or of the package.
    overrides: other values of some keys, as `with_` takes them.
    Raises ConfigError with every problem: file, line, column, key, what was found, what is accepted.
    """
    settings = [f"{key}={value_text(value)}" for key, value in (overrides or {}).items()]
    if isinstance(source, Mapping):
        files = {key: path_text(source[key]) for key in ("model", "system", "software") if isinstance(source.get(key), str)}
        return Config(_core.load("<dict>", json_text({**source, **files}), settings))
    return Config(_core.load(_core.run_file(path_text(source)), None, settings))
