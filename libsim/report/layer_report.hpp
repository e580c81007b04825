#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libsim/engine/player/block_times.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// One op of a layer, which is one line of `stagecraft layer`.
struct LayerOpRow {
  std::string op;
  std::string phase;
  std::string stream;
  std::string shape;  ///< of a GEMM "batch x m x n x k", else its result's (or operand's, if none)
  std::int64_t flops = 0;
  std::int64_t bytes = 0;        ///< moved to and from memory; of a collective: the whole tensor
  std::int64_t saved_bytes = 0;  ///< the size of its results that backward reads
  double start_seconds = 0;      ///< from the start of its pass
  double seconds = 0;
};

/// One tensor that a layer keeps from forward to backward.
struct SavedTensorRow {
  std::string part;  ///< an entry of the paper's list: norms, attention or MLP
  std::string tensor;
  std::int64_t bytes = 0;
};

/// A layer block, op by op.
struct LayerReport {
  int layers = 1;  ///< more than 1 in a full-recompute group
  std::vector<LayerOpRow> ops;
  std::vector<SavedTensorRow> saved;
  double forward_seconds = 0;
  double backward_seconds = 0;  ///< without recompute
  double recompute_seconds = 0;
  std::int64_t saved_bytes = 0;
  std::optional<std::int64_t> paper_bytes;
  std::int64_t hidden_bytes =
      0;  ///< sbh elements at one byte: the unit of the paper's closed forms
};

/// Reports on every distinct layer block of a plan: one report if all layers have the same policy.
std::vector<LayerReport> report_layers(TrainingPlan const& plan, CostModel const& cost);

std::string to_text(LayerReport const& report);
/// The document of `layer --json`, schema stagecraft.layers/1, with the reports of the plan.
nlohmann::ordered_json layers_document(TrainingPlan const& plan,
                                       std::vector<LayerReport> const& reports);

}  // namespace stagecraft
