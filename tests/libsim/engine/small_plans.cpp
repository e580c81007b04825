#include "tests/libsim/engine/small_plans.hpp"

#include <array>

#include "libsim/plan/make_plan.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft {

namespace {

constexpr std::array schedules{
    "parallel: {pipeline: 1, SPLIT}\nschedule: 1f1b",
    "parallel: {pipeline: 4, SPLIT}\nschedule: {kind: 1f1b, SCATTER}",
    "parallel: {pipeline: 4, SPLIT}\nschedule: {kind: 1f1b, p2p: overlapped, SCATTER}",
    "parallel: {pipeline: 2, SPLIT}\nschedule: {kind: gpipe, SCATTER}",
    "parallel: {pipeline: 4, interleave: 2, SPLIT}\nschedule: {kind: interleaved, SCATTER}",
    "parallel: {pipeline: 2, interleave: 2, SPLIT}\n"
    "schedule: {kind: interleaved, p2p: overlapped, group: 3, SCATTER}",
};

constexpr std::array policies{
    "none",
    "selective",
    "{granularity: selective, modules: [mlp, layernorm]}",
    "{granularity: full, method: uniform, layers: 2, sharded_checkpoints: SHARDED}",
    "{granularity: full, method: block, layers: 1}",
    "{granularity: selective, store_microbatches: 1}",
};

struct Split {
  char const* split;
  char const* scatter;
  char const* sharded;
};
constexpr std::array splits{
    Split{"tensor: 1", "scatter_gather: true", "false"},
    Split{"tensor: 2", "scatter_gather: true", "true"},
    Split{"tensor: 2", "scatter_gather: false", "true"},
    Split{"tensor: 2, sequence: true", "scatter_gather: true", "false"},
};

// Any two of the choices occur together in every combination.
constexpr std::array choices{
    "memory: {output_deallocation: true}\nmodel: {BASE, attention: unfused, tied_embeddings: "
    "true}\n"
    "parallel_too: {data: 1}",
    "memory: {output_deallocation: false, distributed_optimizer: true}\n"
    "model: {BASE, attention: flash, tied_embeddings: false, positions: rotary, norm: rmsnorm, "
    "activation: swiglu, kv_heads: 1, causal_mask: none}\nparallel_too: {data: 1}",
    "memory: {output_deallocation: true}\n"
    "model: {BASE, attention: flash, tied_embeddings: false, dropout_mask: regenerated}\n"
    "parallel_too: {data: 2, overlap_gradients: true}",
    "memory: {output_deallocation: false, distributed_optimizer: true}\n"
    "model: {BASE, attention: unfused, tied_embeddings: true, precision: bf16}\n"
    "parallel_too: {data: 2, overlap_gradients: true}",
};

constexpr char const* base = "layers: 16, hidden: 64, heads: 4, sequence: 32, vocabulary: 250";

std::string with(std::string text, std::string const& placeholder, std::string const& value) {
  for (auto at = text.find(placeholder); at != std::string::npos; at = text.find(placeholder)) {
    text.replace(at, placeholder.size(), value);
  }
  return text;
}

}  // namespace

std::vector<std::string> small_runs() {
  std::vector<std::string> runs;
  for (std::string const schedule : schedules) {
    for (std::string const policy : policies) {
      for (Split const& split : splits) {
        for (std::string choice : choices) {
          auto const more = choice.find("parallel_too: {");
          std::string const parallel = choice.substr(more + 15, choice.size() - more - 16);
          choice.resize(more);
          std::string run =
              choice + with(schedule, "SPLIT", std::string{split.split} + ", " + parallel);
          run += "\nbatch: {global: " + std::string{parallel[6] == '2' ? "16" : "8"} +
                 ", micro: 1}\nrecompute: " + policy + "\nsystem: selene-a100.yaml\n";
          run = with(run, "BASE", base);
          run = with(run, "SCATTER", split.scatter);
          run = with(run, "SHARDED", split.sharded);
          runs.push_back(run);
        }
      }
    }
  }
  // Wide enough that the first stage reduces its gradients in several buckets.
  for (char const* const schedule : {"1f1b", "gpipe"}) {
    runs.push_back(std::string{"model: {layers: 8, hidden: 2048, heads: 16, sequence: 32, "
                               "vocabulary: 250}\n"
                               "parallel: {pipeline: 2, data: 2, overlap_gradients: true}\n"
                               "batch: {global: 8, micro: 1}\nsystem: selene-a100.yaml\n"
                               "schedule: "} +
                   schedule + "\n");
  }
  // Tensor groups larger than a node share the adapters with the reductions of many buckets.
  for (char const* const schedule : {"1f1b", "gpipe"}) {
    runs.push_back(std::string{"model: {layers: 8, hidden: 64, heads: 16, sequence: 32, "
                               "vocabulary: 256}\n"
                               "parallel: {tensor: 16, pipeline: 2, data: 2, sequence: true, "
                               "overlap_gradients: true, gradient_bucket: 1000}\n"
                               "batch: {global: 8, micro: 1}\nsystem: selene-a100.yaml\n"
                               "schedule: "} +
                   schedule + "\n");
  }
  return runs;
}

SmallPlan make_small_plan(std::string const& run) {
  std::filesystem::path const origin =
      std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs/systems/small_run.yaml";
  RunConfig config = parse_run_config(run, origin, {});
  // So slow that a reduction of gradients outlasts what it overlaps with.
  config.system.network.bandwidth.value.value /= 100;
  return {run, make_plan(as_settled(config.training)), config.system};
}

}  // namespace stagecraft
