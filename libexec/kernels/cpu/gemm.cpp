#include <cblas.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "libexec/kernels/cpu/matrix_batch.hpp"
#include "libexec/kernels/cpu/openblas.hpp"
#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"
#include "libexec/kernels/operands/quantised_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

int as_int(std::int64_t value) { return static_cast<int>(value); }
CBLAS_TRANSPOSE transposed(bool holds) { return holds ? CblasTrans : CblasNoTrans; }

/// C = A B + beta C for one matrix each, row-major.
void multiply(GemmShape const& g,
              float const* a,
              std::int64_t lda,
              float const* b,
              std::int64_t ldb,
              float beta,
              float* c,
              std::int64_t ldc) {
  cblas_sgemm(CblasRowMajor, transposed(g.transpose_a), transposed(g.transpose_b), as_int(g.m),
              as_int(g.n), as_int(g.k), 1, a, as_int(lda), b, as_int(ldb), beta, c, as_int(ldc));
}
void multiply(GemmShape const& g,
              double const* a,
              std::int64_t lda,
              double const* b,
              std::int64_t ldb,
              double beta,
              double* c,
              std::int64_t ldc) {
  cblas_dgemm(CblasRowMajor, transposed(g.transpose_a), transposed(g.transpose_b), as_int(g.m),
              as_int(g.n), as_int(g.k), 1, a, as_int(lda), b, as_int(ldb), beta, c, as_int(ldc));
}

/// float and double: BLAS reads and writes the operands in place.
template <typename C>
void multiply_in_place(KernelContext const& context, MatrixProduct const& p) {
  auto const one = [&](std::int64_t index, int) {
    multiply(p.shape, p.a.matrix<C>(index), p.a.row_stride, p.b.matrix<C>(index), p.b.row_stride,
             p.shape.accumulate ? C{1} : C{0}, p.c.matrix<C>(index), p.c.row_stride);
  };
  if (p.shape.batch == 1 || context.pool->threads() == 1) {
    for (std::int64_t index = 0; index < p.shape.batch; ++index) one(index, 0);
    return;
  }
  // For many small products, one thread per product is faster than several threads on each.
  SingleThreadedOpenBlas const alone;
  context.pool->run(p.shape.batch, one);
}

/// The rows of the matrices of an operand that is stored as S.
template <typename S>
struct StoredRows {
  MatrixBatch const& matrices;

  /// Writes columns [first, first + n) of a row of a matrix to `to`.
  void read(std::int64_t matrix,
            std::int64_t row,
            std::int64_t first,
            std::int64_t n,
            Compute<S>* to) const {
    S const* const x = matrices.matrix<S>(matrix) + row * matrices.row_stride + first;
    for (std::int64_t i = 0; i < n; ++i) to[i] = widen(x[i]);
  }
};

/// Those of a quantised operand, times their scales.
struct QuantisedRows {
  QuantisedMatrix all;  ///< one matrix behind the other
  std::int64_t rows_of_one = 0;

  void read(
      std::int64_t matrix, std::int64_t row, std::int64_t first, std::int64_t n, float* to) const {
    all.read(matrix * rows_of_one + row, first, n, to);
  }
};

/// A rectangle of one matrix of an operand, as stored.
struct StoredBlock {
  std::int64_t matrix = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t column = 0;
  std::int64_t columns = 0;
};

/// Indices [first, first + count) of a matrix.
struct IndexRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// The block of an operand that a product sums over `depth`, and whose other indices are `side`.
/// `has_depth_rows`: the operand is stored with a row for each index of the sum.
StoredBlock block_of(std::int64_t matrix, IndexRange side, IndexRange depth, bool has_depth_rows) {
  if (has_depth_rows) return {matrix, depth.first, depth.count, side.first, side.count};
  return {matrix, side.first, side.count, depth.first, depth.count};
}

/// A block of a matrix, widened: rows and columns as stored.
template <typename Rows>
void widen_block(KernelContext const& context, Rows const& x, StoredBlock const& block, float* to) {
  for_row_ranges(
      *context.pool, block.rows, block.columns, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          x.read(block.matrix, block.row + i, block.column, block.columns, to + i * block.columns);
        }
      });
}

/// 16-bit operands, and quantised ones: blocks are widened into the workspace, summed in float over
/// all of k and narrowed once. An f32 result is summed in place.
template <typename T, typename A, typename B>
void multiply_widened(KernelContext const& context,
                      MatrixProduct const& p,
                      A const& rows_a,
                      B const& rows_b) {
  GemmShape const& g = p.shape;
  auto* const a = reinterpret_cast<float*>(context.workspace.data());
  float* const b = a + widened_m * widened_k;
  float* const sums = b + widened_k * widened_n;
  constexpr bool in_place = std::is_same_v<T, float>;
  for (std::int64_t index = 0; index < g.batch; ++index) {
    for (std::int64_t i = 0; i < g.m; i += widened_m) {
      for (std::int64_t j = 0; j < g.n; j += widened_n) {
        GemmShape block = g;
        block.m = std::min(widened_m, g.m - i);
        block.n = std::min(widened_n, g.n - j);
        T* const target = p.c.matrix<T>(index) + i * p.c.row_stride + j;
        for (std::int64_t k = 0; k < g.k; k += widened_k) {
          block.k = std::min(widened_k, g.k - k);
          StoredBlock const block_a = block_of(index, {i, block.m}, {k, block.k}, g.transpose_a);
          StoredBlock const block_b = block_of(index, {j, block.n}, {k, block.k}, !g.transpose_b);
          std::int64_t const a_columns = block_a.columns;
          std::int64_t const b_columns = block_b.columns;
          widen_block(context, rows_a, block_a, a);
          widen_block(context, rows_b, block_b, b);
          bool const adds = k > 0 || (in_place && g.accumulate);
          if constexpr (in_place) {
            multiply(block, a, a_columns, b, b_columns, adds ? 1.F : 0.F, target, p.c.row_stride);
          } else {
            multiply(block, a, a_columns, b, b_columns, adds ? 1.F : 0.F, sums, block.n);
          }
        }
        if constexpr (in_place) continue;
        for_row_ranges(*context.pool, block.m, block.n, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = begin; row < end; ++row) {
            T* const to = target + row * p.c.row_stride;
            float const* const from = sums + row * block.n;
            for (std::int64_t e = 0; e < block.n; ++e) {
              to[e] = narrow<T>(g.accumulate ? widen(to[e]) + from[e] : from[e]);
            }
          }
        });
      }
    }
  }
}

/// The sides of the tiles of products that are summed by loops of our own, and their depth.
constexpr std::int64_t tile_side = 64;
constexpr std::int64_t tile_depth = 256;

/// A block of op(X), X stored as it is or transposed, widened into rows of `stride`, the columns up
/// to `stride` filled with zeros.
template <typename C, typename Rows>
void pack(Rows const& x, StoredBlock const& block, bool transpose, C* to, std::int64_t stride) {
  std::int64_t const rows = transpose ? block.columns : block.rows;
  std::int64_t const columns = transpose ? block.rows : block.columns;
  if (transpose) {
    C stored[tile_depth];
    for (std::int64_t column = 0; column < columns; ++column) {
      x.read(block.matrix, block.row + column, block.column, rows, stored);
      for (std::int64_t row = 0; row < rows; ++row) to[row * stride + column] = stored[row];
    }
  } else {
    for (std::int64_t row = 0; row < rows; ++row) {
      x.read(block.matrix, block.row + row, block.column, columns, to + row * stride);
    }
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    std::fill(to + row * stride + columns, to + (row + 1) * stride, C{0});
  }
}

/// Loops of our own over tiles of 64 x 64; every element is summed over k in ascending order.
template <typename T, typename C, typename A, typename B>
void multiply_plainly(KernelContext const& context,
                      MatrixProduct const& p,
                      A const& rows_a,
                      B const& rows_b) {
  constexpr std::int64_t side = tile_side;
  constexpr std::int64_t depth = tile_depth;
  GemmShape const& g = p.shape;
  std::int64_t const tiles_m = (g.m + side - 1) / side;
  std::int64_t const tiles_n = (g.n + side - 1) / side;
  context.pool->run(g.batch * tiles_m * tiles_n, [&](std::int64_t task, int worker) {
    Scratch<C> scratch{context, worker};
    C* const a = scratch.take(side * depth);
    C* const b = scratch.take(depth * side);
    C* const sums = scratch.take(side * side);
    std::int64_t const index = task / (tiles_m * tiles_n);
    std::int64_t const i = task / tiles_n % tiles_m * side;
    std::int64_t const j = task % tiles_n * side;
    GemmShape block = g;
    block.m = std::min(side, g.m - i);
    block.n = std::min(side, g.n - j);
    std::int64_t const n = block.n;
    std::fill_n(sums, side * side, C{0});
    for (std::int64_t k = 0; k < g.k; k += depth) {
      block.k = std::min(depth, g.k - k);
      pack(rows_a, block_of(index, {i, block.m}, {k, block.k}, g.transpose_a), g.transpose_a, a,
           depth);
      pack(rows_b, block_of(index, {j, block.n}, {k, block.k}, !g.transpose_b), g.transpose_b, b,
           side);
      add_product(LeftTile<C>{a, depth, 1}, b, side, sums, side, block.m, padded<C>(n), block.k);
    }
    for (std::int64_t row = 0; row < block.m; ++row) {
      T* const to = p.c.matrix<T>(index) + (i + row) * p.c.row_stride + j;
      C const* const from = sums + row * side;
      for (std::int64_t column = 0; column < n; ++column) {
        to[column] = narrow<T>(g.accumulate ? widen(to[column]) + from[column] : from[column]);
      }
    }
  });
}

template <typename S, typename T>
void multiply_as(KernelContext const& context, MatrixProduct const& p) {
  StoredRows<S> const a{p.a};
  StoredRows<S> const b{p.b};
  if (context.gemm == GemmKind::plain) {
    multiply_plainly<T, Compute<S>>(context, p, a, b);
  } else if constexpr (is_narrow<S>) {
    multiply_widened<T>(context, p, a, b);
  } else {
    multiply_in_place<S>(context, p);
  }
}

/// Both operands are quantised. Elements are multiplied by their scales before they are summed.
void multiply_quantised(KernelContext const& context,
                        KernelCall const& call,
                        MatrixProduct const& p) {
  QuantisedRows const a{{call, call.reads[0]}, p.a.rows};
  QuantisedRows const b{{call, call.reads[1]}, p.b.rows};
  with_storage_type(call.kind, p.c.type, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_same_v<T, double>) {
      refuse(call.kind, "products of quantised operands are not summed in double");
    } else if (context.gemm == GemmKind::plain) {
      multiply_plainly<T, float>(context, p, a, b);
    } else {
      multiply_widened<T>(context, p, a, b);
    }
  });
}

void multiply_of(KernelContext const& context,
                 KernelCall const& call,
                 MatrixProduct const& product) {
  if (is_quantised(product.a.type)) {
    expect(call, is_quantised(product.b.type), "A is quantised and B is not");
    return multiply_quantised(context, call, product);
  }
  with_storage_type(call.kind, product.a.type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    expect(call, product.b.type == product.a.type, "A and B differ in type");
    if (product.c.type == element_type<S>()) return multiply_as<S, S>(context, product);
    expect(call, product.c.type == element_type<C>(), "C is of the wrong type");
    multiply_as<S, C>(context, product);
  });
}

}  // namespace

void gemm(KernelContext const& context, KernelCall const& call) {
  expect(call, call.reads.size() == 2, "products on the CPU do not add a bias");
  multiply_of(context, call, product_of(call));
}

void grouped_gemm(KernelContext const& context, KernelCall const& call) {
  if (call.reads.size() == 2) {
    multiply_of(context, call, grouped_product_of(call));
    return;
  }
  expect(call, !is_quantised(call.reads[0].type),
         "groups of quantised rows have equally many of them");
  for (MatrixProduct const& product : uneven_products_of(call)) multiply_of(context, call, product);
}

}  // namespace stagecraft::STAGECRAFT_ISA
