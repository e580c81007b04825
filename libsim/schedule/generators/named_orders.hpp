#pragma once

#include <vector>

#include "libsim/schedule/generators/order_request.hpp"

namespace stagecraft {

/// The orders of all named schedules that take the request's stages, microbatches and chunks. Some
/// depend on its costs and memory. They may hold more than the memory limit.
std::vector<PipelineOrder> named_orders(OrderRequest const& request);

/// The memory limit that a search keeps, in forwards of a chunk: the request's limit or, without
/// one, the memory of 1F1B, which is all chunks of as many microbatches as there are stages.
inline double memory_limit_of(OrderRequest const& request) {
  return request.memory_limit.value_or(double{1} * request.stages * request.chunks);
}

/// Whether no stage of the order ever holds more than `memory_limit`, in the unit of `memory`.
bool keeps_limit(PipelineOrder const& order, MemoryChanges const& memory, double memory_limit);

}  // namespace stagecraft
