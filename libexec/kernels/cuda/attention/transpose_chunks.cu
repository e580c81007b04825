#include "libexec/kernels/cuda/block_scan.cuh"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/expert_rows.hpp"
#include "libsim/units/sorted_search.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// The rows of chunks in both orders.
struct ChunkRows {
  ChunkAttributes chunks;
  std::int64_t rows_per_chunk;  ///< of equal chunks
  /// The first row of each chunk, and after it that of the last, before the chunks are moved and
  /// after it; null if chunks are equal.
  std::int64_t const* first;
  std::int64_t const* moved;

  __device__ bool is_used(std::int64_t row) const {
    return first == nullptr || row < first[chunks.outer * chunks.inner];
  }
  /// The row that a row is moved to. Pre: is_used(row).
  __device__ std::int64_t target_of(std::int64_t row) const {
    if (first == nullptr) {
      std::int64_t const chunk = row / rows_per_chunk;
      return moved_chunk(chunks, chunk) * rows_per_chunk + row - chunk * rows_per_chunk;
    }
    // The last chunk that begins at the row, or before it, is the one that has it: those before it
    // that begin there are empty.
    std::int64_t const chunk = first_above(first, chunks.outer * chunks.inner, row) - 1;
    return moved[moved_chunk(chunks, chunk)] + row - first[chunk];
  }
};

/// Copies each row to where its chunk goes.
template <typename S>
struct MoveRows {
  static constexpr int in_flight = 2;
  ChunkRows rows;
  std::int64_t columns;
  std::int64_t room;
  S const* from;
  S* to;

  template <int width>
  struct Loaded {
    Pack<S, width> values;
    std::int64_t target;  ///< the row; -1: there is none
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    bool const is_used = rows.is_used(at.row);
    return {load_pack_or_zeros<width>(is_used ? from : nullptr, at.element),
            is_used ? rows.target_of(at.row) : -1};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    if (in.target < 0 || in.target >= room) return;
    store_pack(to + in.target * columns + at.column, in.values);
  }
};

}  // namespace

void transpose_chunks(CudaContext const& context, KernelCall const& call) {
  std::int32_t const* const counts = expect_chunks(call);
  auto const& chunks = attributes_of<ChunkAttributes>(call);
  std::int64_t const count = chunk_count(chunks);
  ChunkRows rows{.chunks = chunks, .rows_per_chunk = 0, .first = nullptr, .moved = nullptr};
  if (counts != nullptr) {
    expect(call, 2 * (count + 1) * sizeof(std::int64_t) <= CudaContext::scratch_bytes,
           "there are more chunks than scratch memory has room for");
    auto* const first = context.scratch_of<std::int64_t>();
    std::int64_t* const moved = first + count + 1;
    launch_running_sums(context.stream, ChunkCounts{chunks, counts, false}, count, first);
    launch_running_sums(context.stream, ChunkCounts{chunks, counts, true}, count, moved);
    rows.first = first;
    rows.moved = moved;
  }
  for (std::size_t i = 0; i < call.writes.size(); ++i) {
    Operand const& from = call.reads[i];
    rows.rows_per_chunk = from.shape[0] / count;
    with_storage_type(call.kind, from.type, [&](auto tag) {
      using S = decltype(tag);
      std::int64_t const columns = row_elements(from);
      MoveRows<S> const body{rows, columns, from.shape[0], elements_of<S>(from),
                             elements_of<S>(call.writes[i])};
      constexpr int width = pack_width<S>;
      launch_element_wise<width>(context.stream, extent_of(from.shape[0], columns),
                                 can_pack(width, body.from, body.to), body);
    });
  }
}

}  // namespace stagecraft::cuda_ops
