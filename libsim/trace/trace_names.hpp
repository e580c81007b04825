#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/plan/training_plan.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

enum class TraceDetail : std::uint8_t {
  chunk,  ///< a row a task: forward or backward of a microbatch, transfer, step of the optimizer
  op,     ///< a row an op
};

/// Why something in a trace runs.
enum class TracePhase : std::uint8_t {
  forward,
  recompute,
  input_gradient,
  weight_gradient,
  backward,       ///< whole chunks only: recompute, input and weight gradients together
  transfer,       ///< messages between stages
  data_parallel,  ///< gradients and parameters between ranks
  optimizer,      ///< everything else that happens once an iteration
};

std::string_view name_of(TracePhase phase);
TracePhase phase_of(Op const& op);

/// Where something in a trace runs. Intervals of one stream of a rank never overlap: messages of
/// each payload and direction follow each other, the two payloads do not.
enum class TraceStream : std::uint8_t {
  compute,
  tensor_parallel,
  data_parallel,
  send_activation,
  send_gradient,
  receive_activation,
  receive_gradient,
};

std::string_view name_of(TraceStream stream);
/// Pre: not one of the streams of messages, whose payload an op does not have.
TraceStream stream_of(Stream stream);
TraceStream stream_of(Transfer const& transfer);

/// The names of the traces of a plan, whoever runs it: equal plans have equal indices.
class TraceVocabulary {
 public:
  explicit TraceVocabulary(TrainingPlan const& plan);

  TraceNames const& names() const { return names_; }
  /// Pre: an op of the plan has that name.
  std::int64_t index_of(Name const& op) const { return index_.at(to_string(op)); }
  /// `send.activation` and the like.
  std::int64_t index_of(Transfer const& transfer) const;

  // Rows of whole chunks, and of what a system adds to each iteration.
  static constexpr std::int64_t forward = 0;
  static constexpr std::int64_t backward = 1;
  static constexpr std::int64_t iteration_overhead = 2;

 private:
  void add(std::string const& name);

  TraceNames names_;
  std::map<std::string, std::int64_t> index_;
};

}  // namespace stagecraft
