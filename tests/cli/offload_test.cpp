#include <catch2/catch.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
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

/// What a layer saves in 16 bits, as multiples of s b h: its input, and those of QKV, of the
/// projection, of the second norm and of the MLP, 2 each; QKV 6, queries and keys rotated 4, input
/// and output of the activation 8 each. The norms' statistics and the sums of attention stay: they
/// have fewer than 262,144 elements.
constexpr std::int64_t of_layer = 36 * 512 * h;

json activations(TemporaryFolder const& folder, int on_host, std::string const& more = {}) {
  return json_of("simulate --json " + run_file(folder) +
                 offload("activations: {layers: " + std::to_string(on_host) + "}") + more);
}

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

TEST_CASE("the device never has what more layers save than stay, and the host has the others") {
  // Transformer Engine's cpu_offload.py: "peak memory usage of saving activations is
  // (num_layers - num_offloaded_layers) * T".
  TemporaryFolder const folder;
  auto const peak = [](json const& run) {
    return stage_of(run).at("at_peak").at("activations").get<std::int64_t>();
  };
  std::int64_t const none = peak(json_of("simulate --json " + run_file(folder)));
  for (int const on_host : {1, 3, 5}) {
    json const run = activations(folder, on_host);
    REQUIRE(peak(run) == none - on_host * of_layer);
    REQUIRE(stage_of(run).at("host_bytes") == on_host * of_layer);
  }
  json const units = activations(folder, 3, "--set sharding=megatron_fsdp ");
  REQUIRE(stage_of(units).at("host_bytes") == 3 * of_layer);
  json const both = json_of("simulate --json " + run_file(folder) +
                            offload("optimizer: 1, activations: {layers: 3}"));
  REQUIRE(stage_of(both).at("host_bytes") == 16 * shard + 3 * of_layer);
}

TEST_CASE("copies of activations show as far as the layers between are faster") {
  TemporaryFolder const folder;
  json const none = json_of("simulate --json " + run_file(folder));
  json const& parts = none.at("breakdown_seconds");
  double const of_pass = of_layer / link;  // of a layer's copies, in each direction
  // Both directions have four of the six layers to hide behind. The host is behind in this run, so
  // that layers take less without it.
  double const hidden =
      4.0 / 6 * (parts.at("forward").get<double>() + parts.at("backward").get<double>());
  json const three = activations(folder, 3);
  REQUIRE(offload_seconds(three) == Approx(2 * 3 * of_pass - hidden).epsilon(1e-9));
  // If all layers but the last go, each copy is waited for at once.
  REQUIRE(offload_seconds(activations(folder, 5)) == Approx(2 * 5 * of_pass).epsilon(1e-9));
  double sum = 0;
  for (auto const& [part, time] : three.at("breakdown_seconds").items()) sum += time.get<double>();
  REQUIRE(sum == Approx(three.at("iteration_seconds").get<double>()).epsilon(1e-9));
  json const fast = activations(folder, 3,
                                "--set 'system.accelerator.host_link={value: {bandwidth: 900 GB/s, "
                                "accelerators: 1}, source: invented}' ");
  REQUIRE(offload_seconds(fast) == 0);
  REQUIRE(fast.at("iteration_seconds") == none.at("iteration_seconds"));
}

TEST_CASE("a run that offloads activations is printed, traced, and told apart by its plan") {
  TemporaryFolder const folder;
  json const run = activations(folder, 3);
  REQUIRE(run.at("plan") != activations(folder, 2).at("plan"));
  std::string const printed = folder.write("p.yaml", run.at("config").dump());
  REQUIRE(json_of("simulate --json '" + printed + "'").at("plan") == run.at("plan"));
  std::string const trace = folder.path() / "t.h5";
  activations(folder, 3, "--detail op --trace '" + trace + "'");
  std::string const table = folder.path() / "ops.csv";
  REQUIRE(run_stagecraft("export '" + trace + "' --format csv -o '" + table + "'").exit_code == 0);
  std::istringstream rows{text_of(table)};
  std::int64_t to_host = 0;
  std::int64_t from_host = 0;
  std::string const bytes = "," + std::to_string(3 * of_layer / 4) + ",0";  // by four layers
  for (std::string row; std::getline(rows, row);) {
    if (!row.ends_with(bytes)) continue;
    to_host += row.find("offload.to_host,transfer,to_host") != std::string::npos ? 1 : 0;
    from_host += row.find("offload.from_host,transfer,from_host") != std::string::npos ? 1 : 0;
  }
  REQUIRE(to_host == 4);
  REQUIRE(from_host == 4);
}

TEST_CASE("a line says what the host has of a run") {
  TemporaryFolder const folder;
  std::string const state = "of memory: optimizer state, and the gradients it is updated with";
  std::string const saved = "what layers save for their backward\n";
  auto const text = [&](std::string const& keys) {
    return run_stagecraft("simulate " + run_file(folder) + offload(keys)).output;
  };
  REQUIRE_THAT(text("optimizer: 1"), Contains(state + "\n"));
  REQUIRE_THAT(text("activations: {layers: 3}"), Contains("of memory: " + saved));
  REQUIRE_THAT(text("optimizer: 1, activations: {layers: 3}"), Contains(state + "; " + saved));
}

TEST_CASE("explain offers to offload the activations of half of the layers") {
  TemporaryFolder const folder;
  REQUIRE_THAT(run_stagecraft("explain --all " + run_file(folder)).output,
               Contains("offload activations of 3 layers"));
}

TEST_CASE("what cannot be offloaded is refused with what can") {
  TemporaryFolder const folder;
  std::string const run = "simulate " + run_file(folder);
  require_refusal(run + offload("optimizer: 1.5"), {"offload.optimizer", "1.5", "0 to 1"});
  require_refusal(run + offload("overlap: true"), {"offload.optimizer", "offload: none"});
  require_refusal(run + offload("parameters: true"),
                  {"offload", "only the optimizer's state and activations"});
  require_refusal(run + "--set offload=all", {"offload", "all", "none, or a map"});
  require_refusal(run + offload("optimizer: 1") + "--set sharding=fsdp2",
                  {"sharding", "fsdp2", "distributed_optimizer"});
  require_refusal(run + offload("optimizer: 1") + "--set model.precision=fp32",
                  {"model.precision", "fp32", "bf16"});
  require_refusal(run + offload("optimizer: 1") + "--set system=selene-a100",
                  {"offload.optimizer", "node.host_adam", "selene-a100"});
  // transformer_config.py refuses pipelines, recompute and the last layer.
  std::string const layers_on_host = run + offload("activations: {layers: 3}");
  require_refusal(run + offload("activations: {layers: 6}"),
                  {"offload.activations.layers: found '6'; accepted: less than model.layers (6)"});
  require_refusal(layers_on_host + "--set parallel.pipeline=2 --set parallel.data=4",
                  {"parallel.pipeline: found '2'; accepted: 1, as offload.activations is set"});
  require_refusal(layers_on_host + "--set recompute=selective",
                  {"recompute: found 'selective'; accepted: none, as offload.activations is set"});
  require_refusal(layers_on_host + "--set sharding=fsdp2", {"megatron_fsdp, as offload.activ"});
  require_refusal(
      layers_on_host +
          "--set \"model.experts={count: 8, per_token: 2, ffn_hidden: 128}\" --set routing=natural",
      {"routing: found 'natural'; accepted: balanced, a factor or counts"});
  require_refusal(layers_on_host + "--set system=a100-4hdr",
                  {"offload.activations", "accelerator.host_link", "a100-4hdr"});
  REQUIRE_THAT(
      run_stagecraft_exec("run " + run_file(folder) + offload("activations: {layers: 3}")).errors,
      Contains("offload: found 'activations'; accepted when a plan is executed: none"));
  ProgramResult const executed =
      run_stagecraft_exec("run " + run_file(folder) + offload("optimizer: 1"));
  REQUIRE(executed.exit_code != 0);
  REQUIRE_THAT(executed.errors, Contains("offload"));
}

}  // namespace stagecraft::offload_test
