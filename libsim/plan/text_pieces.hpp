#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace stagecraft {

/// Formats text and passes it on in pieces of a size that stays in the cache until it is hashed. A
/// plan's text takes megabytes, mostly numbers of one or two digits, so each word is written in
/// place.
class TextPieces {
 public:
  using Take = std::function<void(std::string_view)>;

  explicit TextPieces(Take take) : take_{std::move(take)}, piece_(size_ + reserve_) {}

  TextPieces& operator<<(std::string_view text) {
    if (text.size() > reserve_) {
      hand_on();
      take_(text);
      return *this;
    }
    std::memcpy(end(), text.data(), text.size());
    return took(text.size());
  }
  /// A literal, whose length is known when this is compiled.
  template <std::size_t size>
  TextPieces& operator<<(char const (&text)[size]) {
    return words(text);
  }
  TextPieces& operator<<(std::integral auto number) { return words(number); }
  /// Several literals and integers at once.
  template <typename... Words>
  TextPieces& words(Words const&... all) {
    static_assert((longest<Words> + ... + 0) <= reserve_);
    char* const begin = end();
    char* at = begin;
    ((at = put(at, all)), ...);
    return took(at - begin);
  }
  TextPieces& operator<<(double number) {
    char* const begin = end();
    return took(std::to_chars(begin, begin + reserve_, number, std::chars_format::general,
                              std::numeric_limits<double>::max_digits10)
                    .ptr -
                begin);
  }
  void hand_on() {
    take_({piece_.data(), used_});
    used_ = 0;
  }

 private:
  /// The most characters of a word.
  template <typename Word>
  static constexpr std::size_t longest = std::is_array_v<Word> ? std::extent_v<Word> : 20;

  template <std::size_t size>
  static char* put(char* at, char const (&text)[size]) {
    std::memcpy(at, text, size - 1);
    return at + (size - 1);
  }
  static char* put(char* at, std::integral auto number) {
    auto const value = +number;  // a fact is 0 or 1
    if (value >= 0 && value < 10) {
      *at = static_cast<char>('0' + value);
      return at + 1;
    }
    return std::to_chars(at, at + longest<decltype(value)>, value).ptr;
  }

  /// The place of the next word, with room for `reserve_` characters.
  char* end() { return piece_.data() + used_; }
  TextPieces& took(std::integral auto characters) {
    used_ += static_cast<std::size_t>(characters);
    if (used_ >= size_) hand_on();
    return *this;
  }

  static constexpr std::size_t size_ = 32 << 10;
  static constexpr std::size_t reserve_ = 256;
  Take take_;
  std::vector<char> piece_;
  std::size_t used_ = 0;  ///< characters of the piece, fewer than size_ between calls
};

}  // namespace stagecraft
