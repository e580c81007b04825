#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <stdexcept>

namespace stagecraft {

/// A list of at most `capacity` values that needs no heap memory.
template <typename T, std::size_t most>
class InlineList {
 public:
  static constexpr std::size_t capacity = most;

  constexpr InlineList() = default;
  /// \throws std::length_error  for more values than fit.
  constexpr InlineList(std::initializer_list<T> values) {
    for (T const& value : values) push_back(value);
  }
  /// \throws std::length_error  if the list is full.
  constexpr void push_back(T const& value) {
    if (size_ == most) throw std::length_error{"a list of fixed capacity is full"};
    values_[size_++] = value;
  }
  constexpr T const& operator[](std::size_t i) const { return values_[i]; }
  constexpr T& operator[](std::size_t i) { return values_[i]; }
  constexpr std::size_t size() const { return size_; }
  constexpr T const* begin() const { return values_.data(); }
  constexpr T const* end() const { return values_.data() + size_; }
  constexpr T* begin() { return values_.data(); }
  constexpr T* end() { return values_.data() + size_; }

 private:
  std::array<T, most> values_{};
  std::size_t size_ = 0;
};

}  // namespace stagecraft
