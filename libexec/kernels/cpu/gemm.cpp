#include <cblas.h>

#include <algorithm>

#include "libexec/kernels/cpu/matrix_batch.hpp"
#include "libexec/kernels/cpu/openblas.hpp"
#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"

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

/// A block of a matrix, widened: rows and columns as stored.
template <typename S>
void widen_block(KernelContext const& context,
                 S const* from,
                 std::int64_t stride,
                 std::int64_t rows,
                 std::int64_t columns,
                 float* to) {
  for_row_ranges(*context.pool, rows, columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S const* const x = from + row * stride;
      float* const y = to + row * columns;
      for (std::int64_t i = 0; i < columns; ++i) y[i] = widen(x[i]);
    }
  });
}

/// 16-bit operands: blocks are widened into the workspace, summed in float over all of k and
/// narrowed once. An f32 result is summed in place.
template <typename S, typename T>
void multiply_widened(KernelContext const& context, MatrixProduct const& p) {
  GemmShape const& g = p.shape;
  auto* const a = reinterpret_cast<float*>(context.workspace.data());
  float* const b = a + widened_m * widened_k;
  float* const sums = b + widened_k * widened_n;
  constexpr bool in_place = std::is_same_v<T, float>;
  for (std::int64_t index = 0; index < g.batch; ++index) {
    S const* const whole_a = p.a.matrix<S>(index);
    S const* const whole_b = p.b.matrix<S>(index);
    for (std::int64_t i = 0; i < g.m; i += widened_m) {
      for (std::int64_t j = 0; j < g.n; j += widened_n) {
        GemmShape block = g;
        block.m = std::min(widened_m, g.m - i);
        block.n = std::min(widened_n, g.n - j);
        T* const target = p.c.matrix<T>(index) + i * p.c.row_stride + j;
        for (std::int64_t k = 0; k < g.k; k += widened_k) {
          block.k = std::min(widened_k, g.k - k);
          std::int64_t const a_rows = g.transpose_a ? block.k : block.m;
          std::int64_t const a_columns = g.transpose_a ? block.m : block.k;
          std::int64_t const b_rows = g.transpose_b ? block.n : block.k;
          std::int64_t const b_columns = g.transpose_b ? block.k : block.n;
          widen_block(context,
                      whole_a + (g.transpose_a ? k : i) * p.a.row_stride + (g.transpose_a ? i : k),
                      p.a.row_stride, a_rows, a_columns, a);
          widen_block(context,
                      whole_b + (g.transpose_b ? j : k) * p.b.row_stride + (g.transpose_b ? k : j),
                      p.b.row_stride, b_rows, b_columns, b);
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

/// Block [rows, columns] of op(X), X stored as it is or transposed, widened into rows of `stride`,
/// the columns up to `stride` filled with zeros.
template <typename S, typename C>
void pack(S const* x,
          std::int64_t row_stride,
          bool transpose,
          std::int64_t rows,
          std::int64_t columns,
          C* to,
          std::int64_t stride) {
  if (transpose) {
    for (std::int64_t column = 0; column < columns; ++column) {
      S const* const from = x + column * row_stride;
      for (std::int64_t row = 0; row < rows; ++row) to[row * stride + column] = widen(from[row]);
    }
  } else {
    for (std::int64_t row = 0; row < rows; ++row) {
      S const* const from = x + row * row_stride;
      for (std::int64_t column = 0; column < columns; ++column) {
        to[row * stride + column] = widen(from[column]);
      }
    }
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    std::fill(to + row * stride + columns, to + (row + 1) * stride, C{0});
  }
}

/// Loops of our own over tiles of 64 x 64; every element is summed over k in ascending order.
template <typename S, typename T>
void multiply_plainly(KernelContext const& context, MatrixProduct const& p) {
  using C = Compute<S>;
  constexpr std::int64_t side = 64;
  constexpr std::int64_t depth = 256;
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
    std::int64_t const m = std::min(side, g.m - i);
    std::int64_t const n = std::min(side, g.n - j);
    std::fill_n(sums, side * side, C{0});
    for (std::int64_t k = 0; k < g.k; k += depth) {
      std::int64_t const deep = std::min(depth, g.k - k);
      S const* const block_a =
          p.a.matrix<S>(index) + (g.transpose_a ? k : i) * p.a.row_stride + (g.transpose_a ? i : k);
      S const* const block_b =
          p.b.matrix<S>(index) + (g.transpose_b ? j : k) * p.b.row_stride + (g.transpose_b ? k : j);
      pack(block_a, p.a.row_stride, g.transpose_a, m, deep, a, depth);
      pack(block_b, p.b.row_stride, g.transpose_b, deep, n, b, side);
      add_product(LeftTile<C>{a, depth, 1}, b, side, sums, side, m, padded<C>(n), deep);
    }
    for (std::int64_t row = 0; row < m; ++row) {
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
  if (context.gemm == GemmKind::plain) {
    multiply_plainly<S, T>(context, p);
  } else if constexpr (is_narrow<S>) {
    multiply_widened<S, T>(context, p);
  } else {
    multiply_in_place<S>(context, p);
  }
}

void multiply_of(KernelContext const& context,
                 KernelCall const& call,
                 MatrixProduct const& product) {
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
  for (MatrixProduct const& product : uneven_products_of(call)) multiply_of(context, call, product);
}

}  // namespace stagecraft::STAGECRAFT_ISA
