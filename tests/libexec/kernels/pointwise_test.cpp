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

// Norms of heads, caps, and the clamped gate, by definition; each gradient is a finite difference.

constexpr std::int64_t heads = 3, d = 5, tokens = 8;
constexpr Shape shape{4, 2, heads, d};

RankShare rank_with(QkNorm norm, ElementType type) {
  ModelConfig model = small_model(precision_of(type));
  model.qk_norm = norm;
  model.norm_epsilon = 1e-2;
  return whole(model);
}

struct Normed {
  TestTensor y, statistics;
};

Normed heads_norm(QkNorm norm, TestTensor const& x, TestTensor const& weight) {
  std::int64_t const rows = norm == QkNorm::full ? tokens : tokens * heads;
  Normed result{TestTensor{x.type(), shape},
                TestTensor{accumulation_type(precision_of(x.type())), {1, rows}}};
  run(rank_with(norm, x.type()), OpKind::heads_norm, {x.operand(), weight.operand()},
      {result.y.operand(), result.statistics.operand()});
  return result;
}

Shape weight_shape(QkNorm norm) { return {norm == QkNorm::full ? heads * d : d}; }

TEST_CASE("norms of heads are RMS norms of d elements, or of all heads together", "[kernels]") {
  auto const norm = GENERATE(QkNorm::head, QkNorm::full);
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  TestTensor const x = TestTensor::random(type, shape, 1);
  TestTensor const weight = TestTensor::random(type, weight_shape(norm), 2);
  std::int64_t const n = weight.size();
  std::vector<double> wanted;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    double square = 0;
    for (std::int64_t j = i / n * n; j < i / n * n + n; ++j) square += x[j] * x[j];
    wanted.push_back(x[i] / std::sqrt(square / static_cast<double>(n) + 1e-2) * weight[i % n]);
  }
  require_close(heads_norm(norm, x, weight).y, wanted);
}

TEST_CASE("the gradients of norms of heads are finite differences of them", "[kernels]") {
  auto const norm = GENERATE(QkNorm::head, QkNorm::full);
  TestTensor const x = TestTensor::random(ElementType::f64, shape, 1);
  TestTensor const weight = TestTensor::random(ElementType::f64, weight_shape(norm), 2);
  TestTensor const dy = TestTensor::random(ElementType::f64, shape, 3);
  Normed const kept = heads_norm(norm, x, weight);
  TestTensor const dx{ElementType::f64, shape};
  TestTensor const d_weight{ElementType::f64, weight.shape(),
                            std::vector<double>(static_cast<std::size_t>(weight.size()))};
  RankShare const rank = rank_with(norm, ElementType::f64);
  run(rank, OpKind::heads_norm_backward,
      {dy.operand(), x.operand(), kept.statistics.operand(), weight.operand()}, {dx.operand()});
  run(rank, OpKind::heads_norm_weight_gradient,
      {dy.operand(), x.operand(), kept.statistics.operand()}, {d_weight.operand()});
  require_gradient(
      x, [&](TestTensor const& at) { return dot(heads_norm(norm, at, weight).y, dy); },
      dx.values());
  require_gradient(
      weight, [&](TestTensor const& at) { return dot(heads_norm(norm, x, at).y, dy); },
      d_weight.values());
}

TEST_CASE("a cap is c tanh(x / c), and its gradient a finite difference", "[kernels]") {
  ModelConfig model = small_model(Precision::fp64);
  model.attention_softcap = 0.7;
  model.head_dim = 4;  // the scale is 1/2
  RankShare const rank = whole(model);
  Shape const square{2, 3, 9};
  TestTensor const x = TestTensor::random(ElementType::f64, square, 1);
  auto const capped = [&](TestTensor const& at) {
    TestTensor y{ElementType::f64, square};
    run(rank, OpKind::softcap, {at.operand()}, {y.operand()});
    return y;
  };
  std::vector<double> wanted;
  for (std::int64_t i = 0; i < x.size(); ++i) wanted.push_back(0.7 * std::tanh(x[i] / 2 / 0.7));
  require_close(capped(x), wanted);
  TestTensor const dy = TestTensor::random(ElementType::f64, square, 2);
  TestTensor const dx{ElementType::f64, square, dy.values()};
  run(rank, OpKind::softcap_backward, {dx.operand(), x.operand()}, {dx.operand()});
  require_gradient(
      x, [&](TestTensor const& at) { return dot(capped(at), dy); }, dx.values());
}

TEST_CASE("the clamped SwiGLU is GPT-OSS's, on both sides of its clamps", "[kernels]") {
  RankShare const rank = whole(small_model(Precision::fp64));
  constexpr std::int64_t f = 6;
  Shape const pair{5, 2, 2 * f};
  TestTensor x = TestTensor::random(ElementType::f64, pair, 1);
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, 12 * x[i]);
  auto const activated = [&](TestTensor const& at) {
    TestTensor y{ElementType::f64, {5, 2, f}};
    run(rank, OpKind::swiglu_clamped, {at.operand()}, {y.operand()});
    return y;
  };
  std::vector<double> wanted;
  int clamped = 0;
  for (std::int64_t row = 0; row < 10; ++row) {
    for (std::int64_t i = 0; i < f; ++i) {
      double const gate = std::min(x[row * 2 * f + i], 7.0);
      double const up = std::max(-7.0, std::min(x[row * 2 * f + f + i], 7.0));
      if (gate == 7 || std::abs(up) == 7) ++clamped;
      wanted.push_back(gate / (1 + std::exp(-1.702 * gate)) * (up + 1));
    }
  }
  REQUIRE(clamped >= 10);
  REQUIRE(clamped <= 50);
  require_close(activated(x), wanted);
  TestTensor const dy = TestTensor::random(ElementType::f64, {5, 2, f}, 2);
  TestTensor const dx{ElementType::f64, pair};
  run(rank, OpKind::swiglu_clamped_backward, {dy.operand(), x.operand()}, {dx.operand()});
  require_gradient(
      x, [&](TestTensor const& at) { return dot(activated(at), dy); }, dx.values());
}

}  // namespace

}  // namespace stagecraft::test::pointwise_test
