#include "libsim/sweep/sweep_journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "libsim/config/problem.hpp"
#include "libsim/host/file_error.hpp"
#include "libsim/host/schemas.hpp"

namespace stagecraft {
namespace {

struct SweepBatch {
  std::int64_t number = 0;
  std::vector<SweepRow> rows;
};

template <typename Number>
void put(std::string& bytes, Number number) {
  static_assert(std::is_arithmetic_v<Number>);
  char raw[sizeof number];
  std::memcpy(raw, &number, sizeof number);
  bytes.append(raw, sizeof number);
}

void put(std::string& bytes, std::string const& text) {
  put(bytes, static_cast<std::uint64_t>(text.size()));
  bytes += text;
}

/// Takes values from the front of some bytes; is_sound becomes false if there are too few.
struct ByteSource {
  std::string_view bytes;
  bool is_sound = true;

  std::string_view take(std::size_t count) {
    if (count > bytes.size()) {
      is_sound = false;
      return {};
    }
    std::string_view const taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  }
  template <typename Number>
  Number number() {
    std::string_view const raw = take(sizeof(Number));
    Number value{};
    if (is_sound) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::string text() { return std::string{take(number<std::uint64_t>())}; }
};

SweepRow read_row(ByteSource& source) {
  SweepRow row;
  row.point = source.number<std::int64_t>();
  row.is_valid = source.number<std::uint8_t>() != 0;
  row.message = source.text();
  row.plan = source.text();
  for (std::size_t i = 0; i < integer_columns().size(); ++i) {
    row.integers.push_back(source.number<std::int64_t>());
  }
  for (std::size_t i = 0; i < real_columns().size(); ++i) {
    row.reals.push_back(source.number<double>());
  }
  auto const warnings = source.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < warnings && source.is_sound; ++i) {
    row.warnings.push_back(source.text());
  }
  return row;
}

/// Encodes a batch of rows, for files that the same machine reads again.
std::string encode_batch(std::int64_t batch, std::vector<SweepRow> const& rows) {
  std::string bytes;
  put(bytes, batch);
  for (SweepRow const& row : rows) {
    put(bytes, row.point);
    put(bytes, static_cast<std::uint8_t>(row.is_valid ? 1 : 0));
    put(bytes, row.message);
    put(bytes, row.plan);
    for (std::int64_t const value : row.integers) put(bytes, value);
    for (double const value : row.reals) put(bytes, value);
    put(bytes, static_cast<std::uint64_t>(row.warnings.size()));
    for (std::string const& warning : row.warnings) put(bytes, warning);
  }
  return bytes;
}

/// The inverse; nullopt if the bytes are not a batch.
std::optional<SweepBatch> decode_batch(std::string_view bytes) {
  ByteSource source{bytes};
  SweepBatch batch;
  batch.number = source.number<std::int64_t>();
  while (source.is_sound && !source.bytes.empty()) batch.rows.push_back(read_row(source));
  if (!source.is_sound || batch.number < 0) return std::nullopt;
  return batch;
}

/// A limit far above any batch: a damaged size must not make us allocate.
constexpr std::uint32_t most_batch_bytes = std::uint32_t{1} << 26;
/// A batch number beyond this limit can only be damage.
constexpr std::int64_t most_batches = std::int64_t{1} << 33;

struct RecordHead {
  std::uint32_t size = 0;
  std::uint32_t checksum = 0;
};
static_assert(sizeof(RecordHead) == 8);

std::string header_text(JournalHeader const& header) {
  return std::string{sweep_journal_schema} + "\nprogram " + header.program + "\nsweep " +
         header.sweep + "\nshard " + header.shard + "\n\n";
}

std::uint32_t checksum_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<Bytef const*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

/// Reads all of `bytes` at an offset; false if the file ends before that.
bool read_at(int descriptor, std::int64_t offset, char* bytes, std::size_t size) {
  while (size > 0) {
    ssize_t const count = ::pread(descriptor, bytes, size, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes += count;
    offset += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

/// The record at an offset; nullopt if there is no complete one.
std::optional<std::string> read_record(int descriptor, std::int64_t offset) {
  RecordHead head;
  if (!read_at(descriptor, offset, reinterpret_cast<char*>(&head), sizeof head))
    return std::nullopt;
  if (head.size == 0 || head.size > most_batch_bytes) return std::nullopt;
  std::string bytes(head.size, '\0');
  std::int64_t const begin = offset + static_cast<std::int64_t>(sizeof head);
  if (!read_at(descriptor, begin, bytes.data(), bytes.size())) return std::nullopt;
  if (checksum_of(bytes) != head.checksum) return std::nullopt;
  return bytes;
}

/// Writes all bytes at an offset. Returns 0, or the errno of the failure.
int write_all(int descriptor, std::int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t const count = ::pwrite(descriptor, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(count));
    offset += count;
  }
  return 0;
}

}  // namespace

SweepJournal::SweepJournal(std::filesystem::path path, JournalHeader const& header, Open open)
    : path_{std::move(path)} {
  int const flags = O_RDWR | O_CREAT | O_CLOEXEC | (open == Open::created ? O_EXCL : 0);
  descriptor_ = ::open(path_.c_str(), flags, 0666);
  if (descriptor_ < 0 && errno == EEXIST) {
    throw InputError{path_.string() +
                     ": found the journal of a sweep that has not ended; accepted: --resume to go "
                     "on with it, or another --output"};
  }
  if (descriptor_ < 0) fail(errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor_);
    throw OutputError{path_, "another process is running this sweep"};
  }
  try {
    read_header(header_text(header));
    read_records();
  } catch (...) {
    ::close(descriptor_);
    // A journal that could not be begun must not look like an unfinished sweep.
    if (open == Open::created) ::unlink(path_.c_str());
    throw;
  }
}

SweepJournal::~SweepJournal() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SweepJournal::read_header(std::string const& expected) {
  std::string found(expected.size(), '\0');
  begin_ = static_cast<std::int64_t>(expected.size());
  if (read_at(descriptor_, 0, found.data(), found.size()) && found == expected) return;
  // A process that is killed while it creates the journal leaves an incomplete header.
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail(errno);
  auto const size = static_cast<std::size_t>(status.st_size);
  bool const is_torn = size < expected.size() && expected.compare(0, size, found, 0, size) == 0;
  if (!is_torn) {
    std::string names = "another sweep file (or files that it names have changed)";
    std::istringstream ours{expected};
    std::istringstream theirs{found};
    std::string our_line;
    std::string their_line;
    while (std::getline(ours, our_line) && std::getline(theirs, their_line)) {
      if (our_line == their_line) continue;
      if (our_line.starts_with("shard")) names = printable(their_line);
      if (our_line.starts_with("program")) names = "another version, " + printable(their_line);
      if (our_line.starts_with("stagecraft")) names = "something else";
      break;
    }
    throw InputError{path_.string() + ": found a journal of " + names +
                     "; accepted: that of this sweep; remove it to start over"};
  }
  if (int const error = write_all(descriptor_, 0, expected)) fail(error);
}

void SweepJournal::read_records() {
  end_ = begin_;
  while (auto const record = read_record(descriptor_, end_)) {
    auto const batch = decode_batch(*record);
    if (!batch || batch->number >= most_batches) break;
    auto const number = static_cast<std::size_t>(batch->number);
    if (number >= batches_.size()) batches_.resize(number + 1);
    batches_[number] = true;
    rows_ += static_cast<std::int64_t>(batch->rows.size());
    end_ += static_cast<std::int64_t>(sizeof(RecordHead) + record->size());
  }
  if (::ftruncate(descriptor_, end_) != 0) fail(errno);
}

bool SweepJournal::has(std::int64_t batch) const {
  auto const number = static_cast<std::size_t>(batch);
  return number < batches_.size() && batches_[number];
}

void SweepJournal::append(std::int64_t batch, std::vector<SweepRow> const& rows) {
  std::string const bytes = encode_batch(batch, rows);
  RecordHead const head{static_cast<std::uint32_t>(bytes.size()), checksum_of(bytes)};
  std::array<char, sizeof head> raw{};
  std::memcpy(raw.data(), &head, sizeof head);
  std::string record{raw.data(), raw.size()};
  record += bytes;
  if (int const error = write_all(descriptor_, end_, record)) {
    static_cast<void>(::ftruncate(descriptor_, end_));
    fail(error);
  }
  end_ += static_cast<std::int64_t>(record.size());
  rows_ += static_cast<std::int64_t>(rows.size());
  auto const number = static_cast<std::size_t>(batch);
  if (number >= batches_.size()) batches_.resize(number + 1);
  batches_[number] = true;
}

void SweepJournal::for_each(std::function<void(SweepRow&&)> const& take) const {
  for (std::int64_t offset = begin_; offset < end_;) {
    auto const record = read_record(descriptor_, offset);
    auto batch = record ? decode_batch(*record) : std::nullopt;
    if (!batch) throw OutputError{path_, "it has changed since it was written"};
    for (SweepRow& row : batch->rows) take(std::move(row));
    offset += static_cast<std::int64_t>(sizeof(RecordHead) + record->size());
  }
}

std::map<std::string, std::int64_t> SweepJournal::warnings() const {
  std::map<std::string, std::int64_t> rows;
  for_each([&](SweepRow&& row) {
    for (std::string const& warning : row.warnings) ++rows[warning];
  });
  return rows;
}

void SweepJournal::remove() { ::unlink(path_.c_str()); }

void SweepJournal::fail(int error) const {
  throw OutputError{path_, std::system_category().message(error)};
}

}  // namespace stagecraft
