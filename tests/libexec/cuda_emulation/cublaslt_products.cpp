// Products: what cuBLASLt asks of them, which algorithms it offers, and what it enqueues.
#include <cublasLt.h>

#include <cstring>
#include <optional>
#include <string>

#include "tests/libexec/cuda_emulation/cublaslt_objects.hpp"
#include "tests/libexec/cuda_emulation/device.hpp"
#include "tests/libexec/cuda_emulation/virtual_time.hpp"

namespace stagecraft::emulation {
namespace {

constexpr double flops_per_second = 1e13;

/// An algorithm as the interface passes it on, and what was promised when it was chosen.
struct Choice {
  std::uint64_t algorithm;
  std::uint64_t workspace;
  std::uint64_t alignment[4];
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t));

cublasLtMatmulAlgo_t packed(Choice const& choice) {
  cublasLtMatmulAlgo_t algorithm{};
  std::memcpy(&algorithm, &choice, sizeof choice);
  return algorithm;
}

Choice unpacked(cublasLtMatmulAlgo_t const& algorithm) {
  Choice choice{};
  std::memcpy(&choice, &algorithm, sizeof choice);
  return choice;
}

void require_types(cublasLtMatmulDescOpaque_t const& description, Product const& product) {
  bool const is_double = description.compute == CUBLAS_COMPUTE_64F;
  auto const input = product.a.type;
  auto const result = product.d.type;
  bool const is_scaled_so = description.scale == (is_double ? CUDA_R_64F : CUDA_R_32F);
  bool const is_kept = result == input || (result == CUDA_R_32F && !is_double);
  require(is_scaled_so && product.b.type == input && product.c.type == result && is_kept &&
              (input == CUDA_R_64F) == is_double,
          "these types have no algorithm", CUBLAS_STATUS_NOT_SUPPORTED);
}

/// The product that a description and four layouts make, if the library takes it.
Product make_product(cublasLtMatmulDesc_t description,
                     cublasLtMatrixLayout_t a,
                     cublasLtMatrixLayout_t b,
                     cublasLtMatrixLayout_t c,
                     cublasLtMatrixLayout_t d) {
  require(description != nullptr && a != nullptr && b != nullptr && c != nullptr && d != nullptr,
          "a description is null");
  Product product;
  product.transpose_a = description->operation_a == CUBLAS_OP_T;
  product.transpose_b = description->operation_b == CUBLAS_OP_T;
  product.a = a->layout;
  product.b = b->layout;
  product.c = c->layout;
  product.d = d->layout;
  product.has_bias = description->epilogue == CUBLASLT_EPILOGUE_BIAS;
  require(product.has_bias || description->epilogue == CUBLASLT_EPILOGUE_DEFAULT,
          "an epilogue that is not emulated", CUBLAS_STATUS_NOT_SUPPORTED);
  require(!product.has_bias || (d->layout.count == 1 && description->compute != CUBLAS_COMPUTE_64F),
          "a bias that is not emulated", CUBLAS_STATUS_NOT_SUPPORTED);
  for (cublasLtMatrixLayout_t const matrix : {a, b, c, d}) {
    require(matrix->order == CUBLASLT_ORDER_COL, "an order that is not emulated",
            CUBLAS_STATUS_NOT_SUPPORTED);
    Layout const& layout = matrix->layout;
    require(layout.rows > 0 && layout.columns > 0, "a matrix without elements");
    require(layout.leading_dimension >= layout.rows, "a leading dimension below the rows");
    require(layout.count == product.d.count && layout.count > 0, "batches of different counts");
  }
  Layout const& result = product.d;
  require(product.c.rows == result.rows && product.c.columns == result.columns,
          "C and D of different shapes");
  std::int64_t const depth = product.depth();
  require((product.transpose_a ? product.a.columns : product.a.rows) == result.rows &&
              (product.transpose_b ? product.b.rows : product.b.columns) == result.columns &&
              (product.transpose_b ? product.b.columns : product.b.rows) == depth,
          "matrices that do not fit together");
  // One matrix after another, or side by side within the leading dimension.
  bool const follow =
      result.stride >= (result.columns - 1) * result.leading_dimension + result.rows;
  bool const beside = result.stride >= result.rows &&
                      (result.count - 1) * result.stride + result.rows <= result.leading_dimension;
  require(result.count == 1 || follow || beside, "results of a batch that overlap");
  require_types(*description, product);
  return product;
}

/// What splitting a sum in two needs: both halves of each result.
std::size_t halves_bytes(Product const& product) {
  std::int64_t const width = product.a.type == CUDA_R_64F ? 8 : 4;
  return static_cast<std::size_t>(2 * width * product.d.rows * product.d.columns * product.d.count);
}

void require_memory(Device const& device,
                    void const* memory,
                    Layout const& layout,
                    std::uint64_t alignment,
                    char const* name) {
  std::string const matrix{name};
  if (!device.memory.contains(memory, static_cast<std::size_t>(extent_bytes(layout)),
                              MemoryKind::device)) {
    throw Refusal{CUBLAS_STATUS_INVALID_VALUE, matrix + " does not lie in memory of the device"};
  }
  if (reinterpret_cast<std::uintptr_t>(memory) % alignment != 0) {
    throw Refusal{CUBLAS_STATUS_INVALID_VALUE, matrix + " is not aligned to the " +
                                                   std::to_string(alignment) +
                                                   " bytes that its algorithm was chosen for"};
  }
}

bool overlap(void const* a, Layout const& of_a, void const* b, Layout const& of_b) {
  auto const* const first = static_cast<std::byte const*>(a);
  auto const* const second = static_cast<std::byte const*>(b);
  return first < second + extent_bytes(of_b) && second < first + extent_bytes(of_a);
}

}  // namespace
}  // namespace stagecraft::emulation

using namespace stagecraft::emulation;

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference,
                                              int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  return call([&] {
    require(handle != nullptr && preference != nullptr && results != nullptr && returned != nullptr,
            "an argument is null");
    require(requested > 0, "no algorithm is requested");
    *returned = 0;
    Product const product = make_product(description, a, b, c, d);
    Layout const* const layouts[] = {&product.a, &product.b, &product.c, &product.d};
    Choice choice{};
    for (std::size_t i = 0; i < 4; ++i) {
      choice.alignment[i] = preference->alignment[i];
      require(choice.alignment[i] >= static_cast<std::uint64_t>(element_bytes(layouts[i]->type)),
              "elements that are not aligned", CUBLAS_STATUS_NOT_SUPPORTED);
    }
    auto const offer = [&](Algorithm algorithm, std::size_t workspace) {
      if (*returned == requested) return;
      choice.algorithm = static_cast<std::uint64_t>(algorithm);
      choice.workspace = workspace;
      results[(*returned)++] = {packed(choice), workspace, CUBLAS_STATUS_SUCCESS, 1, {}};
    };
    bool const may_split = (preference->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0 &&
                           halves_bytes(product) <= preference->workspace;
    offer(Algorithm::forwards, 0);
    if (may_split) offer(Algorithm::halves, halves_bytes(product));
    offer(Algorithm::backwards, 0);
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle,
                              cublasLtMatmulDesc_t description,
                              void const* alpha,
                              void const* a,
                              cublasLtMatrixLayout_t a_layout,
                              void const* b,
                              cublasLtMatrixLayout_t b_layout,
                              void const* beta,
                              void const* c,
                              cublasLtMatrixLayout_t c_layout,
                              void* d,
                              cublasLtMatrixLayout_t d_layout,
                              cublasLtMatmulAlgo_t const* algorithm,
                              void* workspace,
                              std::size_t workspace_bytes,
                              cudaStream_t stream) {
  return call([&] {
    require(handle != nullptr && alpha != nullptr && beta != nullptr, "an argument is null");
    require(algorithm != nullptr, "no algorithm is named: the library would choose one itself",
            CUBLAS_STATUS_NOT_SUPPORTED);
    Product product = make_product(description, a_layout, b_layout, c_layout, d_layout);
    Choice const choice = unpacked(*algorithm);
    bool const is_double = description->scale == CUDA_R_64F;
    auto const read = [&](void const* number) -> double {
      return is_double ? *static_cast<double const*>(number) : *static_cast<float const*>(number);
    };
    product.alpha = read(alpha);
    product.beta = read(beta);
    product.algorithm = static_cast<Algorithm>(choice.algorithm);
    std::optional<Refusal> refusal;
    cudaError_t const status = Device::get().call([&](Device& device) {
      CUstream_st& on = device.schedule.stream(stream);
      try {
        require_memory(device, a, product.a, choice.alignment[0], "A");
        require_memory(device, b, product.b, choice.alignment[1], "B");
        require_memory(device, d, product.d, choice.alignment[3], "D");
        if (product.beta != 0) require_memory(device, c, product.c, choice.alignment[2], "C");
        if (product.has_bias) {
          require_memory(device, description->bias,
                         {.type = product.d.type,
                          .rows = product.d.rows,
                          .columns = 1,
                          .leading_dimension = product.d.rows},
                         16, "the bias");
        }
        require(!overlap(a, product.a, d, product.d) && !overlap(b, product.b, d, product.d),
                "D overlaps what it is computed from");
        require(choice.workspace <= workspace_bytes &&
                    (choice.workspace == 0 ||
                     device.memory.contains(workspace, choice.workspace, MemoryKind::device)),
                "less workspace than the algorithm needs");
        if (choice.workspace > 0)
          require(choice.workspace >= halves_bytes(product),
                  "the algorithm was chosen for a smaller product");
      } catch (Refusal const& caught) {
        refusal = caught;
        return;
      }
      double const flops = 2. * static_cast<double>(product.d.count) *
                           static_cast<double>(product.d.rows * product.d.columns) *
                           static_cast<double>(product.depth());
      void const* const bias = description->bias;  // it may be another's at the next call
      device.schedule.enqueue(on, start_seconds + flops / flops_per_second, [=] {
        // Scratch space is written, as a device does.
        if (choice.workspace > 0) std::memset(workspace, 0xFF, choice.workspace);
        multiply(product, a, b, c, bias, d);
      });
    });
    if (refusal) throw Refusal{*refusal};
    if (status != cudaSuccess)
      throw Refusal{CUBLAS_STATUS_EXECUTION_FAILED, cudaGetErrorString(status)};
  });
}
