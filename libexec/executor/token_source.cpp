#include "libexec/executor/token_source.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "libexec/kernels/dropout.hpp"

namespace stagecraft {
namespace {

class SyntheticTokens : public TokenSource {
 public:
  SyntheticTokens(std::int64_t vocabulary, std::uint32_t seed)
      : vocabulary_{static_cast<std::uint64_t>(vocabulary)}, seed_{seed} {}

  void read(std::int64_t number,
            std::int64_t first,
            std::span<std::int64_t> tokens) const override {
    auto const n = static_cast<std::uint64_t>(number);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      auto const position = static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(i);
      PhiloxBlock const words = philox(
          {{static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), position, stream}},
          seed_, stream);
      tokens[i] = static_cast<std::int64_t>(words.word[0] * vocabulary_ >> 32);
    }
  }

 private:
  static constexpr std::uint32_t stream = 0xda7a0000U;  ///< differs from masks and parameters
  std::uint64_t vocabulary_;
  std::uint32_t seed_;
};

/// A file that is read where somebody looks, however large it is.
class MappedFile {
 public:
  /// \throws std::system_error
  explicit MappedFile(std::filesystem::path const& path) {
    int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw std::system_error{errno, std::system_category()};
    size_ = std::filesystem::file_size(path);
    void* const start = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    int const error = errno;
    ::close(descriptor);
    if (start == MAP_FAILED) throw std::system_error{error, std::system_category()};
    bytes_ = static_cast<unsigned char const*>(start);
  }
  ~MappedFile() { ::munmap(const_cast<unsigned char*>(bytes_), size_); }
  MappedFile(MappedFile const&) = delete;
  MappedFile(MappedFile&&) = delete;
  MappedFile& operator=(MappedFile const&) = delete;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<unsigned char const> bytes() const { return {bytes_, size_}; }

 private:
  unsigned char const* bytes_ = nullptr;
  std::size_t size_ = 0;
};

class FileTokens : public TokenSource {
 public:
  FileTokens(std::filesystem::path const& path, std::int64_t sequence)
      : file_{path}, sequence_{sequence} {}

  void read(std::int64_t number,
            std::int64_t first,
            std::span<std::int64_t> tokens) const override {
    auto const begin = static_cast<std::uint64_t>(number * sequence_ + first);
    std::span<unsigned char const> const bytes = file_.bytes();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = bytes[(begin + i) % bytes.size()];
    }
  }

 private:
  MappedFile file_;
  std::int64_t sequence_;
};

}  // namespace

std::unique_ptr<TokenSource> synthetic_tokens(std::int64_t vocabulary, std::uint32_t seed) {
  return std::make_unique<SyntheticTokens>(vocabulary, seed);
}

std::unique_ptr<TokenSource> file_tokens(std::filesystem::path const& path,
                                         std::int64_t vocabulary,
                                         std::int64_t sequence) {
  std::string const found = "found '" + path.string() + "'";
  constexpr std::int64_t byte_values = 256;
  if (vocabulary < byte_values) {
    throw DataError{found + " for a model.vocabulary of " + std::to_string(vocabulary) +
                    "; accepted: one of 256 or more, as bytes are tokens"};
  }
  std::error_code error;
  std::filesystem::file_status const status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) {
    throw DataError{found + ", a folder; accepted: a file"};
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw DataError{
        found +
        ", a pipe or device, which cannot be read at any position; accepted: a file on a "
        "disk"};
  }
  std::uintmax_t const size = std::filesystem::file_size(path, error);
  if (!error && size <= static_cast<std::uintmax_t>(sequence)) {
    throw DataError{found + " of " + std::to_string(size) +
                    " bytes; accepted: more than model.sequence (" + std::to_string(sequence) +
                    ")"};
  }
  try {
    return std::make_unique<FileTokens>(path, sequence);
  } catch (std::system_error const& failure) {
    throw DataError{found + " (" + failure.code().message() +
                    "); accepted: a file that can be read"};
  }
}

}  // namespace stagecraft
