#include <catch2/catch.hpp>

#include "tests/libexec/cuda/agreement.hpp"

namespace stagecraft::test {
namespace {

constexpr std::int64_t s = 8;
constexpr std::int64_t b = 2;

RankShare rank_of(ElementType type) { return whole(small_model(precision_of(type))); }

/// Every tensor has the bits of a CPU's, also where nothing is written.
void require_same_bits(ElementType type, DeviceCase const& what) {
  auto const wanted = on_cpu(rank_of(type), what);
  auto const got = on_device(rank_of(type), what);
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(name_of(what.kind), i, name_of(type));
    REQUIRE(got[i].same_bits(wanted[i]));
  }
}

/// Heads [s, b, heads, d] inside of tokens [s, b, width].
Use heads_at(
    std::int64_t rows, std::int64_t heads, std::int64_t d, std::int64_t width, std::int64_t first) {
  return {.tensor = 0,
          .shape = {rows, b, heads, d},
          .strides = {b * width, width, d, 1},
          .offset = first};
}

TEST_CASE("columns are joined and split on a device bit for bit", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const [left, right] = GENERATE(std::pair{1, 3}, std::pair{16, 40}, std::pair{24, 5});
  Shape const a{s, b, left};
  Shape const c{s, b, right};
  Shape const joined{s, b, left + right};
  require_same_bits(type, {.kind = OpKind::join_columns,
                           .tensors = {TestTensor::random(type, a, 1),
                                       TestTensor::random(type, c, 2), TestTensor{type, joined}},
                           .reads = {{0}, {1}},
                           .writes = {{2}}});
  require_same_bits(type, {.kind = OpKind::split_columns,
                           .tensors = {TestTensor::random(type, joined, 1), TestTensor{type, a},
                                       TestTensor{type, c}},
                           .reads = {{0}},
                           .writes = {{1}, {2}}});
}

TEST_CASE("heads of two sizes are joined by token on a device bit for bit", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const [d, value_d] = GENERATE(std::pair{3, 2}, std::pair{24, 16});
  std::int64_t const heads = 3;
  TestTensor const k = TestTensor::random(type, {s, b, heads * d + 8}, 1);
  require_same_bits(type, {.kind = OpKind::join_heads,
                           .tensors = {k, TestTensor::random(type, {s, b, heads, value_d}, 2),
                                       TestTensor{type, {s, b, heads * (d + value_d)}}},
                           .reads = {heads_at(s, heads, d, heads * d + 8, 8), {1}},
                           .writes = {{2}}});
}

TEST_CASE("heads become parts and come back on a device bit for bit", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const d = GENERATE(3, 16);
  std::int64_t const heads = 4;
  std::int64_t const parts = GENERATE(1, 2, 4);
  std::int64_t const width = heads * d + 16;
  Shape const of_parts{parts * s, b, heads / parts, d};
  Use const tokens = heads_at(s, heads, d, width, 16);
  require_same_bits(
      type, {.kind = OpKind::scatter_heads,
             .tensors = {TestTensor::random(type, {s, b, width}, 1), TestTensor{type, of_parts}},
             .reads = {tokens},
             .writes = {{1}}});
  require_same_bits(
      type, {.kind = OpKind::gather_heads,
             .tensors = {TestTensor{type, {s, b, width}}, TestTensor::random(type, of_parts, 1)},
             .reads = {{1}},
             .writes = {tokens}});
  // Heads as all elements of a token.
  require_same_bits(type, {.kind = OpKind::gather_heads,
                           .tensors = {TestTensor::random(type, {parts * s, b, heads / parts}, 1),
                                       TestTensor{type, {s, b, heads}}},
                           .reads = {{0}},
                           .writes = {{1}}});
}

TEST_CASE("views and rows in zigzag order are copied on a device bit for bit", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const d = GENERATE(3, 16);
  std::int64_t const heads = 3;
  std::int64_t const width = heads * d + 16;
  int const ranks = GENERATE(2, 3);
  std::int64_t const rows = 4 * ranks;
  bool const to_sequence = GENERATE(false, true);
  Use const view = heads_at(rows, heads, d, width, 16);
  std::vector<TestTensor> const tensors{TestTensor::random(type, {rows, b, width}, 1),
                                        TestTensor{type, {rows, b, heads, d}},
                                        TestTensor{type, {rows, b, width}}};
  RowOrderAttributes const order{.ranks = ranks, .to_sequence = to_sequence};
  require_same_bits(
      type, {.kind = OpKind::copy_tensor, .tensors = tensors, .reads = {view}, .writes = {{1}}});
  require_same_bits(
      type, {.kind = OpKind::copy_tensor, .tensors = tensors, .reads = {{0}}, .writes = {{2}}});
  require_same_bits(type, {.kind = OpKind::reorder_rows,
                           .tensors = tensors,
                           .reads = {view},
                           .writes = {{1}},
                           .attributes = order});
  require_same_bits(type, {.kind = OpKind::reorder_rows,
                           .tensors = tensors,
                           .reads = {{0}},
                           .writes = {{2}},
                           .attributes = order});
}

TEST_CASE("a device fills with zeros what it is given and nothing else", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  require_same_bits(type, {.kind = OpKind::zero_fill,
                           .tensors = {TestTensor{type, {40}}},
                           .reads = {},
                           .writes = {{.tensor = 0, .shape = {7, 3}, .offset = 5}}});
}

}  // namespace
}  // namespace stagecraft::test
