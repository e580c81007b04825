#include "libsim/allocator/free_blocks.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <utility>

namespace stagecraft {

TEST_CASE("free blocks are found in the order of an ordered set", "[allocator]") {
  std::mt19937_64 random{7};
  std::set<std::pair<std::int64_t, std::int64_t>> model;
  FreeBlocks blocks;
  auto const same = [&](FreeBlocks::Cursor at, auto expected) {
    if (expected == model.end()) return blocks.is_end(at);
    return !blocks.is_end(at) && blocks[at].size == expected->first &&
           blocks[at].address == expected->second;
  };
  for (int i = 0; i < 20'000; ++i) {
    std::int64_t const size = static_cast<std::int64_t>(1 + random() % 64) << (9 + random() % 26);
    std::int64_t const address = 512 * static_cast<std::int64_t>(random() % 1000);
    if (random() % 2 == 0) {
      if (model.emplace(size, address).second) blocks.insert({size, address, 0});
    } else if (!model.empty()) {
      auto victim = model.lower_bound({size, address});
      if (victim == model.end()) victim = std::prev(model.end());
      blocks.remove({victim->first, victim->second, 0});
      model.erase(victim);
    }
    auto const expected = model.lower_bound({size, 0});
    FreeBlocks::Cursor const found = blocks.lower_bound(size);
    REQUIRE(same(found, expected));
    if (expected != model.end()) REQUIRE(same(blocks.next(found), std::next(expected)));
    bool const has_before = expected != model.begin();
    REQUIRE(same(blocks.before(found), has_before ? std::prev(expected) : model.end()));
    REQUIRE(same(blocks.last(), model.empty() ? model.end() : std::prev(model.end())));
  }
}

}  // namespace stagecraft
