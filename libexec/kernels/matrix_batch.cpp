#include "libexec/kernels/matrix_batch.hpp"

#include <algorithm>
#include <limits>

namespace stagecraft {

MatrixBatch matrices_of(KernelCall const& call,
                        Operand const& operand,
                        std::int64_t count,
                        std::int64_t rows,
                        std::int64_t columns) {
  MatrixBatch batch{.data = static_cast<std::byte*>(operand.data), .type = operand.type};
  Shape const& shape = operand.shape;
  int const rank = shape.rank();
  expect(call, rank >= 2, "an operand is not a matrix");
  batch.columns = last_extent(operand);
  if (rank == 4) {
    batch.count = shape[0] * shape[1];
    batch.heads = shape[1];
    batch.rows = shape[2];
    batch.batch_stride = operand.stride(0);
    batch.head_stride = operand.stride(1);
    batch.row_stride = operand.stride(2);
    expect(call, operand.stride(3) == 1 || batch.columns == 1, "a matrix has rows with gaps");
  } else {
    expect(call, is_contiguous(operand), "a matrix of rank 2 or 3 is a view");
    batch.rows = shape.elements() / std::max<std::int64_t>(batch.columns, 1);
    batch.row_stride = batch.columns;
  }
  expect(call, operand.data != nullptr, "an operand has no address");
  expect(call, batch.count == count && batch.rows == rows && batch.columns == columns,
         "an operand's shape does not fit the product's");
  expect(call, std::max({rows, columns, batch.row_stride}) <= std::numeric_limits<int>::max(),
         "a matrix is larger than BLAS can index");
  return batch;
}

MatrixBatch groups_of(KernelCall const& call,
                      Operand const& operand,
                      std::int64_t count,
                      std::int64_t rows,
                      std::int64_t columns) {
  MatrixBatch batch = matrices_of(call, operand, 1, count * rows, columns);
  batch.count = count;
  batch.rows = rows;
  batch.batch_stride = rows * columns;
  return batch;
}

namespace {

template <typename Matrices>
MatrixProduct product_as(KernelCall const& call, Matrices const& matrices) {
  GemmShape const& g = attributes_of<GemmAttributes>(call).shape;
  expect(call, g.batch > 0 && g.m > 0 && g.n > 0 && g.k > 0, "the product is empty");
  return {.shape = g,
          .a = matrices(call, call.reads[0], g.batch, g.transpose_a ? g.k : g.m,
                        g.transpose_a ? g.m : g.k),
          .b = matrices(call, call.reads[1], g.batch, g.transpose_b ? g.n : g.k,
                        g.transpose_b ? g.k : g.n),
          .c = matrices(call, call.writes[0], g.batch, g.m, g.n)};
}

}  // namespace

MatrixProduct product_of(KernelCall const& call) { return product_as(call, matrices_of); }

MatrixProduct grouped_product_of(KernelCall const& call) { return product_as(call, groups_of); }

}  // namespace stagecraft
