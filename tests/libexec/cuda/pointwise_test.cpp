#include <catch2/catch.hpp>

#include "tests/libexec/cuda/agreement.hpp"

namespace stagecraft::test::pointwise_test {
namespace {

/// Tensors [s, b, columns], and what can go wrong with their columns: whole accesses, odd numbers,
/// one.
constexpr std::int64_t s = 5;
constexpr std::int64_t b = 3;

RankShare rank_of(ElementType type) { return whole(small_model(precision_of(type))); }

TEST_CASE("activations on a device are those of a CPU, with and without bias", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const columns = GENERATE(1, 3, 64, 1288);
  bool const biased = GENERATE(false, true);
  OpKind const kind = GENERATE(OpKind::gelu, OpKind::relu, OpKind::geglu, OpKind::swiglu);
  std::int64_t const wide = kind == OpKind::geglu || kind == OpKind::swiglu ? 2 : 1;
  DeviceCase what{
      .kind = kind,
      .tensors = {TestTensor::random(type, {s, b, wide * columns}, 1),
                  TestTensor::random(type, {wide * columns}, 2), TestTensor{type, {s, b, columns}}},
      .reads = {{0}},
      .writes = {{2}}};
  if (biased) what.reads.push_back({1});
  require_agreement(rank_of(type), what);
}

TEST_CASE("gradients of activations on a device are those of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const columns = GENERATE(1, 3, 64, 1288);
  bool const biased = GENERATE(false, true);
  OpKind const kind = GENERATE(OpKind::gelu_backward, OpKind::relu_backward, OpKind::geglu_backward,
                               OpKind::swiglu_backward);
  std::int64_t const wide =
      kind == OpKind::geglu_backward || kind == OpKind::swiglu_backward ? 2 : 1;
  DeviceCase what{.kind = kind,
                  .tensors = {TestTensor::random(type, {s, b, columns}, 1),
                              TestTensor::random(type, {s, b, wide * columns}, 2),
                              TestTensor::random(type, {wide * columns}, 3),
                              TestTensor{type, {s, b, wide * columns}}},
                  .reads = {{0}, {1}},
                  .writes = {{3}}};
  if (biased && kind != OpKind::relu_backward) what.reads.push_back({2});
  require_agreement(rank_of(type), what);
}

TEST_CASE("biases, residuals and positions are added in place", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const columns = GENERATE(1, 7, 72, 2056);
  OpKind const kind = GENERATE(OpKind::bias_add, OpKind::add, OpKind::add_positions);
  Shape const added = kind == OpKind::bias_add ? Shape{columns}
                      : kind == OpKind::add    ? Shape{s, b, columns}
                                               : Shape{s + 2, columns};
  require_agreement(rank_of(type), {.kind = kind,
                                    .tensors = {TestTensor::random(type, {s, b, columns}, 1),
                                                TestTensor::random(type, added, 2)},
                                    .reads = {{0}, {1}},
                                    .writes = {{0}}});
}

TEST_CASE("operands that start anywhere in memory are read one element at a time", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const offset = GENERATE(1, 3);
  Shape const part{4, 64};
  require_agreement(rank_of(type), {.kind = OpKind::gelu,
                                    .tensors = {TestTensor::random(type, {300}, 1),
                                                TestTensor::random(type, {300}, 2)},
                                    .reads = {{.tensor = 0, .shape = part, .offset = offset}},
                                    .writes = {{.tensor = 1, .shape = part, .offset = 8}}});
}

TEST_CASE("NaN and infinity come through activations on a device", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  OpKind const kind = GENERATE(OpKind::gelu, OpKind::relu);
  TestTensor x = TestTensor::random(type, {2, 16}, 1);
  x.set(3, std::numeric_limits<double>::quiet_NaN());
  x.set(5, std::numeric_limits<double>::infinity());
  x.set(20, -20);
  require_agreement(
      rank_of(type),
      {.kind = kind, .tensors = {x, TestTensor{type, {2, 16}}}, .reads = {{0}}, .writes = {{1}}});
}

TEST_CASE("logits change their type as on a CPU, bit for bit", "[cuda]") {
  auto const type = GENERATE(ElementType::bf16, ElementType::f16, ElementType::f32);
  bool const widens = GENERATE(false, true);
  std::int64_t const columns = GENERATE(1, 9, 4104);
  ElementType const from = widens ? type : ElementType::f32;
  ElementType const to = widens ? ElementType::f32 : type;
  DeviceCase const what{
      .kind = widens ? OpKind::widen_logits : OpKind::narrow_logits,
      .tensors = {TestTensor::random(from, {s, b, columns}, 1), TestTensor{to, {s, b, columns}}},
      .reads = {{0}},
      .writes = {{1}}};
  REQUIRE(on_device(rank_of(type), what)[1].same_bits(on_cpu(rank_of(type), what)[1]));
}

TEST_CASE("a bias that is narrower than the logits of a router is added as on a CPU", "[cuda]") {
  auto const type = GENERATE(ElementType::bf16, ElementType::f16);
  std::int64_t const experts = GENERATE(8, 7);
  require_agreement(whole(small_model(precision_of(type))),
                    {.kind = OpKind::bias_add,
                     .tensors = {TestTensor::random(ElementType::f32, {5, experts}, 1),
                                 TestTensor::random(type, {experts}, 2)},
                     .reads = {{0}, {1}},
                     .writes = {{0}}});
}

TEST_CASE("operands that do not fit together are refused on a device by name", "[cuda]") {
  TestTensor const x = TestTensor::random(ElementType::f32, {4, 8}, 1);
  TestTensor const bias = TestTensor::random(ElementType::f32, {7}, 2);
  RankShare const rank = whole(small_model(Precision::fp32));
  REQUIRE_THROWS_WITH(
      on_device(
          rank,
          {.kind = OpKind::bias_add, .tensors = {x, bias}, .reads = {{0}, {1}}, .writes = {{0}}}),
      Catch::StartsWith("bias_add: "));
  REQUIRE_THROWS_WITH(
      on_device(rank,
                {.kind = OpKind::all_reduce, .tensors = {x}, .reads = {{0}}, .writes = {{0}}}),
      Catch::Contains("there is no CUDA kernel"));
}

/// Hidden sizes and sequences that are whole accesses of 16 bytes, whole blocks of four, neither.
ModelConfig model_of(ElementType type, std::int64_t hidden, std::int64_t sequence) {
  ModelConfig model = small_model(precision_of(type));
  model.hidden = hidden;
  model.sequence = sequence;
  return model;
}

Shape shape_of(RankShare const& rank, DropoutSite site) {
  BlockShape const& block = rank.shape;
  std::int64_t const s = block.model.sequence;
  if (site == DropoutSite::attention) return {block.micro, block.heads(), s, s};
  return {block.local_sequence(), block.micro, block.model.hidden};
}

/// Every tensor that a call writes has the bits of a CPU's: a product with a constant, rounded
/// once.
void require_same_bits(RankShare const& rank, DeviceCase const& what) {
  auto const wanted = on_cpu(rank, what);
  auto const got = on_device(rank, what);
  for (Use const& use : what.writes) {
    CAPTURE(use.tensor, name_of(got[use.tensor].type()));
    REQUIRE(got[use.tensor].same_bits(wanted[use.tensor]));
  }
}

TEST_CASE("masks drawn on a device are those of a CPU bit for bit, on every tensor rank",
          "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const site = GENERATE(DropoutSite::attention, DropoutSite::mlp_output);
  std::int64_t const hidden = GENERATE(24, 283, 284);
  std::int64_t const sequence = GENERATE(10, 48);
  int const tensor_rank = GENERATE(0, 1);
  RankShare const rank = share(model_of(type, hidden, sequence), 2, tensor_rank, true);
  Shape const shape = shape_of(rank, site);
  require_same_bits(rank, {.kind = OpKind::dropout,
                           .tensors = {TestTensor::random(type, shape, 1), TestTensor{type, shape},
                                       TestTensor{ElementType::u8, shape}},
                           .reads = {{0}},
                           .writes = {{1}, {2}},
                           .draw = some_draw(site)});
}

TEST_CASE("gradients of dropout on a device, with a mask stored or drawn again, are those of a CPU",
          "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const site = GENERATE(DropoutSite::attention, DropoutSite::embedding);
  bool const is_given = GENERATE(false, true);
  RankShare const rank = share(model_of(type, 48, GENERATE(7, 40)), 1, 0, false);
  Shape const shape = shape_of(rank, site);
  TestTensor mask = TestTensor::zeros(ElementType::u8, shape);
  for (std::int64_t i = 0; i < mask.size(); ++i) mask.set(i, i % 3 == 0 ? 1 : 0);
  DeviceCase what{.kind = OpKind::dropout_backward,
                  .tensors = {TestTensor::random(type, shape, 1), mask, TestTensor{type, shape}},
                  .reads = {{0}},
                  .writes = {{2}},
                  .draw = some_draw(site)};
  if (is_given) what.reads.push_back({1});
  require_same_bits(rank, what);
}

TEST_CASE("bias, dropout and residual on a device are those of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  bool const biased = GENERATE(false, true);
  bool const drops = GENERATE(false, true);
  ModelConfig model = model_of(type, GENERATE(283, 1032), 6);
  if (!drops) model.dropout = 0;
  RankShare const rank = share(model, 2, 1, true);
  Shape const shape = shape_of(rank, DropoutSite::mlp_output);
  DeviceCase what{
      .kind = OpKind::bias_dropout_add,
      .tensors = {TestTensor::random(type, shape, 1), TestTensor::random(type, shape, 2),
                  TestTensor::random(type, {model.hidden}, 3), TestTensor{type, shape},
                  TestTensor{ElementType::u8, shape}},
      .reads = {{0}, {1}},
      .writes = {{3}},
      .draw = some_draw(DropoutSite::mlp_output)};
  if (biased) what.reads.push_back({2});
  if (drops) what.writes.push_back({4});
  require_agreement(rank, what);
}

}  // namespace

}  // namespace stagecraft::test::pointwise_test
