"""How a tensor that PyTorch keeps is matched with one of the op program.

A tensor either is one of the op program's, of as many bytes; or it stands for one in another form, so many times as
large; or it has no counterpart. The last two carry the name of a difference. Nothing else is allowed to differ.
"""

import dataclasses
import fractions
import re

HALF, ANY, SINGLE = "bfloat16", ".*", "float32"


@dataclasses.dataclass
class Rule:
    """Matches kept tensors by module, function, type and shape, all regular expressions.

    `name` is the op program's; of several separated by |, each match takes the next. Theirs are `factor` times as large.
    A rule holds for the first `times` tensors that it matches, if that is given.
    """

    module: str
    function: str
    dtype: str
    name: str = ""
    difference: str = ""
    factor: fractions.Fraction = fractions.Fraction(1)
    shape: str = ".*"
    times: int | None = None

    def matches(self, tensor):
        wanted = (self.module, self.function, self.dtype, self.shape)
        return all(map(re.fullmatch, wanted, (tensor.module, tensor.function, tensor.dtype, str(tensor.shape))))


def at_peak(operators, dtype, name="", difference="", factor=1, shape=".*", times=None):
    """A rule for what exists at a peak and is not kept, by the operators that make it."""
    return Rule("", operators, dtype, name, difference, fractions.Fraction(factor), shape, times)
