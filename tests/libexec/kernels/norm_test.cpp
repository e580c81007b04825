#include <catch2/catch.hpp>
#include <cmath>

#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::norm_test {
namespace {

constexpr std::int64_t h = 24;
constexpr Shape hidden{10, 2, h};
constexpr std::int64_t rows = 20;

ModelConfig model_with(Norm norm, ElementType type) {
  ModelConfig model = small_model(precision_of(type));
  model.norm = norm;
  model.norm_epsilon = 1e-3;
  return model;
}

/// LayerNorm (Ba et al. 2016) and RMSNorm (Zhang and Sennrich 2019) as their papers have them.
struct Reference {
  std::vector<double> y, statistics;

  Reference(Norm norm,
            TestTensor const& x,
            TestTensor const& weight,
            TestTensor const& bias,
            double epsilon) {
    bool const centred = norm == Norm::layernorm;
    std::vector<double> inverses;
    for (std::int64_t row = 0; row < rows; ++row) {
      double mean = 0;
      for (std::int64_t i = 0; i < h; ++i) mean += x[row * h + i] / h;
      if (!centred) mean = 0;
      double variance = 0;
      for (std::int64_t i = 0; i < h; ++i) variance += std::pow(x[row * h + i] - mean, 2) / h;
      double const inverse = 1 / std::sqrt(variance + epsilon);
      for (std::int64_t i = 0; i < h; ++i) {
        y.push_back((x[row * h + i] - mean) * inverse * weight[i] + (centred ? bias[i] : 0));
      }
      if (centred) statistics.push_back(mean);
      inverses.push_back(inverse);
    }
    statistics.insert(statistics.end(), inverses.begin(), inverses.end());
  }
};

struct Forward {
  TestTensor y, statistics;
};

Forward forward(Norm norm, TestTensor const& x, TestTensor const& weight, TestTensor const& bias) {
  ModelConfig const model = model_with(norm, x.type());
  Forward result{
      TestTensor{x.type(), x.shape()},
      TestTensor{accumulation_type(model.precision), {norm == Norm::layernorm ? 2 : 1, rows}}};
  std::vector<Operand> reads{x.operand(), weight.operand()};
  if (norm == Norm::layernorm) reads.push_back(bias.operand());
  run(whole(model), OpKind::norm, reads, {result.y.operand(), result.statistics.operand()});
  return result;
}

TEST_CASE("norms and their statistics are those of their papers", "[kernels]") {
  auto const norm = GENERATE(Norm::layernorm, Norm::rmsnorm);
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  TestTensor const x = TestTensor::random(type, hidden, 1);
  TestTensor const weight = TestTensor::random(type, {h}, 2);
  TestTensor const bias = TestTensor::random(type, {h}, 3);
  Forward const got = forward(norm, x, weight, bias);
  Reference const wanted{norm, x, weight, bias, 1e-3};
  require_close(got.y, wanted.y);
  require_close(got.statistics, wanted.statistics);
}

TEST_CASE("the variance of a row far from zero does not cancel", "[kernels]") {
  // Mean 1000, deviation 1: the difference of the means of x^2 and x would keep no digit in float.
  TestTensor x = TestTensor::random(ElementType::f32, hidden, 1);
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, 1000 + x[i]);
  TestTensor const weight = TestTensor::random(ElementType::f32, {h}, 2);
  TestTensor const bias = TestTensor::random(ElementType::f32, {h}, 3);
  require_close(forward(Norm::layernorm, x, weight, bias).y,
                Reference{Norm::layernorm, x, weight, bias, 1e-3}.y, 2e-4);
}

TEST_CASE("gradients of norms are finite differences of them", "[kernels]") {
  auto const norm = GENERATE(Norm::layernorm, Norm::rmsnorm);
  auto const type = ElementType::f64;
  bool const centred = norm == Norm::layernorm;
  TestTensor const x = TestTensor::random(type, hidden, 1);
  TestTensor const weight = TestTensor::random(type, {h}, 2);
  TestTensor const bias = TestTensor::random(type, {h}, 3);
  TestTensor const dy = TestTensor::random(type, hidden, 4);
  Forward const saved = forward(norm, x, weight, bias);
  RankShare const rank = whole(model_with(norm, type));
  TestTensor const dx{type, hidden};
  run(rank, OpKind::norm_backward,
      {dy.operand(), x.operand(), saved.statistics.operand(), weight.operand()}, {dx.operand()});
  require_gradient(
      x, [&](TestTensor const& at) { return dot(forward(norm, at, weight, bias).y, dy); },
      dx.values());

  TestTensor const before = TestTensor::random(type, {h}, 5);
  TestTensor const d_weight{type, {h}, before.values()};
  TestTensor const d_bias{type, {h}, before.values()};
  std::vector<Operand> gradients{d_weight.operand()};
  if (centred) gradients.push_back(d_bias.operand());
  run(rank, OpKind::norm_weight_gradient, {dy.operand(), x.operand(), saved.statistics.operand()},
      gradients);
  auto const accumulated = [&](TestTensor const& gradient) {
    std::vector<double> added;
    for (std::int64_t i = 0; i < h; ++i) added.push_back(gradient[i] - before[i]);
    return added;
  };
  require_gradient(
      weight, [&](TestTensor const& at) { return dot(forward(norm, x, at, bias).y, dy); },
      accumulated(d_weight));
  if (!centred) return;
  require_gradient(
      bias, [&](TestTensor const& at) { return dot(forward(norm, x, weight, at).y, dy); },
      accumulated(d_bias));
}

TEST_CASE("gradients of 16-bit and single norms are those in double, rounded", "[kernels]") {
  auto const norm = GENERATE(Norm::layernorm, Norm::rmsnorm);
  auto const type = GENERATE(ElementType::f32, ElementType::bf16, ElementType::f16);
  TestTensor const x = TestTensor::random(type, hidden, 1);
  TestTensor const weight = TestTensor::random(type, {h}, 2);
  TestTensor const dy = TestTensor::random(type, hidden, 4);
  auto const gradients = [&](ElementType as) {
    auto const in = [&](TestTensor const& tensor) {
      return TestTensor{as, tensor.shape(), tensor.values()};
    };
    Forward const saved = forward(norm, in(x), in(weight), in(weight));
    RankShare const rank = whole(model_with(norm, as));
    std::vector<TestTensor> result{TestTensor{as, hidden},
                                   TestTensor::zeros(accumulation_type(precision_of(as)), {h}),
                                   TestTensor::zeros(accumulation_type(precision_of(as)), {h})};
    run(rank, OpKind::norm_backward,
        {in(dy).operand(), in(x).operand(), saved.statistics.operand(), in(weight).operand()},
        {result[0].operand()});
    std::vector<Operand> writes{result[1].operand()};
    if (norm == Norm::layernorm) writes.push_back(result[2].operand());
    run(rank, OpKind::norm_weight_gradient,
        {in(dy).operand(), in(x).operand(), saved.statistics.operand()}, writes);
    return result;
  };
  std::vector<TestTensor> const got = gradients(type);
  std::vector<TestTensor> const exact = gradients(ElementType::f64);
  for (std::size_t i = 0; i < got.size(); ++i) require_close(got[i], exact[i].values());
}

TEST_CASE("norms of two layers with different epsilons run on the same kernels", "[kernels]") {
  CpuKernels kernels{{.types = {ElementType::f64}}, {}};
  TestTensor const x{ElementType::f64, {1, 2}, {0.001, -0.001}};
  TestTensor const weight{ElementType::f64, {2}, {1, 1}};
  for (double const epsilon : {1e-5, 1e-6}) {
    TestTensor const y{ElementType::f64, {1, 2}};
    TestTensor const statistics{ElementType::f64, {1, 1}};
    KernelCall call = make_call(OpKind::norm, {x.operand(), weight.operand()},
                                {y.operand(), statistics.operand()});
    call.attributes = NormAttributes{.norm = Norm::rmsnorm, .epsilon = epsilon};
    kernels.run(call);
    require_close(y, {0.001 / std::sqrt(1e-6 + epsilon), -0.001 / std::sqrt(1e-6 + epsilon)});
  }
}

TEST_CASE("a call without the attributes of its kind is refused", "[kernels]") {
  CpuKernels kernels{{.types = {ElementType::f64}}, {}};
  TestTensor const x{ElementType::f64, {1, 2}, {1, 2}};
  KernelCall const call =
      make_call(OpKind::norm, {x.operand(), x.operand()}, {x.operand(), x.operand()});
  REQUIRE_THROWS_WITH(kernels.run(call), Catch::StartsWith("norm: its attributes"));
}

}  // namespace
}  // namespace stagecraft::test::norm_test
