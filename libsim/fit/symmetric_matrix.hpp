#pragma once

#include <vector>

namespace stagecraft {

/// The rows of a small symmetric matrix.
using SymmetricMatrix = std::vector<std::vector<double>>;

/// The inverse of a positive definite matrix, by Gauss and Jordan's elimination.
SymmetricMatrix inverse_of(SymmetricMatrix matrix);

/// matrix x vector.
std::vector<double> product_of(SymmetricMatrix const& matrix, std::vector<double> const& vector);

/// a x b x a.
SymmetricMatrix sandwich_of(SymmetricMatrix const& a, SymmetricMatrix const& b);

}  // namespace stagecraft
