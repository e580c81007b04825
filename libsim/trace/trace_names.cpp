#include "libsim/trace/trace_names.hpp"

#include <cassert>
#include <string>

namespace stagecraft {

namespace {

constexpr std::int64_t first_transfer = TraceVocabulary::host_wait + 1;

}  // namespace

KnownNames::KnownNames(TraceNames const& names) {
  for (std::string const& name : names.phase) {
    phases_.push_back(value_named<TracePhase>(name));
  }
  for (std::string const& name : names.stream) {
    streams_.push_back(value_named<Stream>(name));
  }
  for (std::string const& name : names.op) {
    auto const phase = value_named<TracePhase>(name);
    whole_chunks_.push_back(phase && (phase == TracePhase::forward || is_backward(*phase)));
  }
}

TracePhase phase_of(Op const& op) {
  switch (op.phase) {
    case Phase::forward:
      return TracePhase::forward;
    case Phase::recompute:
      return TracePhase::recompute;
    case Phase::input_gradient:
      return TracePhase::input_gradient;
    case Phase::weight_gradient:
      return TracePhase::weight_gradient;
    case Phase::data_parallel:
      return TracePhase::data_parallel;
    case Phase::offload:
      return TracePhase::transfer;
    case Phase::optimizer:
      break;
  }
  return TracePhase::optimizer;
}

TracePhase phase_of(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return TracePhase::forward;
    case Pass::input_gradient:
      return TracePhase::input_gradient;
    case Pass::weight_gradient:
      return TracePhase::weight_gradient;
    case Pass::recompute:
      return TracePhase::recompute;
    case Pass::backward:
      break;
  }
  return TracePhase::backward;
}

Stream stream_of(Transfer const& transfer) {
  bool const is_activation = transfer.payload == Transfer::Payload::activation;
  if (transfer.end == Transfer::End::send) {
    return is_activation ? Stream::send_activation : Stream::send_gradient;
  }
  return is_activation ? Stream::receive_activation : Stream::receive_gradient;
}

TraceVocabulary::TraceVocabulary(TrainingPlan const& plan) {
  for (auto phase = TracePhase::forward; phase <= TracePhase::host_wait;
       phase = static_cast<TracePhase>(static_cast<int>(phase) + 1)) {
    names_.phase.emplace_back(name_of(phase));
  }
  for (StreamRow const& row : stream_rows) {
    bool const offloads = plan.config.offload != Offload{};  // rows have their numbers in the list
    bool const is_used = row.kind == StreamKind::offload ? offloads
                         : row.kind == StreamKind::units ? offloads || plan.roles.unit
                                                         : true;
    if (is_used) names_.stream.emplace_back(row.name);
  }
  for (char const* const name :
       {"forward", "backward", "iteration_overhead", "host_wait", "send.activation",
        "send.gradient", "receive.activation", "receive.gradient"}) {
    add(name);
  }
  for (BlockProgram const& block : plan.programs.blocks) {
    for (Op const& op : block.forward) add(to_string(op.name));
    for (Op const& op : block.backward) add(to_string(op.name));
  }
  for (StagePlan const& rank : plan.stages) {
    for (Op const& op : rank.step_ops) add(to_string(op.name));
    for (Task const& task : rank.tasks) {
      if (task.kind != Task::Kind::step) add(std::string{name_of(phase_of(pass_of(task)))});
    }
  }
}

std::int64_t TraceVocabulary::index_of(Transfer const& transfer) const {
  return first_transfer + static_cast<std::int64_t>(stream_of(transfer)) -
         static_cast<std::int64_t>(Stream::send_activation);
}

void TraceVocabulary::add(std::string const& name) {
  bool const is_new = index_.emplace(name, static_cast<std::int64_t>(names_.op.size())).second;
  if (is_new) names_.op.push_back(name);
}

}  // namespace stagecraft
