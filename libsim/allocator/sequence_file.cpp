#include "libsim/allocator/sequence_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "libsim/allocator/sequence_text.hpp"
#include "libsim/allocator/snapshot_sequence.hpp"
#include "libsim/host/file_error.hpp"

namespace stagecraft {
namespace {

/// The opcode PROTO, with which all pickles from protocol 2 on begin.
constexpr char start_of_pickle = '\x80';
constexpr std::size_t most_bytes = std::size_t{2} << 30;

struct Close {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, Close>;

}  // namespace

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
