#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "libexec/kernels/cpu/kernel_table.hpp"
#include "tests/libexec/kernels/step_calls.hpp"

namespace stagecraft::test::step_kernels_test {
namespace {

/// More than one task of the pool, and no multiple of anything.
constexpr std::int64_t n = 50021;

CpuKernels kernels_of(int threads) {
  return CpuKernels{{.types = {ElementType::f32}}, {.gemm = GemmKind::plain, .threads = threads}};
}

TEST_CASE("gradients are zeroed, scaled and unscaled, and infinities noted", "[kernels]") {
  auto const type = GENERATE(ElementType::f32, ElementType::f64);
  CpuKernels kernels = kernels_of(GENERATE(1, 2));
  TestTensor const before = TestTensor::random(type, {n}, 1);
  TestTensor x = before;
  kernels.run(scaling(x.operand(), 0.25));
  for (std::int64_t i = 0; i < n; i += 7) REQUIRE(x[i] == before[i] / 4);
  StepNumbers finite{.loss_scale = 0.25};
  kernels.run(unscaling(x.operand(), finite));
  REQUIRE(finite.overflow == 0);
  REQUIRE(x.same_bits(before));
  for (double const bad :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    for (std::int64_t const at : {std::int64_t{0}, std::int64_t{20000}, n - 1}) {
      TestTensor spoilt = before;
      spoilt.set(at, bad);
      StepNumbers numbers;
      kernels.run(unscaling(spoilt.operand(), numbers));
      REQUIRE(numbers.overflow == 1);
      // A later range without infinities does not hide it.
      kernels.run(unscaling(x.operand(), numbers));
      REQUIRE(numbers.overflow == 1);
    }
  }
  kernels.run(zeroing(x.operand()));
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
  StepNumbers one;
  StepNumbers three;
  kernels_of(1).run(squaring(x.operand(), one));
  kernels_of(3).run(squaring(x.operand(), three));
  REQUIRE(one.squares.value() == Approx(static_cast<double>(exact)).epsilon(1e-14));
  REQUIRE(three.squares.value() == one.squares.value());
  // Ranges add up.
  kernels_of(1).run(squaring(x.operand(), one));
  REQUIRE(one.squares.value() == 2 * three.squares.value());
}

TEST_CASE("gradients are clipped to the largest norm, and not if it is not reached", "[kernels]") {
  // Megatron-LM, clip_grads.py: times largest / (norm + 1e-6) if that is less than 1.
  CpuKernels kernels = kernels_of(1);
  TestTensor const before{ElementType::f64, {2}, {3, 4}};
  auto const clipped = [&](double largest, float overflow) {
    TestTensor x = before;
    StepNumbers numbers{.overflow = overflow};
    numbers.squares.add(25);
    kernels.run(clipping(x.operand(), numbers, largest));
    return x.values();
  };
  REQUIRE(clipped(1, 0) == std::vector<double>{3 * (1 / (5 + 1e-6)), 4 * (1 / (5 + 1e-6))});
  REQUIRE(clipped(6, 0) == before.values());
  REQUIRE(clipped(0, 0) == before.values());
  REQUIRE(clipped(1, 1) == before.values());
}

TEST_CASE("Adam steps are those of Kingma and Ba with decoupled weight decay", "[kernels]") {
  auto const type = GENERATE(ElementType::f32, ElementType::f64);
  bool const decays = GENERATE(true, false);
  CpuKernels kernels = kernels_of(2);
  TestTensor const p = TestTensor::random(type, {n}, 1);
  TestTensor const m = TestTensor::zeros(type, {n});
  TestTensor const v = TestTensor::zeros(type, {n});
  std::vector<double> p_wanted = p.values();
  std::vector<double> m_wanted(static_cast<std::size_t>(n));
  std::vector<double> v_wanted(static_cast<std::size_t>(n));
  double const rate = 0.01;
  AdamAttributes const adam{
      .learning_rate = rate, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};
  for (std::int64_t step = 1; step <= 3; ++step) {
    TestTensor const g = TestTensor::random(type, {n}, static_cast<unsigned>(10 + step));
    StepNumbers numbers{.updates = step - 1};
    KernelCall call =
        adam_update(adam, {p.operand(), m.operand(), v.operand()}, g.operand(), numbers);
    call.decays = decays;
    kernels.run(call);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      double const gradient = g[static_cast<std::int64_t>(i)];
      m_wanted[i] = 0.9 * m_wanted[i] + 0.1 * gradient;
      v_wanted[i] = 0.95 * v_wanted[i] + 0.05 * gradient * gradient;
      double const m_hat = m_wanted[i] / (1 - std::pow(0.9, static_cast<double>(step)));
      double const v_hat = v_wanted[i] / (1 - std::pow(0.95, static_cast<double>(step)));
      double const kept = decays ? p_wanted[i] * (1 - rate * 0.1) : p_wanted[i];
      p_wanted[i] = kept - rate * m_hat / (std::sqrt(v_hat) + 1e-8);
    }
  }
  double const allowed = type == ElementType::f32 ? 1e-6 : 1e-14;
  require_close(p, p_wanted, allowed);
  require_close(m, m_wanted, allowed);
  require_close(v, v_wanted, allowed);
}

TEST_CASE("the master copy is rounded to 16-bit parameters", "[kernels]") {
  auto const type = GENERATE(ElementType::f16, ElementType::bf16);
  TestTensor const master = TestTensor::random(ElementType::f32, {n}, 1);
  TestTensor const parameters{type, {n}};
  StepNumbers numbers;
  kernels_of(2).run(narrowing(master.operand(), parameters.operand(), numbers));
  REQUIRE(parameters.same_bits(TestTensor{type, {n}, master.values()}));
}

TEST_CASE("after an overflow neither parameters nor moments change", "[kernels]") {
  CpuKernels kernels = kernels_of(1);
  StepNumbers numbers{.overflow = 1};
  TestTensor const before = TestTensor::random(ElementType::f32, {8}, 1);
  std::vector<TestTensor> const state(3, before);
  TestTensor const narrow_before = TestTensor::zeros(ElementType::f16, {8});
  TestTensor const narrow = narrow_before;
  kernels.run(adam_update({.learning_rate = 1},
                          {state[0].operand(), state[1].operand(), state[2].operand()},
                          before.operand(), numbers));
  kernels.run(narrowing(before.operand(), narrow.operand(), numbers));
  for (TestTensor const& tensor : state) REQUIRE(tensor.same_bits(before));
  REQUIRE(narrow.same_bits(narrow_before));
}

TEST_CASE("a step ahead gives the parameters of Adam, and leaves its state as it is", "[kernels]") {
  auto const type = GENERATE(ElementType::f16, ElementType::bf16);
  CpuKernels kernels = kernels_of(2);
  AdamAheadAttributes const ahead{.adam = {.learning_rate = 0.01, .weight_decay = 0.1},
                                  .clip = {.largest_norm = 5}};
  std::vector<TestTensor> before;
  for (unsigned i = 0; i < 2; ++i) before.push_back(TestTensor::random(ElementType::f32, {n}, i));
  before.push_back(before[1]);
  for (std::int64_t i = 0; i < n; ++i) before[2].set(i, before[1][i] * before[1][i]);
  TestTensor const gradient = TestTensor::random(ElementType::f32, {n}, 7);
  std::vector<TestTensor> const state = before;
  std::vector<Operand> const operands{state[0].operand(), state[1].operand(), state[2].operand()};
  TestTensor const untouched = TestTensor::zeros(type, {n});
  TestTensor const parameters = untouched;
  StepNumbers numbers{.updates = 3};
  numbers.squares.add(36);  // a norm of 6 needs clipping to 5
  kernels.run(stepping_ahead(ahead, operands, gradient.operand(), parameters.operand(), numbers));
  REQUIRE(parameters.same_bits(untouched));
  numbers.squares = {};
  numbers.squares.add(16);
  numbers.overflow = 1;
  kernels.run(stepping_ahead(ahead, operands, gradient.operand(), parameters.operand(), numbers));
  REQUIRE(parameters.same_bits(untouched));
  numbers.overflow = 0;
  kernels.run(stepping_ahead(ahead, operands, gradient.operand(), parameters.operand(), numbers));
  for (std::size_t i = 0; i < state.size(); ++i) REQUIRE(state[i].same_bits(before[i]));
  // Adam itself, then rounded.
  TestTensor const wanted = untouched;
  kernels.run(adam_update(ahead.adam, operands, gradient.operand(), numbers));
  kernels.run(narrowing(state[0].operand(), wanted.operand(), numbers));
  REQUIRE(parameters.same_bits(wanted));
}

TEST_CASE("ranges that do not fit together are refused", "[kernels]") {
  CpuKernels kernels = kernels_of(1);
  StepNumbers numbers;
  TestTensor const eight = TestTensor::random(ElementType::f32, {8}, 1);
  TestTensor const shorter = TestTensor::random(ElementType::f32, {7}, 1);
  TestTensor const narrow = TestTensor::random(ElementType::f16, {8}, 1);
  Operand const fits = eight.operand();
  CHECK_THROWS_AS(kernels.run(adam_update({}, {fits, fits, fits}, shorter.operand(), numbers)),
                  std::logic_error);
  CHECK_THROWS_AS(kernels.run(scaling(narrow.operand(), 2)), std::logic_error);
  CHECK_THROWS_AS(kernels.run(narrowing(fits, shorter.operand(), numbers)), std::logic_error);
  KernelCall bare = adam_update({}, {fits, fits, fits}, fits, numbers);
  bare.attributes = NoAttributes{};
  CHECK_THROWS_AS(kernels.run(bare), std::logic_error);
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
}  // namespace stagecraft::test::step_kernels_test
