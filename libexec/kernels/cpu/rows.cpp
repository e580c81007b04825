#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/expert_rows.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"
#include "libexec/kernels/operands/head_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// Copies rows of the first operand, in this order, to those of the result.
template <typename S>
void copy_rows(KernelContext const& context, KernelCall const& call, RowOrder const& order) {
  Operand const rows = copied_rows<S>(call);
  Shape const& shape = rows.shape;
  HeadsView<S> const from{rows};
  std::int64_t const width = shape[1] * shape[2] * shape[3];
  for_row_ranges(*context.pool, shape[0], width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S* to = elements_of<S>(call.writes[0]) + row * width;
      std::int64_t const source = order.source_of(row);
      for (std::int64_t sequence = 0; sequence < shape[1]; ++sequence) {
        for (std::int64_t head = 0; head < shape[2]; ++head) {
          to = std::copy_n(from.head(source, sequence, head), shape[3], to);
        }
      }
    }
  });
}

template <typename S, typename F>
void scale(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  ScaledRows const all = expect_scaled_rows<S, F>(call);
  std::int64_t const width = all.width;
  RowFactor const kind = attributes_of<RowScaleAttributes>(call).factor;
  for_row_ranges(*context.pool, all.rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C const factor = factor_of(kind, C{widen(elements_of<F>(call.reads[1])[row])}).value;
      S const* const from = elements_of<S>(call.reads[0]) + row * width;
      S* const to = elements_of<S>(call.writes[0]) + row * width;
      for (std::int64_t i = 0; i < width; ++i) to[i] = narrow<S>(widen(from[i]) * factor);
    }
  });
}

template <typename S, typename F>
void scale_back(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  ScaledRows const all = expect_scaled_rows_backward<S, F>(call);
  std::int64_t const width = all.width;
  RowFactor const kind = attributes_of<RowScaleAttributes>(call).factor;
  for_row_ranges(*context.pool, all.rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      auto const factor = factor_of(kind, C{widen(elements_of<F>(call.reads[2])[row])});
      S const* const d = elements_of<S>(call.reads[0]) + row * width;
      S const* const from = elements_of<S>(call.reads[1]) + row * width;
      S* const dx = elements_of<S>(call.writes[0]) + row * width;
      C const product =
          lane_sum<C>(width, [&](std::int64_t i) { return C{widen(d[i])} * C{widen(from[i])}; });
      elements_of<F>(call.writes[1])[row] = narrow<F>(product * factor.slope);
      for (std::int64_t i = 0; i < width; ++i) dx[i] = narrow<S>(widen(d[i]) * factor.value);
    }
  });
}

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

void copy_tensor(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { copy_rows<decltype(tag)>(context, call, RowOrder{}); });
}

void reorder_rows(KernelContext const& context, KernelCall const& call) {
  RowOrder const order = row_order(call);
  with_storage_type(call, [&](auto tag) { copy_rows<decltype(tag)>(context, call, order); });
}

void zero_fill(KernelContext const& context, KernelCall const& call) {
  std::span<std::byte> const bytes = expect_zero_fill(call);
  auto const count = static_cast<std::int64_t>(bytes.size());
  for_row_ranges(*context.pool, count, 1, [&](std::int64_t begin, std::int64_t end) {
    std::fill_n(bytes.data() + begin, end - begin, std::byte{0});
  });
}

void scale_rows(KernelContext const& context, KernelCall const& call) {
  with_factor_types(call, call.reads[0], call.reads[1], [&](auto element, auto factor) {
    scale<decltype(element), decltype(factor)>(context, call);
  });
}

void scale_rows_backward(KernelContext const& context, KernelCall const& call) {
  with_factor_types(call, call.reads[1], call.reads[2], [&](auto element, auto factor) {
    scale_back<decltype(element), decltype(factor)>(context, call);
  });
}

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
