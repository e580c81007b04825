#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::fit_command_test {
namespace {

using Catch::Contains;
using nlohmann::json;

std::string const vtrain = STAGECRAFT_SOURCE_DIR "/experiments/validation/vtrain-single-node.yaml";
std::string const base = " --base '" + vtrain + "'";

/// Two groups of made-up times.
constexpr char const* rows =
    "group,model.hidden,batch.micro,measured.iteration_seconds\n"
    "a,1024,1,0.9\na,1024,2,0.6\nb,2048,1,1.6\nb,2048,4,1.0\n";

std::string data_file(TemporaryFolder const& folder, std::string const& text) {
  return "'" + folder.write("data.csv", text) + "'";
}

}  // namespace

TEST_CASE("fit says that a measured time is outside of the run's own interval", "[cli]") {
  json const run = json_of("simulate " + paper_run("22b-present") + " --json");
  double const low = run.at("iteration_interval_seconds")[0];
  auto const fitted_to = [](double seconds) {
    return run_stagecraft("fit " + paper_run("22b-present") + " --measured " +
                          std::to_string(seconds) + "s")
        .output;
  };
  REQUIRE_THAT(fitted_to(0.9 * low), Contains("lies outside of the run's own 80 % interval"));
  REQUIRE_THAT(fitted_to(1.1 * low), !Contains("lies outside"));
  REQUIRE_THAT(fitted_to(1.1 * low), Contains("lies inside of the run's own 80 % interval"));
  auto const is_within = [&](double seconds) {
    return json_of("fit " + paper_run("22b-present") + " --json --measured " +
                   std::to_string(seconds) + "s")
        .at("within_interval");
  };
  REQUIRE(is_within(0.9 * low) == false);
  REQUIRE(is_within(1.1 * low) == true);
  REQUIRE_THAT(fitted_to(1.1 * low),
               Contains("stagecraft plan MODEL --software DIR/software.yaml"));
}

TEST_CASE("fit of one measurement writes files with which simulate predicts it", "[cli]") {
  TemporaryFolder const folder;
  std::string const to = " -o '" + (folder.path() / "mine").string() + "'";
  json const result = json_of("fit " + paper_run("22b-present") + " --measured 1.25s --json" + to);
  REQUIRE(result.at("schema") == "stagecraft.fit/1");
  REQUIRE(result.at("constants").size() == 1);
  json const& factor = result.at("constants")[0];
  REQUIRE(factor.at("key") == "software.factor");
  REQUIRE(factor.at("prior") == 1.0);
  json const before = json_of("simulate " + paper_run("22b-present") + " --json");
  REQUIRE(factor.at("value").get<double>() ==
          Approx(1.25 / before.at("iteration_seconds").get<double>()));
  REQUIRE(result.at("files").size() == 2);
  std::string const run = "'" + (folder.path() / "mine" / "run.yaml").string() + "'";
  json const after = json_of("simulate " + run + " --json");
  REQUIRE(after.at("iteration_seconds").get<double>() == Approx(1.25).epsilon(1e-8));
  REQUIRE(after.at("plan") == before.at("plan"));
  // A measured run of this machine says more than those of others.
  auto const width = [](json const& simulation) {
    json const& interval = simulation.at("iteration_interval_seconds");
    return interval[1].get<double>() / interval[0].get<double>();
  };
  REQUIRE(width(after) < width(before));
  REQUIRE(after.at("iteration_interval_seconds")[0].get<double>() < 1.25);
  REQUIRE(after.at("iteration_interval_seconds")[1].get<double>() > 1.25);
  REQUIRE(after.at("config").at("software").at("name") == "megatron-2022-fitted");
  // The stack is of use to other commands and other runs.
  std::string const software = (folder.path() / "mine" / "software.yaml").string();
  json const other = json_of("simulate " + paper_run("175b-present") +
                             " --json --set 'software=" + software + "'");
  json const bare = json_of("simulate " + paper_run("175b-present") + " --json");
  REQUIRE(other.at("iteration_seconds").get<double>() ==
          Approx(factor.at("value").get<double>() * bare.at("iteration_seconds").get<double>())
              .epsilon(1e-8));
  REQUIRE_THAT(text_of(software), Contains("on one measurement of"));
  ProgramResult const text =
      run_stagecraft("fit " + paper_run("22b-present") + " --measured 1.25s");
  REQUIRE(text.exit_code == 0);
  REQUIRE_THAT(text.output,
               Contains("measured 1.250 s") && Contains("does not show what was slow"));
}

TEST_CASE("fit of a run's memory writes a stack with which simulate and plan follow it", "[cli]") {
  TemporaryFolder const folder;
  std::string const to = " -o '" + (folder.path() / "mine").string() + "'";
  json const result = json_of("fit " + paper_run("22b-present") +
                              " --software nanotron --reserved 70GiB --json" + to);
  REQUIRE(result.at("constants")[0].at("key") == "software.memory.factor");
  REQUIRE(result.at("observation") == "reserved");
  REQUIRE(result.at("within_interval") == false);
  std::string const run = "'" + (folder.path() / "mine" / "run.yaml").string() + "'";
  json const after = json_of("simulate " + run + " --json");
  REQUIRE(after.at("stages")[0].at("reserved_bytes") == 70LL << 30);
  REQUIRE(after.at("fits_probability") == result.at("fits_probability"));
  // A plan keeps the room that simulate says.
  json const best =
      json_of("plan gpt-22b --system selene-a100 --gpus 8 --global-batch 4 --software '" +
              (folder.path() / "mine" / "software.yaml").string() + "' --json")
          .at("best")[0];
  REQUIRE(best.at("free_bytes") >= 4LL << 30);
  // So it is with a stack of which no run was measured.
  json const core = json_of("fit " + paper_run("22b-present") +
                            " --software megatron-core --reserved 66GiB --json -o '" +
                            (folder.path() / "core").string() + "'");
  json const of_core =
      json_of("simulate '" + (folder.path() / "core" / "run.yaml").string() + "' --json");
  REQUIRE(core.at("fits_probability").is_number());
  REQUIRE(of_core.at("fits_probability") == core.at("fits_probability"));
  REQUIRE_THAT(of_core.at("fits_probability_reason").get<std::string>(),
               Contains("too few runs of"));
  json const died = json_of("fit " + paper_run("22b-present") + " --died --stage 0 --json");
  REQUIRE(died.at("verdict") == "does_not_fit");
  REQUIRE(died.at("measured_bytes").is_null());
}

TEST_CASE("fit of data files writes a system and a stack that commands take", "[cli]") {
  TemporaryFolder const folder;
  // Times that are 1.3 times as long as predicted.
  json const bare = json_of("validate " + data_file(folder, rows) + base + " --json");
  std::string data = "group,model.hidden,batch.micro,measured.iteration_seconds\n";
  std::vector<std::string> const cells{"a,1024,1,", "a,1024,2,", "b,2048,1,", "b,2048,4,"};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    double const predicted = bare.at("rows")[i].at("predicted_seconds");
    data += cells[i] + std::to_string(1.3 * predicted) + "\n";
  }
  std::string const file = data_file(folder, data);
  std::string const to = " -o '" + (folder.path() / "out").string() + "'";
  json const result = json_of("fit " + file + base + " --constants software.factor --json" + to);
  REQUIRE(result.at("constants")[0].at("value").get<double>() == Approx(1.3).epsilon(1e-3));
  REQUIRE(result.at("schema") == "stagecraft.fit/1");
  REQUIRE(result.at("runs") == 4);
  REQUIRE(result.at("groups") == 2);
  REQUIRE(keys_of(result.at("constants")[0]) ==
          std::vector<std::string>{"key", "nearest", "prior", "prior_spread", "separable",
                                   "standard_error", "unit", "value", "with"});
  std::string const out = (folder.path() / "out").string();
  json const predicted = json_of("validate " + file + base + " --json --set 'system=" + out +
                                 "/system.yaml' --set 'software=" + out + "/software.yaml'");
  REQUIRE(predicted.at("summary").at("mean_percent").get<double>() ==
          Approx(result.at("fitted").at("mean_percent").get<double>()).epsilon(1e-6));
  std::string const system = text_of(out + "/system.yaml");
  REQUIRE_THAT(system, !Contains("validated: true"));
  REQUIRE_THAT(text_of(out + "/software.yaml"),
               Contains("on 4 runs in 2 groups of data.csv") && Contains("held"));
  REQUIRE(run_stagecraft("system '" + out + "/system.yaml'").exit_code == 0);
}

TEST_CASE("fit ends with 1 if no row can be used, and leaves bad rows out otherwise", "[cli]") {
  TemporaryFolder const folder;
  std::string const header = "group,batch.micro,measured.iteration_seconds\n";
  std::string const options = base + " --constants software.host.kernel";
  ProgramResult const none =
      run_stagecraft("fit " + data_file(folder, header + "a,7,1\na,1,0\n") + options);
  REQUIRE(none.exit_code == 1);
  REQUIRE(none.output.empty());
  REQUIRE_THAT(none.errors,
               Contains("no row can be used: 2 have a problem") &&
                   Contains("batch.global: found '16'; accepted: a multiple of batch.micro"));
  ProgramResult const some =
      run_stagecraft("fit " + data_file(folder, header + "a,7,1\na,1,0.9\n") + options);
  REQUIRE(some.exit_code == 0);
  REQUIRE_THAT(some.output, Contains("1 run in 1 group, of 2 rows") &&
                                Contains("All groups are in one fold: nothing was held out.\n"
                                         "One run gives no bound: ") &&
                                Contains("if runs err independently. All are of one group"));
}

TEST_CASE("fit works with a system of which nothing is marked as fitted, and names other rows") {
  TemporaryFolder const folder;
  std::string const plain = " --system gh200 --software megatron-2022 --set model.precision=bf16";
  json const result =
      json_of("validate " + data_file(folder, rows) + base + " --json --set " +
              "system=gh200 --set software=megatron-2022 --set model.precision=bf16");
  std::string data = "group,model.hidden,batch.micro,measured.iteration_seconds\n";
  std::vector<std::string> const cells{"a,1024,1,", "a,1024,2,", "b,2048,1,", "b,2048,4,"};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    double const predicted = result.at("rows")[i].at("predicted_seconds");
    data += cells[i] + std::to_string(0.8 * predicted) + "\n";
  }
  ProgramResult const fitted =
      run_stagecraft("fit " + data_file(folder, data) + base + plain + " --json");
  REQUIRE(fitted.exit_code == 0);
  REQUIRE_THAT(fitted.errors, Contains("is marked as fitted: software.factor is (--constants)"));
  json const constants = json::parse(fitted.output).at("constants");
  REQUIRE(constants.size() == 1);
  REQUIRE(constants[0].at("key") == "software.factor");
  REQUIRE(constants[0].at("value").get<double>() == Approx(0.8).epsilon(1e-2));

  std::string const others =
      "group,system,batch.micro,measured.iteration_seconds\na,dgx-h100,1,1\nb,dgx-h100,1,1\n";
  ProgramResult const none = run_stagecraft("fit " + data_file(folder, others) + base);
  REQUIRE(none.exit_code == 1);
  REQUIRE_THAT(none.errors, Contains(": 2 of 'dgx-h100' with '"));
}

TEST_CASE("fit refuses what it cannot use, with what is accepted", "[cli]") {
  TemporaryFolder const folder;
  std::string const file = data_file(folder, rows);
  require_refusal("fit " + file + base + " --constants software.host.kernl",
                  {"--constants: found 'software.host.kernl'", "did you mean"});
  require_refusal("fit " + file, {"system: missing", "--system S.yaml"});
  require_refusal("fit", {"DATA.csv: found no file"});
  require_refusal("fit " + paper_run("22b-present"),
                  {"a run file without a measurement", "--measured TIME"});
  require_refusal("fit " + data_file(folder, "id\na\n") + base, {"no column with measured values"});
  require_refusal("fit " + paper_run("22b-present") + " --measured 12.9",
                  {"--measured: found '12.9'", "the time of an iteration with its unit"});
  require_refusal("fit " + paper_run("22b-present") + " --measured 0s", {"above 0"});
  require_refusal("fit " + paper_run("22b-present") + " --died --measured 1s",
                  {"--died: found with --measured"});
  require_refusal("fit " + paper_run("22b-present") + " --died --stage 1",
                  {"--stage: found '1'; accepted: 0: the run has one stage"});
  require_refusal("fit " + paper_run("22b-present") + " --reserved 90GiB",
                  {"at most the 80.0 GiB"});
  require_refusal("fit " + paper_run("22b-present") + " --reserved 60", {"71.3GiB, above 0"});
  require_refusal("fit " + paper_run("22b-present") + " --measured 1s --stage 0",
                  {"--stage: found without it"});
  require_refusal("fit " + paper_run("22b-present") + " --measured 1s --constants software.factor",
                  {"--constants: found with --measured"});
}

}  // namespace stagecraft::fit_command_test
