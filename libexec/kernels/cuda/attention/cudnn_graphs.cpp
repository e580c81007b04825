#include "libexec/kernels/cuda/attention/cudnn_graphs.hpp"

#include <memory>

namespace stagecraft {
namespace {

using cudnn::graph::Tensor_attributes;
using CudnnTensor = std::shared_ptr<Tensor_attributes>;

void set_types(cudnn::graph::Graph& graph, ElementType type) {
  graph
      .set_io_data_type(type == ElementType::bf16 ? cudnn::DataType_t::BFLOAT16
                                                  : cudnn::DataType_t::HALF)
      .set_intermediate_data_type(cudnn::DataType_t::FLOAT)
      .set_compute_data_type(cudnn::DataType_t::FLOAT);
}

/// Describes a tensor [s, b, heads, d], which cuDNN calls [b, heads, s, d].
void describe(Tensor_attributes& tensor, CudnnOperand which, Operand const& heads) {
  Shape const& shape = heads.shape;
  tensor.set_uid(static_cast<std::int64_t>(which))
      .set_dim({shape[1], shape[2], shape[0], shape[3]})
      .set_stride({heads.stride(1), heads.stride(2), heads.stride(0), heads.stride(3)});
}

/// Describes a tensor [b, heads, s].
void describe_sums(Tensor_attributes& tensor, FlashSizes const& sizes) {
  tensor.set_uid(static_cast<std::int64_t>(CudnnOperand::log_sums))
      .set_data_type(cudnn::DataType_t::FLOAT)
      .set_dim({sizes.b, sizes.heads, sizes.s, 1})
      .set_stride({sizes.heads * sizes.s, sizes.s, 1, 1});
}

CudnnTensor read(cudnn::graph::Graph& graph, CudnnOperand which, Operand const& heads) {
  Tensor_attributes tensor;
  describe(tensor, which, heads);
  return graph.tensor(tensor);
}

void write(CudnnTensor const& tensor, CudnnOperand which, Operand const& heads) {
  describe(*tensor, which, heads);
  tensor->set_output(true);
}

/// What forward and backward are told alike.
template <typename Attributes>
void set_scores(Attributes& attributes, FlashSizes const& sizes) {
  attributes.set_attn_scale(static_cast<float>(sizes.scale));
  if (!sizes.attended.is_causal) return;
  attributes.set_diagonal_alignment(cudnn::DiagonalAlignment_t::TOP_LEFT)
      .set_diagonal_band_right_bound(0);
  // A query sees its own key and window - 1 before it.
  if (sizes.window > 0) {
    attributes.set_diagonal_band_left_bound(static_cast<int>(sizes.window));
  }
}

}  // namespace

void add_forward(cudnn::graph::Graph& graph, ElementType type, FlashForwardOperands const& all) {
  set_types(graph, type);
  cudnn::graph::SDPA_attributes attributes;
  attributes.set_generate_stats(true);
  set_scores(attributes, all.sizes);
  if (all.sinks != nullptr) {
    std::int64_t const heads = all.sizes.heads;
    attributes.set_sink_token(
        graph.tensor(Tensor_attributes{}
                         .set_uid(static_cast<std::int64_t>(CudnnOperand::sinks))
                         .set_data_type(cudnn::DataType_t::FLOAT)
                         .set_dim({1, heads, 1, 1})
                         .set_stride({heads, 1, 1, 1})));
  }
  auto const [context, log_sums] =
      graph.sdpa(read(graph, CudnnOperand::q, all.q), read(graph, CudnnOperand::k, all.k),
                 read(graph, CudnnOperand::v, all.v), attributes);
  write(context, CudnnOperand::context, all.context);
  describe_sums(*log_sums, all.sizes);
  log_sums->set_output(true);
}

void add_backward(cudnn::graph::Graph& graph,
                  ElementType type,
                  FlashBackwardOperands const& all,
                  bool in_order) {
  set_types(graph, type);
  cudnn::graph::SDPA_backward_attributes attributes;
  attributes.set_deterministic_algorithm(in_order);
  set_scores(attributes, all.sizes);
  Tensor_attributes log_sums;
  describe_sums(log_sums, all.sizes);
  // Sinks are in the sums already.
  auto const [dq, dk, dv] = graph.sdpa_backward(
      read(graph, CudnnOperand::q, all.q), read(graph, CudnnOperand::k, all.k),
      read(graph, CudnnOperand::v, all.v), read(graph, CudnnOperand::context, all.context),
      read(graph, CudnnOperand::d_context, all.d_context), graph.tensor(log_sums), attributes);
  write(dq, CudnnOperand::dq, all.dq);
  write(dk, CudnnOperand::dk, all.dk);
  write(dv, CudnnOperand::dv, all.dv);
}

}  // namespace stagecraft
