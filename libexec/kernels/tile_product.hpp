#pragma once

#include <cstdint>
#include <cstring>

namespace stagecraft {

/// 64 bytes of C; the compiler splits them where registers are smaller.
template <typename C>
struct Lanes {
  static constexpr std::int64_t count = 64 / sizeof(C);
  typedef C Vector __attribute__((vector_size(64)));  // NOLINT(modernize-use-using): GCC's syntax
};

/// The smallest multiple of the lanes that is not below n.
template <typename C>
constexpr std::int64_t padded(std::int64_t n) {
  return (n + Lanes<C>::count - 1) / Lanes<C>::count * Lanes<C>::count;
}

/// Element (i, k) of A lies at data[i * row + k * column], so a transposed A costs nothing.
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
  for (std::int64_t j = 0; j < n; j += Lanes<C>::count) {
    Vector sum[height];
    for (int i = 0; i < height; ++i) std::memcpy(&sum[i], c + i * ldc + j, sizeof(Vector));
    for (std::int64_t k = 0; k < depth; ++k) {
      Vector right;
      std::memcpy(&right, b + k * ldb + j, sizeof(Vector));
      for (int i = 0; i < height; ++i) sum[i] += a.data[i * a.row + k * a.column] * right;
    }
    for (int i = 0; i < height; ++i) std::memcpy(c + i * ldc + j, &sum[i], sizeof(Vector));
  }
}

/// C [m, n] += A [m, depth] B [depth, n], each element in ascending order of k.
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
