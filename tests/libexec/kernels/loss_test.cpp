#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::loss_test {
namespace {

constexpr std::int64_t s = 10;
constexpr std::int64_t b = 2;
constexpr std::int64_t v = 37;
constexpr double loss_gradient = 0.125;

/// Labels over the whole vocabulary, its last word included.
TestTensor labels() {
  TestTensor ids{ElementType::i64, {s, b}};
  for (std::int64_t i = 0; i < s * b; ++i) ids.set(i, static_cast<double>(36 - i * 36 / 19));
  return ids;
}

struct Loss {
  std::vector<double> loss;      ///< a token
  std::vector<double> gradient;  ///< [s b, v], of the sum of losses times loss_gradient
};

/// -log softmax(logits)[label], and its gradient, by definition.
Loss reference(std::vector<double> const& logits) {
  Loss result;
  TestTensor const ids = labels();
  for (std::int64_t row = 0; row < s * b; ++row) {
    double const* const x = logits.data() + row * v;
    double sum = 0;
    for (std::int64_t i = 0; i < v; ++i) sum += std::exp(x[i]);
    result.loss.push_back(std::log(sum) - x[static_cast<std::int64_t>(ids[row])]);
    for (std::int64_t i = 0; i < v; ++i) {
      double const hit = static_cast<double>(i) == ids[row] ? 1 : 0;
      result.gradient.push_back((std::exp(x[i]) / sum - hit) * loss_gradient);
    }
  }
  return result;
}

/// Runs the loss over t ranks, with the reductions between its kernels done here; NaN logits in the
/// padding. `result.gradient` has the columns of all ranks, without padding.
Loss compute(std::vector<double> const& logits, ElementType type, int t) {
  ModelConfig const model = small_model(precision_of(type));
  ElementType const wide = accumulation_type(model.precision);
  std::int64_t const words = share(model, t, 0, false).shape.vocabulary();
  Shape const row_shape{s, b};
  std::vector<TestTensor> x, maximum, sum, predicted;
  TestTensor const ids = labels();
  for (int rank = 0; rank < t; ++rank) {
    TestTensor narrow{type, {s, b, words}};
    for (std::int64_t i = 0; i < narrow.size(); ++i) {
      std::int64_t const word = rank * words + i % words;
      narrow.set(i, word < v ? logits[static_cast<std::size_t>(i / words * v + word)]
                             : std::numeric_limits<double>::quiet_NaN());
    }
    RankShare const on = share(model, t, rank, false);
    x.emplace_back(wide, narrow.shape());
    if (type == wide) {
      x.back() = narrow;
    } else {
      run(on, OpKind::widen_logits, {narrow.operand()}, {x.back().operand()});
    }
    maximum.emplace_back(wide, row_shape);
    run(on, OpKind::logits_maximum, {x.back().operand()}, {maximum.back().operand()});
  }
  for (std::int64_t row = 0; row < s * b; ++row) {
    double largest = maximum[0][row];
    for (TestTensor const& other : maximum) largest = std::max(largest, other[row]);
    for (TestTensor& all : maximum) all.set(row, largest);
  }
  for (int rank = 0; rank < t; ++rank) {
    auto const i = static_cast<std::size_t>(rank);
    sum.emplace_back(wide, row_shape);
    predicted.emplace_back(wide, row_shape);
    run(share(model, t, rank, false), OpKind::exponentials,
        {x[i].operand(), maximum[i].operand(), ids.operand()},
        {x[i].operand(), sum[i].operand(), predicted[i].operand()});
  }
  for (std::int64_t row = 0; row < s * b; ++row) {
    for (auto* const parts : {&sum, &predicted}) {
      double total = 0;
      for (TestTensor const& part : *parts) total += part[row];
      for (TestTensor& part : *parts) part.set(row, total);
    }
  }
  Loss result{.loss = {}, .gradient = std::vector<double>(static_cast<std::size_t>(s * b * v))};
  for (int rank = 0; rank < t; ++rank) {
    auto const i = static_cast<std::size_t>(rank);
    RankShare const on = share(model, t, rank, false);
    TestTensor const loss{wide, row_shape};
    run(on, OpKind::cross_entropy,
        {x[i].operand(), sum[i].operand(), predicted[i].operand(), ids.operand()},
        {x[i].operand(), loss.operand()});
    if (rank == 0) result.loss = loss.values();
    REQUIRE(loss.values() == result.loss);
    KernelCall call = make_call(OpKind::cross_entropy_backward, {x[i].operand(), ids.operand()},
                                {x[i].operand()});
    call.loss_gradient = loss_gradient;
    run(on, call);
    TestTensor gradient{type, x[i].shape()};
    if (type == wide) {
      gradient = x[i];
    } else {
      run(on, OpKind::narrow_logits, {x[i].operand()}, {gradient.operand()});
    }
    for (std::int64_t at = 0; at < gradient.size(); ++at) {
      std::int64_t const word = rank * words + at % words;
      if (word < v) {
        result.gradient[static_cast<std::size_t>(at / words * v + word)] = gradient[at];
      } else {
        REQUIRE(gradient[at] == 0);
      }
    }
  }
  return result;
}

/// Logits of the type, as doubles.
std::vector<double> some_logits(ElementType type, double scale) {
  TestTensor x = TestTensor::random(type, {s, b, v}, 1);
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, scale * x[i]);
  return x.values();
}

TEST_CASE("loss and gradient are cross entropy by definition, for every t, without the padding",
          "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  // 37 words of 40, 2 x 20, 4 x 12 (the last rank has one word), 8 x 8 (three ranks have none).
  int const t = GENERATE(1, 2, 4, 8);
  std::vector<double> const logits = some_logits(type, 5);
  Loss const got = compute(logits, type, t);
  Loss const wanted = reference(logits);
  ElementType const wide = accumulation_type(precision_of(type));
  require_close(TestTensor{ElementType::f64, {s, b}, got.loss}, wanted.loss, tolerance(wide));
  require_close(TestTensor{ElementType::f64, {s, b, v}, got.gradient}, wanted.gradient,
                tolerance(type));
}

TEST_CASE("the loss of large logits does not overflow", "[kernels]") {
  Loss const got = compute(some_logits(ElementType::f32, 1e4), ElementType::f32, 2);
  for (double const loss : got.loss) REQUIRE(std::isfinite(loss));
}

TEST_CASE("the gradient of the loss is a finite difference of it", "[kernels]") {
  std::vector<double> const logits = some_logits(ElementType::f64, 2);
  TestTensor const x{ElementType::f64, {s, b, v}, logits};
  require_gradient(
      x,
      [](TestTensor const& at) {
        double total = 0;
        for (double const loss : compute(at.values(), ElementType::f64, 1).loss) total += loss;
        return total * loss_gradient;
      },
      compute(logits, ElementType::f64, 2).gradient);
}

}  // namespace
}  // namespace stagecraft::test::loss_test
