#include <catch2/catch.hpp>

#include "tests/libexec/cuda/agreement.hpp"

namespace stagecraft::test {
namespace {

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
}  // namespace stagecraft::test
