#pragma once

#include <cudnn_frontend.h>

#include <cstdint>

#include "libexec/kernels/operands/attention_operands.hpp"

/// Flash attention as graphs of cuDNN. They are of shapes and strides; addresses come with a
/// launch.
namespace stagecraft {

namespace cudnn = cudnn_frontend;

/// The numbers by which a launch names its operands.
enum class CudnnOperand : std::int64_t { q, k, v, context, log_sums, sinks, d_context, dq, dk, dv };

/// Adds attention to an empty graph. Reads q, k, v [s, b, heads, d] and, if there are some, sinks
/// [heads] in fp32; writes context and log_sums [b, heads, s], the logarithms of the sums of
/// exponentials, sinks included.
/// Pre: cudnn_obstacle() is empty.
void add_forward(cudnn::graph::Graph& graph, ElementType type, FlashForwardOperands const& all);

/// \param in_order  CudnnChoice::Sums::in_order
void add_backward(cudnn::graph::Graph& graph,
                  ElementType type,
                  FlashBackwardOperands const& all,
                  bool in_order);

}  // namespace stagecraft
