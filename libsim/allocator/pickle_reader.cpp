#include "libsim/allocator/pickle_reader.hpp"

#include <array>
#include <bit>
#include <unordered_map>
#include <utility>

#include "libsim/allocator/pickle_opcodes.hpp"
#include "libsim/host/file_error.hpp"

namespace stagecraft {
namespace {

using namespace pickle;

constexpr char const* plain =
    "dictionaries, lists, tuples, texts, numbers, booleans and None, as pickled by protocols 2 "
    "to 5";

/// What opcodes that import, call or build something are called.
char const* executed(unsigned char opcode) {
  switch (opcode) {
    case 'c':
      return "GLOBAL";
    case 'R':
      return "REDUCE";
    case 'b':
      return "BUILD";
    case 'i':
      return "INST";
    case 'o':
      return "OBJ";
    case 'P':
      return "PERSID";
    case 'Q':
      return "BINPERSID";
    case 0x81:
      return "NEWOBJ";
    case 0x82:
      return "EXT1";
    case 0x83:
      return "EXT2";
    case 0x84:
      return "EXT4";
    case 0x92:
      return "NEWOBJ_EX";
    case 0x93:
      return "STACK_GLOBAL";
    default:
      return nullptr;
  }
}

}  // namespace

/// Runs the opcodes of a pickle on a stack of values. It owns the stack, its marks and the memo,
/// which refer to values; the reader owns those.
class PickleReader::Machine {
 public:
  Machine(PickleReader& reader, std::string_view bytes, std::string const& origin)
      : reader_{reader}, bytes_{bytes}, origin_{origin} {}

  PickleValue run() {
    while (true) {
      start_ = at_;
      auto const opcode = static_cast<unsigned char>(take(1).front());
      if (opcode == stop) break;
      apply(opcode);
    }
    return pop_value();
  }

 private:
  [[noreturn]] void refuse(std::string const& found, std::string const& accepted) const {
    throw InputError{origin_ + ": byte " + std::to_string(start_) + ": found " + found +
                     "; accepted: " + accepted};
  }
  [[noreturn]] void refuse_stack() const {
    refuse("an opcode that takes more than the stack has", plain);
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) refuse("the end of the file", "a whole pickle");
    std::string_view const part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }
  std::uint64_t little_endian(int bytes) {
    std::uint64_t value = 0;
    int shift = 0;
    for (char const byte : take(static_cast<std::uint64_t>(bytes))) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(byte)) << shift;
      shift += 8;
    }
    return value;
  }

  void push(Kind kind, std::int64_t content) {
    stack_.push_back(static_cast<PickleValue>(reader_.values_.size()));
    reader_.values_.push_back({kind, content});
  }
  void push_text(std::uint64_t length) {
    reader_.texts_.push_back(take(length));
    push(Kind::text, static_cast<std::int64_t>(reader_.texts_.size()) - 1);
  }
  void push_container(Kind kind, std::vector<PickleValue> items) {
    reader_.containers_.push_back(std::move(items));
    push(kind, static_cast<std::int64_t>(reader_.containers_.size()) - 1);
  }
  /// A Python integer of any length in two's complement; one of more than 8 bytes is not a size.
  void push_long(std::uint64_t bytes) {
    if (bytes > 9) refuse("an integer of more than 64 bits", "integers of at most 64 bits");
    std::uint64_t value = 0;
    std::string_view const digits = take(bytes);
    for (std::size_t i = 0; i < digits.size(); ++i) {
      auto const byte = static_cast<unsigned char>(digits[i]);
      if (i < 8) {
        value |= static_cast<std::uint64_t>(byte) << (8 * i);
      } else if (byte != 0 || (value >> 63U) != 0) {
        refuse("an integer of more than 64 bits", "integers of at most 64 bits");
      }
    }
    bool const is_negative =
        !digits.empty() && digits.size() < 8 && (static_cast<unsigned char>(digits.back()) & 0x80U);
    if (is_negative) value |= ~std::uint64_t{0} << (8 * digits.size());
    push(Kind::integer, std::bit_cast<std::int64_t>(value));
  }

  std::size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue pop_value() {
    if (stack_.size() <= bottom()) refuse_stack();
    PickleValue const value = stack_.back();
    stack_.pop_back();
    return value;
  }
  std::vector<PickleValue> pop_to_mark() {
    if (marks_.empty()) refuse_stack();
    std::vector<PickleValue> values(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                                    stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }
  std::vector<PickleValue> pop_values(std::size_t count) {
    std::vector<PickleValue> values(count);
    for (std::size_t i = count; i-- > 0;) values[i] = pop_value();
    return values;
  }
  PickleValue top() const {
    if (stack_.size() <= bottom()) refuse_stack();
    return stack_.back();
  }
  /// Adds elements to the list or dictionary on top of the stack.
  void extend(Kind kind, std::vector<PickleValue> const& items) {
    Value const& value = reader_.values_[top()];
    if (value.kind != kind || (kind == Kind::dictionary && items.size() % 2 != 0)) refuse_stack();
    auto& content = reader_.containers_[static_cast<std::size_t>(value.content)];
    content.insert(content.end(), items.begin(), items.end());
  }
  void recall(std::uint64_t number) {
    auto const found = memo_.find(number);
    if (found == memo_.end()) refuse("a reference to a value that is not there", plain);
    stack_.push_back(found->second);
  }

  void apply(unsigned char opcode) {
    switch (opcode) {
      case proto: {
        std::uint64_t const version = little_endian(1);
        if (version < 2 || version > 5) {
          refuse("protocol " + std::to_string(version), "protocols 2 to 5");
        }
        break;
      }
      case frame:
        little_endian(8);
        break;
      case mark:
        marks_.push_back(stack_.size());
        break;
      case pop:
        pop_value();
        break;
      case pop_mark:
        pop_to_mark();
        break;
      case dup:
        stack_.push_back(top());
        break;
      case none:
        push(Kind::none, 0);
        break;
      case newtrue:
        push(Kind::boolean, 1);
        break;
      case newfalse:
        push(Kind::boolean, 0);
        break;
      case binint1:
        push(Kind::integer, static_cast<std::int64_t>(little_endian(1)));
        break;
      case binint2:
        push(Kind::integer, static_cast<std::int64_t>(little_endian(2)));
        break;
      case binint:
        push(Kind::integer,
             static_cast<std::int32_t>(static_cast<std::uint32_t>(little_endian(4))));
        break;
      case long1:
        push_long(little_endian(1));
        break;
      case binfloat:
        little_endian(8), push(Kind::real, 0);
        break;
      case short_binunicode:
      case short_binbytes:
        push_text(little_endian(1));
        break;
      case binunicode:
      case binbytes:
        push_text(little_endian(4));
        break;
      case binunicode8:
        push_text(little_endian(8));
        break;
      case empty_list:
      case empty_tuple:
        push_container(Kind::list, {});
        break;
      case empty_dict:
        push_container(Kind::dictionary, {});
        break;
      case tuple:
        push_container(Kind::list, pop_to_mark());
        break;
      case tuple1:
        push_container(Kind::list, pop_values(1));
        break;
      case tuple2:
        push_container(Kind::list, pop_values(2));
        break;
      case tuple3:
        push_container(Kind::list, pop_values(3));
        break;
      case append:
        extend(Kind::list, pop_values(1));
        break;
      case appends:
        extend(Kind::list, pop_to_mark());
        break;
      case setitem:
        extend(Kind::dictionary, pop_values(2));
        break;
      case setitems:
        extend(Kind::dictionary, pop_to_mark());
        break;
      case binput:
        memo_[little_endian(1)] = top();
        break;
      case long_binput:
        memo_[little_endian(4)] = top();
        break;
      case memoize:
        memo_[memo_.size()] = top();
        break;
      case binget:
        recall(little_endian(1));
        break;
      case long_binget:
        recall(little_endian(4));
        break;
      default:
        refuse_opcode(opcode);
    }
  }

  [[noreturn]] void refuse_opcode(unsigned char opcode) const {
    if (char const* const name = executed(opcode)) {
      refuse("the opcode " + std::string{name} + ", which would run code", plain);
    }
    constexpr std::string_view digits = "0123456789abcdef";
    refuse(std::string{"the opcode 0x"} + digits[opcode / 16] + digits[opcode % 16], plain);
  }

  PickleReader& reader_;
  std::string_view bytes_;
  std::string const& origin_;
  std::uint64_t at_ = 0;
  std::uint64_t start_ = 0;  ///< where the current opcode begins
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;  ///< sizes of the stack
  std::unordered_map<std::uint64_t, PickleValue> memo_;
};

PickleReader::PickleReader(std::string_view bytes, std::string const& origin) {
  root_ = Machine{*this, bytes, origin}.run();
}

std::optional<std::int64_t> PickleReader::integer(PickleValue value) const {
  if (kind(value) != Kind::integer) return std::nullopt;
  return values_[value].content;
}

std::optional<std::string_view> PickleReader::text(PickleValue value) const {
  if (kind(value) != Kind::text) return std::nullopt;
  return texts_[static_cast<std::size_t>(values_[value].content)];
}

std::span<PickleValue const> PickleReader::items(PickleValue value) const {
  if (kind(value) != Kind::list) return {};
  return containers_[static_cast<std::size_t>(values_[value].content)];
}

std::optional<PickleValue> PickleReader::find(PickleValue dictionary, std::string_view key) const {
  if (kind(dictionary) != Kind::dictionary) return std::nullopt;
  auto const& items = containers_[static_cast<std::size_t>(values_[dictionary].content)];
  for (std::size_t i = items.size(); i >= 2; i -= 2) {
    if (text(items[i - 2]) == key) return items[i - 1];
  }
  return std::nullopt;
}

}  // namespace stagecraft
