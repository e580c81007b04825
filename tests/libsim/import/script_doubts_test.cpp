#include <catch2/catch.hpp>

#include "libsim/import/megatron/megatron_import.hpp"
#include "libsim/import/shell/launch_script.hpp"
#include "tests/libsim/import/import_notes.hpp"

namespace stagecraft::script_doubts_test {
namespace {

std::string const model_flags =
    "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 8 "
    "--max-position-embeddings 8 --micro-batch-size 1 --vocab-size 100 --bf16 ";
std::string const expert_flags = "--num-experts 8 --moe-router-topk 2";

MegatronImport import_text(std::string const& script, MegatronOptions options = {}) {
  Diagnostics diagnostics;
  LaunchCommand const launch = read_launch_script(script, "s.sh", {}, diagnostics);
  diagnostics.throw_if_any();
  options.world_size = 1;
  options.doubts = launch.doubts;
  return import_megatron(launch.arguments, "s.sh", options);
}

/// The lines for what is left out and has an effect.
std::vector<std::string> left_out(std::string const& script) {
  std::vector<std::string> lines;
  for (Omission const& omission : import_text(script).left_out) {
    if (omission.effect != OmittedEffect::none) lines.push_back(text_of(omission));
  }
  return lines;
}

MegatronOptions strict(std::vector<std::string> ignored = {}) {
  MegatronOptions options;
  options.ignore = std::move(ignored);
  options.strictness = Strictness::strict;
  return options;
}

std::string const undecided_case = "case $MODEL in\n  moe) EXTRA=\"" + expert_flags +
                                   "\" ;;\nesac\npython x.py " + model_flags + "$EXTRA\n";

TEST_CASE("flags of a case that the script does not decide are named", "[import]") {
  REQUIRE(
      left_out(undecided_case) ==
      std::vector<std::string>{
          "left out: case $MODEL (line 1): unknown effect; the script does not decide it; may be "
          "missing or have another value: --moe-router-topk, --num-experts (--variable "
          "MODEL=VALUE decides)"});
}

TEST_CASE("strict import refuses a case that the script does not decide", "[import]") {
  REQUIRE_THROWS_WITH(
      import_text(undecided_case, strict()),
      "s.sh:1:1: case $MODEL: found what the script does not decide; may be missing "
      "or have another value: --moe-router-topk, --num-experts; accepted: --variable "
      "MODEL=VALUE, or --ignore moe-router-topk,num-experts");
  REQUIRE_NOTHROW(import_text(undecided_case, strict({"moe-router-topk", "num-experts"})));
}

TEST_CASE("flags of a branch, a loop or a test that is not followed are named through variables",
          "[import]") {
  std::string const run = "\nALL=\"" + model_flags + "$EXTRA\"\npython x.py $ALL\n";
  for (std::string const& script :
       {"if [ -f x ]; then EXTRA=\"" + expert_flags + "\"; fi" + run,
        "EXTRA=\nwhile nvidia-smi; do EXTRA=\"$EXTRA " + expert_flags + "\"; done" + run,
        "[ -f x ] && EXTRA=\"" + expert_flags + "\"" + run,
        "EXTRA=\nsetup || EXTRA=\"" + expert_flags + "\"" + run,
        "f() { EXTRA=(" + expert_flags + "); }\nif [ $K = 1 ]; then f; fi" + run}) {
    CAPTURE(script);
    std::vector<std::string> const lines = left_out(script);
    REQUIRE(lines.size() == 1);
    REQUIRE(has_note(lines, "--moe-router-topk, --num-experts"));
  }
}

TEST_CASE("a command that may fail, or a loop over what is not known, is a doubt", "[import]") {
  std::string const run = "\npython x.py " + model_flags + "--global-batch-size $B\n";
  for (std::string const& script :
       {"B=1; grep -q x F && B=2" + run, "B=1; ! grep -q x F && B=2" + run,
        "B=1; echo A100 | grep -q H100 && B=2" + run, "B=1; command -v P >/dev/null && B=2" + run,
        "B=1; { grep -q x F; } && B=2" + run, "B=1; X=$(probe) && B=2" + run,
        "f() { grep -q x F && return; B=2; }\nB=1; f" + run,
        "B=1; for i in 1 2; do grep -q x F && break; B=$i; done" + run,
        "B=1; for h in $(cat hosts); do B=$((B+1)); done" + run,
        "B=1; for h in `cat hosts`; do B=$((B+1)); done" + run,
        "B=1; for f in data/*; do B=$((B+1)); done" + run,
        "B=1; for f in $LIST; do B=2; done" + run}) {
    CAPTURE(script);
    std::vector<std::string> const lines = left_out(script);
    REQUIRE(lines.size() == 1);
    REQUIRE(has_note(lines, "may be missing or have another value: --global-batch-size"));
    REQUIRE_FALSE(has_note(lines, "left out:  ("));
  }
}

TEST_CASE("commands that lead to the training command are no doubt", "[import]") {
  for (std::string const before :
       {"cd x && ", "mkdir -p x && ", "pip install y && ", "source venv/bin/activate && ",
        "[ -d x ] || mkdir x\n", "[ -f x ] || exit 1\n"}) {
    CAPTURE(before);
    REQUIRE(left_out(before + "python x.py " + model_flags + "\n").empty());
  }
}

TEST_CASE("an end of the script before its command is a doubt", "[import]") {
  for (std::string const before : {"exit 0\n", "set -e\nfalse\n"}) {
    CAPTURE(before);
    REQUIRE(has_note(left_out(before + "python x.py " + model_flags + "\n"), "--num-layers"));
  }
}

TEST_CASE("a flag whose value is not decided is named", "[import]") {
  std::string const script = "B=1\nif [ -d x ]; then B=4; fi\npython x.py " + model_flags +
                             "--global-batch-size $((B*2))\n";
  REQUIRE(has_note(left_out(script),
                   "if [ -d x ] (line 2): unknown effect; the script does not "
                   "decide it; may be missing or have another value: "
                   "--global-batch-size"));
}

TEST_CASE("what is not decided and changes neither memory nor time is a note", "[import]") {
  std::string const script =
      "L=\nif [ -d x ]; then L=\"--load x\"; fi\npython x.py " + model_flags + "$L\n";
  REQUIRE(left_out(script).empty());
  REQUIRE(
      has_note(import_text(script).notes, "line 2: a condition that the script does not decide"));
}

TEST_CASE("a value that is settled later is not in doubt", "[import]") {
  REQUIRE(left_out("if [ -d x ]; then E=\"" + expert_flags +
                   "\"; fi\nE=\"--seed 1\"\npython x.py " + model_flags + "$E\n")
              .empty());
}

TEST_CASE("a word that is not set and may be flags is left out with a line", "[import]") {
  REQUIRE(
      left_out("python x.py " + model_flags + "\\\n  $MOE_ARGS\n") ==
      std::vector<std::string>{"left out: $MOE_ARGS: unknown effect; line 2: the script does not "
                               "set it, so flags in it are missing (--variable MOE_ARGS=VALUE)"});
  // Behind a flag of many values, too.
  REQUIRE(has_note(left_out("python x.py " + model_flags + "--data-path $DATA ${MOE_ARGS}\n"),
                   "left out: ${MOE_ARGS}"));
}

TEST_CASE("flags of a branch that is known not to run are not missing", "[import]") {
  REQUIRE(left_out("K=0\nif [ $K = 1 ]; then E=\"" + expert_flags + "\"; fi\npython x.py " +
                   model_flags + "$E\n")
              .empty());
}

TEST_CASE("strict import refuses a word that is not set and may be flags", "[import]") {
  std::string const script = "python x.py " + model_flags + "$MOE_ARGS\n";
  REQUIRE_THROWS_WITH(import_text(script, strict()),
                      Catch::Contains("$MOE_ARGS: found a word that the script does not set") &&
                          Catch::Contains("accepted: --variable MOE_ARGS=VALUE"));
  REQUIRE_NOTHROW(import_text(script, strict({"MOE_ARGS"})));
}

TEST_CASE("a list of weights and paths that are not set is no flag", "[import]") {
  REQUIRE(left_out("python x.py " + model_flags + "--data-path 0.5 $A 0.5 $B\n").empty());
}

TEST_CASE("a value that is missing says what would decide it", "[import]") {
  std::string const script =
      "case $SIZE in 7B) L=32 ;; esac\npython x.py " + model_flags + "--num-layers $L\n";
  REQUIRE_THROWS_WITH(import_text(script),
                      Catch::Contains("line 1 (case $SIZE) decides it: --variable SIZE=VALUE"));
}

}  // namespace
}  // namespace stagecraft::script_doubts_test
