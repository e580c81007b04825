#include <algorithm>
#include <utility>
#include <vector>

#include "libsim/modules/attention/core_attention.hpp"

/// Attention of ranks that split sequences, among which keys and values go round. There are as many
/// steps as ranks: in step i, a rank attends to the keys of the rank i before it, while the next
/// ones arrive. In the backward pass they go the other way round, beginning with those that arrived
/// last, together with the sum of their gradients.
///
/// With b sequences, s/c rows of a rank, K = V = k/t elements of a row in 16 bits:
///   forward   c - 1 messages of 4 (s/c) b k/t bytes. All c buffers of them live until the end, as
///   do
///             the c parts of the context, which are then rescaled into one.
///   saved     q, the keys and values that arrived last, context, log_sum_exp.
///   backward  4 (s/c) b k/t bytes in the first and the last message, 8 in those between; two
///             buffers of 8.
/// Every step has half of the pairs on every rank: the causal half in the first step, half of the
/// rows or half of the keys in the others. The buffers are those of the last rank, which has all
/// queries in each step. The others need less.
///
/// If ranks have consecutive rows (BlockShape::contiguous_keys), rank r has nothing to do in the
/// steps after step r, in which it has the keys of later ranks. The others wait for the last rank,
/// which has the causal half in its first step and all pairs in the c - 1 others: (2 c - 1) / c
/// times as many as each of the ranks with two chunks. Messages and buffers are the same.
/// Source: TransformerEngine d0067d0, attention/dot_product_attention/context_parallel.py,
/// AttnFuncWithCPAndKVP2P; Liu et al. 2023 (Ring Attention), arXiv:2310.01889; for consecutive
/// rows, zhuzilin/ring-flash-attention 8996282, ring_flash_attn/ring_flash_attn.py, whose buffers
/// differ.
namespace stagecraft {
namespace {

AttentionPart ring_step(ProgramBuilder const& builder, int step) {
  return {.kind = builder.shape().contiguous_keys ? AttentionPart::Kind::contiguous_step
                                                  : AttentionPart::Kind::ring_step,
          .index = step,
          .stride = builder.shape().exchange.ranks};
}

/// Keys and values of a rank's rows, joined by token: [s/c, b, (kv heads) (d + d')].
struct JoinedShape {
  std::int64_t rows, b, heads;
  std::int64_t d;        ///< width of a key head
  std::int64_t value_d;  ///< width of a value head

  std::int64_t width() const { return heads * (d + value_d); }
  std::int64_t elements() const { return rows * b * width(); }
  Shape shape() const { return {rows, b, width()}; }
};

JoinedShape joined_shape(ProgramBuilder const& builder, AttentionLayer const& attention) {
  Shape const& k = builder.tensor(attention.k).shape;
  Shape const& v = builder.tensor(attention.v).shape;
  return {.rows = k[0], .b = k[1], .heads = k[2], .d = k[3], .value_d = v[3]};
}

/// Views of the keys and of the values in a buffer of joined keys and values, from element `offset`
/// on.
std::pair<TensorId, TensorId> views_of(ProgramBuilder& builder,
                                       JoinedShape const& joined,
                                       TensorId buffer,
                                       std::int64_t offset) {
  auto const heads = [&](std::string_view name, std::int64_t d, std::int64_t at) {
    return builder.view({core_attention, name}, buffer, {joined.rows, joined.b, joined.heads, d},
                        {joined.b * joined.width(), joined.width(), d, 1}, offset + at);
  };
  return {heads("ring_k", joined.d, 0), heads("ring_v", joined.value_d, joined.heads * joined.d)};
}

/// Sends one tensor on, and receives another, while the ops that follow compute.
void shift(ProgramBuilder& builder,
           std::string_view name,
           Phase phase,
           TensorId sent,
           TensorId received,
           int by) {
  Op& op = builder.collective(OpKind::ring_shift, {core_attention, name}, phase, sent, received,
                              sent, builder.shape().keys.group);
  op.attributes = ShiftAttributes{by};
  op.asynchronous = true;
}

/// The context and log_sum_exp of one step.
struct Part {
  TensorId context = no_tensor;
  TensorId log_sums = no_tensor;
};

/// Adds up the parts, each times its share of the sum of all exponentials.
void rescale(ProgramBuilder& builder,
             AttentionLayer const& attention,
             std::vector<Part> const& parts) {
  for (Part const& part : parts) {
    if (&part == &parts.front()) {
      builder.add(OpKind::rescale_context, {core_attention, "rescale"}, Phase::forward,
                  {part.context, part.log_sums, attention.log_sum_exp}, {attention.attended});
    } else {
      builder.add(OpKind::add_rescaled_context, {core_attention, "add_rescaled"}, Phase::forward,
                  {attention.attended, part.context, part.log_sums, attention.log_sum_exp},
                  {attention.attended});
    }
  }
}

/// Keeps tensors alive up to here.
void hold(ProgramBuilder& builder, std::vector<TensorId> const& tensors) {
  for (std::size_t first = 0; first < tensors.size(); first += TensorList::capacity) {
    TensorList held;
    std::size_t const end = std::min(first + TensorList::capacity, tensors.size());
    for (std::size_t i = first; i < end; ++i) held.push_back(tensors[i]);
    Op& op = builder.add(OpKind::hold, {core_attention, "hold_ring"}, Phase::forward, held, {});
    op.traffic = Bytes{0};
  }
}

/// Two buffers of joined keys and values and of their gradients, which steps use in turn.
class DoubleBuffer {
 public:
  DoubleBuffer(ProgramBuilder& builder, JoinedShape const& joined)
      : builder_{builder}, joined_{joined}, buffers_{make(), make()} {}

  TensorId whole(int step) const { return buffers_[index(step)]; }
  TensorId keys_and_values(int step) { return part("ring_kv", step, 0); }
  TensorId gradients(int step) { return part("ring_kv_gradient", step, joined_.elements()); }
  std::pair<TensorId, TensorId> views(int step) {
    return views_of(builder_, joined_, whole(step), 0);
  }
  std::pair<TensorId, TensorId> views_of_gradients(int step) {
    return views_of(builder_, joined_, whole(step), joined_.elements());
  }

 private:
  static std::size_t index(int step) { return static_cast<std::size_t>(step % 2); }
  TensorId make() {
    return builder_.make({core_attention, "ring_buffer"},
                         {2, joined_.rows, joined_.b, joined_.width()}, builder_.type(),
                         Category::communication);
  }
  TensorId part(std::string_view name, int step, std::int64_t offset) {
    return builder_.view({core_attention, name}, whole(step), joined_.shape(), {}, offset);
  }

  ProgramBuilder& builder_;
  JoinedShape joined_;
  TensorId buffers_[2];
};

}  // namespace

void ring_forward(ProgramBuilder& builder, AttentionLayer& attention) {
  int const steps = builder.shape().keys.ranks;
  JoinedShape const joined = joined_shape(builder, attention);
  attention.log_sum_exp = make_log_sums(builder, attention.q, "log_sum_exp");
  auto const make_buffer = [&](bool is_kept) {
    return builder.make({core_attention, "ring_kv"}, joined.shape(), builder.type(),
                        is_kept ? Category::activations : Category::communication);
  };
  std::vector<TensorId> buffers{make_buffer(false)};
  builder.add(OpKind::join_heads, {core_attention, "join_kv"}, Phase::forward,
              {attention.k, attention.v}, {buffers.front()});
  std::vector<Part> parts;
  for (int step = 0; step < steps; ++step) {
    TensorId const here = buffers.back();
    if (step + 1 < steps) {
      buffers.push_back(make_buffer(step + 2 == steps));
      shift(builder, "send_kv", Phase::forward, here, buffers.back(), 1);
    }
    auto const [k, v] = views_of(builder, joined, here, 0);
    Shape const of_context = builder.tensor(attention.attended).shape;
    Part const part{builder.make({core_attention, "part_of_context"}, of_context, builder.type(),
                                 Category::communication),
                    make_log_sums(builder, attention.q, "part_of_log_sums")};
    flash_forward(
        builder,
        {.q = attention.q, .k = k, .v = v, .context = part.context, .log_sum_exp = part.log_sums},
        ring_step(builder, step));
    if (step == 0) {
      builder.add(OpKind::copy_tensor, {core_attention, "copy_log_sums"}, Phase::forward,
                  {part.log_sums}, {attention.log_sum_exp});
    } else {
      builder.add(OpKind::add_log_sums, {core_attention, "add_log_sums"}, Phase::forward,
                  {attention.log_sum_exp, part.log_sums}, {attention.log_sum_exp});
    }
    parts.push_back(part);
  }
  rescale(builder, attention, parts);
  hold(builder, buffers);
  attention.ring_kv = buffers.back();
}

QkvGradients ring_backward(ProgramBuilder& builder,
                           AttentionLayer const& attention,
                           TensorId d_context) {
  Phase const phase = Phase::input_gradient;
  int const steps = builder.shape().keys.ranks;
  JoinedShape const joined = joined_shape(builder, attention);
  DoubleBuffer buffers{builder, joined};
  builder.add(OpKind::copy_tensor, {core_attention, "copy_kv"}, phase, {attention.ring_kv},
              {buffers.keys_and_values(0)});
  TensorId dq = no_tensor;
  for (int step = 0; step < steps; ++step) {
    int const next = step + 1;
    // Keys and values first, their gradients a step later.
    if (step == 0) {
      shift(builder, "send_kv_back", phase, buffers.keys_and_values(step),
            buffers.keys_and_values(next), -1);
    } else if (next == steps) {
      shift(builder, "send_kv_gradient", phase, buffers.gradients(step), buffers.gradients(next),
            -1);
    } else {
      shift(builder, "send_kv_and_gradient", phase, buffers.whole(step), buffers.whole(next), -1);
    }
    auto const [k, v] = buffers.views(step);
    FlashOperands const operands{.q = attention.q,
                                 .k = k,
                                 .v = v,
                                 .context = attention.attended,
                                 .log_sum_exp = attention.log_sum_exp};
    QkvGradients const gradients = make_gradients(builder, operands);
    flash_backward(builder, operands, d_context, gradients, ring_step(builder, steps - next));
    if (step == 0) {
      dq = gradients.q;
      builder.add(OpKind::join_heads, {core_attention, "join_kv_gradient"}, phase,
                  {gradients.k, gradients.v}, {buffers.gradients(next)});
      continue;
    }
    builder.add(OpKind::add, {core_attention, "add_q_gradient"}, phase, {dq, gradients.q}, {dq});
    TensorId const both = builder.make({core_attention, "joined_kv_gradient"}, joined.shape());
    builder.add(OpKind::join_heads, {core_attention, "join_kv_gradient"}, phase,
                {gradients.k, gradients.v}, {both});
    TensorId const sum = buffers.gradients(next);
    builder.add(OpKind::add, {core_attention, "add_kv_gradient"}, phase, {sum, both}, {sum});
  }
  auto const [dk, dv] = buffers.views_of_gradients(steps);
  return {.q = dq, .k = dk, .v = dv};
}

}  // namespace stagecraft
