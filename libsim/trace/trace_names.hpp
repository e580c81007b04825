#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/plan/training_plan.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/units/enum_names.hpp"

namespace stagecraft {

enum class TraceDetail : std::uint8_t {
  chunk,  ///< one row per task: forward or backward of a microbatch, transfer, optimizer step
  op,     ///< one row per op
};

/// The purpose of a row of a trace.
enum class TracePhase : std::uint8_t {
  forward,
  recompute,
  input_gradient,  ///< of a whole chunk, recompute included
  weight_gradient,
  backward,       ///< whole chunks only: recompute, input and weight gradients together
  transfer,       ///< messages between stages, and what layers keep on the host
  data_parallel,  ///< gradients and parameters between ranks
  optimizer,      ///< everything else that happens once per iteration
  host_wait,      ///< the compute stream stands still until the host has issued what comes next
};

template <>
struct EnumNames<TracePhase> {
  static constexpr std::array<std::pair<TracePhase, std::string_view>, 9> all{
      {{TracePhase::forward, "forward"},
       {TracePhase::recompute, "recompute"},
       {TracePhase::input_gradient, "input_gradient"},
       {TracePhase::weight_gradient, "weight_gradient"},
       {TracePhase::backward, "backward"},
       {TracePhase::transfer, "transfer"},
       {TracePhase::data_parallel, "data_parallel"},
       {TracePhase::optimizer, "optimizer"},
       {TracePhase::host_wait, "host_wait"}}};
};

TracePhase phase_of(Op const& op);
/// The name of a row for a whole chunk.
TracePhase phase_of(Pass pass);

Stream stream_of(Transfer const& transfer);

/// The names in the traces of a plan, simulated or executed: equal plans have equal indices.
class TraceVocabulary {
 public:
  explicit TraceVocabulary(TrainingPlan const& plan);

  TraceNames const& names() const { return names_; }
  /// Pre: an op of the plan has that name.
  std::int64_t index_of(Name const& op) const { return index_.at(to_string(op)); }
  /// The index of names such as `send.activation`.
  std::int64_t index_of(Transfer const& transfer) const;

  /// The index of the name of a row for a whole chunk. Pre: the plan has such passes.
  std::int64_t index_of(Pass pass) const { return index_.at(std::string{name_of(phase_of(pass))}); }

  // Names of the rows of whole chunks, of what a system adds to each iteration, and of waits for
  // the host.
  static constexpr std::int64_t forward = 0;
  static constexpr std::int64_t backward = 1;
  static constexpr std::int64_t iteration_overhead = 2;
  static constexpr std::int64_t host_wait = 3;

 private:
  void add(std::string const& name);

  TraceNames names_;
  std::map<std::string, std::int64_t> index_;
};

/// The meaning of the names of a file, looked up once: a trace has a million rows but nine phases.
class KnownNames {
 public:
  explicit KnownNames(TraceNames const& names);

  /// nullopt for a name that this version does not know. Pre: an index into TraceNames::phase.
  std::optional<TracePhase> phase(std::int64_t index) const { return at(phases_, index); }
  /// Pre: an index into TraceNames::stream.
  std::optional<Stream> stream(std::int64_t index) const { return at(streams_, index); }
  /// Whether a row with this op is the whole forward of a chunk, or its backward or a part of it.
  bool is_whole_chunk(std::int64_t op) const { return whole_chunks_[static_cast<std::size_t>(op)]; }

 private:
  template <typename Kind>
  static Kind at(std::vector<Kind> const& kinds, std::int64_t index) {
    return kinds[static_cast<std::size_t>(index)];
  }

  std::vector<std::optional<TracePhase>> phases_;
  std::vector<std::optional<Stream>> streams_;
  std::vector<bool> whole_chunks_;
};

constexpr bool is_backward(TracePhase phase) {
  return phase == TracePhase::recompute || phase == TracePhase::input_gradient ||
         phase == TracePhase::weight_gradient || phase == TracePhase::backward;
}

/// Whether the row of a whole chunk may contain recompute.
constexpr bool may_recompute(std::optional<TracePhase> phase) {
  return phase == TracePhase::backward || phase == TracePhase::input_gradient;
}

}  // namespace stagecraft
