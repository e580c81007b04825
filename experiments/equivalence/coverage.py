"""Which keys, and which words of them, the compared configurations had."""

import re
import subprocess
import textwrap

# Keys that only an executor reads, or that say the same as another one.
NOT_ASKED = re.compile(r"training\.|schedule\.kind=")
# What the listing of keys does not spell out.
BESIDE = """parallel.context_method=levels parallel.tensor>1 parallel.data>1 parallel.context>1 parallel.expert>1
    parallel.expert_tensor>1 batch.micro>1 layout=even layout[] routing=natural routing=balanced schedule.orders
    recompute.store_microbatches=auto recompute.store_microbatches>0 model.predicted_tokens>0 model.window.full
    model.experts.router.z_loss>0 model.pattern.kind.experts system=topology software=factor""".split()


def features(value, path):
    """`key`, `key=word` or `key>1` of everything below a path; lists have no index."""
    if isinstance(value, dict):
        yield path
        for key, below in value.items():
            yield from features(below, f"{path}.{key}")
    elif isinstance(value, list):
        yield path
        for below in value:
            yield f"{path}[]"
            yield from features(below, path)
    else:
        yield path
        if isinstance(value, bool):
            yield f"{path}={str(value).lower()}"
        elif isinstance(value, str):
            yield f"{path}={value}"
        else:
            yield from (f"{path}>{bound}" for bound in (0, 1) if value > bound)


def features_of(run):
    """Every feature of a run file once. Policies of stages count as policies, kinds of layers as layers."""
    found = set()
    for section, value in run.items():
        if section in ("system", "software"):
            found.add(section)
            found |= {f"system={name}" for name in ["topology"] if "network" in value}
            found |= {f"software={name}" for name in ["factor"] if "factor" in value}
            path = value["base"] if isinstance(value, dict) else value
            found.add(f"{section}={path.rsplit('/', 1)[-1].removesuffix('.yaml')}")
            continue
        found |= set(features(value, section))
    if "schedule.kind" in found:
        found.add("schedule")
    for path, short in {"recompute.per_stage.": "recompute.", "recompute.per_stage=": "recompute=",
                        "recompute.granularity=": "recompute=", "schedule.kind=": "schedule="}.items():
        found |= {feature.replace(path, short) for feature in found if feature.startswith(path)}
    if "parallel.context_method.levels" in found:
        found.add("parallel.context_method=levels")
    return found


def asked(build):
    """Every key of the base, and every word that `simulate --keys` says it accepts."""
    command = [build.program("stagecraft"), "simulate", "--keys"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = set(BESIDE)
    for line in re.sub(r"\n  (?! )", " ", text).splitlines():
        if line.startswith(" ") or ": " not in line:
            continue
        key, accepted = line.split(": ", 1)
        accepted = accepted.rsplit(";", 1)[0]
        names.add(key)
        if accepted == "true or false":
            names |= {f"{key}=true", f"{key}=false"}
        elif re.fullmatch(r"(a list of )?\w+(, \w+)+(, or a map such as .*)?", accepted):
            words = accepted.removeprefix("a list of ").split(", or a map")[0].split(", ")
            names |= {f"{key}={word}" for word in words if not NOT_ASKED.match(f"{key}={word}")}
    return {name for name in names if not NOT_ASKED.match(name) or name in BESIDE}


def table(counts):
    """`key 12 (word 5, other 7)` of every key, in lines."""
    words = {}
    for name, count in counts.items():
        key, word = re.fullmatch(r"([^=>]*?)(?:=(.*)|(>.*|\[\]))?", name).group(1), re.sub(r"^[^=>\[]*=?", "", name)
        words.setdefault(key, []).append(f"{word} {count}" if word else "")
    parts = [f"{key} {counts[key]}" + (f" ({', '.join(filter(None, below))})" if any(below) else "")
             for key, below in words.items() if key in counts]
    return textwrap.fill("; ".join(parts), 120, break_long_words=False, break_on_hyphens=False)
