#include "libsim/allocator/free_blocks.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace stagecraft::free_blocks_test {

TEST_CASE("free blocks are found in the order of an ordered set", "[allocator]") {
  std::mt19937_64 random{7};
  // Sizes and addresses in order, with the numbers of their blocks.
  std::map<std::pair<std::int64_t, std::int64_t>, Block*> model;
  BlockTable table;
  FreeBlocks blocks{table.none()};
  auto const same = [&](Block const* at, auto expected) {
    if (expected == model.end()) return at == table.none();
    return at == expected->second && at->size == expected->first.first;
  };
  for (int i = 0; i < 20'000; ++i) {
    // Half of them of one size, hundreds of which are then in one bin.
    std::int64_t const other = static_cast<std::int64_t>(1 + random() % 64) << (9 + random() % 26);
    std::int64_t const size = random() % 2 == 0 ? std::int64_t{20} << 20 : other;
    std::int64_t const address = 512 * static_cast<std::int64_t>(random() % 1000);
    if (random() % 2 == 0) {
      auto const [place, is_new] = model.try_emplace({size, address}, nullptr);
      if (is_new) {
        Block* const added = place->second = table.add();
        added->size = size;
        added->address = address;
        blocks.insert(added);
      }
    } else if (!model.empty()) {
      auto victim = model.lower_bound({size, address});
      if (victim == model.end()) victim = std::prev(model.end());
      blocks.remove(victim->second);
      table.remove(victim->second);
      model.erase(victim);
    }
    auto const expected = model.lower_bound({size, 0});
    Block const* const found = blocks.lower_bound(size);
    REQUIRE(same(found, expected));
    if (expected != model.end()) REQUIRE(same(blocks.next(found), std::next(expected)));
    REQUIRE(same(blocks.last(), model.empty() ? model.end() : std::prev(model.end())));
  }
  std::vector<Block*> all;
  blocks.append_to(all);
  REQUIRE(std::ranges::equal(all, model, {}, {}, [](auto const& block) { return block.second; }));
  REQUIRE(std::ranges::is_permutation(table.all(), all));
}

}  // namespace stagecraft::free_blocks_test
