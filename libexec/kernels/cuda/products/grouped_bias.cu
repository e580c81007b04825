#include "libexec/kernels/cuda/block_scan.cuh"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/cuda/row_loop.cuh"
#include "libexec/kernels/expert_rows.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// The rows of groups, with their ends in scratch memory if counts say them. grouped_gemm, whose
/// host knows the counts, refuses more rows than there are.
template <typename S>
GroupedRows grouped_rows(CudaContext const& context,
                         KernelCall const& call,
                         Operand const& bias,
                         ElementType type_of_bias) {
  GroupedRows all = expect_grouped_rows<S>(call, call.reads[0], bias, type_of_bias);
  GroupCounts const counts = expect_counts(call, all);
  if (counts.groups == 0) return all;
  expect(call, (counts.groups + 1) * sizeof(std::int64_t) <= CudaContext::scratch_bytes,
         "there are more groups than scratch memory has room for");
  auto* const sums = context.scratch_of<std::int64_t>();
  launch_running_sums(context.stream, counts, counts.groups, sums);
  all.ends = sums + 1;
  return all;
}

/// x += the bias of the row's group times the row's factor, in place.
template <typename S>
struct AddGroupedBias {
  using C = Compute<S>;
  static constexpr int in_flight = 2;
  GroupedRows all;
  C const* factors;  ///< or null
  S const* biases;
  S* x;

  template <int width>
  struct Loaded {
    Pack<S, width> x, bias;
    C factor;
    bool is_used;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    bool const is_used = at.row < all.used();
    std::int64_t const bias = is_used ? all.group_of(at.row) * all.columns + at.column : 0;
    return {load_pack_or_zeros<width>(is_used ? x : nullptr, at.element),
            load_pack_or_zeros<width>(is_used ? biases : nullptr, bias),
            is_used && factors != nullptr ? factors[at.row] : C{1}, is_used};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    if (!in.is_used) return;
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(widen(in.x[i]) + in.factor * widen(in.bias[i]));
    }
    store_pack(x + at.element, out);
  }
};

/// Each bias' sum: threads of a block that are above each other share the rows of a group.
constexpr int across = 32;
constexpr int down = 8;

template <typename S, int width>
__global__ void __launch_bounds__(across* down) sum_grouped_rows(GroupedRows const all,
                                                                 S const* dy,
                                                                 Compute<S> const* factors,
                                                                 Compute<S>* sums) {
  using C = Compute<S>;
  std::int64_t const first = (std::int64_t{blockIdx.x} * across + threadIdx.x) * width;
  std::int64_t const group = blockIdx.y;
  std::int64_t const end = all.end_of(group) < all.rows ? all.end_of(group) : all.rows;
  C sum[width] = {};
  if (first < all.columns) {
#pragma unroll 4
    for (std::int64_t row = all.begin_of(group) + threadIdx.y; row < end; row += down) {
      C const factor = factors == nullptr ? C{1} : factors[row];
      Pack<S, width> const values = load_pack<width>(dy + row * all.columns + first);
#pragma unroll
      for (int i = 0; i < width; ++i) sum[i] += factor * widen(values[i]);
    }
  }
  __shared__ C of_row[down][width][across];
#pragma unroll
  for (int i = 0; i < width; ++i) of_row[threadIdx.y][i][threadIdx.x] = sum[i];
  __syncthreads();
  if (threadIdx.y >= width || first >= all.columns) return;
  C total = of_row[0][threadIdx.y][threadIdx.x];
#pragma unroll
  for (int y = 1; y < down; ++y) total += of_row[y][threadIdx.y][threadIdx.x];
  sums[group * all.columns + first + threadIdx.y] += total;
}

template <typename S, int width>
__global__ void __launch_bounds__(most_row_threads)
    multiply_biases(GroupedRows const all, S const* dy, S const* biases, Compute<S>* products) {
  using C = Compute<S>;
  std::int64_t const row = this_row();
  if (row >= all.rows || row >= all.used()) return;
  S const* const values = dy + row * all.columns;
  S const* const bias = biases + all.group_of(row) * all.columns;
  C product = 0;
  for_columns<width>(all.columns, [&](std::int64_t column) {
    Pack<S, width> const a = load_pack<width>(values + column);
    Pack<S, width> const b = load_pack<width>(bias + column);
#pragma unroll
    for (int i = 0; i < width; ++i) product += C{widen(a[i])} * C{widen(b[i])};
  });
  product = row_sum(product);
  if (threadIdx.x == 0) products[row] = product;
}

}  // namespace

void grouped_bias_add(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    GroupedRows const all = grouped_rows<S>(context, call, call.reads[1], element_type<S>());
    AddGroupedBias<S> const body{all, optional_factors<S>(call, 2, all.rows),
                                 elements_of<S>(call.reads[1]), elements_of<S>(call.writes[0])};
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, extent_of(all.rows, all.columns),
                               can_pack(width, body.x, body.biases), body);
  });
}

void grouped_bias_gradient(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    GroupedRows const all = grouped_rows<S>(context, call, call.writes[0], element_type<C>());
    S const* const dy = elements_of<S>(call.reads[0]);
    if (all.rows == 0) return;
    constexpr int width = pack_width<S>;
    static_assert(down >= width);
    bool const fits = all.columns % width == 0 && can_pack(width, dy);
    std::int64_t const tile = across * (fits ? width : 1);
    launch(fits ? sum_grouped_rows<S, width> : sum_grouped_rows<S, 1>,
           dim3{static_cast<unsigned>((all.columns + tile - 1) / tile),
                static_cast<unsigned>(all.groups)},
           dim3{across, down}, context.stream, all, dy, optional_factors<S>(call, 1, all.rows),
           elements_of<C>(call.writes[0]));
  });
}

void weighted_bias_add(CudaContext const& context, KernelCall const& call) {
  grouped_bias_add(context, call);
}

void weighted_bias_gradient(CudaContext const& context, KernelCall const& call) {
  grouped_bias_gradient(context, call);
}

void bias_probability_gradient(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    GroupedRows const all = grouped_rows<S>(context, call, call.reads[1], element_type<S>());
    C* const products = expect_row_products<S>(call, all);
    if (all.rows == 0) return;
    S const* const dy = elements_of<S>(call.reads[0]);
    S const* const biases = elements_of<S>(call.reads[1]);
    constexpr int width = pack_width<S>;
    bool const fits = all.columns % width == 0 && can_pack(width, dy, biases);
    RowLaunch const grid = looped_rows(all.rows, all.columns, fits ? width : 1);
    launch(fits ? multiply_biases<S, width> : multiply_biases<S, 1>, grid.blocks, grid.threads,
           context.stream, all, dy, biases, products);
  });
}

}  // namespace stagecraft::cuda_ops
