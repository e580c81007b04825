#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/units/enum_names.hpp"

namespace stagecraft {

/// Free blocks of one size in one of the allocator's pools.
struct FreeSize {
  bool is_small = false;  ///< of the pool for requests up to 1 MiB
  bool is_split = false;  ///< beside blocks in use, so that it cannot be given back to the device
  std::int64_t size = 0;
  std::int64_t blocks = 0;

  std::int64_t bytes() const { return size * blocks; }
};

/// One of the allocator's two pools.
struct PoolUse {
  std::int64_t reserved = 0;
  std::int64_t live = 0;
};

/// What a stage's reserved bytes consist of when they first reach their peak. Bytes;
/// reserved = requested + rounding + fragments + cached.
struct ReservedExplanation {
  std::int32_t stage = 0;
  std::int64_t counted = 0;    ///< the stage's counted peak, perhaps at another instant
  std::int64_t reserved = 0;   ///< 0 if the allocator does not place blocks
  std::int64_t requested = 0;  ///< what live blocks were asked for
  std::int64_t rounding = 0;   ///< what live blocks have beyond that
  std::int64_t fragments = 0;  ///< free blocks with a neighbour in their segment
  std::int64_t cached = 0;     ///< free whole segments
  PoolUse small;
  PoolUse large;
  std::vector<FreeSize> free;  ///< the most bytes first
  std::int64_t request = 0;    ///< for which it grew to this
  std::string tensor;          ///< whose that was; empty: a buffer of the framework
  bool is_in_step = false;     ///< in the optimizer step
};

/// Explains what a stage of a simulated plan reserves beside what else is on the device.
ReservedExplanation explain_reserved(TrainingPlan const& plan,
                                     System const& system,
                                     StageResult const& stage);

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
