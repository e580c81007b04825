#pragma once

#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

/// Rows in chunks [outer, inner] that become [inner, outer].
namespace stagecraft {

/// The rows of each chunk, in the order before chunks are moved or after it.
struct ChunkCounts {
  ChunkAttributes chunks;
  std::int32_t const* counts = nullptr;  ///< in one of the two orders, as the attributes say
  bool is_moved = false;                 ///< the order of those asked for

  STAGECRAFT_HOST_DEVICE std::int64_t operator()(std::int64_t chunk) const {
    // The counts are in the order of the chunks, before they are moved or after it.
    std::int64_t const outer = is_moved ? chunks.inner : chunks.outer;
    std::int64_t const inner = is_moved ? chunks.outer : chunks.inner;
    if (is_moved == chunks.by_inner) return counts[chunk];
    return counts[chunk % inner * outer + chunk / inner];
  }
};

/// The number of a chunk after the move, which takes (i, j) to (j, i).
STAGECRAFT_HOST_DEVICE inline std::int64_t moved_chunk(ChunkAttributes const& chunks,
                                                       std::int64_t chunk) {
  return chunk % chunks.inner * chunks.outer + chunk / chunks.inner;
}

inline std::int64_t chunk_count(ChunkAttributes const& chunks) {
  return chunks.outer * chunks.inner;
}

/// Elements of a row.
inline std::int64_t row_elements(Operand const& rows) {
  return rows.shape[0] == 0 ? 0 : rows.shape.elements() / rows.shape[0];
}

/// Expects the operands of transpose_chunks. Returns the counts, or null if chunks are equal.
inline std::int32_t const* expect_chunks(KernelCall const& call) {
  std::int64_t const chunks = chunk_count(attributes_of<ChunkAttributes>(call));
  bool const is_uneven = call.reads.size() == call.writes.size() + 1;
  expect(call, is_uneven || call.reads.size() == call.writes.size(), "an operand has no result");
  for (std::size_t i = 0; i < call.writes.size(); ++i) {
    Operand const& from = call.reads[i];
    expect_tensor(call, call.writes[i], from.type, from.shape);
    expect_elements(call, from, from.type, from.shape.elements());
    expect(call, is_uneven || from.shape[0] % chunks == 0, "rows are not a multiple of the chunks");
  }
  if (!is_uneven) return nullptr;
  Operand const& counts = call.reads[call.writes.size()];
  expect_tensor(call, counts, ElementType::i32, counts.shape);
  expect(call, counts.shape.elements() == chunks, "there are not as many counts as chunks");
  return elements_of<std::int32_t>(counts);
}

}  // namespace stagecraft
