#include "libsim/allocator/free_blocks.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace stagecraft {

TEST_CASE("free blocks are found in the order of an ordered set", "[allocator]") {
  std::mt19937_64 random{7};
  // Sizes and addresses in order, with the numbers of their blocks.
  std::map<std::pair<std::int64_t, std::int64_t>, BlockId> model;
  BlockTable table;
  FreeBlocks blocks;
  auto const same = [&](BlockId at, auto expected) {
    if (expected == model.end()) return at == no_block;
    return at == expected->second && table[at].size == expected->first.first;
  };
  for (int i = 0; i < 20'000; ++i) {
    // Half of them of one size, hundreds of which are then in one bin.
    std::int64_t const other = static_cast<std::int64_t>(1 + random() % 64) << (9 + random() % 26);
    std::int64_t const size = random() % 2 == 0 ? std::int64_t{20} << 20 : other;
    std::int64_t const address = 512 * static_cast<std::int64_t>(random() % 1000);
    if (random() % 2 == 0) {
      auto const [place, is_new] = model.try_emplace({size, address}, no_block);
      if (is_new) {
        Block added;
        added.size = size;
        added.address = address;
        place->second = table.add(added);
        blocks.insert(table, place->second);
      }
    } else if (!model.empty()) {
      auto victim = model.lower_bound({size, address});
      if (victim == model.end()) victim = std::prev(model.end());
      blocks.remove(table, victim->second);
      table.remove(victim->second);
      model.erase(victim);
    }
    auto const expected = model.lower_bound({size, 0});
    BlockId const found = blocks.lower_bound(table, size);
    REQUIRE(same(found, expected));
    if (expected != model.end()) {
      REQUIRE(same(blocks.next(table, found), std::next(expected)));
      bool const has_before = expected != model.begin();
      REQUIRE(same(blocks.before(table, found), has_before ? std::prev(expected) : model.end()));
    }
    REQUIRE(same(blocks.last(), model.empty() ? model.end() : std::prev(model.end())));
  }
  std::vector<BlockId> all;
  blocks.append_to(all, table);
  REQUIRE(std::ranges::equal(all, model, {}, {}, [](auto const& block) { return block.second; }));
  REQUIRE(std::ranges::is_permutation(table.ids(), all));
}

}  // namespace stagecraft
