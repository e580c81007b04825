#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/sweep/sweep_columns.hpp"

namespace stagecraft {

/// A batch of rows as bytes, for files that the same machine reads again.
std::string encode_batch(std::int64_t batch, std::vector<SweepRow> const& rows);

struct SweepBatch {
  std::int64_t number = 0;
  std::vector<SweepRow> rows;
};

/// The other direction; nothing where the bytes are no batch.
std::optional<SweepBatch> decode_batch(std::string_view bytes);

}  // namespace stagecraft
