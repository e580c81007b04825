#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/sweep/sweep_columns.hpp"

namespace stagecraft {

/// Encodes a batch of rows, for files that the same machine reads again.
std::string encode_batch(std::int64_t batch, std::vector<SweepRow> const& rows);

struct SweepBatch {
  std::int64_t number = 0;
  std::vector<SweepRow> rows;
};

/// The inverse; nullopt if the bytes are not a batch.
std::optional<SweepBatch> decode_batch(std::string_view bytes);

}  // namespace stagecraft
