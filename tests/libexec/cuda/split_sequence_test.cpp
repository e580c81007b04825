#include <catch2/catch.hpp>
#include <limits>

#include "tests/libexec/cuda/agreement.hpp"

// Kernels of ranks that split sequences with others; attention itself is in
// flash_variants_test.cpp.

namespace stagecraft::test {
namespace {

constexpr std::int64_t s = 6;  ///< rows of each rank
constexpr std::int64_t b = 2;
constexpr int ranks = 3;

ElementType sums_of(ElementType type) { return type == ElementType::f64 ? type : ElementType::f32; }

/// Of three ranks any, with rows in zigzag order or consecutive ones.
std::vector<RankShare> ranks_of(ElementType type) {
  std::vector<RankShare> all;
  for (bool const zigzag : {false, true}) {
    for (int rank = 0; rank < ranks; ++rank) {
      RankShare part = whole(small_model(precision_of(type)));
      part.sequence = {.rank = rank, .ranks = ranks, .zigzag = zigzag};
      all.push_back(part);
    }
  }
  return all;
}

TEST_CASE("positions of a split sequence on a device are those of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const h = GENERATE(7, 64);
  Shape const hidden{s, b, h};
  Shape const heads{s, b, 2, 16};
  Shape const positions{ranks * s, h};
  for (RankShare const& rank : ranks_of(type)) {
    CAPTURE(rank.sequence.rank, rank.sequence.zigzag);
    require_agreement(rank, {.kind = OpKind::add_positions,
                             .tensors = {TestTensor::random(type, hidden, 1),
                                         TestTensor::random(type, positions, 2)},
                             .reads = {{0}, {1}},
                             .writes = {{0}}});
    require_agreement(rank, {.kind = OpKind::positions_gradient,
                             .tensors = {TestTensor::random(type, hidden, 1),
                                         TestTensor::random(sums_of(type), positions, 2)},
                             .reads = {{0}},
                             .writes = {{1}}});
    require_agreement(
        rank, {.kind = OpKind::rotary,
               .tensors = {TestTensor::random(type, heads, 1), TestTensor::random(type, heads, 2),
                           TestTensor{type, heads}, TestTensor{type, heads}},
               .reads = {{0}, {1}},
               .writes = {{2}, {3}}});
  }
}

TEST_CASE("masks of a split sequence on a device are those of a CPU", "[cuda]") {
  Shape const hidden{s, b, 24};
  for (RankShare const& rank : ranks_of(ElementType::f32)) {
    CAPTURE(rank.sequence.rank, rank.sequence.zigzag);
    require_agreement(rank, {.kind = OpKind::make_causal_mask,
                             .tensors = {TestTensor{ElementType::u8, {s, ranks * s}}},
                             .reads = {},
                             .writes = {{0}}});
    require_agreement(rank, {.kind = OpKind::dropout,
                             .tensors = {TestTensor::random(ElementType::f32, hidden, 1),
                                         TestTensor{ElementType::f32, hidden},
                                         TestTensor{ElementType::u8, hidden}},
                             .reads = {{0}},
                             .writes = {{1}, {2}},
                             .draw = some_draw(DropoutSite::mlp_output)});
  }
}

TEST_CASE("parts of attention add up on a device as on a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const heads = GENERATE(1, 3);
  std::int64_t const d = GENERATE(5, 16);
  Shape const context{s, b, heads * d};
  TestTensor const sums = TestTensor::random(sums_of(type), {b, heads, s}, 1);
  TestTensor part_sums = TestTensor::random(sums_of(type), {b, heads, s}, 2);
  part_sums.set(2, -std::numeric_limits<double>::infinity());  // a row that sees no key
  RankShare const rank = ranks_of(type).front();
  // In the type of sums, which the kernel takes from its operands.
  require_agreement(rank, {.kind = OpKind::add_log_sums,
                           .tensors = {sums, part_sums},
                           .reads = {{0}, {1}},
                           .writes = {{0}}});
  require_agreement(rank, {.kind = OpKind::rescale_context,
                           .tensors = {TestTensor::random(type, context, 3), part_sums, sums,
                                       TestTensor{type, context}},
                           .reads = {{0}, {1}, {2}},
                           .writes = {{3}}});
  require_agreement(rank, {.kind = OpKind::add_rescaled_context,
                           .tensors = {TestTensor::random(type, context, 3), part_sums, sums,
                                       TestTensor::random(type, context, 4)},
                           .reads = {{3}, {0}, {1}, {2}},
                           .writes = {{3}}});
}

}  // namespace
}  // namespace stagecraft::test
