#include "libsim/allocator/sequence_text.hpp"

#include <algorithm>
#include <limits>

#include "libsim/allocator/allocator.hpp"
#include "libsim/allocator/sequence_builder.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/host/file_error.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
constexpr char const* letters =
    "a, f, r, t, d, n, F, e, q (stagecraft allocator --help says what they do; there are no "
    "comments)";

class SequenceReader {
 public:
  SequenceReader(std::string_view text, std::string const& origin) : rest_{text}, origin_{origin} {}

  AllocationSequence read() {
    while (!rest_.empty()) {
      ++line_;
      std::size_t const end = std::min(rest_.find('\n'), rest_.size());
      fields_ = rest_.substr(0, end);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      if (fields_.ends_with('\r')) fields_.remove_suffix(1);
      skip_spaces();
      if (!fields_.empty()) read_line();
    }
    return builder_.take();
  }

 private:
  using Kind = AllocationEvent::Kind;

  [[noreturn]] void refuse(std::string const& what) const {
    throw InputError{origin_ + ":" + std::to_string(line_) + ": " + what};
  }
  [[noreturn]] void refuse(std::string_view found, std::string const& accepted) const {
    std::string const text = found.empty() ? "the end of the line" : "'" + printable(found) + "'";
    refuse("found " + text + "; accepted: " + accepted);
  }

  void skip_spaces() {
    while (!fields_.empty() && (fields_.front() == ' ' || fields_.front() == '\t')) {
      fields_.remove_prefix(1);
    }
  }
  std::string_view next_field() {
    std::size_t const end = std::min(fields_.find_first_of(" \t"), fields_.size());
    std::string_view const field = fields_.substr(0, end);
    fields_.remove_prefix(end);
    skip_spaces();
    return field;
  }

  std::int64_t number(char const* name, std::int64_t most) {
    std::string_view const field = next_field();
    auto const value = parse_number<std::int64_t>(field);
    if (!value || *value < 0 || *value > most) {
      refuse(field, std::string{name} + ", a whole number from 0" +
                        (most == any ? "" : " to " + std::to_string(most)));
    }
    return *value;
  }

  std::int32_t stream() {
    std::int32_t const number_of_it = builder_.stream(number("STREAM", any));
    if (number_of_it < 0) {
      refuse("found more than " + std::to_string(SequenceBuilder::most_streams) +
             " different streams; accepted: fewer");
    }
    return number_of_it;
  }

  void add(Kind kind, std::int64_t value) {
    AllocationEvent event;
    event.kind = kind;
    event.value = value;
    builder_.add(event);
  }

  void read_line() {
    std::string_view const word = next_field();
    if (word.size() != 1) refuse(word, letters);
    switch (word.front()) {
      case 'a':
        read_allocation();
        break;
      case 'f': {
        std::int64_t const id = number("ID", any);
        if (!builder_.free(id)) refuse_unknown(id);
        break;
      }
      case 'r': {
        std::int64_t const id = number("ID", any);
        if (!builder_.record_stream(id, stream())) refuse_unknown(id);
        break;
      }
      case 't':
        add(Kind::advance, number("DT", any));
        break;
      case 'd':
        add(Kind::event_delay, number("DELAY", any));
        break;
      case 'n': {
        std::int64_t const bytes = number("BYTES", largest_request - foreign_);
        foreign_ += bytes;
        add(Kind::foreign, bytes);
        break;
      }
      case 'F':
        read_fraction();
        break;
      case 'e':
        add(Kind::empty_cache, 0);
        break;
      case 'q':
        add(Kind::checkpoint, 0);
        break;
      default:
        refuse(word, letters);
    }
    if (!fields_.empty()) refuse(fields_, "the end of the line");
  }

  [[noreturn]] void refuse_unknown(std::int64_t id) const {
    refuse("found ID " + std::to_string(id) + ", which is not allocated here; accepted: an ID of " +
           "a line `a` that no `f` has freed");
  }

  void read_allocation() {
    std::int64_t const id = number("ID", any);
    std::int64_t const bytes = number("SIZE", largest_request);
    std::int32_t const on = fields_.empty() ? builder_.stream(0) : stream();
    if (!builder_.allocate(id, bytes, on)) {
      refuse("found ID " + std::to_string(id) +
             ", which is allocated already; accepted: a new ID, or one that is freed");
    }
  }

  void read_fraction() {
    std::string_view const field = next_field();
    AllocationEvent event;
    event.kind = Kind::fraction;
    auto const fraction = parse_number<double>(field);
    if (!fraction || *fraction < 0 || *fraction > 1) {
      refuse(field, "FRACTION, a number from 0 to 1");
    }
    event.fraction = *fraction;
    builder_.add(event);
  }

  std::string_view rest_;
  std::string_view fields_;
  std::string const& origin_;
  std::int64_t line_ = 0;
  std::int64_t foreign_ = 0;  ///< what others have taken; the sum must not overflow
  SequenceBuilder builder_;
};

}  // namespace

AllocationSequence read_sequence_text(std::string_view text, std::string const& origin) {
  return SequenceReader{text, origin}.read();
}

}  // namespace stagecraft
