#include <catch2/catch.hpp>
#include <cmath>

#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::embedding_test {
namespace {

constexpr std::int64_t s = 10;
constexpr std::int64_t b = 2;
constexpr std::int64_t h = 300;  // more than a block of columns

/// v 37: words that occur often, and the last one.
TestTensor tokens() {
  TestTensor ids{ElementType::i64, {s, b}};
  for (std::int64_t i = 0; i < s * b; ++i)
    ids.set(i, static_cast<double>(i % 3 == 0 ? 5 : i * 36 / 19));
  return ids;
}

ModelConfig wide_model(ElementType type) {
  ModelConfig model = small_model(precision_of(type));
  model.hidden = h;
  return model;
}

TEST_CASE("the rows that tensor ranks look up add up to the whole table's", "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  int const t = GENERATE(1, 2, 4);
  ModelConfig const model = wide_model(type);
  TestTensor const ids = tokens();
  std::int64_t const padded = whole(model).shape.vocabulary();  // 40, also for t 2; 48 for 4
  std::int64_t const words = share(model, t, 0, false).shape.vocabulary();
  TestTensor const table = TestTensor::random(type, {words * t, h}, 1);
  REQUIRE(words * t >= padded);
  std::vector<double> sum(static_cast<std::size_t>(s * b * h));
  for (int rank = 0; rank < t; ++rank) {
    TestTensor const rows{type, {s, b, h}};
    run(share(model, t, rank, false), OpKind::embedding,
        {ids.operand(), table.view({words, h}, {}, rank * words * h)}, {rows.operand()});
    for (std::int64_t i = 0; i < rows.size(); ++i) sum[static_cast<std::size_t>(i)] += rows[i];
  }
  for (std::int64_t i = 0; i < s * b * h; ++i) {
    REQUIRE(sum[static_cast<std::size_t>(i)] ==
            table[static_cast<std::int64_t>(ids[i / h]) * h + i % h]);
  }
}

TEST_CASE("gradients of the embedding are added to the rows of their words", "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  int const t = GENERATE(1, 4);
  int const threads = GENERATE(1, 2);
  ModelConfig const model = wide_model(type);
  TestTensor const ids = tokens();
  TestTensor const dy = TestTensor::random(type, {s, b, h}, 2);
  std::int64_t const words = share(model, t, 0, false).shape.vocabulary();
  ElementType const wide = accumulation_type(model.precision);
  for (int rank = 0; rank < t; ++rank) {
    TestTensor const before = TestTensor::random(wide, {words, h}, 3);
    TestTensor const gradient{wide, {words, h}, before.values()};
    run(share(model, t, rank, false),
        make_call(OpKind::embedding_backward, {dy.operand(), ids.operand()}, {gradient.operand()}),
        {.threads = threads});
    std::vector<double> wanted = before.values();
    for (std::int64_t i = 0; i < s * b * h; ++i) {
      std::int64_t const row = static_cast<std::int64_t>(ids[i / h]) - rank * words;
      if (row >= 0 && row < words) wanted[static_cast<std::size_t>(row * h + i % h)] += dy[i];
    }
    require_close(gradient, wanted);
  }
}

TEST_CASE("a slice is a rank's flat piece, filled with zeros beyond the end", "[kernels]") {
  auto const type = GENERATE(ElementType::f16, ElementType::f64);
  // 10 rows of 2 x 3 over four ranks: pieces of 3 rows, the last of 1.
  TestTensor const x = TestTensor::random(type, {10, 2, 3}, 1);
  for (int rank = 0; rank < 5; ++rank) {
    TestTensor const part{type, {3, 2, 3}};
    run(share(small_model(precision_of(type)), 4, rank, true), OpKind::slice, {x.operand()},
        {part.operand()});
    for (std::int64_t i = 0; i < part.size(); ++i) {
      std::int64_t const from = rank * 18 + i;
      REQUIRE(part[i] == (from < 60 ? x[from] : 0));
    }
  }
}

TEST_CASE("the causal mask is 1 above the diagonal", "[kernels]") {
  TestTensor const mask{ElementType::u8, {10, 10}};
  run(whole(small_model()), OpKind::make_causal_mask, {}, {mask.operand()});
  for (std::int64_t i = 0; i < 100; ++i) REQUIRE(mask[i] == (i % 10 > i / 10 ? 1 : 0));
}

TEST_CASE("rows of a rank that splits sequences stand behind those of the ranks before it",
          "[kernels]") {
  // The second of two ranks, each with two of four rows of h = 2.
  CpuKernels kernels{KernelNeeds{.sequence = {.rank = 1, .ranks = 2}, .types = {ElementType::f64}},
                     {}};
  TestTensor const mask{ElementType::u8, {2, 4}};
  kernels.run(make_call(OpKind::make_causal_mask, {}, {mask.operand()}));
  REQUIRE(mask.values() == std::vector<double>{0, 0, 0, 1, 0, 0, 0, 0});
  TestTensor const x{ElementType::f64, {2, 1, 2}, {1, 2, 3, 4}};
  TestTensor const table{ElementType::f64, {4, 2}, {9, 9, 9, 9, 10, 20, 30, 40}};
  kernels.run(make_call(OpKind::add_positions, {x.operand(), table.operand()}, {x.operand()}));
  REQUIRE(x.values() == std::vector<double>{11, 22, 33, 44});
  TestTensor const gradient = TestTensor::zeros(ElementType::f64, {4, 2});
  kernels.run(make_call(OpKind::positions_gradient, {x.operand()}, {gradient.operand()}));
  REQUIRE(gradient.values() == std::vector<double>{0, 0, 0, 0, 11, 22, 33, 44});
  // Position 2 turns (1, 0) by 2 radians.
  TestTensor const q{ElementType::f64, {1, 1, 1, 2}, {1, 0}};
  CpuKernels third{KernelNeeds{.sequence = {.rank = 2, .ranks = 3}, .types = {ElementType::f64}},
                   {}};
  TestTensor const k{ElementType::f64, {1, 1, 1, 2}, {1, 0}};
  KernelCall rotary =
      make_call(OpKind::rotary, {q.operand(), k.operand()}, {q.operand(), k.operand()});
  rotary.attributes = RotaryAttributes{10000};
  third.run(rotary);
  REQUIRE(q[0] == Approx(std::cos(2.0)));
  REQUIRE(q[1] == Approx(std::sin(2.0)));
}

}  // namespace
}  // namespace stagecraft::test::embedding_test
