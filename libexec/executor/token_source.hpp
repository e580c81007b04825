#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace stagecraft {

/// What a model is trained on: sequences of token ids, numbered from 0. A sequence has one token
/// more than the model's length, because labels are the tokens that follow. Thread-safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// Tokens [first, first + tokens.size()) of a sequence.
  virtual void read(std::int64_t number,
                    std::int64_t first,
                    std::span<std::int64_t> tokens) const = 0;
};

/// Uniformly random tokens below `vocabulary`, by counter: the same for every layout.
std::unique_ptr<TokenSource> synthetic_tokens(std::int64_t vocabulary, std::uint32_t seed);

/// The bytes of a file, each a token: sequence n begins at byte n * `sequence`, from the start
/// again behind the end.
/// \throws DataError  when it cannot be read, is shorter than a sequence, or `vocabulary` is below
///         256.
std::unique_ptr<TokenSource> file_tokens(std::filesystem::path const& path,
                                         std::int64_t vocabulary,
                                         std::int64_t sequence);

}  // namespace stagecraft
