#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::simulate_command_test {

namespace {

using Catch::Contains;
using nlohmann::json;

json simulated(std::string const& run, std::string const& more = "") {
  return json_of("simulate --json " + paper_run(run) + " " + more);
}

/// Fails the test where `object` has other keys than `keys` (sorted), or a value that is no number.
void require_numbers(json const& object, std::vector<std::string> const& keys) {
  REQUIRE(keys_of(object) == keys);
  for (auto const& [key, value] : object.items()) {
    CAPTURE(key);
    REQUIRE(value.is_number_float());
  }
}

/// Models of Korthikanti et al. 2022, table 3.
struct PaperModel {
  std::string run;
  double heads, hidden, layers, pipeline, chunks, gpus, global;
};

std::vector<PaperModel> const paper_models{{"22b", 64, 6144, 48, 1, 1, 8, 4},
                                           {"175b", 96, 12288, 96, 8, 3, 64, 64},
                                           {"530b", 128, 20480, 105, 35, 3, 280, 280},
                                           {"1t", 160, 25600, 128, 64, 1, 512, 512}};

}  // namespace

TEST_CASE("simulate --json prints the fields that scripts rely on, each with its type") {
  json const result = simulated("175b-present");
  for (char const* key :
       {"schema", "plan", "config", "layer", "stages", "breakdown_seconds", "warnings"}) {
    CAPTURE(key);
    REQUIRE(result.contains(key));
  }
  REQUIRE(result.at("schema") == "stagecraft.simulation/1");
  REQUIRE_THAT(result.at("plan").get<std::string>(), Catch::Matches("[0-9a-f]{64}"));
  REQUIRE(result.at("warnings") == json::array());
  for (char const* key : {"iteration_seconds", "ideal_seconds", "bubble_fraction", "model_flops",
                          "hardware_flops", "mfu", "hfu", "hfu_paper", "tokens_per_second"}) {
    CAPTURE(key);
    REQUIRE(result.at(key).is_number_float());
  }
  json const& layer = result.at("layer");
  REQUIRE(keys_of(layer) == std::vector<std::string>{"backward_seconds", "forward_seconds",
                                                     "paper_bytes", "recompute_seconds",
                                                     "saved_bytes"});
  for (char const* key : {"forward_seconds", "backward_seconds", "recompute_seconds"}) {
    REQUIRE(layer.at(key).is_number_float());
  }
  REQUIRE(layer.at("saved_bytes").is_number_integer());
  REQUIRE(layer.at("paper_bytes").is_number_integer());
  require_numbers(result.at("breakdown_seconds"),
                  {"backward", "bubble", "data_parallel", "forward", "head_and_embedding",
                   "host_wait", "offload", "optimizer", "pipeline_transfer", "recompute"});

  json const& stages = result.at("stages");
  REQUIRE(stages.size() == 8);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    CAPTURE(i);
    json const& stage = stages[i];
    REQUIRE(keys_of(stage) == std::vector<std::string>{"activation_peak_bytes",
                                                       "allocated_bytes",
                                                       "at_peak",
                                                       "busy_seconds",
                                                       "device_bytes",
                                                       "first_allocated_bytes",
                                                       "fits",
                                                       "fits_probability",
                                                       "host_bytes",
                                                       "in_flight_chunks",
                                                       "inactive_split_bytes",
                                                       "layers",
                                                       "margin_bytes",
                                                       "outside_bytes",
                                                       "peak_at_seconds",
                                                       "peak_bytes",
                                                       "ranks",
                                                       "reserved_bytes",
                                                       "resident_bytes",
                                                       "retries",
                                                       "runs_out",
                                                       "stage",
                                                       "verdict"});
    REQUIRE(stage.at("stage") == i);
    REQUIRE(stage.at("fits").is_boolean());
    for (char const* key : {"layers", "in_flight_chunks", "peak_bytes", "activation_peak_bytes"}) {
      REQUIRE(stage.at(key).is_number_integer());
    }
    REQUIRE(stage.at("busy_seconds").is_number_float());
    REQUIRE(stage.at("peak_at_seconds").is_number_float());
    REQUIRE(keys_of(stage.at("at_peak")) ==
            std::vector<std::string>{"activations", "communication", "gathered", "gradients",
                                     "optimizer", "parameters", "recomputed", "workspace"});
    for (json const& bytes : stage.at("at_peak")) REQUIRE(bytes.is_number_integer());
    // Rings of 24 channels of 12 MiB on the node and of 16 of 20 MiB between nodes: the tensor
    // group has the first, the job both, the embedding's first and last stage the second. Two
    // neighbours on other nodes have 2 channels of 20 MiB each.
    constexpr std::int64_t gib = std::int64_t{1} << 30;
    json const& outside = stage.at("outside_bytes");
    std::int64_t const embedding = i == 0 || i == 7 ? 320 : 0;
    REQUIRE(outside.at("communicators") ==
            (288 + (288 + 320) + embedding + 2 * 2 * 20) * (gib / 1024));
    REQUIRE(outside.at("driver").get<double>() == Approx(0.9 * gib));
    REQUIRE(outside.at("context").get<double>() == Approx(0.55 * gib));
    std::int64_t const beside = outside.at("driver").get<std::int64_t>() +
                                outside.at("context").get<std::int64_t>() +
                                outside.at("communicators").get<std::int64_t>();
    auto const reserved = stage.at("reserved_bytes").get<std::int64_t>();
    REQUIRE(reserved >= stage.at("allocated_bytes").get<std::int64_t>());
    REQUIRE(stage.at("device_bytes") == reserved + beside);
    REQUIRE(stage.at("margin_bytes") == 80 * gib - reserved - beside);
    REQUIRE(stage.at("verdict") == (stage.at("fits") == true ? "fits" : "does_not_fit"));
    // No run of this software was measured with its reserved bytes.
    REQUIRE(stage.at("fits_probability").is_null());
  }
}

TEST_CASE("simulate's FLOPs, rates and shape are the paper's equations 7 and 8 and table 3") {
  for (PaperModel const& model : paper_models) {
    CAPTURE(model.run);
    json const result = simulated(model.run + "-present");
    double const s = 2048;
    double const v = 51200;
    double const h = model.hidden;
    double const layers = model.layers;
    double const base = 72 * model.global * layers * s * h * h;
    double const peak_flops = model.gpus * 312e12 * result.at("iteration_seconds").get<double>();
    double const head = v / (12 * h * layers);
    REQUIRE(result.at("model_flops").get<double>() ==
            Approx(base * (1 + s / (6 * h) + head)).epsilon(1e-12));
    REQUIRE(result.at("mfu").get<double>() ==
            Approx(base * (1 + s / (6 * h) + head) / peak_flops).epsilon(1e-9));
    REQUIRE(result.at("hfu_paper").get<double>() ==
            Approx(base * (1 + s / (3 * h) + head) / peak_flops).epsilon(1e-9));
    // One more core-attention forward: 2s/9h for Eq. 8's s/3h.
    REQUIRE(result.at("hardware_flops").get<double>() ==
            Approx(base * (1 + 2 * s / (9 * h) + head)).epsilon(1e-9));
    REQUIRE(result.at("hfu").get<double>() ==
            Approx(result.at("hardware_flops").get<double>() / peak_flops).epsilon(1e-9));
    REQUIRE(result.at("tokens_per_second").get<double>() *
                result.at("iteration_seconds").get<double>() ==
            Approx(model.global * s).epsilon(1e-9));
    REQUIRE(static_cast<double>(result.at("stages").size()) == model.pipeline);
    for (json const& stage : result.at("stages")) {
      REQUIRE(stage.at("layers").get<double>() == layers / model.pipeline);
    }
    // Chunks in flight on the first stage: 2(p-1) + (m-1)p + 1 interleaved, p with 1F1B.
    double const p = model.pipeline;
    REQUIRE(result.at("stages")[0].at("in_flight_chunks").get<double>() ==
            (model.chunks > 1 ? 2 * (p - 1) + (model.chunks - 1) * p + 1 : p));
  }
}

TEST_CASE("simulate twice prints the same bytes, and --json nothing but one document") {
  std::string const run = GENERATE("22b-full", "175b-present", "530b-present-2240");
  std::string const arguments = "simulate " + paper_run(run) + GENERATE("", " --json");
  CAPTURE(arguments);
  ProgramResult const first = run_stagecraft(arguments);
  REQUIRE(first.exit_code == 0);
  REQUIRE_FALSE(first.output.empty());
  REQUIRE(first.output == run_stagecraft(arguments).output);
}

TEST_CASE("the printed config gives the same plan and iteration when run from another folder") {
  for (std::string const run : {"22b-full", "175b-present", "530b-full-2240"}) {
    CAPTURE(run);
    json const first = simulated(run, "--set batch.micro=1");
    TemporaryFolder const folder;
    folder.write("again.yaml", first.at("config").dump());
    ProgramResult const again =
        run_stagecraft("simulate --json again.yaml", "cd '" + folder.path().string() + "' &&");
    INFO(again.errors);
    REQUIRE(again.exit_code == 0);
    REQUIRE(json::parse(again.output) == first);
  }
}

TEST_CASE(
    "simulate --print-config prints a run that loads again, prints itself and gives the same "
    "plan") {
  std::string const arguments =
      "simulate " + paper_run("175b-present") + " --set parallel.tensor=4 --set recompute=full";
  ProgramResult const printed = run_stagecraft(arguments + " --print-config");
  REQUIRE(printed.exit_code == 0);
  REQUIRE_THAT(printed.output, Contains("hidden: 12288") && Contains("tensor: 4"));
  TemporaryFolder const folder;
  std::string const file = folder.write("printed.yaml", printed.output);
  REQUIRE(run_stagecraft("simulate --print-config " + file).output == printed.output);
  REQUIRE(json_of("simulate --json " + file) == json_of(arguments + " --json"));
}

TEST_CASE("breakdown sums to the iteration, and the bubble is waiting over the ideal") {
  for (std::string const run : {"22b-full", "22b-present", "175b-full", "175b-present", "530b-full",
                                "530b-present-2240", "1t-full", "1t-present"}) {
    CAPTURE(run);
    json const result = simulated(run);
    double sum = 0;
    for (json const& share : result.at("breakdown_seconds")) {
      REQUIRE(share.get<double>() >= 0);
      sum += share.get<double>();
    }
    double const iteration = result.at("iteration_seconds");
    double const ideal = result.at("ideal_seconds");
    REQUIRE(sum == Approx(iteration).epsilon(1e-12));
    REQUIRE(result.at("bubble_fraction").get<double>() ==
            Approx((iteration - ideal) / ideal).margin(1e-12));
    for (json const& stage : result.at("stages")) {
      REQUIRE(stage.at("busy_seconds").get<double>() <= ideal);
    }
  }
}

TEST_CASE("peak_bytes is the sum of at_peak, and fits says whether it and the reserve fit") {
  // Capacities around what the stages of 175B hold, so that both answers occur.
  std::int64_t const gib = std::int64_t{1} << 30;
  int fitting = 0;
  int stages = 0;
  for (std::int64_t const reserve : {std::int64_t{0}, 2 * gib, 21 * gib, 23 * gib, 40 * gib}) {
    std::string const set = "--set 'memory.reserve=" + std::to_string(reserve) + " B'";
    CAPTURE(set);
    json const result = simulated("175b-present", set);
    for (json const& stage : result.at("stages")) {
      std::int64_t sum = 0;
      for (json const& bytes : stage.at("at_peak")) sum += bytes.get<std::int64_t>();
      REQUIRE(stage.at("peak_bytes") == sum);
      REQUIRE(stage.at("fits") == (sum + reserve <= 80 * gib));
      // At the peak of the sum, the activations are at most at their own.
      json const& at_peak = stage.at("at_peak");
      REQUIRE(at_peak.at("activations").get<std::int64_t>() +
                  at_peak.at("recomputed").get<std::int64_t>() +
                  at_peak.at("communication").get<std::int64_t>() <=
              stage.at("activation_peak_bytes").get<std::int64_t>());
      // fp16: 2 bytes of parameters, 4 of gradients, 4 + 8 of optimizer.
      REQUIRE(at_peak.at("gradients") == 2 * at_peak.at("parameters").get<std::int64_t>());
      REQUIRE(at_peak.at("optimizer") == 6 * at_peak.at("parameters").get<std::int64_t>());
      fitting += stage.at("fits").get<bool>() ? 1 : 0;
      ++stages;
    }
  }
  REQUIRE(fitting > 0);
  REQUIRE(fitting < stages);
}

TEST_CASE(
    "simulate --require-fit exits with 3 where a stage does not fit, and prints all the same") {
  // Korthikanti et al. 2022, figure 1: 22B without recompute needs 46 + 59 GiB of 80.
  std::string const too_large =
      "simulate " + paper_run("22b-full") + " --set recompute=none" + GENERATE("", " --json");
  ProgramResult const plain = run_stagecraft(too_large);
  REQUIRE(plain.exit_code == 0);
  ProgramResult const required = run_stagecraft(too_large + " --require-fit");
  REQUIRE(required.exit_code == 3);
  REQUIRE(required.output == plain.output);
  REQUIRE_FALSE(required.output.empty());
  bool const is_json = plain.output.starts_with("{");
  REQUIRE(plain.errors.empty() == is_json);
  if (!is_json) REQUIRE_THAT(plain.errors, Catch::StartsWith("note: `stagecraft explain`"));
  REQUIRE_THAT(required.errors,
               Catch::Contains("stagecraft simulate: stage 0 does not fit: it holds ") &&
                   Catch::Contains(" GiB more than the 80.0 GiB less 2.00 GiB of reserve\n"));
  REQUIRE(run_stagecraft("simulate --require-fit " + paper_run("22b-present")).exit_code == 0);
}

TEST_CASE("a run whose allocator runs out does not fit, although its counted bytes do") {
  // What the default stack's framework allocates is not described.
  std::int64_t const gib = std::int64_t{1} << 30;
  int refused = 0;
  for (int const reserve : {24, 26, 29}) {
    std::string const set = " --set 'memory.reserve=" + std::to_string(reserve) + " GiB'";
    CAPTURE(set);
    json const stage = simulated("22b-full", set).at("stages")[0];
    bool const is_counted = stage.at("peak_bytes").get<std::int64_t>() <= (80 - reserve) * gib;
    bool const runs_out = stage.at("reserved_bytes").get<std::int64_t>() > (80 - reserve) * gib;
    REQUIRE(stage.at("runs_out") == runs_out);
    REQUIRE(stage.at("fits") == (is_counted && !runs_out));
    REQUIRE((stage.at("verdict") == "does_not_fit") == !stage.at("fits").get<bool>());
    ProgramResult const result =
        run_stagecraft("simulate --require-fit " + paper_run("22b-full") + set);
    REQUIRE(result.exit_code == (stage.at("fits") == true ? 0 : 3));
    bool const says_all_fit = result.output.find("every stage fits") != std::string::npos;
    REQUIRE(says_all_fit == stage.at("fits").get<bool>());
    bool const is_by_replay = is_counted && runs_out;
    REQUIRE((result.output.find("by its allocator's replay stage 0 runs out of memory: ") !=
             std::string::npos) == is_by_replay);
    ProgramResult const why = run_stagecraft("explain " + paper_run("22b-full") + set);
    REQUIRE((why.output.find("The run does not fit") != std::string::npos) ==
            (stage.at("fits") == false));
    refused += is_by_replay ? 1 : 0;
  }
  REQUIRE(refused == 1);
}

TEST_CASE("simulate's warnings go to standard error, and into the JSON") {
  std::string const arguments =
      "simulate " + paper_run("22b-present") + " --set parallel.tensor=1 --set model.layers=2";
  std::string const warning = "parallel.sequence: has no effect with parallel.tensor 1";
  ProgramResult const tables = run_stagecraft(arguments);
  REQUIRE(tables.exit_code == 0);
  REQUIRE_THAT(tables.errors, Contains("warning: ") && Contains(warning));
  REQUIRE_THAT(tables.output, !Contains(warning));
  ProgramResult const document = run_stagecraft(arguments + " --json");
  REQUIRE(document.exit_code == 0);
  REQUIRE_THAT(document.errors, Contains(warning));
  json const warnings = json::parse(document.output).at("warnings");
  REQUIRE(warnings.size() == 1);
  REQUIRE_THAT(warnings[0].get<std::string>(), Contains(warning));
}

TEST_CASE(
    "simulate --trace writes one file, and one that cannot be written is exit code 1 and no file") {
  TemporaryFolder const folder;
  std::string const arguments =
      "simulate --json " + paper_run("175b-full") + " --detail op --trace ";
  std::string const trace = (folder.path() / "trace.h5").string();
  SECTION("a trace beside the same document") {
    REQUIRE(json_of(arguments + trace) == simulated("175b-full"));
    REQUIRE(folder.names() == std::vector<std::string>{"trace.h5"});
    REQUIRE(text_of(trace).rfind("\x89HDF\r\n", 0) == 0);
  }
  SECTION("a folder that is not there") {
    ProgramResult const result =
        run_stagecraft(arguments + folder.path().string() + "/no/trace.h5");
    REQUIRE(result.exit_code == 1);
    REQUIRE_THAT(result.errors, Contains("no/trace.h5: No such file or directory"));
    REQUIRE(folder.names().empty());
  }
  SECTION("a disk that is full before the trace is whole") {
    ProgramResult const result = run_stagecraft(arguments + trace, "trap '' XFSZ; ulimit -f 8;");
    REQUIRE(result.exit_code == 1);
    REQUIRE_THAT(result.errors, Contains("trace.h5: File too large"));
    REQUIRE(folder.names().empty());
  }
}

}  // namespace stagecraft::simulate_command_test
