#pragma once

#include <cstdint>
#include <cstring>

namespace stagecraft {

// Reductions in a fixed order: over 16 lanes, then over a tree of them. The order depends only on
// the number of terms, and the lanes become vector code.

inline constexpr std::int64_t reduction_lanes = 16;

/// term(0) + ... + term(n - 1).
template <typename T, typename Term>
T lane_sum(std::int64_t n, Term const& term) {
  T lane[reduction_lanes] = {};
  std::int64_t i = 0;
  for (; i + reduction_lanes <= n; i += reduction_lanes) {
    for (std::int64_t l = 0; l < reduction_lanes; ++l) lane[l] += term(i + l);
  }
  for (std::int64_t l = 0; i + l < n; ++l) lane[l] += term(i + l);
  for (std::int64_t width = reduction_lanes / 2; width > 0; width /= 2) {
    for (std::int64_t l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

/// The largest of `start` and all terms. NaNs among the terms are ignored.
template <typename T, typename Term>
T lane_maximum(std::int64_t n, T start, Term const& term) {
  T lane[reduction_lanes];
  for (T& value : lane) value = start;
  std::int64_t i = 0;
  for (; i + reduction_lanes <= n; i += reduction_lanes) {
    for (std::int64_t l = 0; l < reduction_lanes; ++l) {
      T const value = term(i + l);
      lane[l] = value > lane[l] ? value : lane[l];
    }
  }
  for (std::int64_t l = 0; i + l < n; ++l) {
    T const value = term(i + l);
    lane[l] = value > lane[l] ? value : lane[l];
  }
  T largest = start;
  for (T const value : lane) largest = value > largest ? value : largest;
  return largest;
}

/// The vectors of products. They have the processor's size, and are used in groups of 64 bytes.
/// (GCC accepts larger vectors, but moves them through memory.)
template <typename C>
struct Lanes {
#if defined(__AVX512F__)
  static constexpr int bytes = 64;
#elif defined(__AVX__)
  static constexpr int bytes = 32;
#else
  static constexpr int bytes = 16;
#endif
  static constexpr int vectors = 64 / bytes;
  static constexpr std::int64_t count = 64 / sizeof(C);
  typedef C Vector
      __attribute__((vector_size(bytes)));  // NOLINT(modernize-use-using): GCC's syntax
};

/// n rounded up to a multiple of the number of lanes.
template <typename C>
constexpr std::int64_t padded(std::int64_t n) {
  return (n + Lanes<C>::count - 1) / Lanes<C>::count * Lanes<C>::count;
}

/// Element (i, k) of A is data[i * row + k * column], so a transposed A has no extra cost.
template <typename C>
struct LeftTile {
  C const* data;
  std::int64_t row;
  std::int64_t column;
};

/// `height` rows of C [., n] += A B.
template <int height, typename C>
inline void add_product_rows(LeftTile<C> a,
                             C const* b,
                             std::int64_t ldb,
                             C* c,
                             std::int64_t ldc,
                             std::int64_t n,
                             std::int64_t depth) {
  using Vector = typename Lanes<C>::Vector;
  constexpr int vectors = Lanes<C>::vectors;
  for (std::int64_t j = 0; j < n; j += Lanes<C>::count) {
    Vector sum[height][vectors];
    for (int i = 0; i < height; ++i) std::memcpy(sum[i], c + i * ldc + j, sizeof(sum[i]));
    for (std::int64_t k = 0; k < depth; ++k) {
      Vector right[vectors];
      std::memcpy(right, b + k * ldb + j, sizeof(right));
      for (int i = 0; i < height; ++i) {
        for (int v = 0; v < vectors; ++v) sum[i][v] += a.data[i * a.row + k * a.column] * right[v];
      }
    }
    for (int i = 0; i < height; ++i) std::memcpy(c + i * ldc + j, sum[i], sizeof(sum[i]));
  }
}

/// C [m, n] += A [m, depth] B [depth, n]; each element is summed in ascending order of k.
/// Pre: n is a multiple of the lanes; B and C are stored by rows.
template <typename C>
void add_product(LeftTile<C> a,
                 C const* b,
                 std::int64_t ldb,
                 C* c,
                 std::int64_t ldc,
                 std::int64_t m,
                 std::int64_t n,
                 std::int64_t depth) {
  constexpr int height = 4;
  std::int64_t i = 0;
  for (; i + height <= m; i += height) {
    add_product_rows<height>(LeftTile<C>{a.data + i * a.row, a.row, a.column}, b, ldb, c + i * ldc,
                             ldc, n, depth);
  }
  for (; i < m; ++i) {
    add_product_rows<1>(LeftTile<C>{a.data + i * a.row, a.row, a.column}, b, ldb, c + i * ldc, ldc,
                        n, depth);
  }
}

}  // namespace stagecraft
