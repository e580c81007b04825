#include "libsim/host/output_file.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "libsim/host/file_error.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t piece = std::size_t{1} << 20;

std::string reason_of(int error) { return std::system_category().message(error); }

}  // namespace

/// A stream of bytes that becomes a gzip file without a name and a time.
class OutputFile::Compressor {
 public:
  Compressor() {
    constexpr int gzip_window = 15 + 16;
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::bad_alloc{};
    }
  }
  ~Compressor() { deflateEnd(&stream_); }
  Compressor(Compressor const&) = delete;
  Compressor(Compressor&&) = delete;
  Compressor& operator=(Compressor const&) = delete;
  Compressor& operator=(Compressor&&) = delete;

  void add(std::string_view bytes) {
    // zlib does not write through this pointer, which is not const in its oldest interface.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
  }
  /// The next compressed bytes; empty if there are none before more is added.
  std::string_view next(bool is_last) {
    stream_.next_out = reinterpret_cast<Bytef*>(piece_.data());
    stream_.avail_out = static_cast<uInt>(piece_.size());
    deflate(&stream_, is_last ? Z_FINISH : Z_NO_FLUSH);
    return {piece_.data(), piece_.size() - stream_.avail_out};
  }

 private:
  z_stream stream_{};
  std::array<char, std::size_t{1} << 16> piece_{};
};

OutputFile::OutputFile(std::filesystem::path const& path) : path_{path}, partial_{path} {
  partial_ += ".partial";
  // The rename would replace a device, and would fail on a folder only after all work is done.
  std::error_code error;
  if (std::filesystem::exists(path_, error) && !std::filesystem::is_regular_file(path_, error)) {
    throw OutputError{path_, "it exists and is not a regular file"};
  }
  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw OutputError{path_, reason_of(errno)};
  if (path_.extension() == ".gz") compressor_ = std::make_unique<Compressor>();
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
  if (compressor_) put_compressed({}, true);
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
  if (!compressor_) {
    put_on_disk(bytes);
    return;
  }
  while (!bytes.empty()) {
    put_compressed(bytes.substr(0, piece), false);
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
}

void OutputFile::put_compressed(std::string_view bytes, bool is_last) {
  compressor_->add(bytes);
  for (std::string_view out = compressor_->next(is_last); !out.empty();
       out = compressor_->next(is_last)) {
    put_on_disk(out);
  }
}

void OutputFile::put_on_disk(std::string_view bytes) {
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
