#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "libsim/program/category_bytes.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The buffers of one rank, each an object that exists once and is released once.
class BufferHeap {
 public:
  using Id = std::int32_t;

  explicit BufferHeap(CategoryBytes const& resident) : now_{resident} { look(SimTime{0}); }

  Id allocate(Category category, std::int64_t bytes, SimTime time) {
    buffers_.push_back({category, bytes, true});
    now_[category] += bytes;
    look(time);
    return static_cast<Id>(buffers_.size()) - 1;
  }

  void release(Id id, std::string const& by) {
    require(id, by);
    Buffer& buffer = buffers_[static_cast<std::size_t>(id)];
    buffer.exists = false;
    now_[buffer.category] -= buffer.bytes;
  }

  /// \throws std::logic_error  unless the buffer exists.
  void require(Id id, std::string const& by) const {
    if (id < 0 || !buffers_[static_cast<std::size_t>(id)].exists) {
      throw std::logic_error{by + " needs a buffer that does not exist"};
    }
  }

  std::int64_t bytes(Id id) const { return buffers_[static_cast<std::size_t>(id)].bytes; }
  CategoryBytes const& now() const { return now_; }
  CategoryBytes const& at_peak() const { return at_peak_; }
  SimTime peak_at() const { return peak_at_; }
  std::int64_t activation_peak() const { return activation_peak_; }

 private:
  struct Buffer {
    Category category;
    std::int64_t bytes;
    bool exists;
  };

  void look(SimTime time) {
    activation_peak_ = std::max(activation_peak_, now_.activation_sum());
    if (now_.sum() <= at_peak_.sum()) return;
    at_peak_ = now_;
    peak_at_ = time;
  }

  std::vector<Buffer> buffers_;
  CategoryBytes now_;
  CategoryBytes at_peak_;
  SimTime peak_at_{0};
  std::int64_t activation_peak_ = 0;
};

}  // namespace stagecraft
