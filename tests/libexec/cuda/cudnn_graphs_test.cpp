#include "libexec/kernels/cuda/attention/cudnn_graphs.hpp"

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "libexec/kernels/cuda/attention/cudnn_choice.hpp"

// cuDNN can be asked what it would do on a device that is not here. It wants a driver only to load
// kernels; the toolkit's stub of one lets it look for them.

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // that of cudnn_attention.cpp is not linked
}

namespace stagecraft::test::cudnn_graphs_test {
namespace {

/// An H200, as cuDNN 9 describes a device.
constexpr char const* hopper = R"({"cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000,
"multiProcessorCount": 132, "totalGlobalMem": 151000000000, "maxGridSize": [2147483647, 65535, 65535],
"maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
"maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
"maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
"supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "l2CacheSize": 62914560,
"deviceName": "NVIDIA H200"})";

/// Opens cuDNN and the stub. False if one of them is not here.
bool can_ask() {
  static bool const opened = [] {
    void* const stub = dlopen(STAGECRAFT_CUDA_STUB, RTLD_NOW | RTLD_GLOBAL);
    cudnn_frontend::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW);
    if (cudnn_frontend::cudnn_dlhandle == nullptr) {
      cudnn_frontend::cudnn_dlhandle = dlopen(STAGECRAFT_CUDNN, RTLD_NOW);
    }
    return stub != nullptr && cudnn_frontend::cudnn_dlhandle != nullptr;
  }();
  return opened;
}

/// cuDNN's reason against what `add` adds to a graph, on an H200; empty if it has kernels for it.
template <typename Add>
std::string reason_against(Add const& add) {
  auto const device = std::make_shared<cudnn::DeviceProperties>();
  std::string const text{hopper};
  cudnn::error_t status = device->deserialize({text.begin(), text.end()});
  cudnn::graph::Graph graph;
  graph.set_device_properties(device).set_sm_version(90);
  add(graph);
  if (status.is_good()) status = graph.validate();
  if (status.is_good()) status = graph.build_operation_graph();
  if (status.is_good()) status = graph.create_execution_plans({cudnn::HeurMode_t::A});
  if (status.is_good()) status = graph.check_support();
  return status.is_good() ? std::string{} : "refused: " + status.get_message();
}

struct Case {
  std::int64_t b, heads, kv_heads, s, d, value_d;
  std::int64_t window = 0;
  bool has_sinks = false;
};

Operand dense(ElementType type, Shape const& shape) {
  return {.data = nullptr, .type = type, .shape = shape, .strides = {}};
}

/// Heads inside of rows of `width` elements.
Operand part(ElementType type, Shape const& shape, std::int64_t width) {
  return {.data = nullptr,
          .type = type,
          .shape = shape,
          .strides = {shape[1] * width, width, shape[3], 1}};
}

/// Forward and backward of q, k, v that are parts of one tensor, as a layer has them.
struct Calls {
  FlashForwardOperands forward;
  FlashBackwardOperands backward;

  Calls(ElementType type, Case const& of) {
    std::int64_t const width = of.heads * of.d + of.kv_heads * (of.d + of.value_d);
    FlashAttributes attributes;
    attributes.scale = 0.1;
    attributes.window = of.window;
    Shape const q{of.s, of.b, of.heads, of.d};
    Shape const k{of.s, of.b, of.kv_heads, of.d};
    Shape const v{of.s, of.b, of.kv_heads, of.value_d};
    forward = {.sizes = flash_sizes(attributes, {}, q, k, v),
               .q = part(type, q, width),
               .k = part(type, k, width),
               .v = part(type, v, width),
               .context = dense(type, {of.s, of.b, of.heads, of.value_d}),
               .log_sums = dense(ElementType::f32, {of.b, of.heads, of.s}),
               .sinks = of.has_sinks ? this : nullptr};
    backward = {.sizes = forward.sizes,
                .d_context = forward.context,
                .q = forward.q,
                .k = forward.k,
                .v = forward.v,
                .context = forward.context,
                .log_sums = forward.log_sums,
                .dq = forward.q,
                .dk = forward.k,
                .dv = forward.v};
  }
};

TEST_CASE("cuDNN has kernels on Hopper for the attention that it is given", "[cudnn]") {
  if (!can_ask()) {
    WARN("not asked: cuDNN's library or the stub of the driver is not here");
    return;
  }
  auto const type = GENERATE(ElementType::bf16, ElementType::f16);
  Case const of =
      GENERATE(Case{1, 8, 1, 8192, 128, 128}, Case{4, 8, 8, 2048, 96, 96},
               Case{1, 8, 8, 2048, 256, 256}, Case{1, 16, 16, 4096, 192, 128},
               Case{2, 4, 2, 70, 16, 16}, Case{1, 8, 1, 8192, 128, 128, 1024},
               Case{1, 8, 1, 8192, 64, 64, 128, true}, Case{2, 4, 2, 37, 64, 64, 0, true});
  CAPTURE(of.heads, of.kv_heads, of.s, of.d, of.value_d, of.window, of.has_sinks);
  Calls const calls{type, of};
  REQUIRE(cudnn_obstacle(type, calls.forward.sizes, 0) == "");
  REQUIRE(reason_against([&](auto& graph) { add_forward(graph, type, calls.forward); }) == "");
  bool const in_order = GENERATE(false, true);
  REQUIRE(reason_against(
              [&](auto& graph) { add_backward(graph, type, calls.backward, in_order); }) == "");
}

TEST_CASE("a single position is cuDNN's to refuse", "[cudnn]") {
  if (!can_ask()) return;
  Calls const calls{ElementType::bf16, {1, 1, 1, 1, 64, 64}};
  REQUIRE_THAT(reason_against([&](auto& graph) {
                 add_backward(graph, ElementType::bf16, calls.backward, false);
               }),
               Catch::Contains("s_q = s_kv = 1"));
}

}  // namespace
}  // namespace stagecraft::test::cudnn_graphs_test
