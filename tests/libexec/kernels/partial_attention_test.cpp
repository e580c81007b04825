#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::partial_attention_test {
namespace {

constexpr std::int64_t b = 2;
constexpr std::int64_t heads = 4;
constexpr std::int64_t groups = 2;
constexpr std::int64_t d = 6;

/// Queries of one rank against keys in its operands, which need not be as many.
struct Call {
  AttentionPart part;
  SequencePart sequence;
  std::int64_t queries, keys;
  std::int64_t window = 0;
};

/// Whether query i sees key j, both counted in the operands' rows, by the rows' places in the
/// sequence.
using Sees = bool (*)(Call const& call, std::int64_t i, std::int64_t j);

/// In a ring the keys are those of the rank `index` before.
bool sees_in_ring(Call const& call, std::int64_t i, std::int64_t j) {
  SequencePart other = call.sequence;
  other.rank = (other.rank - call.part.index + other.ranks) % other.ranks;
  return other.row_of(j, call.keys) <= call.sequence.row_of(i, call.queries);
}

/// Gathered keys are those of the sequence, the queries half of the rank's.
bool sees_gathered(Call const& call, std::int64_t i, std::int64_t j) {
  std::int64_t const row = call.part.index * call.queries + i;
  std::int64_t const place = call.sequence.row_of(row, 2 * call.queries);
  return j <= place && (call.window == 0 || j > place - call.window);
}

KernelNeeds needs(Call const& call) {
  return {.sequence = call.sequence, .types = {ElementType::f64}};
}

KernelCall with_part(Call const& call, KernelCall made) {
  made.attributes =
      FlashAttributes{.scale = 0.5, .dropout = {}, .window = call.window, .part = call.part};
  return made;
}

struct Tensors {
  TestTensor q, k, v;
};

Tensors tensors(Call const& call) {
  ElementType const type = ElementType::f64;
  return {TestTensor::random(type, {call.queries, b, heads, d}, 1),
          TestTensor::random(type, {call.keys, b, groups, d}, 2),
          TestTensor::random(type, {call.keys, b, groups, d}, 3)};
}

struct Attended {
  TestTensor context, log_sums;
};

Attended attend(Call const& call, Tensors const& in) {
  Attended out{TestTensor{ElementType::f64, {call.queries, b, heads * d}},
               TestTensor{ElementType::f64, {b, heads, call.queries}}};
  CpuKernels kernels{needs(call), {}};
  kernels.run(with_part(
      call, make_call(OpKind::flash_attention, {in.q.operand(), in.k.operand(), in.v.operand()},
                      {out.context.operand(), out.log_sums.operand()})));
  return out;
}

/// Attention by definition, over the keys that a query sees.
void require_attention(Call const& call, Sees sees) {
  CAPTURE(call.part.index, call.sequence.rank, call.queries, call.keys);
  Tensors const in = tensors(call);
  Attended const out = attend(call, in);
  std::vector<double> context(static_cast<std::size_t>(out.context.size()));
  std::vector<double> log_sums(static_cast<std::size_t>(out.log_sums.size()));
  for (std::int64_t n = 0; n < b; ++n) {
    for (std::int64_t a = 0; a < heads; ++a) {
      for (std::int64_t i = 0; i < call.queries; ++i) {
        std::int64_t const group = a / (heads / groups);
        double sum = 0;
        double* const row = context.data() + ((i * b + n) * heads + a) * d;
        for (std::int64_t j = 0; j < call.keys; ++j) {
          if (!sees(call, i, j)) continue;
          double score = 0;
          for (std::int64_t e = 0; e < d; ++e) {
            score += in.q[((i * b + n) * heads + a) * d + e] *
                     in.k[((j * b + n) * groups + group) * d + e];
          }
          double const weight = std::exp(0.5 * score);
          sum += weight;
          for (std::int64_t e = 0; e < d; ++e) {
            row[e] += weight * in.v[((j * b + n) * groups + group) * d + e];
          }
        }
        for (std::int64_t e = 0; sum > 0 && e < d; ++e) row[e] /= sum;
        log_sums[static_cast<std::size_t>((n * heads + a) * call.queries + i)] = std::log(sum);
      }
    }
  }
  require_close(out.context, context, 1e-12);
  for (std::int64_t i = 0; i < out.log_sums.size(); ++i) {
    double const wanted = log_sums[static_cast<std::size_t>(i)];
    if (std::isinf(wanted)) {
      REQUIRE(out.log_sums[i] == wanted);
    } else {
      REQUIRE(out.log_sums[i] == Approx(wanted).epsilon(1e-12));
    }
  }
}

AttentionPart step(int index) { return {AttentionPart::Kind::ring_step, index}; }
AttentionPart contiguous_step(int index) { return {AttentionPart::Kind::contiguous_step, index}; }
AttentionPart chunk(int index) { return {AttentionPart::Kind::gathered_chunk, index}; }

TEST_CASE("a step of a ring attends to the keys before its queries in the sequence", "[kernels]") {
  // Chunks of 5, and of 50 and 83 rows, which tiles of 64 do not divide.
  for (std::int64_t const rows : {10, 100, 166}) {
    for (int rank = 0; rank < 3; ++rank) {
      for (int index = 0; index < 3; ++index) {
        require_attention({step(index), {rank, 3, true}, rows, rows}, sees_in_ring);
        require_attention({contiguous_step(index), {rank, 3, false}, rows, rows}, sees_in_ring);
      }
    }
  }
}

TEST_CASE("a chunk of queries attends to the gathered keys before it, within a window",
          "[kernels]") {
  for (std::int64_t const rows : {5, 50, 83}) {
    for (std::int64_t const window : {0, 4, 70}) {
      for (int rank = 0; rank < 2; ++rank) {
        for (int index = 0; index < 2; ++index) {
          require_attention({chunk(index), {rank, 2, true}, rows, 4 * rows, window}, sees_gathered);
        }
      }
    }
  }
}

/// The gradient of sum(context w) of attention to the keys of `call` alone.
void require_gradients(Call const& call) {
  Tensors const in = tensors(call);
  TestTensor const w = TestTensor::random(ElementType::f64, {call.queries, b, heads * d}, 4);
  Attended const out = attend(call, in);
  Tensors const gradients{TestTensor{ElementType::f64, in.q.shape()},
                          TestTensor{ElementType::f64, in.k.shape()},
                          TestTensor{ElementType::f64, in.v.shape()}};
  CpuKernels kernels{needs(call), {}};
  kernels.run(with_part(
      call, make_call(OpKind::flash_attention_backward,
                      {w.operand(), in.q.operand(), in.k.operand(), in.v.operand(),
                       out.context.operand(), out.log_sums.operand()},
                      {gradients.q.operand(), gradients.k.operand(), gradients.v.operand()})));
  auto const loss = [&](Tensors const& at) { return dot(attend(call, at).context, w); };
  require_gradient(
      in.q,
      [&](TestTensor const& q) {
        return loss({q, in.k, in.v});
      },
      gradients.q.values());
  require_gradient(
      in.k,
      [&](TestTensor const& k) {
        return loss({in.q, k, in.v});
      },
      gradients.k.values());
  require_gradient(
      in.v,
      [&](TestTensor const& v) {
        return loss({in.q, in.k, v});
      },
      gradients.v.values());
}

TEST_CASE("gradients of parts of attention are those of differences", "[kernels]") {
  for (int index = 0; index < 3; ++index) {
    require_gradients({step(index), {1, 3, true}, 6, 6});
    require_gradients({contiguous_step(index), {1, 3, false}, 6, 6});
  }
  for (int index = 0; index < 2; ++index) {
    require_gradients({chunk(index), {1, 2, true}, 3, 12, 5});
  }
}

TEST_CASE("parts of attention to some keys each add up to attention to all", "[kernels]") {
  // Sums of 2 and 6 are one of 8: of a context 4 and one of 8 the means 4/4 + 8 * 3/4.
  ElementType const type = ElementType::f64;
  TestTensor const sums{type, {1, 2, 1}, {std::log(2.0), 0}};
  TestTensor const part_sums{
      type, {1, 2, 1}, {std::log(6.0), -std::numeric_limits<double>::infinity()}};
  RankShare const rank = whole(small_model());
  TestTensor const before = sums;
  run(rank, OpKind::add_log_sums, {sums.operand(), part_sums.operand()}, {sums.operand()});
  REQUIRE(sums[0] == Approx(std::log(8.0)));
  REQUIRE(sums[1] == 0);
  TestTensor const first{type, {1, 1, 4}, {4, 4, 1, 2}};
  TestTensor const second{type, {1, 1, 4}, {8, 0, 0, 0}};
  TestTensor const context{type, {1, 1, 4}};
  run(rank, OpKind::rescale_context, {first.operand(), before.operand(), sums.operand()},
      {context.operand()});
  run(rank, OpKind::add_rescaled_context,
      {context.operand(), second.operand(), part_sums.operand(), sums.operand()},
      {context.operand()});
  require_close(context, {7, 1, 1, 2});
}

TEST_CASE("rows of ranks become those of the sequence, and back", "[kernels]") {
  // Two ranks with chunks 0 and 3, and 1 and 2, of one row each.
  TestTensor const rows{ElementType::f64, {4, 2}, {0, 1, 30, 31, 10, 11, 20, 21}};
  TestTensor const in_order{ElementType::f64, {4, 2}};
  CpuKernels kernels{{.types = {ElementType::f64}}, {}};
  KernelCall call = make_call(OpKind::reorder_rows, {rows.operand()}, {in_order.operand()});
  call.attributes = RowOrderAttributes{.ranks = 2, .to_sequence = true};
  kernels.run(call);
  REQUIRE(in_order.values() == std::vector<double>{0, 1, 10, 11, 20, 21, 30, 31});
  TestTensor const back{ElementType::f64, {4, 2}};
  call = make_call(OpKind::reorder_rows, {in_order.operand()}, {back.operand()});
  call.attributes = RowOrderAttributes{.ranks = 2, .to_sequence = false};
  kernels.run(call);
  REQUIRE(back.same_bits(rows));
  // A view of two heads, behind one element of five.
  TestTensor const wide{ElementType::f64, {2, 1, 5}, {9, 1, 2, 3, 4, 9, 5, 6, 7, 8}};
  TestTensor const copied{ElementType::f64, {2, 1, 2, 2}};
  kernels.run(make_call(OpKind::copy_tensor, {wide.view({2, 1, 2, 2}, {5, 5, 2, 1}, 1)},
                        {copied.operand()}));
  REQUIRE(copied.values() == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
  kernels.run(make_call(OpKind::zero_fill, {}, {copied.operand()}));
  REQUIRE(copied.values() == std::vector<double>(8, 0));
}

}  // namespace
}  // namespace stagecraft::test::partial_attention_test
