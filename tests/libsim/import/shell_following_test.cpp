#include <catch2/catch.hpp>

#include "libsim/import/shell/launch_script.hpp"
#include "libsim/import/shell/shell_arithmetic.hpp"
#include "libsim/import/shell/shell_pattern.hpp"

// What bash 5.2 passes to x.py in each script.

namespace stagecraft::shell_following_test {
namespace {

/// The arguments, `|` between them.
std::string arguments_of(std::string const& script) {
  Diagnostics diagnostics;
  LaunchCommand const launch = read_launch_script(script, "s.sh", {}, diagnostics);
  diagnostics.throw_if_any();
  std::string text;
  for (ShellWord const& word : launch.arguments) text += (text.empty() ? "" : "|") + word.text;
  return text;
}

struct ScriptCase {
  char const* script;
  char const* arguments;
};

void check(std::vector<ScriptCase> const& cases) {
  for (ScriptCase const& c : cases) {
    CAPTURE(c.script);
    REQUIRE(arguments_of(c.script) == c.arguments);
  }
}

TEST_CASE("of a case the branch whose pattern matches runs, and those that it falls into",
          "[import]") {
  check(
      {{"M=moe\ncase $M in\n  dense) A=\"--d\" ;;\n  moe|mixtral) A=\"--num-experts 8\" ;;\nesac\n"
        "x.py --num-layers 2 $A",
        "--num-layers|2|--num-experts|8"},
       {"M=llama-7B\ncase \"$M\" in llama-[0-9]*B) A=1;; *) A=2;; esac\nx.py --num-layers $A",
        "--num-layers|1"},
       {"M=x1\ncase $M in \"x*\") A=1;; 'x'?) A=2;; esac\nx.py --num-layers $A", "--num-layers|2"},
       {"A=\ncase b in\n a) A=1 ;;\n b) A=2 ;&\n c) A=${A}3 ;;&\n [a-b]) A=${A}4 ;;\n"
        " *) A=9 ;;\nesac\nx.py --num-layers $A",
        "--num-layers|234"},
       {"case x in (x) A=1 ;; esac\nx.py --num-layers $A", "--num-layers|1"},
       {"P='m*'\ncase moe in $P) A=1;; esac\ncase moe in \"$P\") B=1;; *) B=2;; esac\n"
        "x.py --num-layers $A $B",
        "--num-layers|1|2"},
       {"f() { case $1 in 1) A=1; return;; esac; A=3; }\nf 1\nx.py --num-layers $A",
        "--num-layers|1"}});
}

TEST_CASE("a value that ${NAME:=TEXT} gives stays", "[import]") {
  check({{": ${A:=5}\n: \"${B=6}\"\nx.py --num-layers $A $B ${C:=7} $C", "--num-layers|5|6|7|7"},
         {"A=4; : ${A:=5}; x.py --num-layers $A", "--num-layers|4"},
         {"x.py --num-layers 2 ${A:-} \"${A:-}\" end", "--num-layers|2||end"},
         {"A=; : ${A=5}; x.py --num-layers 2 $A", "--num-layers|2"}});
}

TEST_CASE("parts, lengths and letters of a value are those of bash", "[import]") {
  check({{"A=Llama-2-7B\nx.py --num-layers ${#A} ${A,,} ${A^^} ${A%%-*} ${A##*-} ${A%-*} ${A#*-}",
          "--num-layers|10|llama-2-7b|LLAMA-2-7B|Llama|7B|Llama-2|2-7B"},
         {"A=Llama-2-7B\nx.py --num-layers ${A/-/_} ${A//-/_} ${A:0:5} ${A: -2} ${A,} ${A/%7B/8}",
          "--num-layers|Llama_2-7B|Llama_2_7B|Llama|7B|llama-2-7B|Llama-2-8"},
         {"V=N; N=4; x.py --num-layers ${!V}", "--num-layers|4"}});
}

TEST_CASE("elements of arrays are read and set by their number", "[import]") {
  check({{"A=(a b \"c d\")\nx.py --num-layers ${A[0]} ${#A[@]} \"${A[*]}\" ${A[-1]} $A",
          "--num-layers|a|3|a b c d|c|d|a"},
         {"A=(a b); A+=(c); A[1]=z; A[3]=q\nx.py --num-layers \"${A[@]}\"", "--num-layers|a|z|c|q"},
         {"A=()\nx.py --num-layers 2 \"${A[@]}\" ${A[@]} end", "--num-layers|2|end"},
         {"declare -a A=(1 2)\ndeclare B=3\nx.py --num-layers \"${A[@]}\" $B",
          "--num-layers|1|2|3"}});
}

TEST_CASE("loops go on as long as their condition holds", "[import]") {
  check({{"N=0\nA=\nuntil [ $N -ge 3 ]; do N=$((N+1)); A=\"$A --f$N\"; done\n"
          "x.py --num-layers 2 $A",
          "--num-layers|2|--f1|--f2|--f3"},
         {"N=3\nA=\nwhile [ $N -gt 0 ]; do A=\"$A $N\"; ((N--)); done\nx.py --num-layers 2 $A",
          "--num-layers|2|3|2|1"},
         {"N=1; while (( N < 4 )); do (( N += 2 )); done; x.py --num-layers $N", "--num-layers|5"},
         {"i=0; while :; do i=$((i+1)); [ $i -ge 4 ] && break; done; x.py --num-layers $i",
          "--num-layers|4"},
         {"set -- --x 3 y\nwhile [ $# -gt 0 ]; do case $1 in --x) X=$2; shift 2;; *) shift;; esac; "
          "done\nx.py --num-layers $X $#",
          "--num-layers|3|0"},
         {"for i in {1..3}; do A+=$i; done\nx.py --num-layers $A", "--num-layers|123"}});
}

TEST_CASE("what stands behind && and || runs or not as a whole", "[import]") {
  check({{"[ a = b ] && A=1 || A=2\n[ a = a ] && B=1 || B=2\nx.py --num-layers $A $B",
          "--num-layers|2|1"},
         {"A=; C=; [ a = b ] && { A=1; }\n[ a = a ] && { C=1; D=1; }\nx.py --num-layers 2 $A $C $D",
          "--num-layers|2|1|1"},
         {"A=1\nmkdir -p x || A=2\nx.py --num-layers $A", "--num-layers|1"}});
}

TEST_CASE(
    "tests compare with patterns, join with -a and brackets, and know words that are not there",
    "[import]") {
  check({{"A=; if [[ llama-moe == *moe* ]]; then A=\"--num-experts 8\"; fi; x.py --num-layers 2 $A",
          "--num-layers|2|--num-experts|8"},
         {"A=; if [[ ( a == b || c == c ) && ! d == e ]]; then A=1; fi; x.py --num-layers 2 $A",
          "--num-layers|2|1"},
         {"if [ 1 -eq 1 -a 2 -gt 3 ]; then C=3; else C=4; fi; x.py --num-layers $C",
          "--num-layers|4"},
         {"X=\nif [ $X ]; then A=1; else A=2; fi\nif [ -n $X ]; then B=1; else B=2; fi\n"
          "x.py --num-layers $A $B",
          "--num-layers|2|1"}});
}

TEST_CASE("what is set for one command or in a subshell is gone behind it", "[import]") {
  check({{"A=4\nA=5 x.py --num-layers $A", "--num-layers|4"},
         {"A=1; (A=2); x.py --num-layers $A", "--num-layers|1"},
         {"f() ( A=9 ); A=1; f; x.py --num-layers $A", "--num-layers|1"}});
}

TEST_CASE("eval follows its text, and here-strings and comments in backquotes are no words",
          "[import]") {
  check({{"A=\"--num-layers 2\"\neval \"B=3\"\neval x.py $A --b '$B'", "--num-layers|2|--b|3"},
         {"read -r A <<< \"5\"\n\nx.py --num-layers 2", "--num-layers|2"},
         {"x.py --num-layers 2 \\\n  `# layers` \\\n  --b", "--num-layers|2|--b"}});
}

TEST_CASE("a script ends at exit behind its command", "[import]") {
  check({{"x.py --num-layers 2\nexit 0\nx.py --num-layers 3", "--num-layers|2"}});
}

TEST_CASE("a function has the status of its last command or of return", "[import]") {
  check(
      {{"is_moe() { [[ $1 == *moe* ]]; }\nL=2; is_moe llama && L=3; is_moe xmoe && L=$((L+2))\n"
        "x.py --num-layers $L",
        "--num-layers|4"},
       {"f() { [ $1 = a ] && return 0; return 3; }\nL=2; if f b; then L=3; elif f a; then L=5; fi\n"
        "x.py --num-layers $L",
        "--num-layers|5"},
       {"f() { return; }; L=1; false; f || L=2; x.py --num-layers $L", "--num-layers|2"},
       {"f() { for i in 1 2; do [ $i = 2 ]; done; }; L=1; f && L=4; x.py --num-layers $L",
        "--num-layers|4"}});
}

TEST_CASE("commands that are known to succeed decide what follows", "[import]") {
  check(
      {{"cd /x && L=3; mkdir -p y && L=4$L; x.py --num-layers $L", "--num-layers|43"},
       {"L=1; ! false && L=2; false && L=3; x.py --num-layers $L", "--num-layers|2"},
       {"L=1; true && { L=4; false; } || L=$((L+10)); x.py --num-layers $L", "--num-layers|14"},
       {"i=0; ((i++)) || L=5; ((++i)) && M=6; x.py --num-layers $L $M $i", "--num-layers|5|6|2"}});
}

TEST_CASE("! turns the status of commands in brackets and of pipelines", "[import]") {
  check(
      {{"L=1; if ! { false; }; then L=2; fi; ! (exit 1) && L=3$L; ! { true; } | false && L=4$L\n"
        "x.py --num-layers $L",
        "--num-layers|432"}});
}

TEST_CASE("what is set in a pipeline, in the background or in a subshell does not stay",
          "[import]") {
  check({{"L=1; echo hi | L=50; { L=18; } | cat; true && L=2 | cat; x.py --num-layers $L",
          "--num-layers|1"},
         {"L=1; while true; do L=12; break; done | cat; x.py --num-layers $L", "--num-layers|1"},
         {"L=1; f() { L=9; }; f & if true; then L=3; fi &\nwait; x.py --num-layers $L",
          "--num-layers|1"},
         {"f() { L=12; }; (f() { L=16; }); f; x.py --num-layers $L", "--num-layers|12"},
         {"L=1; ( exit 3 ) || L=2; ( exit 0; L=3 ) && M=4; x.py --num-layers $L $M",
          "--num-layers|2|4"},
         {"L=1; true | false && L=4; false | true && L=$((L+1)); set -o pipefail\n"
          "false | true || L=$((L+2)); x.py --num-layers $L",
          "--num-layers|4"}});
}

TEST_CASE("loops go over what seq prints", "[import]") {
  check({{"N=3; for i in $(seq 3) $(seq 2 $N) `seq 9 -4 1`; do A+=$i,; done; x.py --num-layers $A",
          "--num-layers|1,2,3,2,3,9,5,1,"},
         {"x.py --num-layers 2 $(seq 3 1) \"$(seq 2)\"", "--num-layers|2|1\n2"}});
}

TEST_CASE("break and continue leave as many loops as they say", "[import]") {
  char const* const loops = "for i in 1 2; do for j in 1 2 3; do [ $j = 2 ] && ";
  std::string const end = "; A+=$j; done; A+=x; done; x.py --num-layers $A";
  REQUIRE(arguments_of(loops + std::string{"continue 2"} + end) == "--num-layers|11");
  REQUIRE(arguments_of(loops + std::string{"break 2"} + end) == "--num-layers|1");
  REQUIRE(arguments_of(loops + std::string{"break"} + end) == "--num-layers|1x1x");
}

TEST_CASE("braces make words of arrays, loops and commands", "[import]") {
  check({{"A=({1..5} a{b,c}); x.py --num-layers \"${A[@]}\"", "--num-layers|1|2|3|4|5|ab|ac"},
         {"for i in {10..30..10} {c..a} {08..10}; do A+=$i,; done; x.py --num-layers $A",
          "--num-layers|10,20,30,c,b,a,08,09,10,"},
         {"B=7; x.py --num-layers 2 x{1,${B}}{a,} \"{1,2}\" '{1..2}' {1} ${B}{,}",
          "--num-layers|2|x1a|x1|x7a|x7|{1,2}|{1..2}|{1}|7|7"}});
}

TEST_CASE("unset, set and quoted words are those of bash", "[import]") {
  check({{"f() { L=5; }; L=3; unset -f f; f 2>/dev/null; x.py --num-layers $L", "--num-layers|3"},
         {"A=(1 2 3); unset 'A[2]'; A+=x; x.py --num-layers \"${A[@]}\"", "--num-layers|1x|2"},
         {"T=4; unset -f T; x.py --num-layers $T", "--num-layers|4"},
         {"set 12 16; x.py --num-layers $2; set -e 5; x.py --num-layers $1", "--num-layers|5"},
         {"E=; f() { N=$#; }; f $E \"\" \"$E\"; x.py --num-layers $N", "--num-layers|2"},
         {"V='--a b'; x.py --num-layers 2 \"$V --num-layers 3\"",
          "--num-layers|2|--a b --num-layers 3"}});
}

TEST_CASE("variables are numbers, other variables or constants as they are declared", "[import]") {
  check({{"declare -i N=12 M; N+=4; M=N*2; x.py --num-layers $N $M", "--num-layers|16|32"},
         {"L=12; declare -n r=L; r=18; x.py --num-layers $L $r", "--num-layers|18|18"},
         {"f() { local -n to=$1; to=11; }; L=1; f L; x.py --num-layers $L", "--num-layers|11"},
         {"f() { declare L=9; declare -g M=8; }; L=3; f; x.py --num-layers $L $M",
          "--num-layers|3|8"},
         {"readonly L=40\nL=12 2>/dev/null\nx.py --num-layers $L", "--num-layers|40"},
         {"L=12; A=$((L++)); x.py --num-layers $L $A $((L -= 3)) $L", "--num-layers|13|12|10|10"}});
}

TEST_CASE("values are cut as IFS says", "[import]") {
  check({{"V=1,2,4; OLD=$IFS; IFS=,; A=($V); IFS=$OLD; x.py --num-layers ${#A[@]} ${A[1]}",
          "--num-layers|3|2"},
         {"V='a : b::c:'; IFS=' :'; x.py --num-layers 2 $V", "--num-layers|2|a|b||c"},
         {"V=$'a b\\nc'; IFS=$'\\n'; x.py --num-layers 2 $V", "--num-layers|2|a b|c"}});
}

TEST_CASE("\"$*\" is one word, with the first character of IFS", "[import]") {
  check(
      {{"set -- a b; IFS=-; V=\"$*\"; x.py --num-layers 2 \"$*\" \"$V\"", "--num-layers|2|a-b|a-b"},
       {"unset IFS; V='a b'; set -- $V; x.py --num-layers $#", "--num-layers|2"}});
}

TEST_CASE("options of patterns are followed", "[import]") {
  check(
      {{"shopt -s nocasematch\ncase ABC in abc) L=16;; *) L=20;; esac\nx.py --num-layers $L",
        "--num-layers|16"},
       {"shopt -s extglob\ncase 13b in @(7b|13b)) L=5;; *) L=6;; esac\nx.py --num-layers $L",
        "--num-layers|5"},
       {"L=1; [[ llama-13b == llama-+([0-9])b ]] && L=2; x.py --num-layers $L", "--num-layers|2"}});
}

TEST_CASE("arithmetic compares, chooses and knows bases", "[import]") {
  ShellVariables const variables{{"A", {{{"6", 0, 0}}}}};
  REQUIRE(shell_arithmetic("A > 5 ? A * 2 : 1", variables) == 12);
  REQUIRE(shell_arithmetic("A >= 6 && A != 7 || 0", variables) == 1);
  REQUIRE(shell_arithmetic("!A + (A <= 5)", variables) == 0);
  REQUIRE(shell_arithmetic("10#08 + 010 + 0x1F", variables) == 8 + 8 + 31);
  REQUIRE(!shell_arithmetic("08", variables));
}

TEST_CASE("patterns match as in the shell", "[import]") {
  REQUIRE(matches_pattern("llama-7b", "*-[0-9]?"));
  REQUIRE(matches_pattern("a*b", "a\\*b"));
  REQUIRE_FALSE(matches_pattern("axb", "a\\*b"));
  REQUIRE_FALSE(matches_pattern("x3", "x[!0-9]"));
  REQUIRE(matches_pattern("x3]", "x[[:digit:]][]]"));
  REQUIRE_FALSE(matches_pattern(std::string(4000, 'a'), "*a*a*a*a*a*a*b"));
}

TEST_CASE("scripts whose commands are cut short or too deep come to an end", "[import]") {
  std::string deep;
  for (int i = 0; i < 3000; ++i) deep += "case x in x) if true; then ( { ";
  Diagnostics diagnostics;
  for (std::string const& script :
       {deep + "x.py --num-layers 2", std::string{"case x in"}, std::string{"case x in x"},
        std::string{"while true"}, std::string{"f() {"}, std::string{"f()"}, std::string{"for"},
        std::string{"if then else fi done esac } ;; )"}, std::string{"f() { f; f; }; f"},
        std::string{"A='eval $A'; eval $A"}, std::string{"while true; do :; done"}}) {
    CAPTURE(script.substr(0, 40));
    REQUIRE_NOTHROW(read_launch_script(script, "s.sh", {}, diagnostics));
  }
}

}  // namespace
}  // namespace stagecraft::shell_following_test
