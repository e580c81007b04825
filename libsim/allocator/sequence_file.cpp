#include "libsim/allocator/sequence_file.hpp"

#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "libsim/allocator/sequence_text.hpp"
#include "libsim/host/file_error.hpp"

namespace stagecraft {
namespace {

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

AllocationSequence read_sequence_file(std::filesystem::path const& path) {
  return read_sequence_text(read_inflated(path), path.string());
}

}  // namespace stagecraft
