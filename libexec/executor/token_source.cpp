#include "libexec/executor/token_source.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "libexec/executor/data_error.hpp"
#include "libexec/kernels/philox.hpp"

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

class FileTokens : public TokenSource {
 public:
  FileTokens(std::vector<unsigned char> bytes, std::int64_t sequence)
      : bytes_{std::move(bytes)}, sequence_{sequence} {}

  void read(std::int64_t number,
            std::int64_t first,
            std::span<std::int64_t> tokens) const override {
    auto const begin = static_cast<std::uint64_t>(number * sequence_ + first);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = bytes_[(begin + i) % bytes_.size()];
    }
  }

 private:
  std::vector<unsigned char> bytes_;
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
  if (std::filesystem::is_directory(path, error)) {
    throw DataError{found + ", a folder; accepted: a file"};
  }
  std::ifstream file{path, std::ios::binary};
  if (!file) {
    throw DataError{found + " (" + std::strerror(errno) + "); accepted: a file that can be read"};
  }
  std::vector<unsigned char> bytes{std::istreambuf_iterator<char>{file}, {}};
  if (file.bad()) {
    throw DataError{found +
                    ", which could not be read to its end; accepted: a file that can be read"};
  }
  if (static_cast<std::int64_t>(bytes.size()) <= sequence) {
    throw DataError{found + " of " + std::to_string(bytes.size()) +
                    " bytes; accepted: more than model.sequence (" + std::to_string(sequence) +
                    ")"};
  }
  return std::make_unique<FileTokens>(std::move(bytes), sequence);
}

}  // namespace stagecraft
