#include <catch2/catch.hpp>

#include "tests/libexec/cuda/agreement.hpp"

namespace stagecraft::test {
namespace {

/// What a test varies: positions, query heads and their groups of this rank, elements of a head.
struct Sizes {
  std::int64_t s, heads, kv_heads, d;
};

constexpr std::int64_t b = 2;

/// The second of two tensor ranks.
RankShare rank_of(ElementType type, Sizes const& sizes, double dropout) {
  ModelConfig model = small_model(precision_of(type));
  model.attention = Attention::flash;
  model.sequence = sizes.s;
  model.heads = 2 * sizes.heads;
  model.kv_heads = 2 * sizes.kv_heads;
  model.head_dim = sizes.d;
  model.hidden = model.heads * sizes.d;
  model.attention_dropout = dropout;
  return share(model, 2, 1, false, b);
}

/// q, k, v inside of tokens [s, b, (heads + 2 kv heads) d], as a layer has them; then context, log
/// sums, d context, dq, dk, dv.
std::vector<TestTensor> tensors_of(ElementType type, Sizes const& sizes) {
  ElementType const sums = type == ElementType::f64 ? type : ElementType::f32;
  auto const [s, heads, kv_heads, d] = sizes;
  TestTensor tokens = TestTensor::random(type, {s, b, (heads + 2 * kv_heads) * d}, 1);
  // Scores of some size: a softmax that is not flat.
  for (std::int64_t i = 0; i < tokens.size(); ++i) tokens.set(i, 2 * tokens[i]);
  return {tokens,
          TestTensor{type, {s, b, heads * d}},
          TestTensor{sums, {b, heads, s}},
          TestTensor::random(type, {s, b, heads * d}, 2),
          TestTensor{type, {s, b, heads, d}},
          TestTensor{type, {s, b, kv_heads, d}},
          TestTensor{type, {s, b, kv_heads, d}}};
}

std::vector<Use> heads_of_tokens(Sizes const& sizes) {
  auto const [s, heads, kv_heads, d] = sizes;
  std::int64_t const width = (heads + 2 * kv_heads) * d;
  auto const part = [&, s = s, d = d](std::int64_t count, std::int64_t first) {
    return Use{.tensor = 0,
               .shape = {s, b, count, d},
               .strides = {b * width, width, d, 1},
               .offset = first * d};
  };
  return {part(heads, 0), part(kv_heads, heads), part(kv_heads, heads + kv_heads)};
}

DeviceCase forward_of(ElementType type, Sizes const& sizes) {
  return {.kind = OpKind::flash_attention,
          .tensors = tensors_of(type, sizes),
          .reads = heads_of_tokens(sizes),
          .writes = {{1}, {2}},
          .draw = some_draw(DropoutSite::attention)};
}

DeviceCase backward_of(DeviceCase const& forward, std::vector<TestTensor> const& after) {
  DeviceCase backward = forward;
  backward.kind = OpKind::flash_attention_backward;
  backward.tensors = after;
  backward.reads = {{3}, forward.reads[0], forward.reads[1], forward.reads[2], {1}, {2}};
  backward.writes = {{4}, {5}, {6}};
  return backward;
}

void require_agreement_of(ElementType type, Sizes const& sizes, double dropout) {
  CAPTURE(sizes.s, sizes.heads, sizes.kv_heads, sizes.d, dropout);
  RankShare const rank = rank_of(type, sizes, dropout);
  DeviceCase const forward = forward_of(type, sizes);
  require_agreement(rank, forward);
  require_agreement(rank, backward_of(forward, on_cpu(rank, forward)));
}

TEST_CASE("flash attention on a device and its gradients are those of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  // Few positions (one alone has gradients of rounding errors); odd heads, which no access fits;
  // more than a tile of positions, grouped.
  Sizes const sizes =
      GENERATE(Sizes{3, 1, 1, 8}, Sizes{37, 2, 1, 5}, Sizes{70, 4, 2, 16}, Sizes{130, 1, 1, 24});
  require_agreement_of(type, sizes, GENERATE(0.0, 0.25));
}

TEST_CASE("heads of every size a kernel is built for have the results of a CPU", "[cuda]") {
  auto const type = GENERATE(ElementType::bf16, ElementType::f16, ElementType::f32);
  std::int64_t const d = GENERATE(64, 80, 128, 130, 256);
  require_agreement_of(type, {.s = 40, .heads = 1, .kv_heads = 1, .d = d}, 0);
}

TEST_CASE("large heads in fp64 have the results of a CPU", "[cuda]") {
  require_agreement_of(ElementType::f64, {.s = 20, .heads = 1, .kv_heads = 1, .d = 130}, 0);
}

TEST_CASE("heads that fill a kernel's tiles have the results of a CPU, grouped and dropped",
          "[cuda]") {
  auto const type = GENERATE(ElementType::bf16, ElementType::f16);
  std::int64_t const d = GENERATE(64, 128, 256);
  require_agreement_of(type, {.s = 80, .heads = 2, .kv_heads = 1, .d = d}, 0.25);
}

TEST_CASE("flash attention on a device has the same bits every time", "[cuda]") {
  Sizes const sizes{100, 2, 1, 16};
  RankShare const rank = rank_of(ElementType::bf16, sizes, 0.1);
  DeviceCase const forward = forward_of(ElementType::bf16, sizes);
  std::vector<TestTensor> const once = on_device(rank, forward);
  std::vector<TestTensor> const gradients = on_device(rank, backward_of(forward, once));
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::vector<TestTensor> const again = on_device(rank, forward);
    REQUIRE(again[1].same_bits(once[1]));
    REQUIRE(again[2].same_bits(once[2]));
    std::vector<TestTensor> const gradients_again = on_device(rank, backward_of(forward, again));
    for (std::size_t i = 4; i < 7; ++i) REQUIRE(gradients_again[i].same_bits(gradients[i]));
  }
}

TEST_CASE("heads that no kernel of flash attention holds are refused", "[cuda]") {
  Sizes const sizes{2, 1, 1, 257};
  REQUIRE_THROWS_WITH(
      on_device(rank_of(ElementType::f32, sizes, 0), forward_of(ElementType::f32, sizes)),
      "flash_attention: heads of more than 256 elements have no kernel");
}

}  // namespace
}  // namespace stagecraft::test
