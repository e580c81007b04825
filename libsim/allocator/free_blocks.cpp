#include "libsim/allocator/free_blocks.hpp"

#include <algorithm>
#include <bit>

namespace stagecraft {
namespace {

/// Where the block stands, or would stand.
template <typename Entries>
auto place_of(Entries& entries, FreeBlock const& block) {
  return std::lower_bound(entries.begin(), entries.end(), block,
                          [](FreeBlock const& a, FreeBlock const& b) { return a.is_before(b); });
}

}  // namespace

std::size_t FreeBlocks::bin_of(std::int64_t size) {
  constexpr int divisions = 3;  // 2^3 bins between two powers of two
  auto const units = static_cast<std::uint64_t>(size) >> 9;
  if (units == 0) return 0;
  auto const power = static_cast<std::size_t>(std::bit_width(units)) - 1;
  std::size_t const fraction = power >= divisions ? (units >> (power - divisions)) & 7U
                                                  : (units << (divisions - power)) & 7U;
  return std::min((power << divisions) + fraction, bins_ - 1);
}

void FreeBlocks::insert(FreeBlock const& block) {
  std::size_t const bin = bin_of(block.size);
  auto& entries = entries_[bin];
  entries.insert(place_of(entries, block), block);
  filled_.at(bin / 64) |= std::uint64_t{1} << (bin % 64);
}

void FreeBlocks::remove(FreeBlock const& block) {
  std::size_t const bin = bin_of(block.size);
  auto& entries = entries_[bin];
  entries.erase(place_of(entries, block));
  if (entries.empty()) filled_.at(bin / 64) &= ~(std::uint64_t{1} << (bin % 64));
}

FreeBlocks::Cursor FreeBlocks::first_from(std::size_t bin) const {
  if (bin >= bins_) return {};
  std::size_t word = bin / 64;
  std::uint64_t bits = filled_.at(word) & (~std::uint64_t{0} << (bin % 64));
  while (bits == 0) {
    if (++word == words_) return {};
    bits = filled_.at(word);
  }
  return {word * 64 + static_cast<std::size_t>(std::countr_zero(bits)), 0};
}

FreeBlocks::Cursor FreeBlocks::lower_bound(std::int64_t size) const {
  std::size_t const bin = bin_of(size);
  auto const& entries = entries_[bin];
  auto const place = std::lower_bound(
      entries.begin(), entries.end(), size,
      [](FreeBlock const& block, std::int64_t least) { return block.size < least; });
  if (place != entries.end()) return {bin, static_cast<std::size_t>(place - entries.begin())};
  return first_from(bin + 1);
}

FreeBlocks::Cursor FreeBlocks::next(Cursor at) const {
  if (at.place + 1 < entries_[at.bin].size()) return {at.bin, at.place + 1};
  return first_from(at.bin + 1);
}

FreeBlocks::Cursor FreeBlocks::last() const { return before({}); }

FreeBlocks::Cursor FreeBlocks::before(Cursor at) const {
  if (at.place > 0) return {at.bin, at.place - 1};
  for (std::size_t bin = at.bin; bin-- > 0;) {
    if (!entries_[bin].empty()) return {bin, entries_[bin].size() - 1};
  }
  return {};
}

void FreeBlocks::append_to(std::vector<FreeBlock>& blocks) const {
  for (auto const& entries : entries_) blocks.insert(blocks.end(), entries.begin(), entries.end());
}

}  // namespace stagecraft
