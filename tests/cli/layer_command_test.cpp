#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <sstream>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::layer_command_test {

namespace {

using nlohmann::json;

// 22B: Korthikanti et al. 2022, table 3.
constexpr double s = 2048;
constexpr double b = 4;
constexpr double h = 6144;
constexpr double a = 64;
constexpr double sbh = s * b * h;

json layer_of(std::string const& overrides) {
  json const result = json_of("layer --json " + paper_run("22b-full") + " " + overrides);
  REQUIRE(result.at("layers").size() == 1);
  return result.at("layers")[0];
}

std::map<std::string, double> saved_by_part(json const& layer) {
  std::map<std::string, double> parts;
  for (json const& row : layer.at("saved")) {
    parts[row.at("part").get<std::string>()] += row.at("bytes").get<double>();
  }
  return parts;
}

}  // namespace

TEST_CASE("layer lists attention as 11sbh + 5as^2b, MLP as 19sbh and norms as 4sbh") {
  // Korthikanti et al. 2022, section 4.1. The norms' statistics, 2 x 4sb each, are neglected there.
  json const layer = layer_of("--set recompute=none --set parallel.tensor=1");
  std::map<std::string, double> const parts = saved_by_part(layer);
  REQUIRE(parts.size() == 3);
  REQUIRE(parts.at("attention") == 11 * sbh + 5 * a * s * s * b);
  REQUIRE(parts.at("MLP") == 19 * sbh);
  REQUIRE(parts.at("norms") == Approx(4 * sbh).epsilon(0.001));
  REQUIRE(layer.at("paper_bytes") == 34 * sbh + 5 * a * s * s * b);
}

TEST_CASE("tensor parallelism leaves 10sbh of a layer whole, and sequence parallelism nothing") {
  // Korthikanti et al. 2022, section 4.2: two norm inputs (4), inputs of the two column-parallel
  // GEMMs (4), two dropout masks (2) are not divided.
  std::map<std::string, double> const tensor =
      saved_by_part(layer_of("--set recompute=none --set parallel.tensor=8"));
  REQUIRE(tensor.at("attention") == 3 * sbh + (8 * sbh + 5 * a * s * s * b) / 8);
  REQUIRE(tensor.at("MLP") == 3 * sbh + 16 * sbh / 8);
  REQUIRE(tensor.at("norms") == Approx(4 * sbh).epsilon(0.001));
  std::map<std::string, double> const sequence = saved_by_part(
      layer_of("--set recompute=none --set parallel.tensor=8 --set parallel.sequence=true"));
  REQUIRE(sequence.at("attention") == (11 * sbh + 5 * a * s * s * b) / 8);
  REQUIRE(sequence.at("MLP") == 19 * sbh / 8);
  REQUIRE(sequence.at("norms") == Approx(4 * sbh / 8).epsilon(0.001));
}

TEST_CASE("layer's saved_bytes is the sum of its list, within 1 % of table 2") {
  struct Row {
    std::string overrides;
    double closed_form;  // Korthikanti et al. 2022, table 2
  };
  double const scores = 5 * a * s * s * b;
  std::string const whole = "--set parallel.tensor=1 ";
  std::string const cut = "--set parallel.tensor=8 ";
  std::string const sequence = cut + "--set parallel.sequence=true ";
  for (auto const& [overrides, closed_form] :
       {Row{whole + "--set recompute=none", 34 * sbh + scores},
        Row{cut + "--set recompute=none", sbh * (10 + 24.0 / 8) + scores / 8},
        Row{sequence + "--set recompute=none", sbh * 34 / 8 + scores / 8},
        Row{whole + "--set recompute=selective", sbh * 34},
        Row{cut + "--set recompute=selective", sbh * (10 + 24.0 / 8)},
        Row{sequence + "--set recompute=selective", sbh * 34 / 8},
        Row{cut + "--set recompute=full", 2 * sbh},
        Row{sequence + "--set recompute=full", 2 * sbh / 8}}) {
    CAPTURE(overrides);
    json const layer = layer_of(overrides);
    double sum = 0;
    for (auto const& [part, bytes] : saved_by_part(layer)) sum += bytes;
    REQUIRE(layer.at("saved_bytes").get<double>() == sum);
    REQUIRE(layer.at("paper_bytes").get<double>() == closed_form);
    REQUIRE(sum == Approx(closed_form).epsilon(0.01));
  }
}

TEST_CASE(
    "layer's GEMMs are 24bsh^2 + 4bs^2h forward, on every rank its share, and twice that back") {
  // Korthikanti et al. 2022, appendix A.
  double const forward = 24 * b * s * h * h + 4 * b * s * s * h;
  for (int const tensor : {1, 8}) {
    CAPTURE(tensor);
    json const layer =
        layer_of("--set recompute=none --set parallel.tensor=" + std::to_string(tensor));
    std::map<std::string, double> flops;
    for (json const& op : layer.at("ops")) {
      flops[op.at("phase").get<std::string>()] += op.at("flops").get<double>();
      REQUIRE(op.at("seconds").get<double>() >= 0);
      REQUIRE_FALSE(op.at("op").get<std::string>().empty());
    }
    REQUIRE(flops.at("forward") == Approx(forward / tensor).epsilon(1e-12));
    REQUIRE(flops.at("input_gradient") + flops.at("weight_gradient") ==
            Approx(2 * forward / tensor).epsilon(1e-12));
  }
}

TEST_CASE("layer and simulate agree on the layer and on the plan") {
  std::string const run = paper_run(GENERATE("22b-present", "175b-full"));
  json const layers = json_of("layer --json " + run);
  json const simulation = json_of("simulate --json " + run);
  REQUIRE(layers.at("schema") == "stagecraft.layers/1");
  REQUIRE(layers.at("plan") == simulation.at("plan"));
  for (auto const& [key, value] : simulation.at("layer").items()) {
    CAPTURE(key);
    REQUIRE(layers.at("layers").at(0).at(key) == value);
  }
}

TEST_CASE("layer's table shows the components beside the paper's closed form") {
  ProgramResult const result = run_stagecraft("layer " + paper_run("22b-full") +
                                              " --set recompute=none --set parallel.tensor=1");
  REQUIRE(result.exit_code == 0);
  // 11 + 5 x 64 x 2048 / 6144, 19, and 34 + 106.667.
  // std::regex recurses once a character, which is too deep for a table under sanitizers.
  REQUIRE_THAT(result.output, Catch::Contains(" 5922357248  117.667\n") &&
                                  Catch::Contains(" 956301312   19.000\n") &&
                                  Catch::Contains("7079985152  140.667"));
}

TEST_CASE("layer's tables fit 100 columns, and their sizes are in MiB") {
  for (std::string const run : {"22b-present", "175b-present", "530b-full", "1t-present"}) {
    ProgramResult const result = run_stagecraft("layer " + paper_run(run));
    REQUIRE(result.exit_code == 0);
    std::istringstream lines{result.output};
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(run, line);
      // A column a code point.
      REQUIRE(std::count_if(line.begin(), line.end(), [](char c) {
                return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
              }) <= 100);
    }
  }
  // mlp.up.forward writes the MLP's [s, b, 4h/8] in fp16 and keeps it: 2048 x 4 x 3072 x 2 bytes.
  std::string const output = run_stagecraft("layer " + paper_run("22b-present")).output;
  REQUIRE_THAT(output, Catch::Contains("  MiB  saved  start ms") && !Catch::Contains(" MB"));
  REQUIRE_THAT(output, Catch::Contains("8192×3072×6144      309.2  180.0   48.0"));
}

TEST_CASE("layer refuses what simulate refuses, with exit code 2") {
  require_refusal("layer --json " + paper_run("22b-full") + " --set parallel.tensor=5",
                  {"parallel.tensor: found '5'; accepted: a divisor of model.heads (64)"});
  require_refusal("layer", {"CONFIG: found no file; accepted: one run file"});
  require_refusal("layer no/such.yaml", {"no/such.yaml: found ", "accepted: a readable YAML file"});
}

}  // namespace stagecraft::layer_command_test
