#pragma once

#include <string>
#include <string_view>

#include "libsim/allocator/allocation_replay.hpp"
#include "libsim/allocator/make_allocator.hpp"
#include "libsim/allocator/sequence_file.hpp"

namespace stagecraft {

inline constexpr std::int64_t kib = 1024;
inline constexpr std::int64_t mib = 1024 * kib;

/// Settings that are known to be right.
inline AllocatorSettings settings_of(std::string_view text) {
  Diagnostics diagnostics;
  AllocatorSettings const settings = read_allocator_settings(text, {}, "", diagnostics);
  diagnostics.throw_if_any();
  return settings;
}

/// A sequence, its events separated by semicolons, replayed by PyTorch's allocator.
inline AllocationReplay replayed(std::string text,
                                 std::string_view settings = "",
                                 std::int64_t capacity = unlimited_capacity) {
  for (char& c : text) c = c == ';' ? '\n' : c;
  auto const allocator = make_allocator(AllocatorKind::pytorch, settings_of(settings), capacity);
  return replay(read_sequence_text(text, "test"), *allocator);
}

/// The bytes as a field of a sequence.
inline std::string text_of(std::int64_t bytes) { return std::to_string(bytes); }

}  // namespace stagecraft
