#include <cstdint>
#include <cstring>
#include <vector>

#include "libexec/kernels/chunk_rows.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// The first row of each chunk, and after it that of the last.
std::vector<std::int64_t> chunk_starts(ChunkCounts const& counts) {
  std::vector<std::int64_t> starts{0};
  for (std::int64_t chunk = 0; chunk < chunk_count(counts.chunks); ++chunk) {
    starts.push_back(starts.back() + counts(chunk));
  }
  return starts;
}

/// Copies chunks of different sizes.
void transpose_uneven(KernelContext const& context,
                      KernelCall const& call,
                      std::int32_t const* counts,
                      Operand const& from,
                      Operand const& to) {
  auto const& chunks = attributes_of<ChunkAttributes>(call);
  std::vector<std::int64_t> const first = chunk_starts({chunks, counts, false});
  std::vector<std::int64_t> const moved = chunk_starts({chunks, counts, true});
  expect(call, first.back() <= from.shape[0], "there are more rows than the plan has room for");
  std::int64_t const bytes = row_elements(from) * element_size(from.type);
  std::int64_t const count = chunk_count(chunks);
  for_row_ranges(*context.pool, count, from.shape.elements() / count,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t chunk = begin; chunk < end; ++chunk) {
                     std::int64_t const target = moved_chunk(chunks, chunk);
                     std::int64_t const source_row = first[static_cast<std::size_t>(chunk)];
                     std::int64_t const rows =
                         first[static_cast<std::size_t>(chunk) + 1] - source_row;
                     if (rows == 0) continue;
                     std::memcpy(static_cast<std::byte*>(to.data) +
                                     moved[static_cast<std::size_t>(target)] * bytes,
                                 static_cast<std::byte const*>(from.data) + source_row * bytes,
                                 static_cast<std::size_t>(rows * bytes));
                   }
                 });
}

/// Copies chunks of equal size.
void transpose(KernelContext const& context,
               KernelCall const& call,
               Operand const& from,
               Operand const& to) {
  auto const& chunks = attributes_of<ChunkAttributes>(call);
  std::int64_t const count = chunk_count(chunks);
  std::int64_t const elements = from.shape.elements() / count;
  auto const bytes = elements * element_size(from.type);
  for_row_ranges(*context.pool, count, elements, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      std::memcpy(static_cast<std::byte*>(to.data) + moved_chunk(chunks, chunk) * bytes,
                  static_cast<std::byte const*>(from.data) + chunk * bytes,
                  static_cast<std::size_t>(bytes));
    }
  });
}

}  // namespace

void transpose_chunks(KernelContext const& context, KernelCall const& call) {
  std::int32_t const* const counts = expect_chunks(call);
  for (std::size_t i = 0; i < call.writes.size(); ++i) {
    if (counts != nullptr) {
      transpose_uneven(context, call, counts, call.reads[i], call.writes[i]);
    } else {
      transpose(context, call, call.reads[i], call.writes[i]);
    }
  }
}

}  // namespace stagecraft::STAGECRAFT_ISA
