#include "libsim/export/pickle_writer.hpp"

#include <limits>

#include "libsim/allocator/pickle_opcodes.hpp"

namespace stagecraft {

namespace {

using namespace pickle;

/// The number of elements that Python itself writes at a time.
constexpr int batch = 1000;

}  // namespace

PickleWriter::PickleWriter(OutputFile& output) : output_{output} {
  put(proto);
  put(2);
}

void PickleWriter::put(unsigned char byte) {
  waiting_ += static_cast<char>(byte);
  if (waiting_.size() < std::size_t{1} << 16) return;
  output_.write(waiting_);
  waiting_.clear();
}

void PickleWriter::put_little_endian(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) put(static_cast<unsigned char>(value >> (8 * i)));
}

void PickleWriter::begin_dictionary() {
  put(empty_dict);
  put(mark);
}

void PickleWriter::end_dictionary() { put(setitems); }

void PickleWriter::begin_list() {
  put(empty_list);
  put(mark);
  open_.push_back(0);
}

void PickleWriter::end_element() {
  if (++open_.back() < batch) return;
  open_.back() = 0;
  put(appends);
  put(mark);
}

void PickleWriter::end_list() {
  put(appends);
  open_.pop_back();
}

void PickleWriter::text(std::string_view text) {
  auto const found = texts_.find(text);
  if (found != texts_.end()) {
    recall(found->second);
    return;
  }
  put(binunicode);
  put_little_endian(text.size(), 4);
  for (char const letter : text) put(static_cast<unsigned char>(letter));
  texts_.emplace(text, remember());
}

void PickleWriter::number(std::int64_t number) {
  if (number >= 0 && number < 1 << 8) {
    put(binint1);
    put_little_endian(static_cast<std::uint64_t>(number), 1);
  } else if (number >= 0 && number < 1 << 16) {
    put(binint2);
    put_little_endian(static_cast<std::uint64_t>(number), 2);
  } else if (number >= std::numeric_limits<std::int32_t>::min() &&
             number <= std::numeric_limits<std::int32_t>::max()) {
    put(binint);
    put_little_endian(static_cast<std::uint64_t>(number), 4);
  } else {
    put(long1);
    put(8);
    put_little_endian(static_cast<std::uint64_t>(number), 8);
  }
}

void PickleWriter::boolean(bool value) { put(value ? newtrue : newfalse); }

void PickleWriter::pair(std::int64_t first, std::int64_t second) {
  number(first);
  number(second);
  put(tuple2);
}

std::uint32_t PickleWriter::remember() {
  bool const is_short = remembered_ < 256;
  put(is_short ? binput : long_binput);
  put_little_endian(remembered_, is_short ? 1 : 4);
  return remembered_++;
}

void PickleWriter::recall(std::uint32_t number) {
  bool const is_short = number < 256;
  put(is_short ? binget : long_binget);
  put_little_endian(number, is_short ? 1 : 4);
}

void PickleWriter::finish() {
  put(stop);
  output_.write(waiting_);
  waiting_.clear();
}

}  // namespace stagecraft
