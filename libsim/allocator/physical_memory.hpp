#pragma once

#include <cstdint>

namespace stagecraft {

/// The physical memory of a device. The driver maps pages of 2 MiB anywhere, so only the sum
/// matters.
class PhysicalMemory {
 public:
  explicit PhysicalMemory(std::int64_t capacity) : capacity_{capacity} {}

  std::int64_t capacity() const { return capacity_; }
  std::int64_t used() const { return used_; }

  /// Takes `count` pieces of memory; false, and nothing happens, if there is not enough.
  bool take(std::int64_t bytes, std::int64_t count = 1) {
    std::int64_t const pages = count * in_pages(bytes);
    if (pages > capacity_ - used_) return false;
    used_ += pages;
    return true;
  }
  /// Takes memory that others have got, enough or not.
  void take_foreign(std::int64_t bytes) { used_ += in_pages(bytes); }
  void give_back(std::int64_t bytes, std::int64_t count = 1) { used_ -= count * in_pages(bytes); }

 private:
  static std::int64_t in_pages(std::int64_t bytes) {
    constexpr std::int64_t page = std::int64_t{2} << 20;
    return (bytes + page - 1) / page * page;
  }

  std::int64_t capacity_;
  std::int64_t used_ = 0;
};

}  // namespace stagecraft
