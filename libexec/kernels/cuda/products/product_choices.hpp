#pragma once

#include <memory>

namespace stagecraft {

/// The fastest measured algorithm for each shape of product, shared by the CublasLtGemm objects of
/// a process on one device. Thread-safe. Each shape is timed once: up to 100 of cuBLASLt's
/// algorithms, in the order of its heuristic, for at most a quarter of a second.
struct ProductChoices;

/// Makes an empty object. Returns null in a build without CUDA.
std::shared_ptr<ProductChoices> make_product_choices();

}  // namespace stagecraft
