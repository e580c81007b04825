#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace stagecraft {

/// What a model is trained on: sequences of token ids, numbered from 0. A sequence has one token
/// more than the model's length, because labels are the tokens that follow. Thread-safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// Tokens [0, count) of a sequence.
  virtual std::vector<std::int64_t> sequence(std::int64_t number, std::int64_t count) const = 0;
};

/// Uniformly random tokens below `vocabulary`, by counter: the same for every layout.
std::unique_ptr<TokenSource> synthetic_tokens(std::int64_t vocabulary, std::uint32_t seed);

/// The bytes of a file, each a token: sequence n begins at byte n * (count - 1), from the start
/// again behind the end.
/// \throws DataError  when it cannot be read, is shorter than a sequence, or `vocabulary` is below
///         256.
std::unique_ptr<TokenSource> file_tokens(std::filesystem::path const& path,
                                         std::int64_t vocabulary,
                                         std::int64_t sequence);

}  // namespace stagecraft
