#include <catch2/catch.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::offload_test {
namespace {

using Catch::Contains;
using nlohmann::json;

constexpr std::int64_t h = 1024;
constexpr std::int64_t v = 1024;
constexpr std::int64_t layers = 6;
constexpr std::int64_t n = 8;
/// Layers without biases (QKV 3 h^2, projection h^2, MLP 2 x 4 h^2, two norms), embedding, norm and
/// head.
constexpr std::int64_t all = layers * (12 * h * h + 2 * h) + 2 * v * h + h;
constexpr std::int64_t shard = all / n;
static_assert(shard % n == 0);  // so that halves and eighths are whole

constexpr double link = 16e9;  ///< bytes/s of an accelerator: half of what two share
constexpr double adam = 4e9;   ///< parameters/s of all eight ranks

/// Eight replicas on one node that share their optimizer's state.
std::string run_file(TemporaryFolder const& folder) {
  return "'" +
         folder.write(
             "run.yaml",
             "model: {layers: 6, hidden: 1024, heads: 8, sequence: 512, vocabulary: 1024,\n"
             "        norm: rmsnorm, positions: rotary, tied_embeddings: false, biases: false,\n"
             "        dropout: 0, attention: flash, causal_mask: none, precision: bf16}\n"
             "system: {base: dgx-h100, node: {host_adam: {value: 4e9, source: invented},\n"
             "                                host_memory: {value: 1 TB, source: invented}},\n"
             "         accelerator: {host_link: {value: {bandwidth: 32 GB/s, accelerators: 2},\n"
             "                                   source: invented}}}\n"
             "parallel: {tensor: 1, data: 8}\n"
             "batch: {global: 8, micro: 1}\n"
             "sharding: distributed_optimizer\n") +
         "' ";
}

std::string offload(std::string const& keys) { return "--set 'offload={" + keys + "}' "; }

json stage_of(json const& result) { return result.at("stages").at(0); }

double offload_seconds(json const& result) {
  return result.at("breakdown_seconds").at("offload").get<double>();
}

/// A rank's copies of a gradient in 32 bits and of a parameter in 16, and its share of the updates.
double const away = 4.0 * shard / link;
double const back = 2.0 * shard / link;
double const updates = 1.0 * shard * n / adam;

}  // namespace

TEST_CASE("half of the optimizer leaves 6 of 12 bytes on the device, and 16 for each on the host") {
  // Megatron-LM's hybrid_optimizer.py: the host has gradient, master copy and two moments in fp32.
  TemporaryFolder const folder;
  json const none = stage_of(json_of("simulate --json " + run_file(folder)));
  REQUIRE(none.at("at_peak").at("optimizer") == 12 * shard);
  REQUIRE(none.at("host_bytes") == 0);
  json const half =
      stage_of(json_of("simulate --json " + run_file(folder) + offload("optimizer: 0.5")));
  REQUIRE(half.at("at_peak").at("optimizer") == 6 * shard);
  REQUIRE(half.at("host_bytes") == 8 * shard);
  REQUIRE(half.at("peak_bytes").get<std::int64_t>() ==
          none.at("peak_bytes").get<std::int64_t>() - 6 * shard);
  json const kept = stage_of(
      json_of("simulate --json " + run_file(folder) + offload("optimizer: 1, keeps_master: true")));
  REQUIRE(kept.at("at_peak").at("optimizer") == 4 * shard);
  REQUIRE(kept.at("host_bytes") == 16 * shard);
}

TEST_CASE("the host's step is copies and updates in turn, or beside each other in eight pieces") {
  // Six layers, embedding and head are a piece each. Updates take longest, so that all that shows
  // of copies is the first piece's way there and the last one's way back.
  TemporaryFolder const folder;
  json const in_turn = json_of("simulate --json " + run_file(folder) + offload("optimizer: 1"));
  REQUIRE(offload_seconds(in_turn) == Approx(away + updates + back).epsilon(1e-9));
  json const beside =
      json_of("simulate --json " + run_file(folder) + offload("optimizer: 1, overlap: true"));
  REQUIRE(offload_seconds(beside) == Approx(away / 8 + updates + back / 8).epsilon(1e-9));
  // A master copy on the device comes back in 32 bits.
  json const kept =
      json_of("simulate --json " + run_file(folder) + offload("optimizer: 1, keeps_master: true"));
  REQUIRE(offload_seconds(kept) == Approx(away + updates + 2 * back).epsilon(1e-9));
  double sum = 0;
  for (auto const& [part, time] : in_turn.at("breakdown_seconds").items())
    sum += time.get<double>();
  REQUIRE(sum == Approx(in_turn.at("iteration_seconds").get<double>()).epsilon(1e-9));
}

TEST_CASE("the device updates its half while the host updates the other") {
  TemporaryFolder const folder;
  json const none = json_of("simulate --json " + run_file(folder));
  json const half = json_of("simulate --json " + run_file(folder) + offload("optimizer: 0.5"));
  auto const iteration = [](json const& run) { return run.at("iteration_seconds").get<double>(); };
  auto const optimizer = [](json const& run) {
    return run.at("breakdown_seconds").at("optimizer").get<double>();
  };
  // What the device computes of Adam is within the time for which it waits.
  double const of_device = optimizer(none) - optimizer(half);
  REQUIRE(of_device > 0);
  REQUIRE(iteration(half) - iteration(none) < (away + updates + back) / 2);
  REQUIRE(iteration(half) - iteration(none) > (away + updates + back) / 2 - optimizer(none));
}

TEST_CASE("a node without room for what its ranks offload does not fit, and says so") {
  TemporaryFolder const folder;
  std::string const tight = "--set 'system.node.host_memory={value: 1 GB, source: invented}' ";
  static_assert(n * 16 * shard > 1'000'000'000);
  std::string const run = run_file(folder) + offload("optimizer: 1") + tight;
  REQUIRE(json_of("simulate --json " + run).at("verdict") == "does_not_fit");
  REQUIRE_THAT(run_stagecraft("simulate " + run).output, Contains("does not fit"));
  REQUIRE(json_of("simulate --json " + run_file(folder) + offload("optimizer: 0.5") + tight)
              .at("verdict") == "fits");
}

TEST_CASE("explain offers to offload, and its path has the host's time") {
  TemporaryFolder const folder;
  std::string const text = run_stagecraft("explain " + run_file(folder)).output;
  REQUIRE_THAT(text, Contains("offload half of the optimizer"));
  json const path =
      json_of("explain --json " + run_file(folder) + offload("optimizer: 1, overlap: true"))
          .at("critical_path")
          .at("seconds");
  REQUIRE(path.at("offload").get<double>() == Approx(away / 8 + updates + back / 8).epsilon(1e-9));
}

TEST_CASE("a trace has the host's streams, and reports count what shows of them") {
  TemporaryFolder const folder;
  std::string const trace = folder.path() / "t.h5";
  json_of("simulate --json " + run_file(folder) + offload("optimizer: 1") + "--trace '" + trace +
          "'");
  std::string const table = folder.path() / "ops.csv";
  REQUIRE(run_stagecraft("export '" + trace + "' --format csv -o '" + table + "'").exit_code == 0);
  std::string const ops = text_of(table);
  for (char const* const name : {"step.gradients_to_host", "step.host_adam",
                                 "step.parameters_from_host", "to_host", "from_host"}) {
    REQUIRE_THAT(ops, Contains(name));
  }
}

TEST_CASE("what cannot be offloaded is refused with what can") {
  TemporaryFolder const folder;
  std::string const run = "simulate " + run_file(folder);
  require_refusal(run + offload("optimizer: 1.5"), {"offload.optimizer", "1.5", "0 to 1"});
  require_refusal(run + offload("overlap: true"), {"offload.optimizer", "offload: none"});
  require_refusal(run + offload("parameters: true"), {"offload", "only the optimizer's state"});
  require_refusal(run + "--set offload=all", {"offload", "all", "none, or a map"});
  require_refusal(run + offload("optimizer: 1") + "--set sharding=fsdp2",
                  {"sharding", "fsdp2", "distributed_optimizer"});
  require_refusal(run + offload("optimizer: 1") + "--set model.precision=fp32",
                  {"model.precision", "fp32", "bf16"});
  require_refusal(run + offload("optimizer: 1") + "--set system=selene-a100",
                  {"offload.optimizer", "node.host_adam", "selene-a100"});
  ProgramResult const executed =
      run_stagecraft_exec("run " + run_file(folder) + offload("optimizer: 1"));
  REQUIRE(executed.exit_code != 0);
  REQUIRE_THAT(executed.errors, Contains("offload"));
}

}  // namespace stagecraft::offload_test
