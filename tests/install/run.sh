#!/bin/sh
# Installs a build, and builds and runs a program that knows nothing but the installation.
#
# usage: tests/install/run.sh BUILD WORK   (WORK is made anew)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "$1")
rm -rf "$2"
mkdir -p "$2"
work=$(realpath "$2")

cmake --install "$build" --prefix "$work/first" >"$work/install.log"
# An installation may be moved.
mv "$work/first" "$work/prefix"

cmake -G Ninja -S "$here" -B "$work/consumer" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix"
cmake --build "$work/consumer"
cp "$work/consumer/consumer" "$work/prefix/bin/"

cd /
"$work/prefix/bin/stagecraft" --version
"$work/prefix/bin/consumer" | tee "$work/output"
head -n 1 "$work/output" | grep -Fx "$work/prefix/share/stagecraft/configs/paper"

for page in README.md apps/stagecraft/JSON.md libsim/trace/SCHEMA.md libsim/sweep/SCHEMA.md; do
  test -s "$work/prefix/share/doc/stagecraft/$page"
done
for program in stagecraft stagecraft-exec; do
  bash -c "source '$work/prefix/share/bash-completion/completions/$program' && complete -p $program"
  grep -q "^\.SH NAME\$" "$work/prefix/share/man/man1/$program.1"
  grep -q "^#compdef $program\$" "$work/prefix/share/zsh/site-functions/_$program"
done
