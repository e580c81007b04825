#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::softmax_test {
namespace {

/// [b, heads, s, s] of small_model() with a longer sequence: more than the lanes of a reduction.
constexpr std::int64_t s = 37;
constexpr Shape square{2, 4, s, s};

RankShare rank_of(ElementType type) {
  ModelConfig model = small_model(precision_of(type));
  model.sequence = s;
  return whole(model);
}

/// softmax(x / sqrt(6)) over columns up to the row, by definition.
std::vector<double> reference(TestTensor const& x) {
  std::vector<double> y(static_cast<std::size_t>(x.size()));
  for (std::int64_t row = 0; row < x.size() / s; ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i <= row % s; ++i) sum += std::exp(x[row * s + i] / std::sqrt(6.0));
    for (std::int64_t i = 0; i <= row % s; ++i) {
      y[static_cast<std::size_t>(row * s + i)] = std::exp(x[row * s + i] / std::sqrt(6.0)) / sum;
    }
  }
  return y;
}

TestTensor softmax(TestTensor const& x) {
  TestTensor y{x.type(), x.shape()};
  run(rank_of(x.type()), OpKind::causal_softmax, {x.operand()}, {y.operand()});
  return y;
}

TEST_CASE("the causal softmax is scaled by 1/sqrt(d) and zero above the diagonal", "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  TestTensor x = TestTensor::random(type, square, 1);
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, 10 * x[i]);
  require_close(softmax(x), reference(x));
}

TEST_CASE("the causal softmax of large scores neither overflows nor reads above the diagonal",
          "[kernels]") {
  auto const type = GENERATE(ElementType::f64, ElementType::f32, ElementType::bf16);
  TestTensor x{type, square, std::vector<double>(static_cast<std::size_t>(square.elements()), 3e4)};
  for (std::int64_t row = 0; row < x.size() / s; ++row) {
    for (std::int64_t i = row % s + 1; i < s; ++i) {
      x.set(row * s + i, std::numeric_limits<double>::quiet_NaN());
    }
  }
  TestTensor const y = softmax(x);
  for (std::int64_t row = 0; row < x.size() / s; ++row) {
    for (std::int64_t i = 0; i < s; ++i) {
      double const wanted = i <= row % s ? 1.0 / static_cast<double>(row % s + 1) : 0;
      REQUIRE(y[row * s + i] == Approx(wanted).epsilon(0.01));
    }
  }
}

TEST_CASE("the causal softmax of a window is that of its columns, and so is its gradient",
          "[kernels]") {
  auto const type = GENERATE(ElementType::f64, ElementType::f32);
  std::int64_t const window = GENERATE(1, 7, 200);
  RankShare rank = rank_of(type);
  rank.shape.model.window = window;
  TestTensor const x = TestTensor::random(type, square, 1);
  TestTensor const y{x.type(), x.shape()};
  run(rank, OpKind::causal_softmax, {x.operand()}, {y.operand()});
  TestTensor const dy = TestTensor::random(type, square, 2);
  TestTensor const dx{type, square, dy.values()};
  run(rank, OpKind::causal_softmax_backward, {dx.operand(), y.operand()}, {dx.operand()});
  std::vector<double> wanted(static_cast<std::size_t>(x.size()));
  std::vector<double> gradient(static_cast<std::size_t>(x.size()));
  for (std::int64_t row = 0; row < x.size() / s; ++row) {
    std::int64_t const first = row * s + std::max<std::int64_t>(0, row % s + 1 - window);
    std::int64_t const end = row * s + row % s + 1;
    double sum = 0;
    for (std::int64_t i = first; i < end; ++i) sum += std::exp(x[i] / std::sqrt(6.0));
    double dot = 0;
    for (std::int64_t i = first; i < end; ++i) {
      auto const at = static_cast<std::size_t>(i);
      wanted[at] = std::exp(x[i] / std::sqrt(6.0)) / sum;
      dot += wanted[at] * dy[i];
    }
    for (std::int64_t i = first; i < end; ++i) {
      auto const at = static_cast<std::size_t>(i);
      gradient[at] = (dy[i] - dot) * wanted[at] / std::sqrt(6.0);
    }
  }
  require_close(y, wanted);
  require_close(dx, gradient);
}

TEST_CASE("a NaN among the scores of a row comes through in all of the row", "[kernels]") {
  TestTensor x = TestTensor::random(ElementType::f32, square, 1);
  x.set(20 * s + 3, std::numeric_limits<double>::quiet_NaN());
  TestTensor const y = softmax(x);
  for (std::int64_t i = 0; i <= 20; ++i) REQUIRE(std::isnan(y[20 * s + i]));
  REQUIRE_FALSE(std::isnan(y[21 * s]));
}

TEST_CASE("the gradient of the causal softmax is a finite difference of it", "[kernels]") {
  ModelConfig const model = small_model();
  Shape const shape{1, 4, 10, 10};
  RankShare const rank = whole(model, 1);
  auto const forward = [&](TestTensor const& at) {
    TestTensor y{at.type(), shape};
    run(rank, OpKind::causal_softmax, {at.operand()}, {y.operand()});
    return y;
  };
  TestTensor const x = TestTensor::random(ElementType::f64, shape, 1);
  TestTensor const dy = TestTensor::random(ElementType::f64, shape, 2);
  TestTensor const y = forward(x);
  TestTensor const d{ElementType::f64, shape, dy.values()};
  run(rank, OpKind::causal_softmax_backward, {d.operand(), y.operand()}, {d.operand()});
  require_gradient(
      x, [&](TestTensor const& at) { return dot(forward(at), dy); }, d.values());
}

TEST_CASE("the gradient of the causal softmax in few bits is that in double, rounded",
          "[kernels]") {
  auto const type = GENERATE(ElementType::f32, ElementType::bf16, ElementType::f16);
  TestTensor const y = softmax(TestTensor::random(type, square, 1));
  TestTensor const dy = TestTensor::random(type, square, 2);
  auto const gradient = [&](ElementType as) {
    TestTensor d{as, square, dy.values()};
    TestTensor const probabilities{as, square, y.values()};
    run(rank_of(as), OpKind::causal_softmax_backward, {d.operand(), probabilities.operand()},
        {d.operand()});
    return d;
  };
  require_close(gradient(type), gradient(ElementType::f64).values());
}

TEST_CASE("softmax and dropout in one kernel, and its gradient, have the bits of two",
          "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  bool const stores = GENERATE(false, true);
  RankShare const rank = rank_of(type);
  auto const run_drawing = [&](OpKind kind, std::vector<Operand> const& reads,
                               std::vector<Operand> const& writes) {
    KernelCall call = make_call(kind, reads, writes);
    call.draw = some_draw(DropoutSite::attention);
    run(rank, call);
  };
  TestTensor const scores = TestTensor::random(type, square, 1);
  TestTensor const y = softmax(scores);
  TestTensor dropped{type, square};
  TestTensor mask{ElementType::u8, square};
  run_drawing(OpKind::dropout, {y.operand()}, {dropped.operand(), mask.operand()});
  {
    TestTensor in_place{type, square, scores.values()};
    TestTensor fused{type, square};
    TestTensor drawn{ElementType::u8, square};
    std::vector<Operand> writes{in_place.operand(), fused.operand()};
    if (stores) writes.push_back(drawn.operand());
    run_drawing(OpKind::causal_softmax_dropout, {in_place.operand()}, writes);
    REQUIRE(in_place.same_bits(y));
    REQUIRE(fused.same_bits(dropped));
    if (stores) REQUIRE(drawn.same_bits(mask));
  }
  TestTensor const gradient = TestTensor::random(type, square, 2);
  TestTensor two{type, square};
  run_drawing(OpKind::dropout_backward, {gradient.operand(), mask.operand()}, {two.operand()});
  run(rank, OpKind::causal_softmax_backward, {two.operand(), y.operand()}, {two.operand()});
  TestTensor one{type, square, gradient.values()};
  std::vector<Operand> reads{one.operand(), y.operand()};
  if (stores) reads.push_back(mask.operand());
  run_drawing(OpKind::causal_softmax_dropout_backward, reads, {one.operand()});
  REQUIRE(one.same_bits(two));
}

}  // namespace
}  // namespace stagecraft::test::softmax_test
