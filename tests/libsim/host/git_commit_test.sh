#!/bin/sh
# What git_commit.cmake writes, for a folder in every state that a source can be in.
#
# usage: git_commit_test.sh CMAKE GIT_COMMIT_CMAKE
set -eu
cmake=$1
script=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$work/source
header=$work/git_commit.hpp
mkdir -p "$source/part"
# Neither the caller's repository nor settings count.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CEILING_DIRECTORIES="$work"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b

# expect WHAT FOLDER COMMIT HAS_CHANGES
expect() {
  "$cmake" -D source="$2" -D header="$header" -P "$script"
  grep -qF "git_commit = \"$3\";" "$header" && grep -qF "git_has_changes = $4;" "$header" && return
  echo "$1: expected commit '$3', changes $4; found:" >&2
  cat "$header" >&2
  exit 1
}
git() { command git -C "$source" "$@"; }

expect 'a folder outside git' "$source" '' false

git init -q
expect 'a repository without a commit' "$source" '' false

echo 1 >"$source/part/file"
git add .
git commit -qm one
expect 'a commit as it is' "$source" "$(git rev-parse HEAD)" false
expect 'a folder that lies in another repository' "$source/part" '' false

touch "$source/untracked"
expect 'a file that git does not know' "$source" "$(git rev-parse HEAD)" false

echo 2 >"$source/part/file"
expect 'an edit' "$source" "$(git rev-parse HEAD)" true

git commit -qam two
expect 'the commit of that edit' "$source" "$(git rev-parse HEAD)" false

touch -d '2001-01-01' "$header"
expect 'nothing new' "$source" "$(git rev-parse HEAD)" false
[ "$(date -r "$header" +%Y)" = 2001 ] || { echo 'nothing new: wrote the header again' >&2 && exit 1; }
