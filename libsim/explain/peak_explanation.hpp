#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/units/enum_names.hpp"

namespace stagecraft {

/// Why a tensor exists at an event.
enum class Stay : std::uint8_t {
  resident,   ///< parameters, their gradients, optimizer state, workspace: never released
  kept,       ///< made in a forward, needed in its backward
  rebuilt,    ///< recomputed for the current backward
  temporary,  ///< released before the current pass ends
  message,    ///< received and not yet used, or made and not yet released by its send
};

/// The names in JSON.
template <>
struct EnumNames<Stay> {
  static constexpr std::array<std::pair<Stay, std::string_view>, 5> all{
      {{Stay::resident, "resident"},
       {Stay::kept, "kept"},
       {Stay::rebuilt, "rebuilt"},
       {Stay::temporary, "temporary"},
       {Stay::message, "message"}}};
};

/// Live tensors of one kind: one tensor of a layer (or of embedding or head), for all layers and
/// microbatches that hold it.
struct TensorGroup {
  std::string tensor;  ///< e.g. core_attention.softmax_output; a category if resident
  Stay stay = Stay::kept;
  Category category = Category::activations;
  std::vector<std::string> made_by;  ///< ops, most bytes first; "received": from another stage
  std::string needed_by;             ///< kept: the first op of the backward that uses it
  std::int64_t bytes = 0;
  std::int64_t buffers = 0;       ///< number of buffers
  std::int64_t layers = 0;        ///< number of layers that have them; 0: outside of layers
  std::int64_t microbatches = 0;  ///< number of microbatches that have them
  std::int64_t passes = 0;        ///< number of (microbatch, chunk) pairs that have them
};

/// The event at which a stage's memory peaks.
struct PeakEvent {
  SimTime time{0};
  std::string op;           ///< e.g. core_attention.scores; or "receive gradient"; or "start"
  std::string phase;        ///< of the op; "transfer"; empty at the start
  std::int64_t layer = -1;  ///< of the model; -1: none
  MicrobatchId microbatch = no_microbatch;
  std::int32_t chunk = -1;
};

/// What a stage's peak consists of. The groups' bytes sum to the peak, category by category.
struct PeakExplanation {
  std::int32_t stage = 0;
  PeakEvent event;
  std::vector<TensorGroup> tensors;  ///< largest first
};

/// Explains a stage's peak, as simulate() gives it.
/// \throws std::logic_error  if the live tensors do not sum to that peak.
PeakExplanation explain_peak(TrainingPlan const& plan,
                             Simulation const& simulation,
                             std::size_t stage);

}  // namespace stagecraft
