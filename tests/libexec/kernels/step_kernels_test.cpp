#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "libexec/kernels/optimizer_kernels.hpp"
#include "libexec/kernels/rank_order_reduction.hpp"
#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test {
namespace {

/// More than one task of the pool, and no multiple of anything.
constexpr std::int64_t n = 50021;

FlatRange flat(TestTensor const& x) { return {x.operand().data, x.type(), x.size()}; }

TEST_CASE("gradients are zeroed, scaled and unscaled, and infinities noted", "[kernels]") {
  auto const type = GENERATE(ElementType::f32, ElementType::f64);
  WorkerPool pool{GENERATE(1, 2)};
  TestTensor const before = TestTensor::random(type, {n}, 1);
  TestTensor x = before;
  scale(pool, flat(x), 0.25);
  for (std::int64_t i = 0; i < n; i += 7) REQUIRE(x[i] == before[i] / 4);
  REQUIRE_FALSE(unscale(pool, flat(x), 4));
  REQUIRE(x.same_bits(before));
  for (double const bad :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    for (std::int64_t const at : {std::int64_t{0}, std::int64_t{20000}, n - 1}) {
      TestTensor spoilt = before;
      spoilt.set(at, bad);
      REQUIRE(unscale(pool, flat(spoilt), 1.0 / 65536));
    }
  }
  fill_zero(pool, flat(x));
  REQUIRE(x.same_bits(TestTensor::zeros(type, {n})));
}

TEST_CASE("the sum of squares is taken in double, the same for any number of threads",
          "[kernels]") {
  auto const type = GENERATE(ElementType::f32, ElementType::f64);
  // Short, and more than a group of blocks.
  std::int64_t const size = GENERATE(std::int64_t{3}, n, std::int64_t{64 * 16384 + 5});
  TestTensor x = TestTensor::random(type, {size}, 1);
  x.set(0, 1e5);  // in float 1e10 would swallow the squares of the others
  long double exact = 0;
  for (std::int64_t i = 0; i < size; ++i) exact += static_cast<long double>(x[i]) * x[i];
  WorkerPool one{1};
  WorkerPool three{3};
  double const sum = sum_of_squares(one, flat(x));
  REQUIRE(sum == Approx(static_cast<double>(exact)).epsilon(1e-14));
  REQUIRE(sum_of_squares(three, flat(x)) == sum);
}

TEST_CASE("Adam steps are those of Kingma and Ba with decoupled weight decay", "[kernels]") {
  auto const type = GENERATE(ElementType::f32, ElementType::f64);
  WorkerPool pool{2};
  TestTensor const p = TestTensor::random(type, {n}, 1);
  TestTensor const m = TestTensor::zeros(type, {n});
  TestTensor const v = TestTensor::zeros(type, {n});
  std::vector<double> p_wanted = p.values();
  std::vector<double> m_wanted(static_cast<std::size_t>(n));
  std::vector<double> v_wanted(static_cast<std::size_t>(n));
  double const rate = 0.01;
  for (std::int64_t step = 1; step <= 3; ++step) {
    TestTensor const g = TestTensor::random(type, {n}, static_cast<unsigned>(10 + step));
    adam(pool,
         {.learning_rate = rate,
          .beta1 = 0.9,
          .beta2 = 0.95,
          .epsilon = 1e-8,
          .decay_factor = 1 - rate * 0.1,
          .step = step},
         flat(p), flat(m), flat(v), flat(g));
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      double const gradient = g[static_cast<std::int64_t>(i)];
      m_wanted[i] = 0.9 * m_wanted[i] + 0.1 * gradient;
      v_wanted[i] = 0.95 * v_wanted[i] + 0.05 * gradient * gradient;
      double const m_hat = m_wanted[i] / (1 - std::pow(0.9, static_cast<double>(step)));
      double const v_hat = v_wanted[i] / (1 - std::pow(0.95, static_cast<double>(step)));
      p_wanted[i] = p_wanted[i] * (1 - rate * 0.1) - rate * m_hat / (std::sqrt(v_hat) + 1e-8);
    }
  }
  double const allowed = type == ElementType::f32 ? 1e-6 : 1e-14;
  require_close(p, p_wanted, allowed);
  require_close(m, m_wanted, allowed);
  require_close(v, v_wanted, allowed);
}

TEST_CASE("the master copy is rounded to 16-bit parameters", "[kernels]") {
  auto const type = GENERATE(ElementType::f16, ElementType::bf16);
  WorkerPool pool{2};
  TestTensor const master = TestTensor::random(ElementType::f32, {n}, 1);
  TestTensor const parameters{type, {n}};
  narrow_parameters(pool, flat(master), flat(parameters));
  REQUIRE(parameters.same_bits(TestTensor{type, {n}, master.values()}));
}

TEST_CASE("ranges that do not fit together are refused", "[kernels]") {
  WorkerPool pool{1};
  TestTensor const x = TestTensor::random(ElementType::f32, {8}, 1);
  TestTensor const shorter = TestTensor::random(ElementType::f32, {7}, 1);
  TestTensor const narrow = TestTensor::random(ElementType::f16, {8}, 1);
  CHECK_THROWS_AS(adam(pool, {}, flat(x), flat(x), flat(x), flat(shorter)), std::logic_error);
  CHECK_THROWS_AS(scale(pool, flat(narrow), 2), std::logic_error);
  CHECK_THROWS_AS(narrow_parameters(pool, flat(x), flat(shorter)), std::logic_error);
}

TEST_CASE("reductions are in rank order, 16-bit ones summed in float and rounded once",
          "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const reduction = GENERATE(Reduction::sum, Reduction::maximum);
  int const threads = GENERATE(1, 2);
  // Of four sources the destination is another tensor, the first or the third.
  int const destination = GENERATE(-1, 0, 2);
  WorkerPool pool{threads};
  std::vector<TestTensor> sources;
  for (unsigned i = 0; i < 4; ++i) sources.push_back(TestTensor::random(type, {n}, i));
  TestTensor wanted{type, {n}};
  for (std::int64_t i = 0; i < n; ++i) {
    if (reduction == Reduction::maximum) {
      double largest = sources[0][i];
      for (TestTensor const& source : sources) largest = std::max(largest, source[i]);
      wanted.set(i, largest);
    } else if (type == ElementType::f64) {
      wanted.set(i, ((sources[0][i] + sources[1][i]) + sources[2][i]) + sources[3][i]);
    } else {
      float sum = static_cast<float>(sources[0][i]);
      for (std::size_t rank = 1; rank < 4; ++rank) sum += static_cast<float>(sources[rank][i]);
      wanted.set(i, sum);
    }
  }
  TestTensor const other{type, {n}};
  TestTensor const& to = destination < 0 ? other : sources[static_cast<std::size_t>(destination)];
  std::vector<void const*> pointers;
  for (TestTensor const& source : sources) pointers.push_back(source.operand().data);
  reduce_in_rank_order(pool, reduction, type, pointers, to.operand().data, n);
  REQUIRE(to.same_bits(wanted));
}

}  // namespace
}  // namespace stagecraft::test
