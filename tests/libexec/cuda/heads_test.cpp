#include <catch2/catch.hpp>

#include "tests/libexec/cuda/agreement.hpp"

namespace stagecraft::test::heads_test {
namespace {

constexpr std::int64_t s = 6;
constexpr std::int64_t b = 2;

/// Heads [s, b, heads, d] inside of tokens [s, b, width].
Use heads_at(std::size_t tensor,
             std::int64_t heads,
             std::int64_t d,
             std::int64_t width,
             std::int64_t first) {
  return {.tensor = tensor,
          .shape = {s, b, heads, d},
          .strides = {b * width, width, d, 1},
          .offset = first};
}

RankShare rank_of(ElementType type) { return whole(small_model(precision_of(type))); }

TEST_CASE("queries and keys are turned where they lie in a token, as on a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  // Whole accesses, one pair, an odd number of pairs, more pairs than are kept at a time.
  std::int64_t const d = GENERATE(2, 6, 64, 272);
  std::int64_t const heads = 4;
  std::int64_t const groups = 2;
  std::int64_t const width = (heads + 2 * groups) * d;
  Use const q = heads_at(0, heads, d, width, 0);
  Use const k = heads_at(0, groups, d, width, heads * d);
  TestTensor const qkv = TestTensor::random(type, {s, b, width}, 1);
  require_agreement(rank_of(type), {.kind = OpKind::rotary,
                                    .tensors = {qkv, TestTensor{type, {s, b, heads, d}},
                                                TestTensor{type, {s, b, groups, d}}},
                                    .reads = {q, k},
                                    .writes = {{1}, {2}}});
  require_agreement(
      rank_of(type),
      {.kind = OpKind::rotary_backward, .tensors = {qkv}, .reads = {q, k}, .writes = {q, k}});
}

TEST_CASE("heads are repeated for their group, and summed over it, as on a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const d = GENERATE(1, 6, 64);
  std::int64_t const groups = 2;
  std::int64_t const repeats = GENERATE(1, 3);
  std::int64_t const width = 2 * groups * d;
  Use const k = heads_at(0, groups, d, width, 0);
  Use const v = heads_at(0, groups, d, width, groups * d);
  TestTensor const kv = TestTensor::random(type, {s, b, width}, 1);
  TestTensor const full = TestTensor::random(type, {s, b, groups * repeats, d}, 2);
  require_agreement(rank_of(type), {.kind = OpKind::repeat_heads,
                                    .tensors = {kv, full, full},
                                    .reads = {k, v},
                                    .writes = {{1}, {2}}});
  require_agreement(rank_of(type), {.kind = OpKind::repeat_heads_backward,
                                    .tensors = {kv, full, full},
                                    .reads = {{1}, {2}},
                                    .writes = {k, v}});
}

TEST_CASE("heads are joined into tokens as on a CPU, bit for bit", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const d = GENERATE(1, 6, 64);
  // [b, heads, s, d] in memory, seen as [s, b, heads, d].
  std::int64_t const heads = 3;
  Use const by_head{
      .tensor = 0, .shape = {s, b, heads, d}, .strides = {d, heads * s * d, s * d, 1}};
  TestTensor const context = TestTensor::random(type, {b, heads, s, d}, 1);
  TestTensor const kv = TestTensor::random(type, {s, b, 2 * d}, 2);
  DeviceCase const merge{.kind = OpKind::merge_heads,
                         .tensors = {context, TestTensor{type, {s, b, heads * d}}},
                         .reads = {by_head},
                         .writes = {{1}}};
  REQUIRE(on_device(rank_of(type), merge)[1].same_bits(on_cpu(rank_of(type), merge)[1]));
  DeviceCase const join{
      .kind = OpKind::concatenate,
      .tensors = {context, kv, TestTensor{type, {s, b, (heads + 2) * d}}},
      .reads = {by_head, heads_at(1, 1, d, 2 * d, 0), heads_at(1, 1, d, 2 * d, d)},
      .writes = {{2}}};
  REQUIRE(on_device(rank_of(type), join)[2].same_bits(on_cpu(rank_of(type), join)[2]));
}

ElementType sums_of(ElementType type) { return type == ElementType::f64 ? type : ElementType::f32; }

/// The second of two ranks that split sequences.
RankShare second_of_two(ElementType type) {
  RankShare rank = whole(small_model(precision_of(type)));
  rank.sequence = {.rank = 1, .ranks = 2, .zigzag = true};
  return rank;
}

TEST_CASE("norms of heads on a device and their gradients are those of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  bool const across = GENERATE(false, true);
  // An odd size, whole accesses, several warps a row if all heads are normalized together.
  std::int64_t const d = GENERATE(5, 16, 136, 520);
  std::int64_t const heads = 3;
  std::int64_t const width = 2 * heads * d;
  std::int64_t const columns = across ? heads * d : d;
  std::int64_t const rows = s * b * (across ? 1 : heads);
  HeadsNormAttributes const attributes{.epsilon = 1e-3, .across_heads = across};
  Use const of_tokens = heads_at(0, heads, d, width, heads * d);
  TestTensor const tokens = TestTensor::random(type, {s, b, width}, 1);
  TestTensor const weight = TestTensor::random(type, {columns}, 2);
  DeviceCase const forward{.kind = OpKind::heads_norm,
                           .tensors = {tokens, weight, TestTensor{type, {s, b, heads, d}},
                                       TestTensor{sums_of(type), {1, rows}}},
                           .reads = {of_tokens, {1}},
                           .writes = {{2}, {3}},
                           .attributes = attributes};
  require_agreement(second_of_two(type), forward);
  TestTensor const statistics = on_cpu(second_of_two(type), forward)[3];
  TestTensor const dy = TestTensor::random(type, {s, b, heads, d}, 3);
  require_agreement(second_of_two(type),
                    {.kind = OpKind::heads_norm_backward,
                     .tensors = {tokens, dy, statistics, weight, TestTensor{type, {s, b, width}}},
                     .reads = {{1}, of_tokens, {2}, {3}},
                     .writes = {heads_at(4, heads, d, width, 0)},
                     .attributes = attributes});
  require_agreement(
      second_of_two(type),
      {.kind = OpKind::heads_norm_weight_gradient,
       .tensors = {tokens, dy, statistics, TestTensor::random(sums_of(type), {columns}, 4)},
       .reads = {{1}, of_tokens, {2}},
       .writes = {{3}},
       .attributes = attributes});
}

TEST_CASE("latents become heads on a device, and gradients latents', as on a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  struct Sizes {
    std::int64_t nope, rope, value;
  };
  // Small and odd; whole accesses; more pairs than are kept at a time.
  auto const [nope, rope, value] = GENERATE(Sizes{3, 2, 5}, Sizes{32, 16, 48}, Sizes{16, 272, 8});
  std::int64_t const heads = 3;
  std::int64_t const d = nope + rope;
  std::int64_t const down = 16 + rope;  // what is shared lies behind a latent of 16
  Use const k_pe = heads_at(2, 1, rope, down, 16);
  Shape const of_q{s, b, heads, d};
  Shape const of_kv{s, b, heads, nope + value};
  Shape const of_v{s, b, heads, value};
  RotaryAttributes const attributes{.base = 5000};
  require_agreement(
      second_of_two(type),
      {.kind = OpKind::latent_rotary,
       .tensors = {TestTensor::random(type, of_q, 1), TestTensor::random(type, of_kv, 2),
                   TestTensor::random(type, {s, b, down}, 3), TestTensor{type, of_q},
                   TestTensor{type, of_q}, TestTensor{type, of_v}},
       .reads = {{0}, {1}, k_pe},
       .writes = {{3}, {4}, {5}},
       .attributes = attributes});
  require_agreement(
      second_of_two(type),
      {.kind = OpKind::latent_rotary_backward,
       .tensors = {TestTensor{type, of_q}, TestTensor{type, of_kv}, TestTensor{type, {s, b, down}},
                   TestTensor::random(type, of_q, 1), TestTensor::random(type, of_q, 2),
                   TestTensor::random(type, of_v, 3)},
       .reads = {{3}, {4}, {5}},
       .writes = {{0}, {1}, k_pe},
       .attributes = attributes});
}

TEST_CASE("the gradient of sinks on a device is that of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const heads = GENERATE(1, 40);
  std::int64_t const d = GENERATE(5, 64);
  std::int64_t const rows = GENERATE(3, 150);
  Shape const context{rows, b, heads * d};
  TestTensor log_sums = TestTensor::random(sums_of(type), {b, heads, rows}, 3);
  for (std::int64_t i = 0; i < log_sums.size(); ++i) log_sums.set(i, 2 + log_sums[i]);
  require_agreement(
      second_of_two(type),
      {.kind = OpKind::sinks_gradient,
       .tensors = {TestTensor::random(type, context, 1), TestTensor::random(type, context, 2),
                   log_sums, TestTensor::random(type, {heads}, 4),
                   TestTensor::random(sums_of(type), {heads}, 5)},
       .reads = {{0}, {1}, {2}, {3}},
       .writes = {{4}}});
}

TEST_CASE("caps on a device and their gradients are those of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const n = GENERATE(7, 4104);
  SoftcapAttributes const attributes{.cap = 0.7, .scale = 1.5};
  require_agreement(second_of_two(type),
                    {.kind = OpKind::softcap,
                     .tensors = {TestTensor::random(type, {2, n}, 1), TestTensor{type, {2, n}}},
                     .reads = {{0}},
                     .writes = {{1}},
                     .attributes = attributes});
  require_agreement(second_of_two(type), {.kind = OpKind::softcap_backward,
                                          .tensors = {TestTensor::random(type, {2, n}, 1),
                                                      TestTensor::random(type, {2, n}, 2)},
                                          .reads = {{0}, {1}},
                                          .writes = {{0}},
                                          .attributes = attributes});
}

TEST_CASE("the clamped gate on a device and its gradient are those of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const columns = GENERATE(3, 64);
  bool const biased = GENERATE(false, true);
  TestTensor x = TestTensor::random(type, {s, b, 2 * columns}, 1);
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, 12 * x[i]);  // on both sides of its clamps
  TestTensor const bias = TestTensor::random(type, {2 * columns}, 2);
  Shape const narrow{s, b, columns};
  DeviceCase forward{.kind = OpKind::swiglu_clamped,
                     .tensors = {x, bias, TestTensor{type, narrow}},
                     .reads = {{0}},
                     .writes = {{2}}};
  DeviceCase backward{.kind = OpKind::swiglu_clamped_backward,
                      .tensors = {x, bias, TestTensor::random(type, narrow, 3),
                                  TestTensor{type, {s, b, 2 * columns}}},
                      .reads = {{2}, {0}},
                      .writes = {{3}}};
  if (biased) {
    forward.reads.push_back({1});
    backward.reads.push_back({1});
  }
  require_agreement(second_of_two(type), forward);
  require_agreement(second_of_two(type), backward);
}

}  // namespace

}  // namespace stagecraft::test::heads_test
