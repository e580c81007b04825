#include <catch2/catch.hpp>
#include <cmath>

#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::layer_variants_test {
namespace {

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
}  // namespace stagecraft::test::layer_variants_test
