#include <catch2/catch.hpp>
#include <cmath>

#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::pointwise_test {
namespace {

// More columns than a chunk of any kernel, and a row that is no multiple of a vector.
constexpr std::int64_t f = 301;
constexpr Shape wide{3, 2, f};

TestTensor as(ElementType type, TestTensor const& tensor) {
  return {type, tensor.shape(), tensor.values()};
}

TEST_CASE("a bias is added to every row, and its gradient sums over them", "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  RankShare const rank = whole(small_model(precision_of(type)));
  TestTensor const before = TestTensor::random(type, wide, 1);
  TestTensor const x = as(type, before);
  TestTensor const bias = TestTensor::random(type, {f}, 2);
  run(rank, OpKind::bias_add, {x.operand(), bias.operand()}, {x.operand()});
  std::vector<double> sums;
  for (std::int64_t i = 0; i < x.size(); ++i) sums.push_back(before[i] + bias[i % f]);
  require_close(x, sums);

  ElementType const wide_type = accumulation_type(precision_of(type));
  TestTensor const start = TestTensor::random(wide_type, {f}, 3);
  TestTensor const gradient = as(wide_type, start);
  run(rank, OpKind::bias_gradient, {before.operand()}, {gradient.operand()});
  std::vector<double> columns = start.values();
  for (std::int64_t i = 0; i < x.size(); ++i) columns[static_cast<std::size_t>(i % f)] += before[i];
  require_close(gradient, columns, tolerance(wide_type));
}

TEST_CASE("positions are added to all sequences, and their gradient sums over them", "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  RankShare const rank = whole(small_model(precision_of(type)), 3);
  std::int64_t const h = 24;
  TestTensor const before = TestTensor::random(type, {10, 3, h}, 1);
  TestTensor const x = as(type, before);
  TestTensor const positions = TestTensor::random(type, {10, h}, 2);
  run(rank, OpKind::add_positions, {x.operand(), positions.operand()}, {x.operand()});
  std::vector<double> sums;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    sums.push_back(before[i] + positions[i / (3 * h) * h + i % h]);
  }
  require_close(x, sums);

  ElementType const wide_type = accumulation_type(precision_of(type));
  TestTensor const start = TestTensor::random(wide_type, {10, h}, 3);
  TestTensor const gradient = as(wide_type, start);
  run(rank, OpKind::positions_gradient, {before.operand()}, {gradient.operand()});
  std::vector<double> totals = start.values();
  for (std::int64_t i = 0; i < x.size(); ++i) {
    totals[static_cast<std::size_t>(i / (3 * h) * h + i % h)] += before[i];
  }
  require_close(gradient, totals, tolerance(wide_type));
}

TEST_CASE("add is in place on its first operand", "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  TestTensor const before = TestTensor::random(type, wide, 1);
  TestTensor const a = as(type, before);
  TestTensor const b = TestTensor::random(type, wide, 2);
  RankShare const rank = whole(small_model(precision_of(type)));
  run(rank, OpKind::add, {a.operand(), b.operand()}, {a.operand()});
  std::vector<double> sums;
  for (std::int64_t i = 0; i < a.size(); ++i) sums.push_back(before[i] + b[i]);
  require_close(a, sums);
  REQUIRE_THROWS_AS(run(rank, OpKind::add, {a.operand(), b.operand()}, {before.operand()}),
                    std::logic_error);
}

double gelu_by_tanh(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double silu_by_definition(double x) { return x / (1 + std::exp(-x)); }

/// y of an activation, x + bias first; `branches`: 2 for SwiGLU.
TestTensor activate(OpKind kind, TestTensor const& x, TestTensor const* bias) {
  TestTensor y{x.type(), wide};
  std::vector<Operand> reads{x.operand()};
  if (bias != nullptr) reads.push_back(bias->operand());
  run(whole(small_model(precision_of(x.type()))), kind, reads, {y.operand()});
  return y;
}

TEST_CASE("GELU and SwiGLU are their formulas, with and without a bias", "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  bool const gated = GENERATE(false, true);
  bool const biased = GENERATE(false, true);
  std::int64_t const width = gated ? 2 * f : f;
  TestTensor x = TestTensor::random(type, {3, 2, width}, 1);
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, 4 * x[i]);
  TestTensor const bias = TestTensor::random(type, {width}, 2);
  TestTensor const y = activate(gated ? OpKind::swiglu : OpKind::gelu, x, biased ? &bias : nullptr);
  auto const at = [&](std::int64_t row, std::int64_t i) {
    return x[row * width + i] + (biased ? bias[i] : 0);
  };
  std::vector<double> wanted;
  for (std::int64_t row = 0; row < 6; ++row) {
    for (std::int64_t i = 0; i < f; ++i) {
      wanted.push_back(gated ? silu_by_definition(at(row, i)) * at(row, f + i)
                             : gelu_by_tanh(at(row, i)));
    }
  }
  require_close(y, wanted);
}

TEST_CASE("gradients of GELU and SwiGLU are finite differences of them", "[kernels]") {
  bool const gated = GENERATE(false, true);
  bool const biased = GENERATE(false, true);
  std::int64_t const width = gated ? 2 * f : f;
  OpKind const kind = gated ? OpKind::swiglu : OpKind::gelu;
  TestTensor x = TestTensor::random(ElementType::f64, {3, 2, width}, 1);
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, 3 * x[i]);
  TestTensor const bias = TestTensor::random(ElementType::f64, {width}, 2);
  TestTensor const dy = TestTensor::random(ElementType::f64, wide, 3);
  auto const gradient = [&](ElementType type) {
    TestTensor dx{type, x.shape()};
    TestTensor const d = as(type, dy);
    TestTensor const at = as(type, x);
    TestTensor const b = as(type, bias);
    std::vector<Operand> reads{d.operand(), at.operand()};
    if (biased) reads.push_back(b.operand());
    run(whole(small_model(precision_of(type))),
        gated ? OpKind::swiglu_backward : OpKind::gelu_backward, reads, {dx.operand()});
    return dx;
  };
  TestTensor const exact = gradient(ElementType::f64);
  // Of all elements a sixth: each difference runs the whole kernel twice.
  TestTensor at = x;
  for (std::int64_t i = 0; i < x.size(); i += 6) {
    double const step = 1e-4;
    at.set(i, x[i] + step);
    double const above = dot(activate(kind, at, biased ? &bias : nullptr), dy);
    at.set(i, x[i] - step);
    double const below = dot(activate(kind, at, biased ? &bias : nullptr), dy);
    at.set(i, x[i]);
    REQUIRE(exact[i] == Approx((above - below) / (2 * step)).margin(1e-6));
  }
  // Operands are rounded to the type first, hence the factors.
  require_close(gradient(ElementType::f32), exact.values(), 1e-5);
  require_close(gradient(ElementType::bf16), exact.values(), 0.05);
  require_close(gradient(ElementType::f16), exact.values(), 0.01);
}

}  // namespace
}  // namespace stagecraft::test::pointwise_test
