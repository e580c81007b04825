#include "libexec/kernels/dropout.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::dropout_test {
namespace {

/// Whether global element i of a draw is kept, from the definition alone.
bool kept(RandomDraw const& draw, double rate, std::int64_t i) {
  auto const element = static_cast<std::uint64_t>(i);
  PhiloxBlock const block =
      philox({{static_cast<std::uint32_t>(element >> 2), static_cast<std::uint32_t>(element >> 34),
               draw.microbatch, draw.layer << 8 | static_cast<std::uint32_t>(draw.site)}},
             draw.seed, draw.step);
  return static_cast<double>(block.word[element & 3]) >= std::floor(rate * 4294967296.0);
}

struct Result {
  TestTensor y, mask;
};

/// Dropout of a rank's x, with the mask stored.
Result drop(RankShare const& rank, TestTensor const& x, RandomDraw const& draw) {
  Result result{TestTensor{x.type(), x.shape()}, TestTensor{ElementType::u8, x.shape()}};
  KernelCall call =
      make_call(OpKind::dropout, {x.operand()}, {result.y.operand(), result.mask.operand()});
  call.draw = draw;
  run(rank, call);
  return result;
}

Shape hidden_shape(RankShare const& rank) {
  return {rank.shape.local_sequence(), rank.shape.micro, rank.shape.model.hidden};
}
Shape square_shape(RankShare const& rank) {
  std::int64_t const s = rank.shape.model.sequence;
  return {rank.shape.micro, rank.shape.heads(), s, s};
}

TEST_CASE("hidden states of every tensor rank are dropped by their global index", "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  int const t = GENERATE(1, 2, 5);
  ModelConfig model = small_model(precision_of(type));
  model.hidden = 283;  // not a multiple of four, and more than one run of draws
  RandomDraw const draw = some_draw(DropoutSite::mlp_output);
  for (int tensor_rank = 0; tensor_rank < t; ++tensor_rank) {
    RankShare const rank = share(model, t, tensor_rank, true);
    Shape const shape = hidden_shape(rank);
    TestTensor const x = TestTensor::random(type, shape, 1);
    Result const got = drop(rank, x, draw);
    std::vector<double> wanted;
    for (std::int64_t i = 0; i < x.size(); ++i) {
      // ((first row + position) * b + sequence) * h + column
      std::int64_t const position = 10 / t * tensor_rank + i / (2 * 283);
      std::int64_t const global = (position * 2 + i / 283 % 2) * 283 + i % 283;
      bool const is_kept = kept(draw, 0.25, global);
      wanted.push_back(is_kept ? x[i] / 0.75 : 0);
      REQUIRE(got.mask[i] == (is_kept ? 1 : 0));
    }
    require_close(got.y, wanted);
  }
}

TEST_CASE("attention probabilities of every tensor rank are dropped by their global index",
          "[kernels]") {
  auto const type = GENERATE(ElementType::f64, ElementType::bf16);
  int const t = GENERATE(1, 2, 4);
  ModelConfig model = small_model(precision_of(type));
  model.sequence = 270;  // more than one run of draws in a row
  model.heads = 4;
  RandomDraw const draw = some_draw(DropoutSite::attention);
  std::int64_t const s = model.sequence;
  for (int tensor_rank = 0; tensor_rank < t; ++tensor_rank) {
    RankShare const rank = share(model, t, tensor_rank, false);
    TestTensor const x = TestTensor::random(type, square_shape(rank), 1);
    Result const got = drop(rank, x, draw);
    std::vector<double> wanted;
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < x.size(); ++i) {
      std::int64_t const column = i % s;
      std::int64_t const row = i / s % s;
      std::int64_t const head = 4 / t * tensor_rank + i / (s * s) % (4 / t);
      std::int64_t const sequence = i / (s * s * (4 / t));
      std::int64_t const global = ((sequence * 4 + head) * s + row) * s + column;
      bool const is_kept = column <= row && kept(draw, 0.25, global);
      wanted.push_back(is_kept ? x[i] / 0.75 : 0);
      wrong += got.mask[i] == (is_kept ? 1 : 0) ? 0 : 1;
    }
    REQUIRE(wrong == 0);
    require_close(got.y, wanted);
  }
}

TEST_CASE("every field of a draw changes the mask", "[kernels]") {
  RankShare const rank = whole(small_model());
  TestTensor const x = TestTensor::random(ElementType::f64, hidden_shape(rank), 1);
  RandomDraw const draw = some_draw(DropoutSite::embedding);
  TestTensor const mask = drop(rank, x, draw).mask;
  REQUIRE(drop(rank, x, draw).mask.same_bits(mask));
  auto const changed = [&](auto change) {
    RandomDraw other = draw;
    change(other);
    return !drop(rank, x, other).mask.same_bits(mask);
  };
  CHECK(changed([](RandomDraw& d) { ++d.seed; }));
  CHECK(changed([](RandomDraw& d) { ++d.step; }));
  CHECK(changed([](RandomDraw& d) { ++d.microbatch; }));
  CHECK(changed([](RandomDraw& d) { ++d.layer; }));
  CHECK(changed([](RandomDraw& d) { d.site = DropoutSite::mlp_output; }));
}

TEST_CASE("dropout backward is the same with a stored mask and with one drawn again", "[kernels]") {
  auto const site = GENERATE(DropoutSite::attention, DropoutSite::attention_output);
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  RankShare const rank = share(small_model(precision_of(type)), 2, 1, true);
  Shape const shape = site == DropoutSite::attention ? square_shape(rank) : hidden_shape(rank);
  RandomDraw const draw = some_draw(site);
  TestTensor const mask = drop(rank, TestTensor::random(type, shape, 1), draw).mask;
  TestTensor const dy = TestTensor::random(type, shape, 2);
  std::vector<double> wanted;
  for (std::int64_t i = 0; i < dy.size(); ++i) wanted.push_back(dy[i] * mask[i] / 0.75);
  TestTensor const stored{type, shape};
  TestTensor const drawn{type, shape};
  KernelCall call =
      make_call(OpKind::dropout_backward, {dy.operand(), mask.operand()}, {stored.operand()});
  run(rank, call);
  require_close(stored, wanted);
  call = make_call(OpKind::dropout_backward, {dy.operand()}, {drawn.operand()});
  call.draw = draw;
  run(rank, call);
  REQUIRE(drawn.same_bits(stored));
}

TEST_CASE("bias, dropout and residual are added up as written", "[kernels]") {
  auto const type = GENERATE(from_range(std::begin(float_types), std::end(float_types)));
  bool const biased = GENERATE(false, true);
  double const rate = GENERATE(0.0, 0.25);
  ModelConfig model = small_model(precision_of(type));
  model.hidden = 266;
  model.dropout = rate;
  for (int tensor_rank = 0; tensor_rank < 2; ++tensor_rank) {
    RankShare const rank = share(model, 2, tensor_rank, true);
    Shape const shape = hidden_shape(rank);
    TestTensor const x = TestTensor::random(type, shape, 1);
    TestTensor const residual = TestTensor::random(type, shape, 2);
    TestTensor const bias = TestTensor::random(type, {266}, 3);
    TestTensor const y{type, shape};
    TestTensor const mask{ElementType::u8, shape};
    std::vector<Operand> reads{x.operand(), residual.operand()};
    if (biased) reads.push_back(bias.operand());
    std::vector<Operand> writes{y.operand()};
    if (rate > 0) writes.push_back(mask.operand());
    KernelCall call = make_call(OpKind::bias_dropout_add, reads, writes);
    call.draw = some_draw(DropoutSite::attention_output);
    run(rank, call);
    std::vector<double> wanted;
    for (std::int64_t i = 0; i < x.size(); ++i) {
      std::int64_t const global = 5 * tensor_rank * 2 * 266 + i;
      bool const is_kept = rate == 0 || kept(call.draw, rate, global);
      double const value = x[i] + (biased ? bias[i % 266] : 0);
      wanted.push_back(residual[i] + (is_kept ? value / (1 - rate) : 0));
      if (rate > 0) REQUIRE(mask[i] == (is_kept ? 1 : 0));
    }
    require_close(y, wanted);
    if (rate == 0) continue;
    // Regenerated masks: the same without the mask operand.
    TestTensor const again{type, shape};
    KernelCall drawn = make_call(OpKind::bias_dropout_add, reads, {again.operand()});
    drawn.draw = call.draw;
    run(rank, drawn);
    REQUIRE(again.same_bits(y));
  }
}

TEST_CASE("the share of elements dropped is the rate", "[kernels]") {
  ModelConfig model = small_model();
  model.hidden = 20000;
  RankShare const rank = whole(model);
  TestTensor const x = TestTensor::random(ElementType::f64, hidden_shape(rank), 1);
  TestTensor const mask = drop(rank, x, some_draw(DropoutSite::embedding)).mask;
  double sum = 0;
  for (std::int64_t i = 0; i < mask.size(); ++i) sum += mask[i];
  // 400000 draws: a standard deviation of 0.0007.
  REQUIRE(sum / static_cast<double>(mask.size()) == Approx(0.75).margin(0.003));
}

TEST_CASE("what a dropout site does not have is refused by name", "[kernels]") {
  RankShare const rank = share(small_model(), 2, 0, true);
  TestTensor const x = TestTensor::random(ElementType::f64, {10, 24}, 1);  // not [rows, b, h]
  REQUIRE_THROWS_WITH(drop(rank, x, some_draw(DropoutSite::embedding)),
                      Catch::StartsWith("dropout: "));
}

TEST_CASE("Philox4x32-10 gives the known answers of Random123", "[kernels]") {
  // Random123 1.14, tests/kat_vectors, lines philox4x32 10.
  struct Known {
    PhiloxBlock counter;
    std::uint32_t key_0, key_1;
    PhiloxBlock answer;
  };
  Known const known =
      GENERATE(Known{{{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
               Known{{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
                     0xffffffff,
                     0xffffffff,
                     {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
               Known{{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                     0xa4093822,
                     0x299f31d0,
                     {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}});
  PhiloxBlock const answer = philox(known.counter, known.key_0, known.key_1);
  for (int i = 0; i < 4; ++i) CHECK(answer.word[i] == known.answer.word[i]);
}

TEST_CASE("element i of a draw takes word i & 3 of the block i >> 2", "[kernels]") {
  RandomDraw const draw{
      .seed = 11, .step = 22, .microbatch = 33, .layer = 44, .site = DropoutSite::mlp_output};
  // Starts inside a block, and past 2^32 blocks, where the second counter word counts.
  std::uint64_t const first = GENERATE(0U, 1U, 2U, 3U, 1023U, (std::uint64_t{1} << 34) - 6);
  std::int64_t const count = GENERATE(1, 3, 64, 255, 256);
  std::uint32_t const threshold = keep_threshold(0.3);
  std::uint8_t room[draw_room];
  std::uint8_t const* const kept = draw_kept(draw, threshold, first, count, room);
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t const element = first + static_cast<std::uint64_t>(i);
    // site 3 of layer 44.
    PhiloxBlock const block =
        philox({{static_cast<std::uint32_t>(element >> 2),
                 static_cast<std::uint32_t>(element >> 34), 33, 44 * 256 + 3}},
               11, 22);
    CAPTURE(first, count, i);
    REQUIRE(kept[i] == (block.word[element & 3] >= threshold ? 1 : 0));
  }
}

TEST_CASE("an element is kept from floor(rate 2^32) on", "[kernels]") {
  CHECK(keep_threshold(0) == 0);
  CHECK(keep_threshold(0.5) == 0x80000000U);
  CHECK(keep_threshold(0.1) == 429496729U);  // floor(429496729.6)
  CHECK(keep_threshold(1 - 0x1p-53) == 0xFFFFFFFFU);
}

}  // namespace

}  // namespace stagecraft::test::dropout_test
