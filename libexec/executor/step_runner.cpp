#include "libexec/executor/step_runner.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace stagecraft {
namespace {

constexpr int doubling_interval = 1000;  ///< steps without overflow; Megatron's loss_scale_window
constexpr double norm_guard = 1e-6;      ///< Megatron's clip_grad_by_total_norm

/// A collective that reduces in place.
Collective in_place(FlatRange const& range) {
  return {
      .type = range.type, .source = range.data, .target = range.data, .elements = range.elements};
}

/// Likewise, of numbers that the host has.
Collective on_host(FlatRange const& range) {
  Collective collective = in_place(range);
  collective.in_host_memory = true;
  return collective;
}

}  // namespace

StepRunner::StepRunner(RankContext const& context, ParameterStore& parameters)
    : context_{context},
      parameters_{parameters},
      replicas_{
          context.plan.groups.membership(context.plan.roles.gradients, context.rank).value()} {}

void StepRunner::run(Task const& task) {
  Op const& op = context_.program.step_ops[static_cast<std::size_t>(task.op)];
  auto const compute = [&](auto computation) {
    context_.record(op, {}, context_.clock.run(computation));
  };
  Backend& backend = context_.backend;
  if (is_collective(op.kind)) {
    communicate(op, task);
    return;
  }
  switch (op.kind) {
    case OpKind::zero_gradients:
      compute([&] { backend.zero(parameters_.gradients()); });
      return;
    case OpKind::scale_gradients: {
      ParameterStore::Run const run = parameters_.run_of(task);
      double const factor = 1.0 / context_.plan.config.parallel.data;
      compute([&] { backend.scale(parameters_.gradients().part(run.first, run.count), factor); });
      return;
    }
    case OpKind::unscale_gradients:
      compute([&] {
        found_infinity_ = 0;
        for (auto const& run : parameters_.owned()) {
          FlatRange const gradients = parameters_.gradients().part(run.first, run.count);
          if (backend.unscale(gradients, 1 / context_.state.loss_scale)) found_infinity_ = 1;
        }
      });
      return;
    case OpKind::gradient_norm:
      compute([&] { measure_norm(); });
      return;
    case OpKind::clip_gradients:
      compute([&] { clip(); });
      return;
    case OpKind::adam:
      compute([&] { update(); });
      return;
    case OpKind::narrow_parameters:
      compute([&] {
        if (was_skipped_) return;
        for (auto const& run : parameters_.owned()) {
          backend.narrow(parameters_.master(run), parameters_.weights().part(run.first, run.count));
        }
      });
      return;
    default:
      throw std::logic_error{std::string{name_of(op.kind)} + " is no op of the step"};
  }
}

void StepRunner::communicate(Op const& op, Task const& task) {
  switch (op.data.value()) {
    case StepData::gradients:
      reduce_over_replicas(op, task);
      return;
    case StepData::parameters:
      gather_parameters(op);
      return;
    case StepData::partial_gradients:
    case StepData::kv_gradients:
      sum_replicated_rows(op);
      return;
    case StepData::embedding_gradient:
      reduce_tied_embedding(op);
      return;
    case StepData::found_infinity:
      agree_on_infinity(op);
      return;
    case StepData::squares_of_gradients:
      sum_norm(op);
      return;
  }
}

void StepRunner::start(Op const& op, std::vector<Collective> const& collectives) {
  SimTime const now = context_.clock.now();
  Pending pending{
      .tickets = {}, .group = op.group.value(), .row = context_.record(op, {}, {now, now})};
  SimTime price = context_.price_of(op);
  for (Collective collective : collectives) {
    collective.kind = op.kind;
    collective.group = pending.group;
    collective.reduction = op.reduction;
    collective.op = op.name;
    collective.issued = now;
    collective.price = price;
    price = SimTime{0};  // of all of them together
    pending.tickets.push_back(context_.communicator.start(collective));
  }
  pending_.push_back(std::move(pending));
}

void StepRunner::finish_all() {
  for (Pending const& pending : pending_) {
    if (pending.tickets.empty()) continue;
    // Those of one op run one after the other.
    TimeSpan all;
    for (Communicator::Ticket const ticket : pending.tickets) {
      TimeSpan const time = context_.communicator.finish(pending.group, ticket);
      if (ticket == pending.tickets.front()) all.start = time.start;
      all.end = time.end;
    }
    if (context_.recorder != nullptr) context_.recorder->set_time(pending.row, all);
    context_.clock.wait_until(all.end);
  }
  pending_.clear();
}

void StepRunner::drain() { finish_all(); }

void StepRunner::reduce_over_replicas(Op const& op, Task const& task) {
  ParameterStore::Run const bucket = parameters_.run_of(task);
  FlatRange const gradients = parameters_.gradients();
  std::vector<Collective> collectives;
  for (ShardedRun const& run : parameters_.sharded()) {
    std::int64_t const begin = std::max(run.first, bucket.first);
    std::int64_t const end = std::min(run.first + run.count, bucket.first + bucket.count);
    if (begin >= end) continue;
    FlatRange const range = gradients.part(begin, end - begin);
    Collective collective = in_place(range);
    if (op.kind == OpKind::reduce_scatter) {
      collective.piece = run.shard(replicas_.size());
      std::int64_t const own = collective.piece_begin(replicas_.member);
      collective.target = range.part(own, 0).data;
    }
    collectives.push_back(collective);
  }
  start(op, collectives);
}

void StepRunner::gather_parameters(Op const& op) {
  std::vector<Collective> collectives;
  for (ShardedRun const& run : parameters_.sharded()) {
    FlatRange const range = parameters_.weights().part(run.first, run.count);
    Collective collective = in_place(range);
    collective.piece = run.shard(replicas_.size());
    std::int64_t const own = collective.piece_begin(replicas_.member);
    collective.source = range.part(own, 0).data;
    collectives.push_back(collective);
  }
  start(op, collectives);
}

void StepRunner::sum_replicated_rows(Op const& op) {
  std::vector<Collective> collectives;
  for (PlacedParameter const& placed : parameters_.layout()) {
    std::int64_t const columns = placed.elements() / placed.weight->shape[0];
    std::int64_t first = placed.offset;
    std::int64_t end = first;
    // Segments side by side are summed as one.
    auto const sum = [&] {
      if (end > first) {
        collectives.push_back(in_place(parameters_.gradients().part(first, end - first)));
      }
    };
    for (RowSegment const& segment : placed.parameter->segments) {
      std::int64_t const elements = segment.rows * columns;
      if (segment.gradient_sum != op.data) {
        sum();
        first = end + elements;
      }
      end += elements;
    }
    sum();
  }
  start(op, collectives);
  finish_all();
}

void StepRunner::reduce_tied_embedding(Op const& op) {
  std::vector<Collective> collectives;
  for (PlacedParameter const& placed : parameters_.layout()) {
    if (!placed.parameter->tied_embedding) continue;
    collectives.push_back(in_place(parameters_.gradients().part(placed.offset, placed.elements())));
  }
  start(op, collectives);
  finish_all();
}

void StepRunner::agree_on_infinity(Op const& op) {
  start(op, {on_host({&found_infinity_, ElementType::f32, 1})});
  finish_all();
}

void StepRunner::sum_norm(Op const& op) {
  auto& words = squares_.words();
  start(op, {on_host({words.data(), ElementType::i64, static_cast<std::int64_t>(words.size())})});
  finish_all();
  gradient_norm_ = std::sqrt(squares_.value());
}

void StepRunner::measure_norm() {
  squares_ = {};
  was_skipped_ = found_infinity_ != 0;
  for (PlacedParameter const& placed : parameters_.layout()) add_squares(placed);
}

void StepRunner::add_squares(PlacedParameter const& placed) {
  // Both holders of a tied embedding have its whole gradient; the first stage's counts.
  bool const is_copy = placed.parameter->tied_embedding && context_.place.pipeline > 0;
  if (is_copy) return;
  ParameterWindow const window = context_.window(placed);
  for (RowRange const& rows : window.rows) {
    if (rows.is_replica) continue;
    for (auto const& run : parameters_.owned(placed.offset + rows.local * window.columns,
                                             rows.count * window.columns)) {
      squares_.add(
          context_.backend.sum_of_squares(parameters_.gradients().part(run.first, run.count)));
    }
  }
}

void StepRunner::clip() {
  double const most = context_.plan.config.training.clip;
  double const factor = most / (gradient_norm_ + norm_guard);
  if (was_skipped_ || most == 0 || factor >= 1) return;
  for (auto const& run : parameters_.owned()) {
    context_.backend.scale(parameters_.gradients().part(run.first, run.count), factor);
  }
}

void StepRunner::update() {
  adjust_loss_scale();
  if (was_skipped_) return;
  ++context_.state.updates;
  Hyperparameters const& numbers = context_.plan.config.training;
  AdamUpdate update{.learning_rate = numbers.learning_rate,
                    .beta1 = numbers.beta1,
                    .beta2 = numbers.beta2,
                    .epsilon = numbers.epsilon,
                    .step = context_.state.updates};
  for (PlacedParameter const& placed : parameters_.layout()) {
    bool const decays = placed.weight->shape.rank() > 1;  // neither biases nor norms do
    update.decay_factor = decays ? 1 - numbers.learning_rate * numbers.weight_decay : 1;
    for (auto const& run : parameters_.owned(placed.offset, placed.elements())) {
      context_.backend.adam(update, parameters_.master(run), parameters_.first_moment(run),
                            parameters_.second_moment(run),
                            parameters_.gradients().part(run.first, run.count));
    }
  }
}

void StepRunner::adjust_loss_scale() {
  TrainingState& state = context_.state;
  if (context_.plan.config.model.precision != Precision::fp16) return;
  if (was_skipped_) {
    state.loss_scale = std::max(1.0, state.loss_scale / 2);
    state.steps_since_overflow = 0;
  } else if (++state.steps_since_overflow == doubling_interval) {
    state.loss_scale *= 2;
    state.steps_since_overflow = 0;
  }
}

}  // namespace stagecraft
