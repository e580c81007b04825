#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/oracle/order_oracle.hpp"
#include "tests/oracle/schedule_oracle.hpp"

namespace stagecraft::schedule_command_test {

namespace {

using Catch::Contains;

/// The command line that asks for an oracle entry.
std::string arguments_of(nlohmann::json const& entry) {
  std::string const kind = entry.at("k");
  return "schedule --json --schedule " + (kind == "no_pipelining" ? "1f1b" : kind) + " -p " +
         entry.at("p").dump() + " -n " + entry.at("m").dump() + " -m " + entry.at("v").dump() +
         (entry.contains("g") ? " --group " + entry.at("g").dump() : "");
}

/// The command line that asks for the order of a public scheduler.
std::string arguments_of_order(nlohmann::json const& entry) {
  OrderRequest const request = request_of(entry);
  auto const& costs = entry.at("costs");
  std::string text = "schedule --json --p2p overlapped --schedule ";
  text += name_of(request.kind);
  text += " -p " + entry.at("p").dump() + " -n " + entry.at("m").dump() + " -m " +
          entry.at("v").dump() + " --forward " + costs.at("F").dump() + " --input-gradient " +
          costs.at("I").dump() + " --weight-gradient " + costs.at("W").dump() + " --transfer " +
          costs.at("comm").dump();
  if (request.group > 0) text += " --group " + std::to_string(request.group);
  if (request.expert_overlap) text += " --expert-overlap";
  if (request.variant == OrderVariant::automatic) text += " --variant auto";
  if (request.recompute_chunks > 0) {
    text += " --recompute-chunks " + std::to_string(request.recompute_chunks);
  }
  if (request.memory_limit) text += " --memory-limit " + std::to_string(*request.memory_limit);
  if (request.memory.forward != 1) {
    text += " --memory " + entry.at("parameters").at("mem_f").dump() + "," +
            entry.at("parameters").at("mem_b").dump() + "," +
            entry.at("parameters").at("mem_w").dump();
  }
  return text;
}

}  // namespace

TEST_CASE("schedule --json prints the oracle's orders, makespan, bubble and chunks in flight") {
  for (auto const& entry : schedule_oracle()) {
    INFO(name_of(entry));
    nlohmann::json const printed = json_of(arguments_of(entry));
    REQUIRE(printed.at("schema") == "stagecraft.schedule/2");
    REQUIRE(printed.size() == 11);
    REQUIRE(printed.at("orders") == entry.at("orders"));
    REQUIRE(printed.at("makespan") == entry.at("makespan"));
    REQUIRE(printed.at("in_flight_chunks") == entry.at("peak"));
    REQUIRE(printed.at("stage_end") == entry.at("rank_end"));
    REQUIRE(printed.at("in_flight_until_input_gradient") == entry.at("peak"));
    // The oracle prints its bubbles with six digits.
    REQUIRE(printed.at("bubble_fraction").get<double>() ==
            Approx(entry.at("bubble").get<double>()).margin(1e-6));
  }
}

TEST_CASE("schedule --transfer 0.25 takes as long as the oracle says, blocking or overlapped") {
  for (auto const& entry : schedule_oracle()) {
    INFO(name_of(entry));
    std::string const arguments = arguments_of(entry) + " --transfer 0.25 --p2p ";
    auto const& expected = entry.at("mk_p2p025");
    REQUIRE(json_of(arguments + "overlapped").at("makespan") == expected.at("async"));
    if (expected.contains("blocking")) {
      REQUIRE(json_of(arguments + "blocking").at("makespan") == expected.at("blocking"));
    }
  }
}

TEST_CASE("schedule's defaults are a forward of 1, a backward of 2 and free blocking transfers") {
  std::string const shape = "schedule --json --schedule interleaved -p 4 -n 8 -m 2";
  REQUIRE(json_of(shape) ==
          json_of(shape + " --group 4 --forward 1 --backward 2 --transfer 0 --p2p blocking"));
  REQUIRE(json_of(shape + " --backward 5") ==
          json_of(shape + " --input-gradient 1.5 --weight-gradient 3.5"));
  // Blocking and overlapped differ as soon as transfers cost something.
  REQUIRE(json_of(shape + " --transfer 1") == json_of(shape + " --transfer 1 --p2p blocking"));
  REQUIRE(json_of(shape + " --transfer 1") != json_of(shape + " --transfer 1 --p2p overlapped"));
}

TEST_CASE("schedule refuses a bad command line with exit code 2 and says what is accepted") {
  struct Refusal {
    std::string arguments;
    std::string message;
  };
  for (auto const& [arguments, message] : std::vector<Refusal>{
           {"", "--schedule: missing; accepted: gpipe, 1f1b, interleaved"},
           {"--schedule 1f1b -n 4", "--pipeline (-p): missing; accepted: a whole"},
           {"--schedule 1f1b -p 4", "--microbatches (-n): missing; accepted: a whole"},
           {"--schedule zigzag -p 4 -n 4",
            "--schedule: found 'zigzag'; accepted: gpipe, 1f1b, interleaved"},
           {"--schedule 1f1b -p 0 -n 4", "--pipeline (-p): found '0'; accepted: a whole number"},
           {"--schedule 1f1b -p -4 -n 4", "--pipeline (-p): found '-4'"},
           {"--schedule 1f1b -p 4.5 -n 4", "--pipeline (-p): found '4.5'"},
           {"--schedule 1f1b -p 4 -n x", "--microbatches (-n): found 'x'"},
           {"--schedule 1f1b -p 4 -n 99999999999999999999", "found '99999999999999999999'"},
           {"--schedule 1f1b -p 4 -n 1000000000", "accepted: a product of at most 1000000"},
           {"--schedule 1f1b -p 4 -n 8 -m 2",
            "--chunks (-m): found '2'; accepted: 1, or --schedule gpipe, interleaved, "
            "interleaved_zb, group_interleaved, searched"},
           {"--schedule gpipe -p 4 -n 8 --group 4", "accepted: only with --schedule interleaved"},
           {"--schedule interleaved -p 4 -n 8 -m 2 --group 3",
            "--group: found '3'; accepted with --schedule interleaved: 4, 8 ("},
           // Groups of 4 leave 3 of 7, which is less than 4; so do 5 and 6.
           {"--schedule interleaved -p 4 -n 7 -m 2",
            "--microbatches (-n): found '7'; accepted with --schedule interleaved: a multiple of "
            "-p (4), or --group with one of 7\n"},
           {"--schedule interleaved -p 4 -n 3 -m 2",
            "--microbatches (-n): found '3'; accepted with --schedule interleaved: at least -p "
            "(4), or "
            "all in one group: --group 3"},
           {"--schedule interleaved -p 1 -n 9 -m 2",
            "--pipeline (-p): found '1'; accepted with --schedule interleaved: a whole number "
            "from 2"},
           {"--schedule 1f1b -p 4 -n 8 --forward -1", "--forward: found '-1'"},
           {"--schedule 1f1b -p 4 -n 8 --backward nan", "--backward: found 'nan'"},
           {"--schedule 1f1b -p 4 -n 8 --transfer 1s", "--transfer: found '1s'"},
           {"--schedule 1f1b -p 4 -n 8 --forward 0 --backward 0", "accepted: at least one above 0"},
           {"--schedule 1f1b -p 4 -n 8 --p2p batched",
            "--p2p: found 'batched'; accepted: blocking, overlapped"},
           {"--schedule 1f1b -p 4 -n 8 extra", "found 'extra'; accepted: options only"},
           {"--schedule 1f1b -p 4 -n 8 --jsn", "--jsn: found an unknown option; accepted: --"},
           {"--schedule 1f1b -p 4 -n 8 --jsn", "; did you mean '--json'?"},
           {"--schedule 1f1b -p 4 -n 8 --group", "--group: missing; accepted: G"},
           {"--schedule 1f1b -p 4 -n 8 -n 8", "found more than once; accepted: once"},
       }) {
    CAPTURE(arguments);
    ProgramResult const result = run_stagecraft("schedule " + arguments);
    REQUIRE(result.exit_code == 2);
    REQUIRE(result.output.empty());
    REQUIRE_THAT(result.errors, Contains(message));
  }
}

TEST_CASE(
    "schedule --json prints the orders of the public schedulers, and when their stages work") {
  for (auto const& entry : order_oracle()) {
    std::string const arguments = arguments_of_order(entry);
    INFO(arguments);
    nlohmann::json const printed = json_of(arguments);
    REQUIRE(printed.at("orders") == entry.at("orders"));
    REQUIRE(printed.at("placement") == entry.at("placement"));
    REQUIRE(printed.at("makespan") == entry.at("makespan"));
    REQUIRE(printed.at("span") == entry.at("max_rank_span"));
    REQUIRE(printed.at("ideal") == entry.at("ideal"));
    REQUIRE(printed.at("stage_start") == entry.at("rank_start"));
    REQUIRE(printed.at("stage_end") == entry.at("rank_end"));
    if (!entry.contains("peak_until_W")) continue;
    REQUIRE(printed.at("in_flight_chunks") == entry.at("peak_until_W"));
    REQUIRE(printed.at("in_flight_until_input_gradient") == entry.at("peak_until_I"));
  }
}

TEST_CASE(
    "schedule --order plays what schedule --json printed, and refuses what cannot be played") {
  std::filesystem::path const file =
      std::filesystem::temp_directory_path() / "stagecraft_schedule_command_test.json";
  std::string const from_file = "schedule --schedule order --order " + file.string();
  for (std::string const named :
       {"zb_h1 -p 4 -n 6", "zb_h1 -p 4 -n 6 --fuse-adjacent false", "zbv -p 3 -n 7",
        "dualpipe -p 4 -n 8", "interleaved -p 2 -n 4 -m 2 --expert-overlap"}) {
    std::string const costs =
        " --forward 3 --input-gradient 4 --weight-gradient 2 --transfer 0.5 --json";
    nlohmann::json const printed = json_of("schedule --schedule " + named + costs);
    std::ofstream{file} << printed;
    REQUIRE(json_of(from_file + costs) == printed);
  }
  std::ofstream{file} << R"({"orders": ["F0.0 B0.0 F1.0 B1.0", "F0.0 F1.0 B0.0 B1.0"]})";
  ProgramResult const circle = run_stagecraft(from_file);
  REQUIRE(circle.exit_code == 2);
  REQUIRE_THAT(circle.errors, Contains("stage 0 waits with B0.0 for I0.0 of stage 1"));
  for (auto const& [option, message] : std::vector<std::pair<std::string, std::string>>{
           {" -p 3", "--pipeline (-p): found '3'; accepted: 2, as the order has"},
           {" -n 4", "--microbatches (-n): found '4'; accepted: 2, as the order has"},
           {" -m 2", "--chunks (-m): found '2'; accepted: 1, as the order has"}}) {
    ProgramResult const result = run_stagecraft(from_file + option);
    REQUIRE(result.exit_code == 2);
    REQUIRE_THAT(result.errors, Contains(message));
  }
}

TEST_CASE(
    "schedule --schedule searched says how far its order is from the bound, and why it ended") {
  std::string const shape = "schedule --json --schedule searched -p 4 -n 8";
  nlohmann::json const at_once = json_of(shape);
  REQUIRE(at_once.size() == 14);
  // (n + p - 1) of F, I and the drain of W: 3n + p - 1, which ZB-H1 reaches.
  REQUIRE(at_once.at("makespan") == 27);
  REQUIRE(at_once.at("lower_bound") == 27);
  REQUIRE(at_once.at("ended_by") == "bound");
  std::string const tight = shape + " --memory-limit 2 --iterations 300 --seed 5";
  nlohmann::json const first = json_of(tight);
  REQUIRE(first == json_of(tight));
  REQUIRE(first.at("ended_by") == "iterations");
  REQUIRE(first.at("iterations") == 300);
  REQUIRE(first.at("makespan") >= first.at("lower_bound"));
  REQUIRE(first.at("in_flight_chunks") == nlohmann::json{2, 2, 2, 2});
  REQUIRE(json_of(tight + " --seconds 0").at("ended_by") == "seconds");
  // Two chunks per stage lie in a V where that is better.
  REQUIRE(json_of(shape + " -m 2 --transfer 0.25 --iterations 10").at("placement") == "v");
}

TEST_CASE("schedule refuses options that a schedule with split backwards does not take") {
  for (auto const& [arguments, message] : std::vector<std::pair<std::string, std::string>>{
           {"zb_h1 -p 4 -n 8 --backward 2",
            "--backward: found '2'; accepted: --input-gradient and --weight-gradient"},
           {"1f1b -p 4 -n 8 --backward 2 --weight-gradient 1",
            "--backward: found '2'; accepted: only without --input-gradient"},
           {"zb_auto -p 4 -n 8 --memory-limit 1e10",
            "--memory-limit: found '1e10'; accepted: a number from 0 to 1e9"},
           {"zbv -p 4 -n 8 --p2p blocking",
            "--p2p: found 'blocking'; accepted with --schedule zbv: overlapped"},
           {"zbv -p 4 -n 8 -m 3", "--chunks (-m): found '3'; accepted: 2, or --schedule"},
           {"zbv -p 4 -n 8 --group 4", "--group: found '4'; accepted: only with --schedule"},
           {"1f1b -p 4 -n 8 --expert-overlap",
            "--expert-overlap: found with --schedule 1f1b; accepted: interleaved"},
           {"1f1b -p 4 -n 8 --memory-limit 4",
            "--memory-limit: found '4'; accepted: only with --schedule zb_auto, zbv, v_auto, "
            "searched"},
           {"v_auto -p 4 -n 8 --memory 1,0,-1",
            "--memory: found '1,0,-1'; accepted: only with --schedule zb_auto, zbv"},
           {"zb_auto -p 4 -n 8 --memory 1,0", "--memory: found '1,0'; accepted: three numbers"},
           {"zb_auto -p 4 -n 8 --memory 1,0,-1,", "accepted: three numbers f,i,w"},
           {"zb_auto -p 4 -n 8 --memory 1,x,-1", "accepted: three numbers f,i,w"},
           {"v_half -p 4 -n 8 --variant auto", "found 'auto'; accepted: only with --schedule zbv"},
           {"zbv -p 4 -n 8 --memory-limit 4", "(zbv: --variant auto)"},
           {"zbv -p 4 -n 8 --seed 4", "--seed: found '4'; accepted: only with --schedule searched"},
           {"searched -p 4 -n 8 --memory-limit 0.5", "within which no order was found"},
           {"zbv -p 4 -n 8 --recompute-chunks 1",
            "found '1'; accepted: only with --schedule group_interleaved"},
           {"gpipe -p 4 -n 8 --fuse-adjacent true",
            "--fuse-adjacent: found 'true'; accepted: only with --schedule zb_h1, zb_h2"},
           {"dualpipev -p 4 -n 8 --fuse-adjacent false",
            "fuse_adjacent: found 'false'; accepted: true, as dualpipev has whole backwards"},
           {"zb_h2 -p 4 -n 6", "found '6'; accepted: at least 2p - 1 (7)"},
           {"dualpipe -p 3 -n 8", "found '3'; accepted: an even number"},
           {"order", "--order: missing; accepted: a JSON file"},
           {"order --order /nowhere.json", "found no file '/nowhere.json'"}}) {
    CAPTURE(arguments);
    ProgramResult const result = run_stagecraft("schedule --schedule " + arguments);
    REQUIRE(result.exit_code == 2);
    REQUIRE(result.output.empty());
    REQUIRE_THAT(result.errors, Contains(message));
  }
}

TEST_CASE("an unknown command is refused with the commands there are") {
  ProgramResult const result = run_stagecraft("schdule");
  REQUIRE(result.exit_code == 2);
  REQUIRE_THAT(result.errors,
               Contains("found 'schdule'; accepted: ") && Contains("did you mean 'schedule'?"));
  REQUIRE(run_stagecraft("").exit_code == 2);
}

TEST_CASE("stagecraft --help shows examples that run") {
  REQUIRE_THAT(run_stagecraft("--help").output, Contains("  schedule ") && Contains("examples:"));
  ProgramResult const help = run_stagecraft("schedule --help");
  REQUIRE(help.exit_code == 0);
  std::istringstream lines{help.output.substr(help.output.find("examples:"))};
  int examples = 0;
  for (std::string line; std::getline(lines, line);) {
    std::string const program = "  stagecraft ";
    if (line.rfind(program, 0) != 0) continue;
    CAPTURE(line);
    ++examples;
    REQUIRE(run_stagecraft(line.substr(program.size())).exit_code == 0);
  }
  REQUIRE(examples >= 2);
}

TEST_CASE("output that cannot be written is exit code 1") {
  ProgramResult const result = run_stagecraft("schedule --schedule gpipe -p 2 -n 2 >/dev/full");
  REQUIRE(result.exit_code == 1);
  REQUIRE(result.errors ==
          "stagecraft schedule: could not write to standard output: No space left on device\n");
}

TEST_CASE("the picture is as wide as COLUMNS says, 100 columns without a terminal") {
  std::string const arguments = "schedule --schedule gpipe -p 2 -n 300";
  auto const longest_row = [](std::string const& output) {
    std::istringstream lines{output};
    std::size_t longest = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.find("│") == std::string::npos) continue;
      auto const columns = std::count_if(line.begin(), line.end(), [](char c) {
        return (static_cast<unsigned char>(c) >> 6) != 2;  // not a UTF-8 continuation
      });
      longest = std::max(longest, static_cast<std::size_t>(columns));
    }
    return longest;
  };
  REQUIRE(longest_row(run_stagecraft(arguments, "COLUMNS=61").output) == 61);
  REQUIRE(longest_row(run_stagecraft(arguments, "unset COLUMNS;").output) == 100);
}

TEST_CASE("colour is for terminals, and not where NO_COLOR is set") {
  std::string const arguments = "schedule --schedule 1f1b -p 2 -n 2";
  std::string const escape = "\x1b[";
  REQUIRE_THAT(run_stagecraft(arguments, "TERM=xterm").output, !Contains(escape));
  REQUIRE_THAT(run_stagecraft_on_terminal(arguments, "unset NO_COLOR; TERM=xterm").output,
               Contains(escape));
  ProgramResult const plain = run_stagecraft_on_terminal(arguments, "NO_COLOR=1 TERM=xterm");
  REQUIRE_THAT(plain.output, !Contains(escape) && Contains("0▓"));
}

TEST_CASE("schedule shows what ranks of sharded stages communicate") {
  // PyTorch 2.15, ScheduleInterleaved1F1B of two ranks and two microbatches, one chunk each.
  std::string const words = "schedule --schedule interleaved -p 2 -n 2 -m 1 --sharding fsdp2 ";
  nlohmann::json const result = json_of(words + "--max-active-stages 2 --json");
  REQUIRE(
      result.at("actions") ==
      nlohmann::json{"0UNSHARD 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0WAIT_SEND_F0 0RECV_B1 0B1 "
                     "0WAIT_SEND_F1 0REDUCE_GRAD 0WAIT_REDUCE_GRAD 0RESHARD",
                     "1UNSHARD 1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1REDUCE_GRAD "
                     "1WAIT_REDUCE_GRAD 1RESHARD 1WAIT_SEND_B0 1WAIT_SEND_B1"});
  REQUIRE(result.at("unshards_per_rank") == nlohmann::json{1, 1});
  REQUIRE(result.at("peak_unsharded_stages") == nlohmann::json{1, 1});
  REQUIRE_THAT(run_stagecraft(words).output,
               Contains("rank 1 gathers 1 stage and holds at most 1: 1UNSHARD 1RECV_F0"));
  require_refusal(
      "schedule --schedule 1f1b -p 2 -n 2 --sharding zero3",
      {"--sharding: found 'zero3'; accepted with --schedule: fsdp2, without other keys"});
  require_refusal("schedule --schedule 1f1b -p 2 -n 2 --max-active-stages 2",
                  {"--max-active-stages: found '2'; accepted: only with --sharding"});
}

TEST_CASE("units issue the collectives that PyTorch's FSDP2 was recorded to issue") {
  std::ifstream file{STAGECRAFT_SOURCE_DIR "/tests/oracle/fsdp2_collectives.json"};
  nlohmann::json const recorded = nlohmann::json::parse(file).at("fsdp2_collectives");
  REQUIRE(recorded.size() == 8);
  for (auto const& entry : recorded) {
    CAPTURE(entry.at("name"));
    nlohmann::json const& asked = entry.at("parameters");
    std::string sharding = "kind: fsdp2";
    if (asked.contains("raf")) {
      std::string reshard = asked.at("raf");
      if (reshard == "False") reshard = "false";
      sharding += ", reshard_after_forward: " + reshard;
    }
    if (asked.contains("reshard_bwd")) sharding += ", reshard_after_backward: false";
    if (asked.contains("prefetch")) {
      sharding += ", prefetch: " + asked.at("prefetch").get<std::string>();
    }
    bool const has_copies = asked.contains("hsdp");
    if (has_copies) sharding += ", group: 4";
    std::string const block = has_copies ? ",524" : ",528";
    std::string const microbatches =
        asked.contains("micro") ? " -n " + asked.at("micro").get<std::string>() : "";
    REQUIRE(json_of("schedule --json --units 128" + block + block + block + block +
                    " --sharding '{" + sharding + "}'" + microbatches +
                    (asked.contains("ck") ? " --recompute" : ""))
                .at("events") == entry.at("events"));
  }
}

}  // namespace stagecraft::schedule_command_test
