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
  std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> model;
  FreeBlocks blocks;
  std::int32_t numbers = 0;
  std::vector<std::int32_t> unused;
  auto const same = [&](std::int32_t at, auto expected) {
    if (expected == model.end()) return at == FreeBlocks::none;
    return at == expected->second && blocks.size_of(at) == expected->first.first;
  };
  for (int i = 0; i < 20'000; ++i) {
    // Half of them of one size, hundreds of which are then in one bin.
    std::int64_t const other = static_cast<std::int64_t>(1 + random() % 64) << (9 + random() % 26);
    std::int64_t const size = random() % 2 == 0 ? std::int64_t{20} << 20 : other;
    std::int64_t const address = 512 * static_cast<std::int64_t>(random() % 1000);
    if (random() % 2 == 0) {
      if (unused.empty()) unused.push_back(numbers++);
      if (model.try_emplace({size, address}, unused.back()).second) {
        blocks.insert(unused.back(), size, address);
        unused.pop_back();
      }
    } else if (!model.empty()) {
      auto victim = model.lower_bound({size, address});
      if (victim == model.end()) victim = std::prev(model.end());
      blocks.remove(victim->second);
      unused.push_back(victim->second);
      model.erase(victim);
    }
    auto const expected = model.lower_bound({size, 0});
    std::int32_t const found = blocks.lower_bound(size);
    REQUIRE(same(found, expected));
    if (expected != model.end()) {
      REQUIRE(same(blocks.next(found), std::next(expected)));
      bool const has_before = expected != model.begin();
      REQUIRE(same(blocks.before(found), has_before ? std::prev(expected) : model.end()));
    }
    REQUIRE(same(blocks.last(), model.empty() ? model.end() : std::prev(model.end())));
  }
  std::vector<FreeBlock> all;
  blocks.append_to(all);
  REQUIRE(all.size() == model.size());
  auto const is_same = [](FreeBlock const& block, auto const& expected) {
    return block.block == expected.second && block.address == expected.first.second;
  };
  REQUIRE(std::equal(all.begin(), all.end(), model.begin(), is_same));
}

}  // namespace stagecraft
