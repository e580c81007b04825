#include "tests/libexec/kernels/kernel_test.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "libexec/kernels/element.hpp"

namespace stagecraft::test {

TestTensor::TestTensor(ElementType type, Shape const& shape)
    : type_{type},
      shape_{shape},
      bytes_(static_cast<std::size_t>(shape.elements() * element_size(type)), std::byte{0xFF}) {}

TestTensor::TestTensor(ElementType type, Shape const& shape, std::vector<double> const& values)
    : TestTensor{type, shape} {
  REQUIRE(static_cast<std::int64_t>(values.size()) == size());
  for (std::int64_t i = 0; i < size(); ++i) set(i, values[static_cast<std::size_t>(i)]);
}

TestTensor TestTensor::random(ElementType type, Shape const& shape, unsigned seed) {
  std::mt19937 engine{seed};
  TestTensor tensor{type, shape};
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    tensor.set(i, static_cast<double>(engine()) / 2147483648.0 - 1);
  }
  return tensor;
}

TestTensor TestTensor::zeros(ElementType type, Shape const& shape) {
  return {type, shape, std::vector<double>(static_cast<std::size_t>(shape.elements()))};
}

double TestTensor::operator[](std::int64_t i) const {
  std::byte const* const from = bytes_.data() + i * element_size(type_);
  auto const as = [&](auto value) {
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  switch (type_) {
    case ElementType::f16:
      return widen(as(Float16{}));
    case ElementType::bf16:
      return widen(as(BFloat16{}));
    case ElementType::f32:
      return as(float{});
    case ElementType::f64:
      return as(double{});
    case ElementType::u8:
      return as(std::uint8_t{});
    case ElementType::i32:
      return as(std::int32_t{});
    case ElementType::i64:
      return static_cast<double>(as(std::int64_t{}));
    case ElementType::f8_e4m3:
    case ElementType::f8_e5m2:
    case ElementType::f4_e2m1:
      break;  // no kernel has them
  }
  return 0;
}

void TestTensor::set(std::int64_t i, double value) {
  std::byte* const to = bytes_.data() + i * element_size(type_);
  auto const put = [&](auto stored) { std::memcpy(to, &stored, sizeof(stored)); };
  switch (type_) {
    case ElementType::f16:
      return put(to_float16(static_cast<float>(value)));
    case ElementType::bf16:
      return put(to_bfloat16(static_cast<float>(value)));
    case ElementType::f32:
      return put(static_cast<float>(value));
    case ElementType::f64:
      return put(value);
    case ElementType::u8:
      return put(static_cast<std::uint8_t>(value));
    case ElementType::i32:
      return put(static_cast<std::int32_t>(value));
    case ElementType::i64:
      return put(static_cast<std::int64_t>(value));
    case ElementType::f8_e4m3:
    case ElementType::f8_e5m2:
    case ElementType::f4_e2m1:
      break;  // no kernel has them
  }
}

std::vector<double> TestTensor::values() const {
  std::vector<double> all;
  for (std::int64_t i = 0; i < size(); ++i) all.push_back((*this)[i]);
  return all;
}

Operand TestTensor::operand() const {
  return {.data = bytes_.data(), .type = type_, .shape = shape_, .strides = {}};
}

Operand TestTensor::view(Shape const& shape, Shape const& strides, std::int64_t offset) const {
  return {.data = bytes_.data() + offset * element_size(type_),
          .type = type_,
          .shape = shape,
          .strides = strides};
}

ModelConfig small_model(Precision precision) {
  ModelConfig model;
  model.layers = 2;
  model.hidden = 24;
  model.heads = 4;
  model.kv_heads = 4;
  model.head_dim = 6;
  model.sequence = 10;
  model.vocabulary = 37;
  model.vocabulary_multiple = 4;
  model.ffn_hidden = 20;
  model.dropout = 0.25;
  model.precision = precision;
  return model;
}

RankShare whole(ModelConfig const& model, std::int64_t micro) {
  return share(model, 1, 0, false, micro);
}

RankShare share(
    ModelConfig const& model, int tensor, int tensor_rank, bool sequence, std::int64_t micro) {
  return {
      .shape = {.model = model, .tensor = tensor, .sequence_parallel = sequence, .micro = micro},
      .tensor_rank = tensor_rank,
      .expert_rank = 0,
      .sequence = {}};
}

KernelNeeds needs_of(RankShare const& share) {
  return {.tensor_rank = share.tensor_rank,
          .expert_rank = share.expert_rank,
          .sequence = share.sequence,
          .types = {activation_type(share.shape.model.precision)}};
}

KernelCall with_attributes(RankShare const& share, KernelCall call) {
  ModelConfig const& model = share.shape.model;
  std::size_t const wanted = traits_of(call.kind).attributes;
  bool const of_attention = call.draw.site == DropoutSite::attention ||
                            (call.reads.size() > 0 && call.reads[0].shape.rank() == 4);
  DropoutAttributes const dropout{
      .site = of_attention ? DropoutSite::attention : call.draw.site,
      .rate = of_attention ? attention_dropout(model) : model.dropout,
      .shards = of_attention || share.shape.sequence_parallel ? share.shape.tensor : 1};
  double const scale = 1 / std::sqrt(static_cast<double>(model.head_dim));
  for (OpAttributes const& attributes : std::initializer_list<OpAttributes>{
           NormAttributes{model.norm, model.norm_epsilon}, dropout,
           SoftmaxAttributes{.scale = scale, .dropout = dropout, .window = model.window},
           SoftcapAttributes{model.attention_softcap, scale},
           HeadsNormAttributes{model.norm_epsilon, model.qk_norm == QkNorm::full},
           RotaryAttributes{model.rotary_base}, VocabularyAttributes{model.vocabulary}}) {
    if (attributes.index() == wanted) call.attributes = attributes;
  }
  if (wanted == OpAttributes{FlashAttributes{}}.index()) {
    // Tests of flash attention choose the size of a head by their operands.
    Operand const& q = call.reads[call.reads.size() > 3 ? 1 : 0];
    call.attributes = FlashAttributes{1 / std::sqrt(static_cast<double>(q.shape[3])), dropout,
                                      model.window, model.attention_softcap};
  }
  return call;
}

KernelCall make_call(OpKind kind,
                     std::vector<Operand> const& reads,
                     std::vector<Operand> const& writes) {
  KernelCall call;
  call.kind = kind;
  for (Operand const& operand : reads) call.reads.push_back(operand);
  for (Operand const& operand : writes) call.writes.push_back(operand);
  return call;
}

void run(RankShare const& share, KernelCall const& call, CpuKernelOptions const& options) {
  CpuKernels{needs_of(share), options}.run(with_attributes(share, call));
}

void run(RankShare const& share,
         OpKind kind,
         std::vector<Operand> const& reads,
         std::vector<Operand> const& writes) {
  run(share, make_call(kind, reads, writes));
}

RandomDraw some_draw(DropoutSite site) {
  return {.seed = 1234, .step = 7, .microbatch = 3, .layer = 5, .site = site};
}

double tolerance(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return 1e-13;
    case ElementType::f32:
      return 4e-6;
    case ElementType::bf16:
      return 1.0 / 256 * 1.01;  // half a unit in the last place, rounded once
    default:
      return 1.0 / 2048 * 1.02;
  }
}

void require_close(TestTensor const& got, std::vector<double> const& wanted, double tolerance) {
  REQUIRE(got.size() == static_cast<std::int64_t>(wanted.size()));
  std::int64_t worst = 0;
  double worst_error = -1;
  for (std::int64_t i = 0; i < got.size(); ++i) {
    double const want = wanted[static_cast<std::size_t>(i)];
    double const error = std::abs(got[i] - want) / (1 + std::abs(want));
    if (error > worst_error || std::isnan(error)) {
      worst = i;
      worst_error = error;
      if (std::isnan(error)) break;
    }
  }
  CAPTURE(worst, got[worst], wanted[static_cast<std::size_t>(worst)], name_of(got.type()));
  REQUIRE(worst_error <= tolerance);
}

void require_close(TestTensor const& got, std::vector<double> const& wanted) {
  require_close(got, wanted, tolerance(got.type()));
}

void require_gradient(TestTensor x,
                      std::function<double(TestTensor const&)> const& loss,
                      std::vector<double> const& gradient) {
  REQUIRE(x.type() == ElementType::f64);
  constexpr double step = 1e-4;
  std::vector<double> differences;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    double const value = x[i];
    x.set(i, value + step);
    double const above = loss(x);
    x.set(i, value - step);
    double const below = loss(x);
    x.set(i, value);
    differences.push_back((above - below) / (2 * step));
  }
  require_close(TestTensor{ElementType::f64, x.shape(), gradient}, differences, 1e-6);
}

double dot(TestTensor const& a, TestTensor const& w) {
  REQUIRE(a.size() == w.size());
  double sum = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) sum += a[i] * w[i];
  return sum;
}

}  // namespace stagecraft::test
