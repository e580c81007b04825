"""What PyTorch has allocated at every instant, as the operators that it dispatches return it."""

import collections
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveTensors(TorchDispatchMode):
    """Use as a context: counts the bytes of all storages that an operator made and that still exist. What existed before,
    such as parameters and inputs, is not counted."""

    def __init__(self, existing):
        super().__init__()
        self.bytes = {}
        self.made = 0
        self.existing = {tensor.untyped_storage()._cdata for tensor in existing}
        self.total = 0
        self.restart()

    def restart(self):
        """Forgets the peak."""
        self.peak, self.at_peak = self.total, {}

    def note(self, tensor, operator):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.bytes or key in self.existing or storage.nbytes() == 0:
            return
        # A number tells a storage from another one that is later made at the same address.
        self.made += 1
        self.bytes[key] = (self.made, operator, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), storage.nbytes())
        self.total += storage.nbytes()
        weakref.finalize(storage, self.drop, key)

    def drop(self, key):
        self.total -= self.bytes.pop(key)[-1]

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.note(tensor, operator._opname)
        if self.total > self.peak:
            self.peak, self.at_peak = self.total, dict(self.bytes)
        return result
