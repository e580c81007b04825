#include "libsim/export/memory_blocks.hpp"

#include <catch2/catch.hpp>

#include "tests/libsim/export/rows.hpp"

namespace stagecraft::memory_blocks_test {

TEST_CASE("an arena uses the lowest place where a block fits, and joins holes that touch") {
  BlockArena arena;
  REQUIRE(arena.allocate(10) == 0);
  REQUIRE(arena.allocate(20) == 10);
  REQUIRE(arena.allocate(5) == 30);
  arena.release(0, 10);
  REQUIRE(arena.allocate(11) == 35);
  REQUIRE(arena.allocate(4) == 0);
  arena.release(10, 20);  // joins the hole at 4
  REQUIRE(arena.allocate(26) == 4);
  REQUIRE(arena.size() == 46);
  arena.release(35, 11);
  REQUIRE(arena.allocate(12) == 35);  // the hole at the end is made larger
  REQUIRE(arena.size() == 47);
}

TEST_CASE("what shrinks releases the oldest block of that size, else a part of the newest") {
  RankTrace rank = rank_of_rows(
      0, 0,
      {{.start = 1, .duration = 2, .op = op_matmul}, {.start = 3, .duration = 2, .op = op_gelu}});
  add_state(rank, 0, 100, 0);
  add_state(rank, 2, 100, 30);
  add_state(rank, 3, 100, 60);
  add_state(rank, 4, 100, 30);  // the block of row 0
  add_state(rank, 5, 100, 10);  // 20 of the block of row 1
  MemoryBlocks const blocks = memory_blocks(rank, on_compute);
  REQUIRE(blocks.arena == 160);
  REQUIRE(blocks.events.size() == 6);
  REQUIRE(blocks.events[0].origin == -1);
  REQUIRE(blocks.events[0].size == 100);
  REQUIRE(blocks.events[1].origin == 0);
  REQUIRE(blocks.events[2].origin == 1);
  REQUIRE_FALSE(blocks.events[3].is_allocation);
  REQUIRE(blocks.events[3].origin == 0);
  REQUIRE_FALSE(blocks.events[4].is_allocation);
  REQUIRE(blocks.events[4].size == 30);
  REQUIRE(blocks.events[5].size == 10);
  REQUIRE(blocks.events[5].origin == 1);
  REQUIRE(blocks.live.size() == 2);
  REQUIRE(blocks.live[1].size == 10);
  REQUIRE(blocks.live[1].category == Category::activations);
}

TEST_CASE("a rank without memory has no blocks") {
  MemoryBlocks const blocks = memory_blocks(rank_of_rows(0, 0, {}), on_compute);
  REQUIRE(blocks.events.empty());
  REQUIRE(blocks.arena == 0);
}

}  // namespace stagecraft::memory_blocks_test
