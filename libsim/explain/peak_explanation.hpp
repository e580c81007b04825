#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Why a tensor exists at an event.
enum class Stay : std::uint8_t {
  resident,   ///< parameters, their gradients, optimizer state, workspace: always there
  kept,       ///< made in a forward, needed in its backward
  rebuilt,    ///< made again by recompute, for the backward that is running
  temporary,  ///< gone when the pass that is running is over
  message,    ///< received and not yet used, or made and not yet released by its send
};

/// Live tensors that are alike: one tensor of a layer (or of embedding or head), over layers and
/// microbatches.
struct TensorGroup {
  std::string tensor;  ///< e.g. core_attention.softmax_output; a category if resident
  Stay stay = Stay::kept;
  Category category = Category::activations;
  std::vector<std::string> made_by;  ///< ops, by bytes; "received" from another stage
  std::string needed_by;             ///< kept: the first op of the backward that uses it
  std::int64_t bytes = 0;
  std::int64_t buffers = 0;       ///< how many there are
  std::int64_t layers = 0;        ///< of how many layers; 0: of none
  std::int64_t microbatches = 0;  ///< of how many microbatches
  std::int64_t passes = 0;        ///< of how many (microbatch, chunk) pairs
};

/// The event at which a stage's memory peaks.
struct PeakEvent {
  SimTime time{0};
  std::string op;           ///< e.g. core_attention.scores; or "receive gradient"; or "start"
  std::string phase;        ///< of the op; "transfer"; empty at the start
  std::int64_t layer = -1;  ///< of the model; -1: none
  std::int32_t microbatch = -1;
  std::int32_t chunk = -1;
};

/// Why a stage is as full as it is. The groups' bytes sum to the stage's peak, category by
/// category.
struct PeakExplanation {
  std::int32_t stage = 0;
  PeakEvent event;
  std::vector<TensorGroup> tensors;  ///< largest first
};

/// Explains a stage's peak, as simulate() gives it. \throws std::logic_error  where the two differ.
PeakExplanation explain_peak(TrainingPlan const& plan,
                             Simulation const& simulation,
                             std::size_t stage);

}  // namespace stagecraft
