#include "tests/libexec/cuda_emulation/product.hpp"

#include <stdexcept>
#include <vector>

#include "libexec/kernels/element.hpp"

namespace stagecraft::emulation {
namespace {

template <typename Body>
void with_type(cudaDataType type, Body const& body) {
  switch (type) {
    case CUDA_R_16F:
      return body(Float16{});
    case CUDA_R_16BF:
      return body(BFloat16{});
    case CUDA_R_32F:
      return body(float{});
    case CUDA_R_64F:
      return body(double{});
  }
  throw std::logic_error{"a type of no matrix"};
}

/// op(X) of one matrix, packed column-major.
template <typename C, typename S>
void pack(
    S const* from, Layout const& layout, bool transposes, std::int64_t rows, std::vector<C>& to) {
  for (std::int64_t column = 0; column < layout.columns; ++column) {
    for (std::int64_t row = 0; row < layout.rows; ++row) {
      std::int64_t const place = transposes ? column + row * rows : row + column * rows;
      to[static_cast<std::size_t>(place)] =
          static_cast<C>(widen(from[row + column * layout.leading_dimension]));
    }
  }
}

template <typename C>
void add_terms(C* sums,
               C const* a,
               C const* b,
               std::int64_t rows,
               std::int64_t first,
               std::int64_t last,
               std::int64_t step) {
  for (std::int64_t l = first; l != last; l += step) {
    C const factor = b[l];
    C const* const column = a + l * rows;
    for (std::int64_t i = 0; i < rows; ++i) sums[i] += column[i] * factor;
  }
}

template <typename S, typename R>
void multiply_typed(
    Product const& product, S const* a, S const* b, R const* c, R const* bias, R* d) {
  using C = Compute<S>;
  std::int64_t const rows = product.d.rows;
  std::int64_t const depth = product.depth();
  std::vector<C> packed_a(static_cast<std::size_t>(rows * depth));
  std::vector<C> packed_b(static_cast<std::size_t>(depth * product.d.columns));
  std::vector<C> sums(static_cast<std::size_t>(rows));
  std::vector<C> second_half(static_cast<std::size_t>(rows));
  auto const alpha = static_cast<C>(product.alpha);
  auto const beta = static_cast<C>(product.beta);
  for (std::int64_t k = 0; k < product.d.count; ++k) {
    pack(a + k * product.a.stride, product.a, product.transpose_a, rows, packed_a);
    pack(b + k * product.b.stride, product.b, product.transpose_b, depth, packed_b);
    for (std::int64_t column = 0; column < product.d.columns; ++column) {
      C const* const terms = packed_b.data() + column * depth;
      auto const add = [&](std::vector<C>& to, std::int64_t first, std::int64_t last,
                           std::int64_t step) {
        std::fill(to.begin(), to.end(), C{0});
        add_terms(to.data(), packed_a.data(), terms, rows, first, last, step);
      };
      if (product.algorithm == Algorithm::forwards) add(sums, 0, depth, 1);
      if (product.algorithm == Algorithm::backwards) add(sums, depth - 1, -1, -1);
      if (product.algorithm == Algorithm::halves) {
        add(sums, 0, depth / 2, 1);
        add(second_half, depth / 2, depth, 1);
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += second_half[i];
      }
      R* const to = d + k * product.d.stride + column * product.d.leading_dimension;
      for (std::int64_t i = 0; i < rows; ++i) {
        C result = alpha * sums[static_cast<std::size_t>(i)];
        if (beta != 0) {
          result += beta * static_cast<C>(widen(
                               c[k * product.c.stride + column * product.c.leading_dimension + i]));
        }
        if (product.has_bias) result += static_cast<C>(widen(bias[i]));
        to[i] = narrow<R>(static_cast<Compute<R>>(result));
      }
    }
  }
}

}  // namespace

std::int64_t element_bytes(cudaDataType type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

std::int64_t extent_bytes(Layout const& layout) {
  return ((layout.count - 1) * layout.stride + (layout.columns - 1) * layout.leading_dimension +
          layout.rows) *
         element_bytes(layout.type);
}

void multiply(Product const& product,
              void const* a,
              void const* b,
              void const* c,
              void const* bias,
              void* d) {
  with_type(product.a.type, [&](auto of_inputs) {
    with_type(product.d.type, [&](auto of_result) {
      using S = decltype(of_inputs);
      using R = decltype(of_result);
      multiply_typed(product, static_cast<S const*>(a), static_cast<S const*>(b),
                     static_cast<R const*>(c), static_cast<R const*>(bias), static_cast<R*>(d));
    });
  });
}

}  // namespace stagecraft::emulation
