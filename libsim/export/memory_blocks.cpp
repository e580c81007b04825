#include "libsim/export/memory_blocks.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace stagecraft {

namespace {

/// The live blocks of one category, by age and by size.
class LivePool {
 public:
  void add(LiveBlock const& block) {
    by_age_.emplace(next_, block);
    by_size_[block.size].insert(next_++);
  }
  bool empty() const { return by_age_.empty(); }
  /// Takes the oldest block of that size, or the newest of all if there is none. Pre: not empty.
  LiveBlock take(std::int64_t size) {
    auto const exact = by_size_.find(size);
    std::int64_t const age =
        exact != by_size_.end() ? *exact->second.begin() : by_age_.rbegin()->first;
    LiveBlock const block = by_age_.at(age);
    by_age_.erase(age);
    auto const sized = by_size_.find(block.size);
    sized->second.erase(age);
    if (sized->second.empty()) by_size_.erase(sized);
    return block;
  }
  void append_to(std::vector<LiveBlock>& blocks) const {
    for (auto const& [age, block] : by_age_) blocks.push_back(block);
  }

 private:
  std::map<std::int64_t, LiveBlock> by_age_;
  std::map<std::int64_t, std::set<std::int64_t>> by_size_;
  std::int64_t next_ = 0;
};

class BlockMaker {
 public:
  void grow(Category category, std::int64_t size, std::int64_t time, std::int64_t origin) {
    LiveBlock const block{arena_.allocate(size), size, category, origin};
    pools_[static_cast<std::size_t>(category)].add(block);
    note(true, block, time);
  }

  void shrink(Category category, std::int64_t size, std::int64_t time) {
    LivePool& pool = pools_[static_cast<std::size_t>(category)];
    while (size > 0 && !pool.empty()) {
      LiveBlock const block = pool.take(size);
      arena_.release(block.address, block.size);
      note(false, block, time);
      if (block.size > size) grow(category, block.size - size, time, block.origin);
      size -= std::min(size, block.size);
    }
  }

  MemoryBlocks finish() && {
    for (LivePool const& pool : pools_) pool.append_to(blocks_.live);
    std::sort(blocks_.live.begin(), blocks_.live.end(),
              [](LiveBlock const& a, LiveBlock const& b) { return a.address < b.address; });
    blocks_.arena = arena_.size();
    return std::move(blocks_);
  }

 private:
  void note(bool is_allocation, LiveBlock const& block, std::int64_t time) {
    blocks_.events.push_back(
        {is_allocation, time, block.address, block.size, block.category, block.origin});
  }

  BlockArena arena_;
  std::array<LivePool, category_count> pools_;
  MemoryBlocks blocks_;
};

/// The rows of the compute stream, sorted by start.
std::vector<std::int64_t> compute_rows(OpColumns const& ops, std::int64_t compute) {
  std::vector<std::int64_t> rows;
  for (std::size_t row = 0; row < ops.rows(); ++row) {
    if (ops.stream[row] == compute) rows.push_back(static_cast<std::int64_t>(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [&](std::int64_t a, std::int64_t b) {
    return ops.start[static_cast<std::size_t>(a)] < ops.start[static_cast<std::size_t>(b)];
  });
  return rows;
}

}  // namespace

std::int64_t BlockArena::allocate(std::int64_t size) {
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    auto const [address, free] = *hole;
    if (free < size) continue;
    holes_.erase(hole);
    if (free > size) holes_.emplace(address + size, free - size);
    return address;
  }
  // A hole at the end is made larger.
  std::int64_t address = size_;
  if (!holes_.empty()) {
    auto const last = std::prev(holes_.end());
    if (last->first + last->second == size_) {
      address = last->first;
      holes_.erase(last);
    }
  }
  size_ = address + size;
  return address;
}

void BlockArena::release(std::int64_t address, std::int64_t size) {
  auto const next = holes_.upper_bound(address);
  if (next != holes_.end() && next->first == address + size) {
    size += next->second;
    holes_.erase(next);
  }
  auto const after = holes_.lower_bound(address);
  if (after != holes_.begin()) {
    auto const before = std::prev(after);
    if (before->first + before->second == address) {
      before->second += size;
      return;
    }
  }
  holes_.emplace(address, size);
}

MemoryBlocks memory_blocks(RankTrace const& rank, std::int64_t compute) {
  std::vector<std::int64_t> const rows = compute_rows(rank.ops, compute);
  auto running = rows.begin();
  BlockMaker maker;
  for (std::size_t state = 0; state < rank.memory.rows(); ++state) {
    std::int64_t const time = rank.memory.time[state];
    while (running != rows.end() && rank.ops.start[static_cast<std::size_t>(*running)] <= time) {
      ++running;
    }
    std::int64_t const origin = running == rows.begin() || state == 0 ? -1 : *std::prev(running);
    for (int shrinking = 1; shrinking >= 0; --shrinking) {
      for (std::size_t i = 0; i < rank.memory.bytes.size(); ++i) {
        TraceColumn const& column = rank.memory.bytes[i];
        std::int64_t const change = column[state] - (state == 0 ? 0 : column[state - 1]);
        auto const category = static_cast<Category>(i);
        if (shrinking != 0 && change < 0) maker.shrink(category, -change, time);
        if (shrinking == 0 && change > 0) maker.grow(category, change, time, origin);
      }
    }
  }
  return std::move(maker).finish();
}

}  // namespace stagecraft
