#include "libexec/kernels/cpu/matrix_batch.hpp"

#include <algorithm>
#include <limits>

#include "libexec/kernels/expert_rows.hpp"

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

namespace {

/// Matrix [rows, columns] of a group, from row `first` of a tensor on.
MatrixBatch rows_of(KernelCall const& call,
                    Operand const& operand,
                    std::int64_t first,
                    std::int64_t rows,
                    std::int64_t columns) {
  Operand const all{operand.data, operand.type, {operand.shape.elements() / columns, columns}, {}};
  MatrixBatch batch = matrices_of(call, all, 1, all.shape[0], columns);
  expect(call,
         is_contiguous(operand) && last_extent(operand) == columns && first + rows <= all.shape[0],
         "the groups have more rows than an operand");
  batch.data += first * columns * element_size(operand.type);
  batch.rows = rows;
  return batch;
}

}  // namespace

std::vector<MatrixProduct> uneven_products_of(KernelCall const& call) {
  GemmShape const& g = attributes_of<GemmAttributes>(call).shape;
  Operand const& counts = call.reads[2];
  std::int64_t const parts = counts.shape.elements() / g.batch;
  expect(call, counts.type == ElementType::i32 && parts * g.batch == counts.shape.elements(),
         "counts are not [parts, groups]");
  GroupCounts const rows_of_group{
      call.counts.empty() ? elements_of<std::int32_t>(counts) : call.counts.data(), parts, g.batch};
  // The rows of groups are those of A and C; or, of weight gradients, what the sum is over.
  bool const sums_rows = g.transpose_a;
  std::vector<MatrixProduct> products;
  std::int64_t first = 0;
  for (std::int64_t group = 0; group < g.batch; ++group) {
    std::int64_t const rows = rows_of_group(group);
    if (rows > 0) {
      MatrixProduct product{.shape = g, .a = {}, .b = {}, .c = {}};
      product.shape.batch = 1;
      (sums_rows ? product.shape.k : product.shape.m) = rows;
      std::int64_t const b_rows = g.transpose_b ? g.n : g.k;
      std::int64_t const b_columns = g.transpose_b ? g.k : g.n;
      product.a = rows_of(call, call.reads[0], first, rows, sums_rows ? g.m : g.k);
      product.b = sums_rows ? rows_of(call, call.reads[1], first, rows, g.n)
                            : rows_of(call, call.reads[1], group * b_rows, b_rows, b_columns);
      product.c = sums_rows ? rows_of(call, call.writes[0], group * g.m, g.m, g.n)
                            : rows_of(call, call.writes[0], first, rows, g.n);
      products.push_back(product);
    }
    first += rows;
  }
  return products;
}

}  // namespace stagecraft
