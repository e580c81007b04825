#include <algorithm>
#include <cmath>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/operands/quantised_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// A rectangle of a matrix.
struct Part {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t column = 0;
  std::int64_t columns = 0;
};

/// The rows of a matrix of S that is not quantised.
template <typename S>
struct PlainRows {
  S const* data = nullptr;
  std::int64_t columns = 0;

  auto at(std::int64_t row, std::int64_t column) const {
    return widen(data[row * columns + column]);
  }
};

/// A NaN on either side is kept.
inline float larger(float a, float b) { return b > a || b != b ? b : a; }

template <typename S>
float largest_of(PlainRows<S> const& x, Part const& part) {
  float largest = 0;
  for (std::int64_t i = part.row; i < part.row + part.rows; ++i) {
    for (std::int64_t j = part.column; j < part.column + part.columns; ++j) {
      largest = larger(largest, static_cast<float>(std::abs(x.at(i, j))));
    }
  }
  return largest;
}

template <NumberFormat const& format, typename S>
void cast(PlainRows<S> const& x, Part const& part, float factor, QuantisedMatrix const& to) {
  for (std::int64_t i = part.row; i < part.row + part.rows; ++i) {
    to.set_row(i, part.column, part.columns, [&](std::int64_t j) {
      return encode<format>(static_cast<float>(x.at(i, j)) * factor);
    });
  }
}

template <typename S>
void cast(PlainRows<S> const& x, Part const& part, float factor, QuantisedMatrix const& to) {
  switch (to.type()) {
    case ElementType::f8_e4m3:
      return cast<e4m3>(x, part, factor, to);
    case ElementType::f8_e5m2:
      return cast<e5m2>(x, part, factor, to);
    default:
      return cast<e2m1>(x, part, factor, to);
  }
}

/// One scale for a segment.
template <typename S>
void cast_whole(KernelContext const& context,
                PlainRows<S> const& x,
                Part const& segment,
                BlockScale const& scale,
                QuantisedMatrix const& to) {
  to.set_scale(segment.row, 0, scale);
  for_row_ranges(
      *context.pool, segment.rows, segment.columns, [&](std::int64_t begin, std::int64_t end) {
        cast(x, {segment.row + begin, end - begin, 0, segment.columns}, scale.factor, to);
      });
}

/// A scale for each block.
template <typename S>
void cast_blocks(KernelContext const& context,
                 Recipe recipe,
                 PlainRows<S> const& x,
                 Part const& segment,
                 TensorScale const& tensor,
                 QuantisedMatrix const& to) {
  float const largest = format_of(to.type()).largest;
  std::int64_t const height = to.measured_rows();
  std::int64_t const bands = (segment.rows + height - 1) / height;
  for_row_ranges(
      *context.pool, bands, height * segment.columns, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t band = begin; band < end; ++band) {
          std::int64_t const row = segment.row + band * height;
          std::int64_t const rows = std::min(height, segment.row + segment.rows - row);
          for (std::int64_t column = 0; column < segment.columns; column += to.measured_columns()) {
            Part const block{row, rows, column,
                             std::min(to.measured_columns(), segment.columns - column)};
            BlockScale const scale = block_scale(recipe, largest_of(x, block), largest, tensor);
            for (std::int64_t i = 0; i < block.rows; i += to.block_rows()) {
              for (std::int64_t j = 0; j < block.columns; j += to.block_columns()) {
                to.set_scale(row + i, column + j, scale);
              }
            }
            cast(x, block, scale.factor, to);
          }
        }
      });
}

/// `amax`: the largest magnitude of each segment, or null if it is found here.
template <typename S>
void quantise_into(KernelContext const& context,
                   Recipe recipe,
                   PlainRows<S> const& x,
                   float const* amax,
                   QuantisedMatrix const& to) {
  to.clear_scales();
  for (std::int64_t i = 0; i < to.segments(); ++i) {
    Part const segment{i * to.rows_of_segment(), to.rows_of_segment(), 0, to.columns()};
    bool const measures = to.has_one_scale() || to.has_tensor_scale();
    float const largest = amax != nullptr ? amax[i] : measures ? largest_of(x, segment) : 0;
    if (to.recipe() == Recipe::none) {
      cast_whole(context, x, segment, {}, to);
    } else if (to.has_one_scale()) {
      BlockScale const scale = block_scale(recipe, largest, format_of(to.type()).largest);
      cast_whole(context, x, segment, scale, to);
    } else {
      TensorScale const tensor = to.has_tensor_scale() ? tensor_scale(largest) : TensorScale{};
      if (to.has_tensor_scale()) to.set_tensor_scale(i, tensor.decode);
      cast_blocks(context, recipe, x, segment, tensor, to);
    }
  }
}

}  // namespace

void measure_amax(KernelContext const& context, KernelCall const& call) {
  Operand const& x = call.reads[0];
  Operand const& amax = call.writes[0];
  std::int64_t const groups = amax.shape.elements();
  auto* const largest = expect_elements<float>(call, amax, groups);
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    PlainMatrix const all = plain_matrix(x);
    expect(call, all.rows % groups == 0, "groups have no equal number of rows");
    PlainRows<S> const from{expect_elements<S>(call, x, all.rows * all.columns), all.columns};
    std::int64_t const each = all.rows / groups;
    for_row_ranges(*context.pool, groups, each * all.columns,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       largest[i] = largest_of(from, {i * each, each, 0, all.columns});
                     }
                   });
  });
}

void quantise(KernelContext const& context, KernelCall const& call) {
  Operand const& x = call.reads[0];
  Recipe const recipe = attributes_of<QuantiseAttributes>(call).recipe;
  for (Operand const& made : call.writes) {
    QuantisedMatrix const to{call, made};
    float const* amax = nullptr;
    if (call.reads.size() > 1) {
      amax = expect_elements<float>(call, call.reads[1], to.segments());
    }
    with_storage_type(call, [&](auto tag) {
      using S = decltype(tag);
      PlainRows<S> const from{expect_elements<S>(call, x, to.rows() * to.columns()), to.columns()};
      quantise_into(context, recipe, from, amax, to);
    });
  }
}

void transpose_quantised(KernelContext const& /*context*/, KernelCall const& call) {
  QuantisedMatrix const rows{call, call.reads[0]};
  QuantisedMatrix const columns{call, call.writes[0]};
  // Blocks along rows are not those along columns.
  expect(call, rows.has_one_scale() && columns.has_one_scale(),
         "only tensors with one scale are transposed");
  expect(call,
         call.reads[0].type == call.writes[0].type && call.reads[0].shape == call.writes[0].shape &&
             rows.segments() == columns.segments(),
         "the transposed tensor is of another kind");
  std::int64_t const bytes = rows.rows() * rows.columns() + call.reads[0].scales.bytes;
  std::copy_n(rows.elements(), bytes, columns.elements());
}

void dequantise(KernelContext const& context, KernelCall const& call) {
  QuantisedMatrix const from{call, call.reads[0]};
  Operand const& to = call.writes[0];
  with_storage_type(call.kind, to.type, [&](auto tag) {
    using S = decltype(tag);
    S* const y = expect_elements<S>(call, to, from.rows() * from.columns());
    for_row_ranges(*context.pool, from.rows(), from.columns(),
                   [&](std::int64_t begin, std::int64_t end) {
                     constexpr std::int64_t piece = 256;
                     float numbers[piece];
                     for (std::int64_t row = begin; row < end; ++row) {
                       for (std::int64_t first = 0; first < from.columns(); first += piece) {
                         std::int64_t const n = std::min(piece, from.columns() - first);
                         from.read(row, first, n, numbers);
                         S* const target = y + row * from.columns() + first;
                         for (std::int64_t i = 0; i < n; ++i) target[i] = narrow<S>(numbers[i]);
                       }
                     }
                   });
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
