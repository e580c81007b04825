#include <catch2/catch.hpp>
#include <limits>

#include "tests/libexec/cuda/agreement.hpp"

namespace stagecraft::test::flash_attention_test {
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

// Flash attention beyond all keys before a query: windows, caps, sinks, values of another size, and
// ranks that split sequences.

/// What a test varies.
struct Variant {
  std::int64_t s, keys;  ///< rows of queries, and of keys and values
  std::int64_t heads, kv_heads, d, value_d;
  std::int64_t window = 0;
  double softcap = 0;
  bool sinks = false;
  AttentionPart part{};
  SequencePart sequence{};
  double dropout = 0;
};

/// As many keys as queries.
Variant square(std::int64_t s, std::int64_t heads, std::int64_t kv_heads, std::int64_t d) {
  return {.s = s, .keys = s, .heads = heads, .kv_heads = kv_heads, .d = d, .value_d = d};
}

TestTensor doubled(TestTensor tensor) {
  for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, 2 * tensor[i]);
  return tensor;
}

DeviceCase forward_of(ElementType type, Variant const& v) {
  ElementType const sums = type == ElementType::f64 ? type : ElementType::f32;
  DeviceCase forward{
      .kind = OpKind::flash_attention,
      .tensors = {doubled(TestTensor::random(type, {v.s, b, v.heads, v.d}, 1)),
                  doubled(TestTensor::random(type, {v.keys, b, v.kv_heads, v.d}, 2)),
                  TestTensor::random(type, {v.keys, b, v.kv_heads, v.value_d}, 3),
                  TestTensor{type, {v.s, b, v.heads * v.value_d}},
                  TestTensor{sums, {b, v.heads, v.s}},
                  TestTensor::random(type, {v.s, b, v.heads * v.value_d}, 4),
                  TestTensor{type, {v.s, b, v.heads, v.d}},
                  TestTensor{type, {v.keys, b, v.kv_heads, v.d}},
                  TestTensor{type, {v.keys, b, v.kv_heads, v.value_d}},
                  TestTensor::random(type, {v.heads}, 5)},
      .reads = {{0}, {1}, {2}},
      .writes = {{3}, {4}},
      .attributes = FlashAttributes{.scale = 0.4,
                                    .dropout = {.site = DropoutSite::attention, .rate = v.dropout},
                                    .window = v.window,
                                    .softcap = v.softcap,
                                    .part = v.part},
      .draw = some_draw(DropoutSite::attention)};
  if (v.sinks) forward.reads.push_back({9});
  return forward;
}

void require_agreement_of(ElementType type, Variant const& variant) {
  CAPTURE(variant.s, variant.keys, variant.heads, variant.kv_heads, variant.d, variant.value_d,
          variant.window, variant.softcap, variant.sinks, variant.part.index,
          variant.sequence.rank);
  RankShare rank = whole(small_model(precision_of(type)));
  rank.sequence = variant.sequence;
  DeviceCase const forward = forward_of(type, variant);
  require_agreement(rank, forward);
  DeviceCase backward = forward;
  backward.kind = OpKind::flash_attention_backward;
  backward.tensors = on_cpu(rank, forward);
  backward.reads = {{5}, {0}, {1}, {2}, {3}, {4}};
  backward.writes = {{6}, {7}, {8}};
  require_agreement(rank, backward);
}

TEST_CASE("windows of flash attention on a device have the results of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  // Within a tile, over its edge, narrower than a tile that is skipped, wider than one.
  auto const [s, window] = GENERATE(std::pair{20, 2}, std::pair{37, 5}, std::pair{150, 3},
                                    std::pair{150, 70}, std::pair{20, 50});
  Variant variant = square(s, 2, 1, 24);
  variant.window = window;
  require_agreement_of(type, variant);
}

TEST_CASE("caps on scores in flash attention on a device have the results of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  Variant variant = square(GENERATE(5, 70), 2, 2, GENERATE(5, 64));
  variant.softcap = 0.9;
  require_agreement_of(type, variant);
}

TEST_CASE("sinks of flash attention on a device have the results of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  Variant variant = square(GENERATE(5, 70), 4, 2, 16);
  variant.sinks = true;
  variant.window = GENERATE(0, 4);
  require_agreement_of(type, variant);
}

TEST_CASE("values of another size than keys have the results of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  auto const [d, value_d] =
      GENERATE(std::pair{6, 5}, std::pair{24, 40}, std::pair{72, 64}, std::pair{40, 130});
  Variant variant = square(70, 2, 2, d);
  variant.value_d = value_d;
  require_agreement_of(type, variant);
}

TEST_CASE("the heads of DeepSeek's latent attention have the results of a CPU", "[cuda]") {
  auto const type = GENERATE(ElementType::bf16, ElementType::f16);
  Variant variant = square(80, 1, 1, 192);
  variant.value_d = 128;
  require_agreement_of(type, variant);
}

TEST_CASE("windows, caps, sinks, dropout and groups together have the results of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  Variant variant = square(70, 4, 2, 24);
  variant.value_d = 16;
  variant.window = 20;
  variant.softcap = 0.8;
  variant.sinks = true;
  variant.dropout = 0.25;
  require_agreement_of(type, variant);
}

TEST_CASE("steps of a ring on a device have the results of a CPU", "[cuda]") {
  auto const type = GENERATE(ElementType::f64, ElementType::bf16);
  // Chunks of 5 rows, and of 83, which tiles do not divide.
  std::int64_t const s = GENERATE(10, 166);
  for (bool const zigzag : {true, false}) {
    // The first rank, which sees none of others' keys if rows are consecutive, and the second.
    for (int rank = 0; rank < 2; ++rank) {
      for (int index = 0; index < 3; ++index) {
        Variant variant = square(s, 2, 1, 16);
        variant.part = {
            .kind = zigzag ? AttentionPart::Kind::ring_step : AttentionPart::Kind::contiguous_step,
            .index = index};
        variant.sequence = {.rank = rank, .ranks = 3, .zigzag = zigzag};
        require_agreement_of(type, variant);
      }
    }
  }
}

TEST_CASE("chunks of queries against gathered keys have the results of a CPU", "[cuda]") {
  auto const type = GENERATE(ElementType::f64, ElementType::bf16);
  std::int64_t const s = GENERATE(5, 50);
  for (std::int64_t const window : {0, 4, 70}) {
    for (int chunk = 0; chunk < 2; ++chunk) {
      Variant variant = square(s, 2, 1, 16);
      variant.keys = 4 * s;
      variant.window = window;
      variant.part = {.kind = AttentionPart::Kind::gathered_chunk, .index = chunk};
      variant.sequence = {.rank = 1, .ranks = 2, .zigzag = true};
      require_agreement_of(type, variant);
    }
  }
}

// Kernels of ranks that split sequences with others; attention itself is in
// flash_variants_test.cpp.

constexpr std::int64_t s = 6;  ///< rows of each rank
constexpr int ranks = 3;

ElementType sums_of(ElementType type) { return type == ElementType::f64 ? type : ElementType::f32; }

/// Of three ranks any, with rows in zigzag order or consecutive ones.
std::vector<RankShare> ranks_of(ElementType type) {
  std::vector<RankShare> all;
  for (bool const zigzag : {false, true}) {
    for (int rank = 0; rank < ranks; ++rank) {
      RankShare part = whole(small_model(precision_of(type)));
      part.sequence = {.rank = rank, .ranks = ranks, .zigzag = zigzag};
      all.push_back(part);
    }
  }
  return all;
}

TEST_CASE("positions of a split sequence on a device are those of a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const h = GENERATE(7, 64);
  Shape const hidden{s, b, h};
  Shape const heads{s, b, 2, 16};
  Shape const positions{ranks * s, h};
  for (RankShare const& rank : ranks_of(type)) {
    CAPTURE(rank.sequence.rank, rank.sequence.zigzag);
    require_agreement(rank, {.kind = OpKind::add_positions,
                             .tensors = {TestTensor::random(type, hidden, 1),
                                         TestTensor::random(type, positions, 2)},
                             .reads = {{0}, {1}},
                             .writes = {{0}}});
    require_agreement(rank, {.kind = OpKind::positions_gradient,
                             .tensors = {TestTensor::random(type, hidden, 1),
                                         TestTensor::random(sums_of(type), positions, 2)},
                             .reads = {{0}},
                             .writes = {{1}}});
    require_agreement(
        rank, {.kind = OpKind::rotary,
               .tensors = {TestTensor::random(type, heads, 1), TestTensor::random(type, heads, 2),
                           TestTensor{type, heads}, TestTensor{type, heads}},
               .reads = {{0}, {1}},
               .writes = {{2}, {3}}});
  }
}

TEST_CASE("masks of a split sequence on a device are those of a CPU", "[cuda]") {
  Shape const hidden{s, b, 24};
  for (RankShare const& rank : ranks_of(ElementType::f32)) {
    CAPTURE(rank.sequence.rank, rank.sequence.zigzag);
    require_agreement(rank, {.kind = OpKind::make_causal_mask,
                             .tensors = {TestTensor{ElementType::u8, {s, ranks * s}}},
                             .reads = {},
                             .writes = {{0}}});
    require_agreement(rank, {.kind = OpKind::dropout,
                             .tensors = {TestTensor::random(ElementType::f32, hidden, 1),
                                         TestTensor{ElementType::f32, hidden},
                                         TestTensor{ElementType::u8, hidden}},
                             .reads = {{0}},
                             .writes = {{1}, {2}},
                             .draw = some_draw(DropoutSite::mlp_output)});
  }
}

TEST_CASE("parts of attention add up on a device as on a CPU", "[cuda]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  std::int64_t const heads = GENERATE(1, 3);
  std::int64_t const d = GENERATE(5, 16);
  Shape const context{s, b, heads * d};
  TestTensor const sums = TestTensor::random(sums_of(type), {b, heads, s}, 1);
  TestTensor part_sums = TestTensor::random(sums_of(type), {b, heads, s}, 2);
  part_sums.set(2, -std::numeric_limits<double>::infinity());  // a row that sees no key
  RankShare const rank = ranks_of(type).front();
  // In the type of sums, which the kernel takes from its operands.
  require_agreement(rank, {.kind = OpKind::add_log_sums,
                           .tensors = {sums, part_sums},
                           .reads = {{0}, {1}},
                           .writes = {{0}}});
  require_agreement(rank, {.kind = OpKind::rescale_context,
                           .tensors = {TestTensor::random(type, context, 3), part_sums, sums,
                                       TestTensor{type, context}},
                           .reads = {{0}, {1}, {2}},
                           .writes = {{3}}});
  require_agreement(rank, {.kind = OpKind::add_rescaled_context,
                           .tensors = {TestTensor::random(type, context, 3), part_sums, sums,
                                       TestTensor::random(type, context, 4)},
                           .reads = {{3}, {0}, {1}, {2}},
                           .writes = {{3}}});
}

}  // namespace

}  // namespace stagecraft::test::flash_attention_test
