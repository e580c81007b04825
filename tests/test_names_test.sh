#!/bin/sh
# test_names_test.sh CMAKE: test_names.cmake refuses a name with a semicolon, or a dash at its beginning, and only that.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
check() {
  printf '#!/bin/sh\nprintf "%%s\\n" %s\nexit 2\n' "$1" >"$folder/tests"
  chmod +x "$folder/tests"
  "$2" -D TEST_EXECUTABLE="$folder/tests" -P "$(dirname "$0")/test_names.cmake" 2>&1
}
check "'one, of [two] (three)' 'another'" "$1"
if output=$(check "'good' 'bad; worse'" "$1"); then
  echo "a name with a semicolon was accepted"
  exit 1
fi
echo "$output" | grep -q "found 'bad; worse'"
if output=$(check "'good' '--worse'" "$1"); then
  echo "a name that begins with a dash was accepted"
  exit 1
fi
echo "$output" | grep -q "found '--worse'"
