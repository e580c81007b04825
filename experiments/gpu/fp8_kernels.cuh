#pragma once

#include "experiments/gpu/fp8_reference.cuh"

/// The kernels that make copies in 8 bits. Both read whole words of several values.
namespace fp8 {

constexpr int lanes = 32;
constexpr int warps = 8;
constexpr int threads = warps * lanes;

/// Two values of a word.
inline __device__ float2 widened(std::uint32_t word) {
  return __bfloat1622float2(*reinterpret_cast<__nv_bfloat162 const*>(&word));
}
inline __device__ float largest_of(float2 pair) { return fmaxf(fabsf(pair.x), fabsf(pair.y)); }

inline __device__ float largest_in_warp(float most) {
  for (int offset = lanes / 2; offset > 0; offset /= 2)
    most = fmaxf(most, __shfl_xor_sync(~0U, most, offset));
  return most;
}

/// The largest absolute value of a tensor. Pre: *largest is 0; `elements` is a multiple of 8.
static __global__ void find_largest(__nv_bfloat16 const* x, std::int64_t elements, int* largest) {
  constexpr int together = 8;
  float most = 0;
  auto const stride = static_cast<std::int64_t>(gridDim.x) * threads * together;
  for (std::int64_t i = (blockIdx.x * std::int64_t{threads} + threadIdx.x) * together; i < elements;
       i += stride) {
    uint4 const words = *reinterpret_cast<uint4 const*>(x + i);
    most = fmaxf(fmaxf(most, largest_of(widened(words.x))), largest_of(widened(words.y)));
    most = fmaxf(fmaxf(most, largest_of(widened(words.z))), largest_of(widened(words.w)));
  }
  most = largest_in_warp(most);
  // Bits of positive numbers are ordered as the numbers are; a maximum has no order.
  if (threadIdx.x % lanes == 0) atomicMax(largest, __float_as_int(most));
}

/// Four values in 8 bits, the first in the lowest.
template <__nv_fp8_interpretation_t format>
__device__ std::uint32_t narrowed(float2 first, float2 second, float scale) {
  auto const both = [&](float2 pair) -> std::uint32_t {
    return __nv_cvt_float2_to_fp8x2({pair.x * scale, pair.y * scale}, __NV_SATFINITE, format);
  };
  return both(first) | both(second) << 16;
}

/// The place in shared memory of a word of a tile's row. All rows of a tile begin in the same bank.
/// Each lane of a warp that transposes the tile reads the same word of four rows; with these places
/// the lanes read from 32 different banks.
inline __device__ int swizzled(int row, int word) { return word ^ (row / 4 % 16 * 2 + row / 64); }

/// A tile of 128 x 128 values: in 8 bits, and their transpose. `largest`: of the tensor, if it has
/// one scale. A warp has 16 rows, of which each lane keeps four columns.
template <__nv_fp8_interpretation_t format>
__global__ void __launch_bounds__(threads)
    quantise(__nv_bfloat16 const* x, Quantised out, Quantised transposed, float const* largest) {
  constexpr int rows = tile / warps;
  alignas(uint2) __shared__ std::uint32_t values[tile][tile / 2];
  __shared__ float of_row[tile], of_column[tile];  // first largest values, then scales
  __shared__ float4 of_warp[warps][lanes];         // the largest of its columns
  int const lane = static_cast<int>(threadIdx.x) % lanes,
            warp = static_cast<int>(threadIdx.x) / lanes;
  std::int64_t const row = blockIdx.y * std::int64_t{tile},
                     column = blockIdx.x * std::int64_t{tile};
  uint2 kept[rows];
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    kept[i] = *reinterpret_cast<uint2 const*>(x + (row + warp * rows + i) * out.columns + column +
                                              4 * lane);
  }
  float4 of_columns{};
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    int const r = warp * rows + i, place = swizzled(r, 2 * lane);
    // If the first of two neighbouring words has an odd place, the second is stored before it.
    *reinterpret_cast<uint2*>(&values[r][place & ~1]) =
        place % 2 == 0 ? kept[i] : uint2{kept[i].y, kept[i].x};
    if (out.scaling == Scaling::tensor) continue;
    float2 const first = widened(kept[i].x), second = widened(kept[i].y);
    of_columns = {fmaxf(of_columns.x, fabsf(first.x)), fmaxf(of_columns.y, fabsf(first.y)),
                  fmaxf(of_columns.z, fabsf(second.x)), fmaxf(of_columns.w, fabsf(second.y))};
    float const most = largest_in_warp(fmaxf(largest_of(first), largest_of(second)));
    if (lane == 0) of_row[r] = most;
  }
  of_warp[warp][lane] = of_columns;
  __syncthreads();
  // A thread has a row or a column.
  int const line = static_cast<int>(threadIdx.x) % tile;
  bool const is_row = threadIdx.x < tile;
  float most = 0;
  if (out.scaling == Scaling::tensor) {
    most = *largest;
  } else if (out.scaling == Scaling::blocks) {
    for (int i = 0; i < tile; ++i) most = fmaxf(most, of_row[i]);
  } else if (is_row) {
    most = of_row[line];
  } else {
    for (auto const& warp_columns : of_warp)
      most = fmaxf(most, reinterpret_cast<float const*>(warp_columns)[line]);
  }
  float const scale = scale_of(most, out.format.largest);
  auto const write_inverse = [&](Quantised const& mine, std::int64_t r, std::int64_t c) {
    bool const is_first =
        line == 0 && (mine.scaling == Scaling::blocks || blockIdx.x + blockIdx.y == 0);
    if (mine.scaling == Scaling::rows || is_first) mine.inverses[mine.place(r, c)] = 1 / scale;
  };
  if (is_row) {
    write_inverse(out, row + line, column);
  } else {
    write_inverse(transposed, column + line, row);
  }
  __syncthreads();
  (is_row ? of_row : of_column)[line] = scale;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    std::int64_t const to = warp * rows + i;
    *reinterpret_cast<std::uint32_t*>(out.values + (row + to) * out.columns + column + 4 * lane) =
        narrowed<format>(widened(kept[i].x), widened(kept[i].y), of_row[to]);
  }
  for (int pair = warp; pair < tile / 2; pair += warps) {
    float2 four[4];
    for (int j = 0; j < 4; ++j)
      four[j] = widened(values[4 * lane + j][swizzled(4 * lane + j, pair)]);
    auto const write = [&](std::int64_t to, float2 first, float2 second) {
      *reinterpret_cast<std::uint32_t*>(transposed.values + (column + to) * transposed.columns +
                                        row + 4 * lane) =
          narrowed<format>(first, second, of_column[to]);
    };
    write(2 * pair, {four[0].x, four[1].x}, {four[2].x, four[3].x});
    write(2 * pair + 1, {four[0].y, four[1].y}, {four[2].y, four[3].y});
  }
}

}  // namespace fp8
