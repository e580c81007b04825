#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "libsim/allocator/allocator.hpp"
#include "libsim/program/category_bytes.hpp"
#include "libsim/program/tensor.hpp"
#include "libsim/units/ids.hpp"

namespace stagecraft {

/// The memory of one device, from which buffers are allocated.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  /// \throws std::bad_alloc
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* address, std::size_t bytes) noexcept = 0;
  /// Fills memory with bytes that are NaN in every floating-point type.
  virtual void poison(void* address, std::size_t bytes) noexcept = 0;
};

/// The purpose of a buffer, as errors and lists of live tensors name it.
struct BufferLabel {
  Name name;
  std::int64_t layer = -1;  ///< of the whole model; -1 if it does not apply
  MicrobatchId microbatch = no_microbatch;
};

/// "layers.3.mlp.up.input of microbatch 2".
std::string to_string(BufferLabel const& label);

class CountingAllocator;

/// A live allocation; released when it goes out of scope.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer{std::move(other)}.swap(*this);
    return *this;
  }
  Buffer(Buffer const&) = delete;
  Buffer& operator=(Buffer const&) = delete;
  ~Buffer();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return owner_ != nullptr; }

 private:
  friend class CountingAllocator;
  void swap(Buffer& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(category_, other.category_);
    std::swap(number_, other.number_);
  }

  CountingAllocator* owner_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Category category_ = Category::activations;
  std::uint64_t number_ = 0;
};

/// A plan does not fit in memory. The message names the allocation and the live buffers.
class MemoryLimitError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Counts the bytes that one rank allocates, by category. It knows only the requested shapes and
/// element types, not the plan, so that its counts are independent of the simulator's.
///
/// Not thread-safe: a rank allocates and releases from its own thread, in issue order.
class CountingAllocator {
 public:
  /// Called after each change with the bytes that are allocated.
  using Observer = std::function<void(CategoryBytes const&)>;
  static constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

  /// All allocations together, `declared_workspace` included, may take `limit` bytes.
  explicit CountingAllocator(DeviceMemory& memory,
                             Bytes declared_workspace = Bytes{0},
                             std::int64_t limit = no_limit);
  ~CountingAllocator() = default;
  CountingAllocator(CountingAllocator const&) = delete;
  CountingAllocator(CountingAllocator&&) = delete;
  CountingAllocator& operator=(CountingAllocator const&) = delete;
  CountingAllocator& operator=(CountingAllocator&&) = delete;

  /// \throws MemoryLimitError  if it exceeds the limit, or the device has no more memory.
  Buffer allocate(BufferLabel const& label,
                  Category category,
                  ElementType type,
                  Shape const& shape);

  /// From now on each request also goes through `modelled`, which only keeps account.
  /// Pre: nothing is allocated.
  void follow_with(std::unique_ptr<Allocator> modelled) { modelled_ = std::move(modelled); }
  /// Null if there is none.
  Allocator* modelled() const { return modelled_.get(); }

  CategoryBytes const& now() const { return now_; }
  /// The allocated bytes at the first instant of the largest sum, workspace added.
  CategoryBytes at_peak() const;
  std::int64_t peak_bytes() const { return at_peak().sum(); }
  /// The largest sum of activations, recomputed and communication.
  std::int64_t activation_peak() const { return activation_peak_; }
  void observe(Observer observer) { observer_ = std::move(observer); }

  /// The live buffers, the largest first, one per line.
  std::string live_buffers(std::size_t most) const;

 private:
  friend class Buffer;
  void release(Buffer const& buffer) noexcept;
  /// The live buffers as the end of an error message.
  std::string live_text() const;

  struct Live {
    BufferLabel label;
    Category category;
    std::int64_t bytes;
    BlockId block = no_block;  ///< of the modelled allocator
  };
  DeviceMemory& memory_;
  Bytes workspace_;
  std::int64_t limit_;
  CategoryBytes now_;
  CategoryBytes at_peak_;
  std::int64_t peak_ = 0;
  std::int64_t activation_peak_ = 0;
  std::map<std::uint64_t, Live> live_;
  std::uint64_t next_ = 0;
  Observer observer_;
  std::unique_ptr<Allocator> modelled_;
};

}  // namespace stagecraft
