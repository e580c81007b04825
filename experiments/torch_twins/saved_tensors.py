"""What PyTorch keeps from a forward to its backward, as its own hooks hand it over."""

import contextlib
import dataclasses
import functools
import weakref

import torch
from torch.overrides import TorchFunctionMode


class Held:
    """What autograd holds in place of a tensor, so that it is known when it lets go of it."""

    def __init__(self, tensor):
        self.tensor = tensor


@dataclasses.dataclass
class Saved:
    """A storage that autograd keeps: who asked for it, and as what. Discarded outputs of a checkpoint have 0 bytes."""

    module: str
    function: str
    dtype: str
    shape: tuple
    bytes: int


class Calls(TorchFunctionMode):
    """Knows which of torch's functions runs."""

    def __init__(self):
        super().__init__()
        self.stack = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.stack.append(getattr(function, "__name__", str(function)))
        try:
            return function(*args, **(kwargs or {}))
        finally:
            self.stack.pop()


class Recorder:
    """Use as a context around a forward pass, then ask for what is kept: each storage once, parameters left out."""

    def __init__(self, module):
        self.module = module
        self.requests = []
        self.modules = [""]
        self.calls = Calls()
        self.parameters = {p.untyped_storage().data_ptr() for p in module.parameters()}

    def keep(self, tensor):
        if tensor.untyped_storage().data_ptr() in self.parameters:
            return tensor
        held = Held(tensor)
        self.requests.append((self.modules[-1], self.calls.stack[-1] if self.calls.stack else "", weakref.ref(held)))
        return held

    def kept(self):
        """By the first request for each storage that is still held."""
        found = {}
        for module, function, reference in self.requests:
            if held := reference():
                tensor, storage = held.tensor, held.tensor.untyped_storage()
                key = storage._cdata
                if key not in found and storage.nbytes():
                    dtype = str(tensor.dtype).removeprefix("torch.")
                    found[key] = Saved(module, function, dtype, tuple(tensor.shape), storage.nbytes())
        return list(found.values())

    def storages(self):
        """The addresses of storages that are held now."""
        return {held.tensor.untyped_storage()._cdata for _, _, reference in self.requests if (held := reference())}

    def enter(self, name, module, arguments):
        self.modules.append(name)

    def leave(self, module, arguments, output):
        self.modules.pop()

    def __enter__(self):
        self.exits = contextlib.ExitStack()
        for name, module in self.module.named_modules():
            self.exits.callback(module.register_forward_pre_hook(functools.partial(self.enter, name)).remove)
            self.exits.callback(module.register_forward_hook(self.leave).remove)
        unpack = lambda held: held.tensor if isinstance(held, Held) else held  # noqa: E731
        self.exits.enter_context(torch.autograd.graph.saved_tensors_hooks(self.keep, unpack))
        self.exits.enter_context(self.calls)
        return self

    def __exit__(self, *error):
        self.exits.close()
