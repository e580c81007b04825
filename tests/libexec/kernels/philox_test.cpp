#include <catch2/catch.hpp>

#include "libexec/kernels/dropout.hpp"

namespace stagecraft::philox_test {
namespace {

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
}  // namespace stagecraft::philox_test
