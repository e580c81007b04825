"""Holds a recipe of Megatron-Bridge against the recorded signatures of the package.

usage: check_recipe.py RECIPE.py SIGNATURES.json SETTINGS.yaml

Each configuration class is imported from the module that has it, and takes only fields that it has. Then config() is run with
these classes replaced by ones that keep what they are given, which is written to SETTINGS.yaml as Megatron-Bridge would.
"""

import ast
import json
import pathlib
import sys
import types


def check_calls(tree, signatures):
    """What is wrong with the names that the recipe uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                known = signatures.get(alias.name)
                if known and known["module"] != node.module:
                    yield f"{alias.name} is in {known['module']}, not in {node.module}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in signatures:
            fields = set(signatures[node.func.id]["fields"].split())
            for keyword in node.keywords:
                if keyword.arg not in fields:
                    yield f"{node.func.id} has no field {keyword.arg}"
            if node.args:
                yield f"{node.func.id} takes fields by name"


class Names(types.ModuleType):
    """A module whose members are classes that keep their fields, and whose other names stand for themselves."""

    def __init__(self, name, classes):
        super().__init__(name)
        self.__path__ = []
        self._classes = classes

    def __getattr__(self, name):
        if name == "MLAModelProvider":
            return lambda **fields: {"multi_latent_attention": True, **fields}  # the default of its class
        if name in self._classes:
            return lambda **fields: fields
        return Names(name, self._classes)


def plain(value):
    """A value as YAML has it."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, list):
        return [plain(member) for member in value]
    return value.__name__.split(".")[-1] if isinstance(value, Names) else value


def settings_of(path, tree, signatures):
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.Import) else []:
            parts = alias.name.split(".")
            for end in range(1, len(parts) + 1):
                sys.modules[".".join(parts[:end])] = Names(".".join(parts[:end]), signatures)
        if isinstance(node, ast.ImportFrom):
            sys.modules[node.module] = Names(node.module, signatures)
    space = {"__name__": "recipe"}
    exec(compile(tree, str(path), "exec"), space)
    settings = plain(space["config"]())
    # What Megatron-Bridge derives: as many positions as tokens (gpt_provider.py), and the dataset's mask.
    settings["model"]["max_position_embeddings"] = settings["model"]["seq_length"]
    settings["model"]["no_create_attention_mask_in_dataloader"] = settings["dataset"].get(
        "skip_getting_attention_mask_from_dataset", False)
    return settings


def main(recipe, recorded, settings):
    signatures = json.loads(pathlib.Path(recorded).read_text())["classes"]
    tree = ast.parse(pathlib.Path(recipe).read_text())
    wrong = list(check_calls(tree, signatures))
    if wrong:
        print("\n".join(wrong))
        return 1
    pathlib.Path(settings).write_text(json.dumps(settings_of(recipe, tree, signatures), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
