#pragma once

#include <memory>

namespace stagecraft {

/// What was measured to be the fastest way to each shape of product, for all CublasLtGemm of a
/// process on one device that are given it; threads may share it. Each shape is timed once: up to
/// 100 of cuBLASLt's algorithms, in the order of its heuristic, as long as a quarter of a second
/// lasts.
struct ProductChoices;

/// Nothing measured yet. Null where a build has no CUDA.
std::shared_ptr<ProductChoices> make_product_choices();

}  // namespace stagecraft
