#include <catch2/catch.hpp>

#include "tests/libexec/cuda/agreement.hpp"

namespace stagecraft::test::vocabulary_test {
namespace {

/// Of two ranks the second: words 20 to 39 of 37, padded to 40.
RankShare second_rank(ElementType type, std::int64_t hidden) {
  ModelConfig model = small_model(precision_of(type));
  model.hidden = hidden;
  return share(model, 2, 1, false);
}

/// Many tokens of few words, so that words repeat: within a warp's reach and beyond it.
TestTensor some_tokens(std::int64_t s) {
  TestTensor tokens = TestTensor::zeros(ElementType::i64, {s, 2});
  for (std::int64_t i = 0; i < tokens.size(); ++i) {
    tokens.set(i, static_cast<double>(i % 50 == 7 ? 21 : i * i % 37));
  }
  return tokens;
}

TEST_CASE("words of a rank are looked up, those of others are zero, bit for bit", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const h = GENERATE(1, 24, 75);
  RankShare const rank = second_rank(type, h);
  DeviceCase const what{
      .kind = OpKind::embedding,
      .tensors = {some_tokens(20), TestTensor::random(type, {rank.shape.vocabulary(), h}, 1),
                  TestTensor{type, {20, 2, h}}},
      .reads = {{0}, {1}},
      .writes = {{2}}};
  REQUIRE(on_device(rank, what)[2].same_bits(on_cpu(rank, what)[2]));
}

TEST_CASE("gradients of words are summed in the order of their tokens, to the bits of a CPU",
          "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const h = GENERATE(1, 24, 75);
  std::int64_t const s = GENERATE(1, 130);
  RankShare const rank = second_rank(type, h);
  bool const is_of_unit = GENERATE(false, true);  // whose gradients are as narrow as activations
  ElementType const sum = is_of_unit || type == ElementType::f64 ? type : ElementType::f32;
  DeviceCase const what{.kind = OpKind::embedding_backward,
                        .tensors = {TestTensor::random(type, {s, 2, h}, 1), some_tokens(s),
                                    TestTensor::random(sum, {rank.shape.vocabulary(), h}, 2)},
                        .reads = {{0}, {1}},
                        .writes = {{2}}};
  REQUIRE(on_device(rank, what)[2].same_bits(on_cpu(rank, what)[2]));
}

TEST_CASE("causal masks and slices on a device are those of a CPU, bit for bit", "[cuda]") {
  ModelConfig model = small_model();
  model.sequence = GENERATE(1, 10, 48);
  std::int64_t const s = model.sequence;
  DeviceCase const mask{.kind = OpKind::make_causal_mask,
                        .tensors = {TestTensor{ElementType::u8, {s, s}}},
                        .writes = {{0}}};
  REQUIRE(on_device(whole(model), mask)[0].same_bits(on_cpu(whole(model), mask)[0]));
  // 10 elements over three ranks: 4, 4, 2 and padding.
  int const tensor_rank = GENERATE(0, 1, 2);
  auto const type = GENERATE(ElementType::bf16, ElementType::f64);
  RankShare const rank = share(model, 3, tensor_rank, false);
  DeviceCase const slice{.kind = OpKind::slice,
                         .tensors = {TestTensor::random(type, {10}, 1), TestTensor{type, {4}}},
                         .reads = {{0}},
                         .writes = {{1}}};
  REQUIRE(on_device(rank, slice)[1].same_bits(on_cpu(rank, slice)[1]));
}

/// Logits [5, 2, words] of one of four ranks; the last has padding, and may have nothing else.
struct Logits {
  RankShare rank;
  TestTensor logits, maximum, labels;
};

Logits some_logits(ElementType type, std::int64_t vocabulary, int tensor_rank) {
  ModelConfig model = small_model(precision_of(type));
  model.sequence = 5;
  model.vocabulary = vocabulary;
  RankShare const rank = share(model, 4, tensor_rank, false);
  Shape const tokens{5, 2};
  TestTensor labels = TestTensor::zeros(ElementType::i64, tokens);
  for (std::int64_t i = 0; i < labels.size(); ++i) {
    labels.set(i, static_cast<double>((i * 7919 + 3) % vocabulary));
  }
  TestTensor maximum{type, tokens, std::vector<double>(10, 1)};
  return {rank, TestTensor::random(type, {5, 2, rank.shape.vocabulary()}, 1), maximum, labels};
}

TEST_CASE("the vocabulary-parallel cross entropy on a device is that of a CPU", "[cuda]") {
  auto const type = GENERATE(ElementType::f32, ElementType::f64);
  // One word for each rank and padding only for the last; odd shares; more than a block reads at
  // once.
  std::int64_t const vocabulary = GENERATE(3, 37, 20005);
  int const tensor_rank = GENERATE(0, 3);
  auto const [rank, logits, maximum, labels] = some_logits(type, vocabulary, tensor_rank);
  TestTensor const row{type, {5, 2}};
  require_agreement(
      rank,
      {.kind = OpKind::logits_maximum, .tensors = {logits, row}, .reads = {{0}}, .writes = {{1}}});
  DeviceCase const exponentials{.kind = OpKind::exponentials,
                                .tensors = {logits, maximum, labels, row, row},
                                .reads = {{0}, {1}, {2}},
                                .writes = {{0}, {3}, {4}}};
  require_agreement(rank, exponentials);
  auto made = on_cpu(rank, exponentials);
  for (std::int64_t i = 0; i < 10; ++i) made[3].set(i, made[3][i] + 2);  // other ranks' words
  DeviceCase const entropy{.kind = OpKind::cross_entropy,
                           .tensors = {made[0], made[3], made[4], labels, row},
                           .reads = {{0}, {1}, {2}, {3}},
                           .writes = {{0}, {4}}};
  require_agreement(rank, entropy);
  require_agreement(rank, {.kind = OpKind::cross_entropy_backward,
                           .tensors = {on_cpu(rank, entropy)[0], labels},
                           .reads = {{0}, {1}},
                           .writes = {{0}},
                           .loss_gradient = 0.125});
}

}  // namespace

}  // namespace stagecraft::test::vocabulary_test
