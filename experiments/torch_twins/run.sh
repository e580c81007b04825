#!/bin/sh
# Twins of stagecraft's blocks made of Megatron-Core's and Hugging Face's own modules: what PyTorch keeps of them, beside
# what is predicted.
#
# usage: run.sh STAGECRAFT [FOLDER]
#
# Makes a virtual environment in FOLDER (default: build/torch_twins), installs what requirements.txt pins, prints a line
# for each twin and writes tests/*_twins.json, which the tests hold the program against. No GPU is used;
# PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu spares the download of its libraries.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
program=$1
folder=${2:-$here/../../build/torch_twins}

[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
"$folder/bin/pip" install --quiet -r "$here/requirements.txt"
for framework in megatron huggingface; do
    "$folder/bin/python" "$here/compare.py" "$program" $framework "$here/../../tests/${framework}_twins.json"
done
