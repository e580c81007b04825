#include <catch2/catch.hpp>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::explain_command_test {
namespace {

using nlohmann::json;

/// The keys and values of a map as --set takes them.
std::string settings_of(json const& map) {
  std::string text;
  for (auto const& [key, value] : map.items()) {
    text += " --set " + key + "=" + value.get<std::string>();
  }
  return text;
}

/// Words of --set, quoted for a shell.
std::string settings(json const& set) {
  std::string text;
  for (json const& one : set) text += " --set '" + one.get<std::string>() + "'";
  return text;
}

std::int64_t fullest(json const& simulation) {
  std::int64_t peak = 0;
  for (json const& stage : simulation.at("stages")) {
    peak = std::max(peak, stage.at("peak_bytes").get<std::int64_t>());
  }
  return peak;
}

double sum_of(json const& seconds) {
  double sum = 0;
  for (json const& one : seconds) sum += one.get<double>();
  return sum;
}

}  // namespace

TEST_CASE("explain shows the same change of other stages once, unless --all") {
  TemporaryFolder const folder;
  std::string policies;
  for (int stage = 0; stage < 8; ++stage) {
    policies += (stage == 0 ? "[" : ", ") +
                std::string{"{granularity: selective, store_microbatches: "} +
                std::to_string(stage + 1) + "}";
  }
  std::string const run =
      "explain " + paper_run("175b-present") + " --set 'recompute={per_stage: " + policies + "]}'";
  auto const count = [](std::string const& text) {
    std::size_t rows = 0;
    std::string const row = "\nno recompute on stage";
    for (auto at = text.find(row); at != std::string::npos; at = text.find(row, at + 1)) ++rows;
    return rows;
  };
  ProgramResult const folded = run_stagecraft(run);
  REQUIRE(folded.exit_code == 0);
  std::size_t const shown = count(folded.output);
  REQUIRE(shown >= 1);
  REQUIRE(shown <= 2);  // the fastest that fits, and the fastest that does not
  ProgramResult const all = run_stagecraft(run + " --all");
  REQUIRE(count(all.output) == 8);
  REQUIRE_THAT(folded.output, Catch::Contains(std::to_string(8 - shown) +
                                              " changes that do the same on other stages"));
  REQUIRE_THAT(all.output, !Catch::Contains("the same on other stages"));
}

TEST_CASE("explain's tensors sum to simulate's at_peak, its times to simulate's iteration") {
  for (std::string const name : {"22b-present", "175b-full", "530b-present"}) {
    INFO(name);
    json const explained = json_of("explain " + paper_run(name) + " --json");
    json const simulated = json_of("simulate " + paper_run(name) + " --json");
    REQUIRE(explained.at("schema") == "stagecraft.explanation/1");
    REQUIRE(explained.at("plan") == simulated.at("plan"));
    REQUIRE(explained.at("config") == simulated.at("config"));
    REQUIRE(explained.at("iteration_seconds") == simulated.at("iteration_seconds"));
    REQUIRE(explained.at("peak_bytes").get<std::int64_t>() == fullest(simulated));
    json const& peak = explained.at("peak");
    json const& stage = simulated.at("stages").at(peak.at("stage").get<std::size_t>());
    json bytes;
    for (auto const& [category, value] : stage.at("at_peak").items()) bytes[category] = 0;
    for (json const& tensor : peak.at("tensors")) {
      json& sum = bytes.at(tensor.at("category").get<std::string>());
      sum = sum.get<std::int64_t>() + tensor.at("bytes").get<std::int64_t>();
    }
    REQUIRE(bytes == stage.at("at_peak"));
    REQUIRE(peak.at("at_peak") == stage.at("at_peak"));
    REQUIRE(peak.at("seconds") == stage.at("peak_at_seconds"));
    for (std::string const part : {"critical_path", "busiest_stage"}) {
      REQUIRE(sum_of(explained.at(part).at("seconds")) ==
              Approx(simulated.at("iteration_seconds").get<double>()).epsilon(1e-12));
    }
    json const& path = explained.at("critical_path");
    REQUIRE(sum_of(path.at("seconds_by_stage")) + path.at("seconds_of_messages").get<double>() +
                path.at("overhead_seconds").get<double>() ==
            Approx(simulated.at("iteration_seconds").get<double>()).epsilon(1e-12));
    REQUIRE(explained.at("busiest_stage").at("seconds").at("bubble") ==
            simulated.at("breakdown_seconds").at("bubble"));
  }
}

TEST_CASE("each change that explain tries is what simulate gives with its --set") {
  json const own{{"parallel.pipeline", "2"}, {"parallel.tensor", "4"}, {"batch.micro", "1"}};
  json const explained =
      json_of("explain " + paper_run("22b-present") + settings_of(own) + " --json");
  int legal = 0;
  for (json const& change : explained.at("changes")) {
    INFO(change.at("change"));
    // The change's value of a key takes the place of the run's own.
    json kept = own;
    for (json const& text : change.at("set")) {
      std::string const setting = text;
      kept.erase(setting.substr(0, setting.find('=')));
    }
    std::string const simulate =
        "simulate " + paper_run("22b-present") + settings_of(kept) + settings(change.at("set"));
    if (!change.at("refusal").is_null()) {
      REQUIRE(change.at("peak_bytes").is_null());
      require_refusal(simulate, {change.at("refusal").get<std::string>().substr(0, 10)});
      continue;
    }
    ++legal;
    json const simulated = json::parse(run_stagecraft(simulate + " --json").output);
    REQUIRE(change.at("iteration_seconds") == simulated.at("iteration_seconds"));
    REQUIRE(change.at("peak_bytes").get<std::int64_t>() == fullest(simulated));
  }
  REQUIRE(legal > 15);
  json const& fastest =
      explained.at("changes").at(explained.at("best").at("fastest").get<std::size_t>());
  for (json const& change : explained.at("changes")) {
    if (change.at("fits") == true) {
      REQUIRE(fastest.at("iteration_seconds").get<double>() <=
              change.at("iteration_seconds").get<double>());
    }
  }
}

TEST_CASE("explain's changes of recompute stop early as the run's recompute does") {
  std::string const early = " --set 'recompute={granularity: full, early_stop: true}' --json";
  json const explained = json_of("explain " + paper_run("22b-present") + early);
  int changes = 0;
  for (json const& change : explained.at("changes")) {
    std::string const set = change.at("set").empty() ? "" : change.at("set")[0].get<std::string>();
    if (!set.starts_with("recompute=") || set == "recompute=none") continue;
    ++changes;
    REQUIRE_THAT(set, Catch::Contains("early_stop: true"));
  }
  REQUIRE(changes > 2);
}

TEST_CASE("explain's changes keep what the run says of schedules and of recompute") {
  json const explained = json_of(
      "explain " + paper_run("22b-present") +
      " --json --set 'parallel={tensor: 4, pipeline: 2}' --set 'schedule={kind: 1f1b, "
      "scatter_gather: false}' --set 'recompute={granularity: full, sharded_checkpoints: true}'");
  int kept = 0;
  for (json const& change : explained.at("changes")) {
    for (json const& set : change.at("set")) {
      std::string const text = set;
      CAPTURE(text);
      if (text.starts_with("schedule=")) {
        REQUIRE_THAT(text, Catch::Contains("scatter_gather: false"));
        ++kept;
      }
      if (text.starts_with("recompute={granularity: full, layers: ")) {
        REQUIRE_THAT(text, Catch::Contains("sharded_checkpoints: true"));
        ++kept;
      }
    }
  }
  REQUIRE(kept > 3);
}

TEST_CASE("explain warns of choices that do not pay, with the reader's warnings before them") {
  json const explained =
      json::parse(run_stagecraft("explain " + paper_run("22b-present") +
                                 " --json --set model.attention=flash --set parallel.tensor=1"
                                 " --set parallel.data=8 --set batch.micro=1 --set batch.global=8")
                      .output);
  json const& warnings = explained.at("warnings");
  REQUIRE(warnings.size() == 2);
  REQUIRE(warnings[0].get<std::string>().find("parallel.sequence: has no effect") !=
          std::string::npos);
  REQUIRE(warnings[1].get<std::string>().find("Selective recompute (core_attention) saves only") ==
          0);
  REQUIRE(explained.at("fits") == false);
}

TEST_CASE("explain's tables say what a reader looks for, within 80 columns") {
  ProgramResult const result = run_stagecraft("explain " + paper_run("175b-present"), "COLUMNS=80");
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.errors.empty());
  for (std::string const part :
       {"WHY STAGE 0 HOLDS 60.13 GiB", "mlp activation input", "4 layers x 31 passes",
        "WHAT THE 14.0", "critical path", "WHAT EACH SINGLE CHANGE WOULD DO", "no recompute",
        "microbatch 1 -> 2", "Helps time most: ", "Helps memory most: "}) {
    INFO(part);
    REQUIRE(result.output.find(part) != std::string::npos);
  }
  std::size_t longest = 0;
  std::size_t begin = 0;
  for (std::size_t end = result.output.find('\n'); end != std::string::npos;
       end = result.output.find('\n', begin)) {
    longest = std::max(longest, end - begin);
    begin = end + 1;
  }
  REQUIRE(longest <= 80);
}

std::vector<std::string> words_of(std::string const& text) {
  std::istringstream stream{text};
  return {std::istream_iterator<std::string>{stream}, {}};
}

bool is_number(std::string const& word) {
  return word.find_first_not_of("0123456789.") == std::string::npos;
}

TEST_CASE("the times that explain's text tells sum to the iteration that it tells") {
  for (std::string const name : {"22b-present", "175b-full", "530b-present", "1t-full"}) {
    CAPTURE(name);
    std::string const text = run_stagecraft("explain " + paper_run(name)).output;
    std::size_t const begin = text.find("WHAT THE ");
    std::size_t const end = text.find("WHAT EACH SINGLE CHANGE");
    std::string section = text.substr(begin, end - begin);
    double const iteration = std::stod(section.substr(9));
    // Rows end in "path % stage %".
    double on_path = 0;
    double on_stage = 0;
    int rows = 0;
    std::istringstream lines{section};
    for (std::string line; std::getline(lines, line);) {
      std::vector<std::string> const words = words_of(line);
      std::size_t const n = words.size();
      if (n < 4 || !std::all_of(words.end() - 4, words.end(), is_number)) continue;
      on_path += std::stod(words[n - 4]);
      on_stage += std::stod(words[n - 2]);
      ++rows;
    }
    REQUIRE(rows > 5);
    REQUIRE(on_path == Approx(2 * iteration).margin(1e-9));  // the last row is the sum
    REQUIRE(on_stage == Approx(2 * iteration).margin(1e-9));
    std::size_t const course = section.find("The critical path is on stage");
    std::string const sentence = section.substr(course, section.find("besides.", course) - course);
    std::vector<std::string> const words = words_of(sentence);
    double sum = 0;
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      bool const are_seconds = words[i + 1].substr(0, words[i + 1].find_first_of(",.;)")) == "s";
      std::size_t const digits = words[i].find_first_of("0123456789");
      if (are_seconds && digits != std::string::npos) sum += std::stod(words[i].substr(digits));
    }
    REQUIRE(sum == Approx(iteration).margin(1e-9));
    REQUIRE_THAT(sentence, Catch::Contains("0.005"));  // what Selene adds
  }
}

TEST_CASE("explain of a small model is in small units") {
  std::string const small =
      " --set 'model={layers: 2, hidden: 64, heads: 4, sequence: 32, vocabulary: 256}'"
      " --set parallel.tensor=1 --set parallel.sequence=false --set recompute=none"
      " --set system.calibration.iteration_overhead.value='0 s'";
  std::string const text = run_stagecraft("explain " + paper_run("22b-present") + small).output;
  std::string const before_changes = text.substr(0, text.find("WHAT EACH"));
  REQUIRE_THAT(before_changes, Catch::Contains("WHY STAGE 0 HOLDS ") && Catch::Contains(" MiB\n") &&
                                   Catch::Contains(" ms OF AN ITER"));
  REQUIRE_THAT(text, Catch::Contains("peak MiB") && Catch::Contains("free GiB"));
  REQUIRE(text.find(" 0.00 GiB") == std::string::npos);
}

TEST_CASE("explain names what was asked for if a framework's own buffer made the reserve grow") {
  // nanotron's kernels have buffers beside the tensors of the op program.
  json const result =
      json_of("explain " + paper_run("22b-full") + " --json --set software=nanotron");
  REQUIRE_FALSE(result.at("stages").empty());
}

TEST_CASE("explain --all says why a change is left out") {
  std::string const run = "explain " + paper_run("22b-present");
  ProgramResult const all = run_stagecraft(run + " --all");
  REQUIRE(all.output.find("microbatch 4 -> 8: batch.global: found '4'; accepted:") !=
          std::string::npos);
  ProgramResult const some = run_stagecraft(run);
  REQUIRE(some.output.find("batch.global: found") == std::string::npos);
  REQUIRE(some.output.find("not legal here (--all says why)") != std::string::npos);
}

TEST_CASE("explain refuses what simulate refuses") {
  require_refusal("explain", {"CONFIG: found no file"});
  require_refusal("explain nowhere.yaml", {"nowhere.yaml"});
  require_refusal("explain " + paper_run("22b-present") + " --set parallel.tensor=5",
                  {"parallel.tensor: found '5'"});
  require_refusal("explain " + paper_run("22b-present") + " --everything", {"--everything"});
}

TEST_CASE("explain offers what the run's framework has, each with what simulate then says") {
  TemporaryFolder const folder;
  std::string const run =
      replicated_run(folder, "300 GB/s", 2) + "--set parallel.data=16 --set batch.global=32 ";
  std::string const group = "units shared by the 8 ranks of a node, copies beyond";
  struct Case {
    std::string kept;  ///< options of the run beside its sharding
    std::string kind;  ///< its sharding
    std::vector<std::string> offered;
  };
  for (Case const& c : std::vector<Case>{
           {"", "", {"distributed optimizer"}},
           {"--set software=torchtitan ", "", {"parameters sharded, too (fsdp2)"}},
           {"",
            "--set sharding=fsdp2 ",
            {"no reshard after forward", group, "gradients reduced in every microbatch"}},
           {"",
            "--set sharding=zero1 ",
            {"gradients sharded, and parameters not (zero2)",
             "gradients sharded, and parameters not (zero2, reductions beside the backward)",
             "parameters sharded, too (zero3)",
             "parameters sharded, too (zero3, reductions between passes)"}},
           {"",
            "--set sharding=zero3 ",
            {"the optimizer's state sharded alone",
             "gradients sharded, and parameters not (zero2, reductions beside the backward)",
             "reductions between passes", "no reshard after forward", group}}}) {
    CAPTURE(c.kept, c.kind);
    std::vector<std::string> named;
    json const explained = json_of("explain --json " + run + c.kept + c.kind);
    for (json const& change : explained.at("changes")) {
      std::string const set = change.at("set").at(0);
      bool const is_short = set.rfind("memory.distributed_optimizer", 0) == 0;
      if (set.rfind("sharding", 0) != 0 && !is_short) continue;
      named.push_back(change.at("change"));
      CAPTURE(named.back());
      bool const replaces_all = set.rfind("sharding=", 0) == 0;
      json const simulated = json_of("simulate --json " + run + c.kept +
                                     (replaces_all ? "" : c.kind) + "--set '" + set + "'");
      REQUIRE(change.at("iteration_seconds") == simulated.at("iteration_seconds"));
      REQUIRE(change.at("peak_bytes") == simulated.at("stages")[0].at("peak_bytes"));
    }
    REQUIRE(named == c.offered);
  }
}

TEST_CASE("a change of the kind of sharding keeps what the run says of keys that both kinds have") {
  // What explain offers is what one who edits the run file gets: the word after `kind` changes.
  TemporaryFolder const folder;
  std::string const run = replicated_run(folder, "300 GB/s", 2);
  auto const with = [&](std::string const& kind) {
    return run + "--set 'sharding={kind: " + kind + ", overlap: true, bucket: 30000000}'";
  };
  json const edited = json_of("simulate --json " + with("zero2"));
  json const explained = json_of("explain --json " + with("zero3"));
  int offered = 0;
  for (json const& change : explained.at("changes")) {
    std::string const set = change.at("set").at(0);
    if (set.find("zero2") == std::string::npos) continue;
    ++offered;
    REQUIRE(change.at("iteration_seconds") == edited.at("iteration_seconds"));
    REQUIRE(change.at("peak_bytes") == edited.at("stages")[0].at("peak_bytes"));
  }
  REQUIRE(offered == 1);
  // Nothing of units of PyTorch is lost either: copies on each node.
  json const copied =
      json_of("explain --json " + run + "--set 'sharding={kind: fsdp2, group: 4, sync: every}'");
  json const other =
      json_of("simulate --json " + run + "--set 'sharding={kind: fsdp1, group: 4, sync: every}'");
  for (json const& change : copied.at("changes")) {
    std::string const set = change.at("set").at(0);
    if (set.find("fsdp1") == std::string::npos) continue;
    REQUIRE(change.at("iteration_seconds") == other.at("iteration_seconds"));
  }
}

}  // namespace stagecraft::explain_command_test
