#include "libsim/allocator/sequence_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "libsim/allocator/allocation_sequence.hpp"
#include "libsim/allocator/allocator.hpp"
#include "libsim/allocator/snapshot_sequence.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/host/file_error.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {

namespace {

constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
constexpr char const* letters =
    "a, f, r, t, d, n, F, e, q (stagecraft allocator --help says what they do; there are no "
    "comments)";

/// Reads a sequence line by line; `fields_` is what is left of the current one. The text must outlive
/// the reader. The first mistake ends it, with its line.
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
    // The word is not quoted: it may be of a private file that was named by mistake.
    if (word.size() != 1) {
      refuse("found a word of " + std::to_string(word.size()) +
             " characters; accepted: " + letters);
    }
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

/// The opcode PROTO, with which all pickles from protocol 2 on begin.
constexpr char start_of_pickle = '\x80';
constexpr std::size_t most_bytes = std::size_t{2} << 30;

struct Close {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, Close>;

}  // namespace

AllocationSequence read_sequence_text(std::string_view text, std::string const& origin) {
  return SequenceReader{text, origin}.read();
}

std::string read_inflated(std::filesystem::path const& path) {
  std::string const name = path.string();
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw InputError{name + ": found a folder"};
  errno = 0;
  GzipFile const file{gzopen(name.c_str(), "rb")};
  if (!file) {
    throw InputError{name + ": found a file that cannot be opened: " + std::strerror(errno)};
  }
  std::string bytes;
  std::array<char, std::size_t{1} << 16> part{};
  while (true) {
    int const count = gzread(file.get(), part.data(), part.size());
    if (count <= 0) break;
    bytes.append(part.data(), static_cast<std::size_t>(count));
    if (bytes.size() > most_bytes) {
      throw InputError{name + ": found more than 2 GiB; accepted: at most that, inflated"};
    }
  }
  int status = Z_OK;
  char const* const message = gzerror(file.get(), &status);
  if (status != Z_OK && status != Z_STREAM_END) {
    std::string const why = status == Z_BUF_ERROR ? "it is cut short" : message;
    throw InputError{name + ": found a file that cannot be read to its end: " + why};
  }
  return bytes;
}

SequenceFile read_sequence_file(std::filesystem::path const& path,
                                std::optional<std::int32_t> device) {
  std::string const bytes = read_inflated(path);
  std::string const name = path.string();
  bool const is_pickle = bytes.starts_with(start_of_pickle);
  if (!is_pickle) {
    if (device) throw InputError{name + ": found text, which has no devices; accepted: a snapshot"};
    return {read_sequence_text(bytes, name), {}};
  }
  SnapshotSequence snapshot = read_snapshot(bytes, name, device);
  SequenceFile file{std::move(snapshot.sequence), {}};
  if (!device && snapshot.recorded.size() > 1) {
    file.notes.push_back("device " + std::to_string(snapshot.device) + " of " +
                         std::to_string(snapshot.recorded.size()) +
                         " with events; --device N takes another");
  }
  if (snapshot.live_before > 0) {
    file.notes.push_back(std::to_string(snapshot.live_before) +
                         " allocations are older than the first event; how they share segments is "
                         "not recorded");
  }
  auto const refused = std::ranges::count(file.sequence.events, AllocationEvent::Kind::refused,
                                          &AllocationEvent::kind);
  if (refused > 0) {
    file.notes.push_back(std::to_string(refused) + (refused == 1 ? " request" : " requests") +
                         " failed when this was recorded; what the program did without that memory "
                         "is replayed");
  }
  return file;
}

}  // namespace stagecraft
