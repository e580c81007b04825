#include "libsim/import/shell/launch_script.hpp"

#include <catch2/catch.hpp>

#include "libsim/import/shell/shell_arithmetic.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft::launch_script_test {
namespace {

LaunchCommand read(std::string const& script,
                   std::map<std::string, std::string> const& preset = {}) {
  Diagnostics diagnostics;
  LaunchCommand launch = read_launch_script(script, "s.sh", preset, diagnostics);
  diagnostics.throw_if_any();
  return launch;
}

/// The arguments, `|` between them.
std::string arguments_of(std::string const& script,
                         std::map<std::string, std::string> const& preset = {}) {
  std::string text;
  for (ShellWord const& word : read(script, preset).arguments) {
    text += (text.empty() ? "" : "|") + word.text;
  }
  return text;
}

// What bash 5.2 makes of each script, but for the last: a script that only sets a variable.

TEST_CASE("words are cut, expanded and unquoted as bash does", "[import]") {
  struct Case {
    char const* script;
    char const* arguments;
  };
  for (Case const& c : std::vector<Case>{
           {"x.py --num-layers 2", "--num-layers|2"},
           {"N=2\nx.py --num-layers $N ${N}4 \"$N\" '$N'", "--num-layers|2|24|2|$N"},
           {"x.py --num-layers 2 \\\n  --a \"b c\" 'd e' f\\ g", "--num-layers|2|--a|b c|d e|f g"},
           {"A=(--num-layers 2 # layers\n  --b)\nx.py ${A[@]}", "--num-layers|2|--b"},
           {"A=(--num-layers)\nA+=(2 \"3 4\")\nx.py ${A[@]} \"${A[@]}\"",
            "--num-layers|2|3|4|--num-layers|2|3 4"},
           {"A=\"--num-layers 2\"\nA+=\" --b\"\nx.py $A", "--num-layers|2|--b"},
           {"A=\" \\\n --num-layers 2 \\\n \"\nx.py $A", "--num-layers|2"},
           {"x.py --num-layers ${L:-12} ${M-3} ${E:+4}", "--num-layers|12|3"},
           {"L=\nx.py --num-layers ${L:-12} a${L-3}", "--num-layers|12|a"},
           {"P=4\nx.py --num-layers $((64/P)) $(($P*(2+1)%5-1))", "--num-layers|16|1"},
           {"export N=2 M=3; x.py --num-layers $N$M", "--num-layers|23"},
           {"OMP_NUM_THREADS=4 python x.py --num-layers 2 > log 2>&1", "--num-layers|2"},
           {"x.py --num-layers 2 2>&1 | tee log", "--num-layers|2"},
           {"x.py --num-layers 2 &>> log --b >&2 --c 2>> log --d", "--num-layers|2|--b|--c|--d"},
           {"C=\"x.py --num-layers 2 'a b'\"\nbash -c \"$C --c\"", "--num-layers|2|a b|--c"},
           {"x.py --num-layers 1\nx.py --num-layers 2", "--num-layers|2"},
           {"x.py --num-layers 2 $@", "--num-layers|2"},
           {"cat <<EOT > f\n--num-layers 3 $(\nEOT\nx.py --num-layers 2", "--num-layers|2"},
           {"x.py --num-layers 2 # --b", "--num-layers|2"},
           {"export PARAMS=\"--num-layers 2 --b\"\n. ./SRUN.sh", "--num-layers|2|--b"}}) {
    CAPTURE(c.script);
    REQUIRE(arguments_of(c.script) == c.arguments);
  }
}

TEST_CASE("loops and functions end where break, continue, return and shift say", "[import]") {
  struct Case {
    char const* script;
    char const* arguments;
  };
  for (Case const& c : std::vector<Case>{
           {"T=2\nf() { local T=8; U=$T; }\nf\nx.py --num-layers $T $U", "--num-layers|2|8"},
           {"for p in 1 2 3; do\n  if [ $p = 2 ]; then continue; fi\n  A=$A$p\ndone\n"
            "x.py --num-layers $A",
            "--num-layers|13"},
           {"for p in 1 2 3; do A=$p; [ $p = 2 ] && break; done\nx.py --num-layers $A",
            "--num-layers|2"},
           {"f() { for p in 1 2; do A=$p; if [ $p = 1 ]; then return; fi; done; A=9; }\nf\n"
            "x.py --num-layers $A",
            "--num-layers|1"},
           {"f() { A=$1; shift 2; B=$1; C=\"$@\"; }\nf 1 2 3 4\nx.py --num-layers $A $B $C",
            "--num-layers|1|3|3|4"},
           {"A=1\n[ $A = 2 ] && A=3\n[ $A = 2 ] || B=4\nx.py --num-layers $A $B",
            "--num-layers|1|4"}}) {
    CAPTURE(c.script);
    REQUIRE(arguments_of(c.script, {{"A", ""}}) == c.arguments);
  }
}

TEST_CASE("what a script does not set stays as it is written, in one word", "[import]") {
  REQUIRE(arguments_of("x.py --num-layers $L --a `date +x y` $(ls -l | wc) ${B%.txt} $1") ==
          "--num-layers|$L|--a|`date +x y`|$(ls -l | wc)|${B%.txt}|$1");
  REQUIRE(arguments_of("x.py --num-layers $L", {{"L", "7"}}) == "--num-layers|7");
}

TEST_CASE("branches are taken where the script settles the condition", "[import]") {
  auto const taken = [](std::string const& condition) {
    return arguments_of("A=1\nT=fp8\nif " + condition +
                        "; then\n  B=yes\nelif [ $A = 1 ]; then B=elif\nelse\n  B=no\nfi\n"
                        "x.py --num-layers $B");
  };
  REQUIRE(taken("[[ \"$T\" == \"fp8\" ]]") == "--num-layers|yes");
  REQUIRE(taken("[ $T = bf16 ] || [ $A -gt 0 ]") == "--num-layers|yes");
  REQUIRE(taken("[[ $T == fp8 && $A -eq 2 ]]") == "--num-layers|elif");
  REQUIRE(taken("[ -z \"$UNSET\" ]") == "--num-layers|yes");
  REQUIRE(taken("[ ! -n \"$T\" ]") == "--num-layers|elif");
  REQUIRE(taken("[ \"$A\" != 1 ]") == "--num-layers|elif");
}

TEST_CASE("a condition that the script does not decide skips its branch and says so", "[import]") {
  LaunchCommand const launch = read(
      "if [ -f x ]\nthen\n  A=1\nelse\n  A=2\nfi\nif [ -f y ]; then mkdir z; fi\n"
      "x.py --num-layers $A");
  REQUIRE(launch.arguments[1].text == "2");
  REQUIRE(launch.doubts.size() == 1);
  REQUIRE(launch.doubts[0].what == "if [ -f x ]");
  REQUIRE(launch.doubts[0].flags == std::set<std::string>{"--num-layers"});
  REQUIRE(launch.notes ==
          std::vector<std::string>{
              "line 7: a condition that the script does not decide; its branch is skipped"});
}

TEST_CASE(
    "other scripts and loops that go on for an unknown reason are not followed, which is said",
    "[import]") {
  LaunchCommand const launch = read(
      "source env.sh\nwhile x; do\n  for j in 3; do A=$j; done\ndone\n"
      "f() {\n  A=5\n}\nx.py --num-layers 2");
  REQUIRE(launch.notes ==
          std::vector<std::string>{"line 1: another script is read, which is not followed",
                                   "line 2: a loop is not followed"});
}

TEST_CASE("the launcher, WORLD_SIZE or the allocation say how many ranks there are", "[import]") {
  std::string const flags = " x.py --num-layers 2";
  REQUIRE(read("torchrun --nproc_per_node 8 --nnodes 4" + flags).world_size == 32);
  REQUIRE(read("torchrun --nproc-per-node=8" + flags).world_size == 8);
  REQUIRE(read("mpirun -np 16 python" + flags).world_size == 16);
  REQUIRE(read("WORLD_SIZE=$((8*3))\npython" + flags).world_size == 24);
  REQUIRE(read("#SBATCH --nodes=48\n#SBATCH --gres=gpu:8\npython" + flags).world_size == 384);
  REQUIRE(read("#SBATCH <OPTIONS> --nodes=4 --ntasks-per-node=8 -J x\npython" + flags).world_size ==
          32);
  REQUIRE(
      read("#SBATCH -N 2\ntorchrun --nproc_per_node 8 --nnodes $SLURM_NNODES" + flags).world_size ==
      16);
  REQUIRE(!read("python" + flags).world_size);
}

TEST_CASE("words know where they were written", "[import]") {
  LaunchCommand const launch = read("A=(\n  --num-layers 2\n  --b\n)\nx.py ${A[@]} --c");
  REQUIRE(launch.arguments[0].line == 2);
  REQUIRE(launch.arguments[0].column == 3);
  REQUIRE(launch.arguments[2].line == 3);
  REQUIRE(launch.arguments[3].line == 5);
}

TEST_CASE("a script that starts nothing is refused", "[import]") {
  REQUIRE_THROWS_WITH(read("echo --num-layers 2\n"),
                      "s.sh: found no command with --num-layers; accepted: a script that starts "
                      "Megatron-LM with its flags");
  REQUIRE_THROWS(read(""));
}

TEST_CASE("scripts that are cut short or double themselves come to an end", "[import]") {
  std::string doubling = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 60; ++i) doubling += "A=$A$A\n";
  REQUIRE_NOTHROW(read(doubling + "x.py --num-layers 2 $A"));
  std::string nested = "x.py --num-layers ";
  for (int i = 0; i < 5000; ++i) nested += "${A:-";
  REQUIRE_NOTHROW(read(nested));
  REQUIRE_NOTHROW(read("A=\"$A\"\nx.py --num-layers $((A))" + std::string(5000, '(')));
  for (char const* const script :
       {"x.py --num-layers \"", "x.py --num-layers '", "x.py --num-layers $(",
        "x.py --num-layers ${", "x.py --num-layers `", "x.py --num-layers \\",
        "if x.py --num-layers", "x.py --num-layers $", "A=(--num-layers"}) {
    CAPTURE(script);
    Diagnostics diagnostics;
    REQUIRE_NOTHROW(read_launch_script(script, "s.sh", {}, diagnostics));
  }
}

TEST_CASE("arithmetic fails where it has no value", "[import]") {
  ShellVariables const variables{{"A", {{{"6", 0, 0}}}}, {"B", {{{"B", 0, 0}}}}};
  REQUIRE(shell_arithmetic(" ( $A + ${A} ) * 2 - -1 ", variables) == 25);
  REQUIRE(shell_arithmetic("A / 4 % 2", variables) == 1);
  // As bash 5.2: to the right, and a sign belongs to the base.
  REQUIRE(shell_arithmetic("2 ** 3 ** 2 * 2", variables) == 1024);
  REQUIRE(shell_arithmetic("-2 ** 2", variables) == 4);
  for (char const* const bad : {"", "1 +", "A / 0", "C", "B", "(1", "1 2", "2 ** -1", "10 ** 20",
                                "9223372036854775807 + 1", "99999999999999999999"}) {
    CAPTURE(bad);
    REQUIRE(!shell_arithmetic(bad, variables));
  }
}

TEST_CASE("a script that submits another says which one to import, with what it sets", "[import]") {
  auto const refusal = [](std::string const& script) {
    try {
      read(script, {{"GIVEN", "1"}});
    } catch (ConfigError const& error) {
      return std::string{error.what()};
    }
    return std::string{"accepted"};
  };
  REQUIRE(refusal("export TP=8 NAME='a b'\nN=$(nproc)\n\nsbatch --nodes 4 --export=ALL "
                  "jobs/train.sh 7 x\n") ==
          "s.sh:4:1: found no command with --num-layers, but other scripts: train.sh 7 x (line 4); "
          "accepted: the script that has the flags: stagecraft import megatron --script train.sh 7 "
          "x --variable 'NAME=a b' --variable TP=8");
  // Megatron-LM, examples/sc21/run_table_1.sh.
  REQUIRE(refusal("TP=8\n. `pwd`/CONFIG.sh\n. `pwd`/SBATCH.sh\nexit 0\n") ==
          "s.sh:2:1: found no command with --num-layers, but other scripts: CONFIG.sh (line 2), "
          "SBATCH.sh (line 3); accepted: the script that has the flags: stagecraft import megatron "
          "--script CONFIG.sh --variable TP=8");
  REQUIRE(refusal("source env.sh\nsbatch 'my train.slurm' 'a b'\n") ==
          "s.sh:2:1: found no command with --num-layers, but other scripts: env.sh (line 1), 'my "
          "train.slurm' 'a b' (line 2); accepted: the script that has the flags: stagecraft import "
          "megatron --script 'my train.slurm' 'a b'");
  REQUIRE(refusal("cp a.sh b.sh\n").find("other scripts") == std::string::npos);
}

}  // namespace
}  // namespace stagecraft::launch_script_test
