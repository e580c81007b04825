"""Predicts memory and iteration time of pipeline-parallel Transformer training.

    import stagecraft

    cfg = stagecraft.load("stagecraft:configs/paper/175b-present.yaml")
    print(stagecraft.simulate(cfg.with_({"parallel.tensor": 4})).iteration_seconds)

The numbers and the names are those of the command `stagecraft`. Errors are exceptions: ConfigError,
DoesNotFit, and Error, which is the base of both.
"""

from ._config import Config, load
from ._core import version as _version
from ._documents import Document, explain, fit, layer, plan, schedule
from ._errors import ConfigError, DoesNotFit, Error, Problem
from ._frames import Trace, Validation, read_trace, sweep, validate, write_trace
from ._imports import ImportedModel, ImportedRun, import_framework, import_huggingface, import_megatron
from ._report import Report, report
from ._simulation import Simulation, simulate, simulate_many
from ._stage import Stage

__version__ = _version()

__all__ = [
    "Config",
    "ConfigError",
    "Document",
    "DoesNotFit",
    "Error",
    "ImportedModel",
    "ImportedRun",
    "Problem",
    "Report",
    "Simulation",
    "Stage",
    "Trace",
    "Validation",
    "explain",
    "fit",
    "import_framework",
    "import_huggingface",
    "import_megatron",
    "layer",
    "load",
    "plan",
    "read_trace",
    "report",
    "schedule",
    "simulate",
    "simulate_many",
    "sweep",
    "validate",
    "write_trace",
]
