#include <catch2/catch.hpp>

#include "tests/libexec/cuda/agreement.hpp"

namespace stagecraft::test {
namespace {

constexpr std::int64_t s = 5;
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

}  // namespace
}  // namespace stagecraft::test
