#include "libexec/kernels/cuda/attention/cudnn_attention.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <initializer_list>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libexec/kernels/cuda/attention/cudnn_graphs.hpp"
#include "libexec/kernels/cuda/attention/heads_packing.hpp"
#include "libexec/kernels/cuda/device_error.hpp"
#include "libexec/kernels/element.hpp"

// cuDNN's functions are found in the library that was opened, not linked (libexec/cuda.cmake).
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace stagecraft {
namespace {

using GraphKey = std::vector<std::int64_t>;
using Addresses = std::unordered_map<std::int64_t, void*>;

/// A graph that was built once, or why it cannot be used.
struct BuiltGraph {
  std::unique_ptr<cudnn::graph::Graph> graph;
  std::string obstacle;
};

/// Everything that a graph depends on.
GraphKey key_of(ElementType type,
                FlashSizes const& sizes,
                bool has_sinks,
                std::initializer_list<Operand const*> operands) {
  GraphKey key{static_cast<std::int64_t>(type), sizes.window,
               std::bit_cast<std::int64_t>(sizes.scale), sizes.attended.is_causal ? 1 : 0,
               has_sinks ? 1 : 0};
  for (Operand const* operand : operands) {
    for (int axis = 0; axis < operand->shape.rank(); ++axis) {
      key.push_back(operand->shape[axis]);
      key.push_back(operand->stride(axis));
    }
  }
  return key;
}

std::int64_t name_of(CudnnOperand which) { return static_cast<std::int64_t>(which); }

class LoadedCudnn final : public CudnnAttention {
 public:
  LoadedCudnn(std::shared_ptr<CudnnChoice> choice,
              cudaStream_t stream,
              std::span<std::byte> workspace)
      : choice_{std::move(choice)}, stream_{stream}, workspace_{workspace} {
    require(cudnn::detail::create_handle(&handle_), "cudnnCreate");
    require(cudnn::detail::set_stream(handle_, stream), "cudnnSetStream");
  }
  ~LoadedCudnn() override {
    graphs_.clear();
    cudnn::detail::destroy_handle(handle_);
  }
  LoadedCudnn(LoadedCudnn const&) = delete;
  LoadedCudnn(LoadedCudnn&&) = delete;
  LoadedCudnn& operator=(LoadedCudnn const&) = delete;
  LoadedCudnn& operator=(LoadedCudnn&&) = delete;

  bool forward(ElementType type, double dropout, FlashForwardOperands const& all) override {
    if (!takes(type, dropout, all.sizes, {&all.q, &all.k, &all.v, &all.context})) return false;
    bool const has_sinks = all.sinks != nullptr;
    // Sinks in fp32 are at the workspace's begin.
    std::size_t const sinks_bytes =
        has_sinks ? (static_cast<std::size_t>(all.sizes.heads) * sizeof(float) + 255) / 256 * 256
                  : 0;
    if (sinks_bytes > workspace_.size()) return false;
    std::span<std::byte> const workspace = workspace_.subspan(sinks_bytes);
    cudnn::graph::Graph* const graph =
        graph_for(key_of(type, all.sizes, has_sinks, {&all.q, &all.k, &all.v, &all.context}),
                  workspace, [&](cudnn::graph::Graph& made) { add_forward(made, type, all); });
    if (graph == nullptr) return false;
    auto* const sinks = reinterpret_cast<float*>(workspace_.data());
    if (has_sinks) widen_sinks(type, all.sinks, all.sizes.heads, sinks, stream_);
    Addresses addresses{{name_of(CudnnOperand::q), all.q.data},
                        {name_of(CudnnOperand::k), all.k.data},
                        {name_of(CudnnOperand::v), all.v.data},
                        {name_of(CudnnOperand::context), all.context.data},
                        {name_of(CudnnOperand::log_sums), all.log_sums.data}};
    if (has_sinks) addresses.emplace(name_of(CudnnOperand::sinks), sinks);
    launch(*graph, addresses, workspace);
    return true;
  }

  bool backward(ElementType type, double dropout, FlashBackwardOperands const& all) override {
    std::initializer_list<Operand const*> const operands = {
        &all.d_context, &all.q, &all.k, &all.v, &all.context, &all.dq, &all.dk, &all.dv};
    if (!takes(type, dropout, all.sizes, operands)) return false;
    bool const in_order = choice_->sums() == CudnnChoice::Sums::in_order;
    cudnn::graph::Graph* const graph =
        graph_for(key_of(type, all.sizes, false, operands), workspace_,
                  [&](cudnn::graph::Graph& made) { add_backward(made, type, all, in_order); });
    if (graph == nullptr) return false;
    Addresses addresses{{name_of(CudnnOperand::q), all.q.data},
                        {name_of(CudnnOperand::k), all.k.data},
                        {name_of(CudnnOperand::v), all.v.data},
                        {name_of(CudnnOperand::context), all.context.data},
                        {name_of(CudnnOperand::d_context), all.d_context.data},
                        {name_of(CudnnOperand::log_sums), all.log_sums.data},
                        {name_of(CudnnOperand::dq), all.dq.data},
                        {name_of(CudnnOperand::dk), all.dk.data},
                        {name_of(CudnnOperand::dv), all.dv.data}};
    launch(*graph, addresses, workspace_);
    return true;
  }

 private:
  static void require(cudnnStatus_t status, char const* call) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    throw DeviceError{std::string{call} + ": " + cudnn::detail::get_error_string(status)};
  }

  bool takes(ElementType type,
             double dropout,
             FlashSizes const& sizes,
             std::initializer_list<Operand const*> operands) {
    std::string obstacle = cudnn_obstacle(type, sizes, dropout);
    constexpr int packed = 8;  // of 16 bytes
    bool const fits = std::all_of(operands.begin(), operands.end(), [](Operand const* operand) {
      return heads_can_pack<BFloat16>(*operand, packed);
    });
    if (obstacle.empty() && !fits) obstacle = "cuDNN reads heads that are aligned to 16 bytes";
    if (obstacle.empty()) return true;
    choice_->say_once(obstacle);
    return false;
  }

  /// The graph of a key, built at the first call; null, which is said, if cuDNN has none.
  template <typename Make>
  cudnn::graph::Graph* graph_for(GraphKey const& key,
                                 std::span<std::byte> workspace,
                                 Make const& make) {
    auto found = graphs_.find(key);
    if (found == graphs_.end()) {
      found = graphs_.emplace(key, build(make, static_cast<std::int64_t>(workspace.size()))).first;
    }
    BuiltGraph const& built = found->second;
    if (built.obstacle.empty()) return built.graph.get();
    choice_->say_once(built.obstacle);
    return nullptr;
  }

  template <typename Make>
  BuiltGraph build(Make const& make, std::int64_t most) {
    // A library that lacks a function throws.
    try {
      BuiltGraph built{std::make_unique<cudnn::graph::Graph>(), {}};
      cudnn::graph::Graph& graph = *built.graph;
      make(graph);
      cudnn::error_t status = graph.build(handle_, {cudnn::HeurMode_t::A});
      std::int64_t needed = 0;
      if (status.is_good()) status = graph.get_workspace_size(needed);
      if (status.is_bad()) return {nullptr, "cuDNN: " + status.get_message()};
      if (needed <= most) return built;
      return {nullptr, "cuDNN needs " + std::to_string(needed) + " bytes of workspace of " +
                           std::to_string(most)};
    } catch (std::exception const& error) {
      return {nullptr, std::string{"cuDNN: "} + error.what()};
    }
  }

  void launch(cudnn::graph::Graph& graph,
              Addresses& addresses,
              std::span<std::byte> workspace) const {
    cudnn::error_t status = graph.execute(handle_, addresses, workspace.data());
    if (status.is_bad()) throw DeviceError{"cuDNN: " + status.get_message()};
  }

  std::shared_ptr<CudnnChoice> choice_;
  cudaStream_t stream_;
  std::span<std::byte> workspace_;
  cudnnHandle_t handle_ = nullptr;
  std::map<GraphKey, BuiltGraph> graphs_;
};

}  // namespace

std::unique_ptr<CudnnAttention> make_cudnn_attention(std::shared_ptr<CudnnChoice> const& choice,
                                                     CUstream_st* stream,
                                                     std::span<std::byte> workspace) {
  void* const library = choice->library();
  if (library == nullptr) return nullptr;
  cudnn_frontend::cudnn_dlhandle = library;
  try {
    return std::make_unique<LoadedCudnn>(choice, stream, workspace);
  } catch (std::exception const& error) {
    choice->say_once(error.what());
    return nullptr;
  }
}

}  // namespace stagecraft
