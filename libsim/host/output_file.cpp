#include "libsim/host/output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <system_error>
#include <utility>

#include "libsim/host/file_error.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t piece = std::size_t{1} << 20;

std::string reason_of(int error) { return std::system_category().message(error); }

}  // namespace

OutputFile::OutputFile(std::filesystem::path const& path) : path_{path}, partial_{path} {
  partial_ += ".partial";
  // The rename would replace a device, and would fail on a folder only after all work is done.
  std::error_code error;
  if (std::filesystem::exists(path_, error) && !std::filesystem::is_regular_file(path_, error)) {
    throw OutputError{path_, "it exists and is not a regular file"};
  }
  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw OutputError{path_, reason_of(errno)};
}

OutputFile::~OutputFile() { discard(); }

void OutputFile::write(std::string_view bytes) {
  assert(descriptor_ >= 0 && "nothing can be added to a finished file");
  if (waiting_.size() + bytes.size() < piece) {
    waiting_ += bytes;
    return;
  }
  put(waiting_);
  waiting_.clear();
  put(bytes);
}

void OutputFile::finish() {
  put(waiting_);
  waiting_.clear();
  int const descriptor = std::exchange(descriptor_, -1);
  // The file must be on the disk before it has its name: what it replaces, or was made from, may
  // then be deleted.
  bool const is_stored = ::fsync(descriptor) == 0 || errno == EINVAL;
  // Network file systems report a full disk only here.
  if (::close(descriptor) != 0 || !is_stored || ::rename(partial_.c_str(), path_.c_str()) != 0) {
    int const error = errno;
    ::unlink(partial_.c_str());
    throw OutputError{path_, reason_of(error)};
  }
}

void OutputFile::put(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t const count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

void OutputFile::fail(int error) {
  discard();
  throw OutputError{path_, reason_of(error)};
}

void OutputFile::discard() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(partial_.c_str());
  descriptor_ = -1;
}

void require_writable(std::filesystem::path const& path) { OutputFile const unfinished{path}; }

void write_output(std::filesystem::path const& path, std::string_view text) {
  OutputFile file{path};
  file.write(text);
  file.finish();
}

}  // namespace stagecraft
