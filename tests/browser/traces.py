"""Traces for the tests of reports that no simulator writes: of a whole job, and hostile ones."""

import h5py
import numpy


def executed(source, target, tensor):
    """A trace of `tensor` ranks per stage, numbered over the job, each op a little longer: as an executor writes it."""
    random = numpy.random.default_rng(1)
    with h5py.File(source, "r") as old, h5py.File(target, "w", libver=("v108", "v108")) as new:
        for name, value in old.attrs.items():
            new.attrs[name] = value
        new.attrs["clock"] = numpy.bytes_("wall")
        new.attrs["device"] = numpy.bytes_("a CPU, 2 threads")
        old.copy("names", new)
        for stage in old["ranks"]:
            for place in range(tensor):
                rank = f"ranks/{int(stage) * tensor + place}"
                old.copy(f"ranks/{stage}", new, name=rank)
                ops, memory = new[rank]["ops"], new[rank]["memory"]
                stretch = 1.02 + 0.001 * place
                starts = (ops["start"][:] * stretch).astype("i8")
                ops["start"][:] = starts
                ops["duration"][:] = (ops["duration"][:] * (stretch - 0.01 * random.random(len(starts)))).astype("i8")
                memory["time"][:] = (memory["time"][:] * stretch).astype("i8")
                memory["activations"][:] = memory["activations"][:] + place * 1_000_000


def hostile(source, target):
    """A trace whose texts are markup."""
    attack = b"</script><script>document.title='broken into'</script><img src=x onerror=document.title='broken'>"
    with h5py.File(source, "r") as old, h5py.File(target, "w", libver=("v108", "v108")) as new:
        for name, value in old.attrs.items():
            new.attrs[name] = value
        for name in ("device", "command_line", "program_version", "config"):
            new.attrs[name] = numpy.bytes_(attack)
        old.copy("ranks", new)
        names = new.create_group("names")
        for name in ("op", "phase", "stream"):
            texts = old["names"][name][:].astype("S200")
            if name == "op":
                texts[:] = attack
            names.create_dataset(name, data=texts)
