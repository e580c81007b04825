#include <catch2/catch.hpp>

#include "tests/libexec/cuda/agreement.hpp"

namespace stagecraft::test {
namespace {

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
}  // namespace stagecraft::test
