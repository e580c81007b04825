#include "libsim/run/run_time_limit.hpp"

#include <algorithm>
#include <string>

#include "libsim/hardware/recipe_support.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/training/size_limits.hpp"

namespace stagecraft {
namespace {

/// The seconds that one byte takes at the end of a measured table.
double seconds_per_byte(std::vector<CollectivePoint> const& table) {
  CollectivePoint const& last = table.back();
  return last.duration.value / static_cast<double>(std::max<std::int64_t>(1, last.size.count()));
}

/// The seconds that one byte takes on the slowest path of a collective; 0 if it is not given.
double seconds_per_byte(CollectiveCost const& cost) {
  if (!cost.table.empty()) return seconds_per_byte(cost.table);
  return cost.bandwidth.value > 0 ? 1 / cost.bandwidth.value : 0;
}

double latency(CollectiveCost const& cost) {
  return cost.table.empty() ? cost.latency.value : cost.table.back().duration.value;
}

/// The seconds that one byte takes over the network, at the lowest rate that the system gives to a
/// job of so many ranks.
double slowest_byte(System const& system, int ranks) {
  Network const& network = system.network;
  auto const unit = static_cast<double>(nodes_per_unit(system.node, network));
  bool const leaves_units = unit > 0 && ranks > unit * system.node.accelerators.value;
  double rate = network.bandwidth.value.value * network.efficiency.value *
                std::min(1.0, adapters_per_accelerator(system.node, network)) /
                (leaves_units ? network.topology.value.oversubscription : 1);
  for (RateByNodes const* const rates :
       {&network.bus_bandwidth.value, &network.gather_bandwidth.value}) {
    for (auto const& [nodes, measured] : *rates) {
      rate = std::min(rate, measured.value / system.node.accelerators.value);
    }
  }
  if (system.node.bus_bandwidth.value.value > 0) {
    rate = std::min(rate, system.node.bus_bandwidth.value.value);
  }
  return 1 / rate;
}

/// An upper bound of what the host spends on one call.
double host_time(Software const& software, int ranks) {
  HostCosts const& host = software.host;
  auto const most = [](std::map<OpKind, double> const& by_kind, double least) {
    for (auto const& [kind, number] : by_kind) least = std::max(least, number);
    return least;
  };
  double const launches = most(host.launches.value, 1) + 2 + host.step_launches.value;
  double const per_op =
      (std::max({host.kernel.value.value, host.gemm.value.value, host.collective.value.value}) *
           launches +
       host.pass.value.value + host.call.value.value * most(host.calls.value, 0)) *
      std::max(1.0, host.backward.value);
  double const per_rank =
      host.collective_per_rank.value.value + host.collective_per_remote_rank.value.value +
      software.replicas.call_per_rank.value.value + software.replicas.gather_piece.value.value;
  return per_op + per_rank * ranks + host.unfused_softmax.value.value + host.message.value.value +
         host.iteration.value.value + software.replicas.call.value.value;
}

/// The most products that a grouped one may be issued as.
double experts_of(RunConfig const& config) {
  auto const& experts = config.training.model.experts;
  return experts ? static_cast<double>(experts->count) : 1;
}

double longest_iteration(RunConfig const& config, double peak) {
  System const& system = config.system;
  Calibration const& calibration = system.calibration;
  ParallelLayout const& parallel = config.training.parallel;
  PlanSizes const sizes = plan_sizes(config.training);
  KernelUse const& kernels = system.software.kernels;
  double factor = std::max(1.0, kernels.unfused_softmax_traffic.value);
  for (auto const& [kind, of_kind] : kernels.traffic.value) factor = std::max(factor, of_kind);
  double slowest = 1;
  for (auto const& [kind, of_kind] : kernels.time.value) {
    for (auto const& [capability, of_device] : of_kind) slowest = std::max(slowest, of_device);
  }
  double byte_time = std::max(
      (factor + kernels.accumulation_bytes.value + system.software.replicas.gather_traffic.value) /
          system.accelerator.bandwidth.value.value,
      slowest_byte(system, world_size(parallel)));
  double call_time = calibration.kernel_launch.value.value +
                     calibration.gemm_tile_prologue.value.value +
                     calibration.p2p_synchronisation.value.value +
                     system.network.latency.value.value * world_size(parallel) +
                     host_time(system.software, world_size(parallel)) * experts_of(config) /
                         system.node.host_speed.value;
  for (CollectiveCost const* const cost :
       {&system.node.all_reduce.value, &system.node.all_gather.value,
        &system.node.reduce_scatter.value, &system.node.p2p.value}) {
    byte_time = std::max(byte_time, seconds_per_byte(*cost));
    call_time += latency(*cost);
  }
  for (auto const* const measured :
       {&system.node.collectives.value, &system.network.collectives.value}) {
    if (!measured->tables) continue;
    for (auto const& [shape, table] : *measured->tables) {
      byte_time = std::max(byte_time, seconds_per_byte(table));
      call_time = std::max(call_time, table.back().duration.value);
    }
  }
  constexpr double calls_per_layer = 100;
  constexpr double passes_over_bytes = 4;
  auto const p = static_cast<double>(parallel.pipeline);
  double const n = sizes.chunk_passes / p / parallel.interleave;
  double const layers = static_cast<double>(config.training.model.layers) / p + 1;
  return system.software.factor.value * slowest *
         (calibration.iteration_overhead.value.value + n * layers * calls_per_layer * call_time +
          passes_over_bytes * sizes.bytes / p * byte_time +
          n * parallel.interleave * sizes.flops / (0.01 * peak));
}

}  // namespace

void check_precision(RunConfig const& config, ConfigNode const& root) {
  ConfigNode const precision = root.child("model").child("precision");
  ConfigNode const peak = root.child("system").child("accelerator").child("peak");
  auto const& peaks = config.system.accelerator.peak.value;
  Precision const wanted = config.training.model.precision;
  if (!precision.is_sound() || !peak.is_sound() || peaks.count(wanted) > 0) return;
  std::string accepted;
  for (auto const& entry : peaks) {
    accepted += (accepted.empty() ? "" : ", ") + std::string{name_of(entry.first)};
  }
  precision.report(precision.exists() ? precision.found()
                                      : "'" + std::string{name_of(wanted)} + "' (the default)",
                   "a precision of system.accelerator.peak (" + accepted + ")");
}

void check_attention(RunConfig const& config, ConfigNode const& root) {
  constexpr int ampere = 8;
  ModelConfig const& model = config.training.model;
  int const capability = config.system.accelerator.compute_capability.value;
  ConfigNode const attention = root.child("model").child("attention");
  if (!attention.is_sound() || model.attention != Attention::flash || capability == 0) return;
  if (capability < ampere) {
    attention.report("'flash', which has no kernels before compute capability 8.0",
                     "unfused, or a system whose accelerator.compute_capability is 8 or more");
  } else if (model.precision == Precision::fp32 || model.precision == Precision::fp64) {
    bool const is_fp32 = model.precision == Precision::fp32;
    attention.warn("FlashAttention has kernels for fp16 and bf16 alone; " +
                   std::string{is_fp32 ? "in fp32 bytes are those of PyTorch's memory-efficient "
                                         "kernel, which keeps the same, and times are not validated"
                                       : "in fp64 its algorithm is predicted all the same"});
  }
}

void check_recipe(RunConfig const& config, ConfigNode const& root) {
  RecipeTraits const* const recipe = find_recipe(config.training.low_precision.recipe);
  ConfigNode const section = root.child("low_precision");
  Accelerator const& accelerator = config.system.accelerator;
  if (recipe == nullptr || !section.is_sound() || !root.child("system").is_sound()) return;
  ConfigNode const node = section.is_map() ? section.child("recipe") : section;
  if (has_recipe(accelerator, *recipe)) return;
  if (!low_peak(accelerator.peak.value, recipe->elements)) {
    bool const is_of_4 = element_bits(recipe->elements) == 4;
    node.report("none, as system.accelerator.peak has no " +
                std::string{is_of_4 ? "fp4: " : "fp8: "} + accelerator.name +
                " has no products in " + (is_of_4 ? "4" : "8") + " bits");
    return;
  }
  std::string accepted{name_of(Recipe::none)};
  for (RecipeTraits const& row : recipe_traits) {
    if (has_recipe(accelerator, row)) accepted += ", " + std::string{name_of(row.recipe)};
  }
  node.report(accepted + ", as " + accelerator.name + " has no products with scales of " +
              std::string{name_of(recipe->recipe)} +
              (recipe->capability == 10 ? ", which Blackwell has" : ""));
}

void check_tf32(RunConfig const& config, ConfigNode const& root) {
  Accelerator const& accelerator = config.system.accelerator;
  ConfigNode const node = root.child("tf32");
  if (!config.training.tf32 || accelerator.peak.value.tf32) return;
  if (!node.is_sound() || !root.child("system").is_sound()) return;
  node.report("false, as system.accelerator.peak has no tf32: " + accelerator.name +
              " has no products in TF32");
}

void check_dispatch(RunConfig const& config, ConfigNode const& root) {
  if (config.training.dispatch != Dispatch::deepep || !root.is_sound()) return;
  int const occupied = config.training.parallel.dispatch_multiprocessors;
  int const all = config.system.accelerator.multiprocessors.value;
  if (occupied % 2 == 0 && occupied < all) return;
  ConfigNode const node = root.child("parallel").child("dispatch_multiprocessors");
  node.report(node.exists() ? node.found() : std::to_string(occupied) + " (the default)",
              "an even number below the " + std::to_string(all) +
                  " multiprocessors of system.accelerator, with dispatch deepep");
}

void check_host(RunConfig const& config, ConfigNode const& root) {
  Offload const& offload = config.training.offload;
  System const& system = config.system;
  if (offload == Offload{} || !root.is_sound()) return;
  bool const updates = offload.optimizer > 0;
  std::string missing;
  auto const need = [&](bool is_given, std::string_view key) {
    if (!is_given) missing += (missing.empty() ? "" : ", ") + std::string{key};
  };
  need(system.node.host_memory.value > Bytes{0}, "node.host_memory");
  need(!updates || system.node.host_adam.value > 0, "node.host_adam");
  need(system.accelerator.host_link.value.bandwidth.value > 0, "accelerator.host_link");
  if (missing.empty()) return;
  root.child("offload")
      .child(updates ? "optimizer" : "activations")
      .report("`offload: none`, or a system with " + missing + ", which '" + system.name +
              "' does not have");
}

void check_run_time(RunConfig const& config, ConfigNode const& root) {
  if (!root.is_sound()) return;
  // A sound run has a precision that the accelerator has.
  double const peak = matrix_peak(config.system.accelerator.peak.value,
                                  config.training.model.precision, config.training.tf32)
                          ->value;
  constexpr double longest_seconds = 9e6;
  std::string const too_long = " an iteration could take more than 100 days";
  if (longest_iteration(config, peak) <= longest_seconds) return;
  RunConfig of_one_microbatch = config;
  BatchConfig& batch = of_one_microbatch.training.batch;
  batch.global = batch.micro * config.training.parallel.data;
  if (longest_iteration(of_one_microbatch, peak) > longest_seconds) {
    root.child("system").report("a system on which" + too_long,
                                "faster constants, or a smaller model or batch");
  } else {
    ConfigNode const global = root.child("batch").child("global");
    global.report(global.found() + ", with which" + too_long,
                  "fewer sequences, or a faster system");
  }
}

}  // namespace stagecraft
