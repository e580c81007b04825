#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "libsim/host/file_error.hpp"

namespace stagecraft {

/// Training data or a checkpoint cannot be read. The message says which file and what is wrong.
class DataError : public InputError {
 public:
  using InputError::InputError;
};

/// The training data: sequences of token ids, numbered from 0. A sequence has one token more than
/// the model's sequence length, because a label is the next token, and one more for each module of
/// multi-token prediction. Thread-safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// Reads tokens [first, first + tokens.size()) of a sequence.
  virtual void read(std::int64_t number,
                    std::int64_t first,
                    std::span<std::int64_t> tokens) const = 0;
};

/// Uniformly random tokens below `vocabulary`, from a counter, so every layout has the same.
std::unique_ptr<TokenSource> synthetic_tokens(std::int64_t vocabulary, std::uint32_t seed);

/// The bytes of a file as tokens, read when they are needed. Sequence n begins at byte
/// n * `sequence`; after the end of the file it continues at the start.
/// \throws DataError  if it cannot be read, is not a file on a disk, is shorter than a sequence, or
///         if `vocabulary` is below 256.
std::unique_ptr<TokenSource> file_tokens(std::filesystem::path const& path,
                                         std::int64_t vocabulary,
                                         std::int64_t sequence);

}  // namespace stagecraft
