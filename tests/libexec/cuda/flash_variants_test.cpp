#include <catch2/catch.hpp>

#include "tests/libexec/cuda/agreement.hpp"

// Flash attention beyond all keys before a query: windows, caps, sinks, values of another size, and
// ranks that split sequences.

namespace stagecraft::test {
namespace {

constexpr std::int64_t b = 2;

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

}  // namespace
}  // namespace stagecraft::test
