#include "tests/libexec/cuda_ptx/block_memory.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

#include "tests/libexec/cuda_ptx/warp_registers.hpp"

namespace stagecraft::ptx {
namespace {

constexpr std::int32_t several_warps = -1;

std::string hexadecimal(std::uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

std::string described(char const* space, std::uint64_t address, unsigned bytes) {
  return std::to_string(bytes) + " bytes at " + space + " address " + hexadecimal(address);
}

void require_inside(char const* space,
                    std::uint64_t offset,
                    std::uint64_t address,
                    unsigned bytes,
                    std::size_t size) {
  if (offset <= size && bytes <= size - offset) return;
  throw Fault{described(space, address, bytes) + " are outside of its " + std::to_string(size) +
              " bytes"};
}

}  // namespace

void BlockMemory::begin_block(std::size_t shared_bytes,
                              std::size_t local_bytes,
                              std::size_t threads,
                              std::vector<std::byte> const& parameters) {
  shared_.assign(shared_bytes, std::byte{0xFF});
  local_bytes_ = local_bytes;
  local_.assign(local_bytes * threads, std::byte{0xFF});
  parameters_ = &parameters;
  reads_.assign((shared_bytes + 1) / 2, {});
  writes_.assign((shared_bytes + 1) / 2, {});
  epoch_ = 1;
}

std::byte* BlockMemory::global(std::uint64_t address, unsigned bytes) {
  for (MemoryRange const& range : recent_) {
    if (address >= range.begin && address < range.end && bytes <= range.end - address) {
      return reinterpret_cast<std::byte*>(address);
    }
  }
  MemoryRange const range = find_(address);
  if (address < range.begin || address >= range.end || bytes > range.end - address) {
    throw Fault{described("global", address, bytes) +
                (range.end == 0 ? " are in no allocation"
                                : " leave an allocation of " +
                                      std::to_string(range.end - range.begin) + " bytes")};
  }
  recent_[oldest_++ % 4] = range;
  return reinterpret_cast<std::byte*>(address);
}

/// Makes a generic address one of its space, and a shared one an offset.
std::byte* BlockMemory::at(
    Space& space, std::uint64_t& address, unsigned bytes, int warp, int lane) {
  if (address % bytes != 0) throw Fault{described("misaligned", address, bytes)};
  if (space == Space::generic) {
    if (address >= local_window) {
      space = Space::local;
      address -= local_window;
    } else if (address >= shared_window) {
      space = Space::shared;
      address -= shared_window;
    } else {
      space = Space::global;
    }
  }
  if (space == Space::global) return global(address, bytes);
  if (space == Space::shared) {
    std::uint64_t const offset = address - first_address;
    require_inside("shared", offset, address, bytes, shared_.size());
    address = offset;
    return shared_.data() + offset;
  }
  bool const is_own = space == Space::local || address >= call_parameters;
  if (!is_own) {
    require_inside("parameter", address, address, bytes, parameters_->size());
    // Nothing writes parameters of a kernel: write() refuses.
    return const_cast<std::byte*>(parameters_->data()) + address;
  }
  std::uint64_t const offset =
      address - (space == Space::param ? call_parameters : 0) - first_address;
  require_inside("local", offset, address, bytes, local_bytes_);
  auto const thread = static_cast<std::size_t>(warp * warp_lanes + lane);
  return local_.data() + thread * local_bytes_ + offset;
}

std::byte const* BlockMemory::read(
    Space space, std::uint64_t address, unsigned bytes, int warp, int lane) {
  std::byte const* const found = at(space, address, bytes, warp, lane);
  if (space != Space::shared) return found;
  for (std::uint64_t i = address / 2; i < (address + bytes + 1) / 2; ++i) {
    if (writes_[i].epoch == epoch_ && writes_[i].warp != warp) {
      throw Fault{"a race: warp " + std::to_string(warp) + " reads shared address " +
                  hexadecimal(address + first_address) + ", which warp " +
                  std::to_string(writes_[i].warp) + " wrote with no barrier between"};
    }
    bool const is_first = reads_[i].epoch != epoch_;
    reads_[i] = {epoch_, is_first || reads_[i].warp == warp ? warp : several_warps};
  }
  return found;
}

std::byte* BlockMemory::write(
    Space space, std::uint64_t address, unsigned bytes, int warp, int lane) {
  std::byte* const found = at(space, address, bytes, warp, lane);
  if (space == Space::param && address < call_parameters) {
    throw Fault{"a store to a kernel's parameter"};
  }
  if (space != Space::shared) return found;
  for (std::uint64_t i = address / 2; i < (address + bytes + 1) / 2; ++i) {
    for (Touch const& touch : {reads_[i], writes_[i]}) {
      if (touch.epoch != epoch_ || touch.warp == warp) continue;
      throw Fault{"a race: warp " + std::to_string(warp) + " writes shared address " +
                  hexadecimal(address + first_address) +
                  ", which another used with no barrier between"};
    }
    writes_[i] = {epoch_, warp};
  }
  return found;
}

}  // namespace stagecraft::ptx
