#include "libsim/fit/symmetric_matrix.hpp"

#include <cstddef>

namespace stagecraft {
namespace {

SymmetricMatrix zeros(std::size_t size) {
  return SymmetricMatrix(size, std::vector<double>(size, 0.0));
}

SymmetricMatrix product_of(SymmetricMatrix const& a, SymmetricMatrix const& b) {
  SymmetricMatrix product = zeros(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a.size(); ++j) {
      for (std::size_t k = 0; k < a.size(); ++k) product[i][j] += a[i][k] * b[k][j];
    }
  }
  return product;
}

}  // namespace

SymmetricMatrix inverse_of(SymmetricMatrix matrix) {
  std::size_t const size = matrix.size();
  SymmetricMatrix inverse = zeros(size);
  for (std::size_t i = 0; i < size; ++i) inverse[i][i] = 1;
  for (std::size_t pivot = 0; pivot < size; ++pivot) {
    double const scale = 1 / matrix[pivot][pivot];  // positive: the matrix is positive definite
    for (std::size_t j = 0; j < size; ++j) {
      matrix[pivot][j] *= scale;
      inverse[pivot][j] *= scale;
    }
    for (std::size_t i = 0; i < size; ++i) {
      if (i == pivot) continue;
      double const factor = matrix[i][pivot];
      for (std::size_t j = 0; j < size; ++j) {
        matrix[i][j] -= factor * matrix[pivot][j];
        inverse[i][j] -= factor * inverse[pivot][j];
      }
    }
  }
  return inverse;
}

std::vector<double> product_of(SymmetricMatrix const& matrix, std::vector<double> const& vector) {
  std::vector<double> product(vector.size(), 0.0);
  for (std::size_t i = 0; i < vector.size(); ++i) {
    for (std::size_t j = 0; j < vector.size(); ++j) product[i] += matrix[i][j] * vector[j];
  }
  return product;
}

SymmetricMatrix sandwich_of(SymmetricMatrix const& a, SymmetricMatrix const& b) {
  return product_of(product_of(a, b), a);
}

}  // namespace stagecraft
