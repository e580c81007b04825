#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// A value of a pickle, by number.
using PickleValue = std::uint32_t;

/// A Python pickle of plain data: dictionaries, lists, tuples, texts, bytes, numbers, booleans and
/// None. Nothing in it is executed: what would import, call or build anything is refused, whatever
/// it names.
///
/// Values that the pickle shares are shared here, so cycles are possible: a reader follows only
/// paths that it knows. Texts are views of `bytes`, which must outlive the object.
/// Source: cpython, Lib/pickletools.py (protocols 2 to 5).
class PickleReader {
 public:
  enum class Kind : std::uint8_t { none, boolean, integer, real, text, list, dictionary };

  /// \throws InputError  `origin: byte n: what was found; what is accepted`, if the bytes are no
  ///     such pickle, or end early.
  PickleReader(std::string_view bytes, std::string const& origin);

  PickleValue root() const { return root_; }
  Kind kind(PickleValue value) const { return values_[value].kind; }

  /// The number, if the value is one (booleans are not).
  std::optional<std::int64_t> integer(PickleValue value) const;
  std::optional<std::string_view> text(PickleValue value) const;
  /// The elements of a list or a tuple; none of any other value.
  std::span<PickleValue const> items(PickleValue value) const;
  /// The value of a key that is a text, the last if there are several; nullopt if there is none, or
  /// the value is not a dictionary.
  std::optional<PickleValue> find(PickleValue dictionary, std::string_view key) const;

 private:
  struct Value {
    Kind kind = Kind::none;
    std::int64_t content = 0;  ///< the number, or an index into texts_ or containers_
  };
  class Machine;

  std::vector<Value> values_;
  std::vector<std::string_view> texts_;
  /// Elements; of a dictionary, keys and values by turns.
  std::vector<std::vector<PickleValue>> containers_;
  PickleValue root_ = 0;
};

}  // namespace stagecraft
