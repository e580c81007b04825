#include "libexec/kernels/cuda/products/cublaslt_gemm.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "libexec/kernels/cuda/cuda_check.hpp"
#include "libexec/kernels/cuda/products/algorithm_timer.hpp"
#include "libexec/kernels/cuda/products/lt_product.hpp"

namespace stagecraft {
namespace {

/// The number of algorithms asked of the heuristic: a few, to use the first, or all, to be timed.
constexpr int few_algorithms = 8;
constexpr int all_algorithms = 100;
/// The limit for timing the algorithms of one product; the most promising ones come first.
constexpr float most_milliseconds = 250;
/// The number of sizes of groups of rows whose algorithms are kept. Each takes about a kilobyte.
constexpr std::size_t most_groups_known = 8192;
/// An algorithm that takes so many times as long as the best is timed only once.
constexpr float not_worth_it = 1.2F;

struct ChosenAlgorithm {
  LtDescription description;
  cublasLtMatmulAlgo_t algorithm;
};

bool has_one_stride(MatrixBatch const& batch) {
  return batch.heads == 1 || batch.heads == batch.count ||
         batch.batch_stride == batch.heads * batch.head_stride;
}

/// The least alignment of a bias: vectors of an epilogue are read in accesses of 16 bytes.
constexpr std::uintptr_t bias_alignment = 16;

/// Every step'th matrix from `first` on. Pre: the distances between them are equal.
StridedMatrices matrices_from(MatrixBatch const& batch, std::int64_t first, std::int64_t step) {
  auto const place = [&](std::int64_t index) {
    return index / batch.heads * batch.batch_stride + index % batch.heads * batch.head_stride;
  };
  std::int64_t const start = place(first);
  std::int64_t const stride = first + step < batch.count ? place(first + step) - start : 0;
  return {batch.data + start * element_size(batch.type), stride};
}

/// A product without its matrices.
StridedProduct without_matrices(MatrixProduct const& product) {
  return {.shape = product.shape,
          .type = product.a.type,
          .c_type = product.c.type,
          .row_strides = {product.a.row_stride, product.b.row_stride, product.c.row_stride},
          .matrices = {}};
}

/// The product of two single matrices.
StridedProduct single(MatrixProduct const& product) {
  StridedProduct call = without_matrices(product);
  call.matrices = {matrices_from(product.a, 0, 1), matrices_from(product.b, 0, 1),
                   matrices_from(product.c, 0, 1)};
  return call;
}

}  // namespace

struct ProductChoices {
  std::recursive_mutex measuring;  ///< held while anything is looked up or timed
  std::map<ProductKey, cublasLtMatmulAlgo_t> algorithms;
  std::map<ProductKey, bool> faster_with_bias;
};

std::shared_ptr<ProductChoices> make_product_choices() {
  return std::make_shared<ProductChoices>();
}

/// The handle, and the algorithms that were chosen for shapes so far. The workspace and the stream
/// are the backend's.
struct CublasLtGemm::State {
  cudaStream_t stream;
  std::shared_ptr<ProductChoices> choices;  ///< or null
  void* workspace;
  std::size_t workspace_size;
  LtHandle handle;
  std::map<ProductKey, ChosenAlgorithm> chosen;
  std::map<ProductKey, ChosenAlgorithm> of_groups;  ///< forgotten when there are too many

  /// The heuristic's first algorithm; nullopt if cuBLASLt has none.
  std::optional<ChosenAlgorithm> choose_first(StridedProduct const& product) {
    LtDescription description{product};
    std::vector<cublasLtMatmulHeuristicResult_t> room(few_algorithms);
    auto const found = description.find_algorithms(handle.get(), workspace_size, room);
    if (found.empty()) return std::nullopt;
    return ChosenAlgorithm{std::move(description), found.front().algo};
  }

  /// Returns nullopt if cuBLASLt has no algorithm.
  std::optional<ChosenAlgorithm> choose(StridedProduct const& product) {
    if (choices == nullptr) return choose_first(product);
    LtDescription description{product};
    std::scoped_lock const lock{choices->measuring};
    ProductKey const key = key_of(product);
    auto known = choices->algorithms.find(key);
    if (known == choices->algorithms.end()) {
      auto const fastest = measure(description, product);
      if (!fastest) return std::nullopt;
      known = choices->algorithms.emplace(key, *fastest).first;
    }
    return ChosenAlgorithm{std::move(description), known->second};
  }

  std::optional<cublasLtMatmulAlgo_t> measure(LtDescription& description,
                                              StridedProduct const& product) {
    std::vector<cublasLtMatmulHeuristicResult_t> room(all_algorithms);
    auto const found = description.find_algorithms(handle.get(), workspace_size, room);
    if (found.empty()) return std::nullopt;
    AlgorithmTimer timer{stream, product};
    float best_time = std::numeric_limits<float>::infinity();
    cublasLtMatmulAlgo_t best = found.front().algo;
    for (cublasLtMatmulHeuristicResult_t const& candidate : found) {
      if (timer.total_milliseconds() > most_milliseconds) break;
      std::optional<float> const time = timer.milliseconds(
          [&](void* c) {
            return description.launch(handle.get(), product, c, candidate.algo, workspace,
                                      workspace_size, stream);
          },
          not_worth_it * best_time);
      if (!time || *time >= best_time) continue;
      best_time = *time;
      best = candidate.algo;
    }
    return best;
  }

  /// The choice that is known for a product, or that of `choose_new`, which is kept.
  template <typename Choose>
  static ChosenAlgorithm& choice_among(std::map<ProductKey, ChosenAlgorithm>& known,
                                       StridedProduct const& product,
                                       Choose const& choose_new) {
    ProductKey const key = key_of(product);
    auto found = known.find(key);
    if (found != known.end()) return found->second;
    auto choice = choose_new();
    if (!choice) {
      refuse(OpKind::gemm, ("cuBLASLt has no algorithm for " + describe(product)).c_str());
    }
    return known.emplace(key, std::move(*choice)).first->second;
  }
  ChosenAlgorithm& choice_for(StridedProduct const& product) {
    return choice_among(chosen, product, [&] { return choose(product); });
  }
  ChosenAlgorithm& choice_for_group(StridedProduct const& product) {
    if (of_groups.size() >= most_groups_known) of_groups.clear();
    return choice_among(of_groups, product, [&] { return choose_first(product); });
  }

  cublasStatus_t launch(ChosenAlgorithm& choice, StridedProduct const& product, void* c) {
    return choice.description.launch(handle.get(), product, c, choice.algorithm, workspace,
                                     workspace_size, stream);
  }

  void launch(StridedProduct const& product) {
    check(launch(choice_for(product), product, product.matrices[2].data), "cublasLtMatmul");
  }
  void launch_group(StridedProduct const& product) {
    check(launch(choice_for_group(product), product, product.matrices[2].data), "cublasLtMatmul");
  }

  bool prefers_bias(StridedProduct const& biased, std::function<void(void* c)> const& add_bias) {
    auto choice = choose(biased);
    if (!choice) return false;
    StridedProduct plain = biased;
    plain.bias = nullptr;
    ChosenAlgorithm& without = choice_for(plain);
    AlgorithmTimer timer{stream, plain};
    auto const together = timer.milliseconds([&](void* c) { return launch(*choice, biased, c); });
    auto const in_turn = timer.milliseconds([&](void* c) {
      cublasStatus_t const status = launch(without, plain, c);
      if (status == CUBLAS_STATUS_SUCCESS) add_bias(c);
      return status;
    });
    return together && in_turn && *together < *in_turn;
  }
};

CublasLtGemm::CublasLtGemm(CUstream_st* stream,
                           std::shared_ptr<ProductChoices> choices,
                           void* workspace)
    : state_{std::make_unique<State>()} {
  cublasLtHandle_t made = nullptr;
  check(cublasLtCreate(&made), "cublasLtCreate");
  state_->handle.reset(made);
  state_->stream = stream;
  state_->choices = std::move(choices);
  state_->workspace = workspace;
  state_->workspace_size = workspace_bytes();
}

CublasLtGemm::~CublasLtGemm() = default;

void CublasLtGemm::multiply(MatrixProduct const& product, void const* bias) {
  std::array<MatrixBatch const*, 3> const operands{&product.a, &product.b, &product.c};
  StridedProduct call = without_matrices(product);
  call.bias = bias;
  std::int64_t const count = product.shape.batch;
  // If an operand's matrices have two strides, each launch is along one axis; operands whose
  // matrices have one stride can be split along either axis.
  std::int64_t heads = count;
  bool one_axis = true;
  for (MatrixBatch const* operand : operands) {
    if (has_one_stride(*operand)) continue;
    if (!one_axis && operand->heads != heads) {
      refuse(OpKind::gemm, "the operands have different numbers of heads");
    }
    one_axis = false;
    heads = operand->heads;
  }
  bool const along_heads = one_axis || heads >= count / heads;
  std::int64_t const launches = one_axis ? 1 : std::min(heads, count / heads);
  std::int64_t const step = along_heads ? 1 : heads;
  call.shape.batch = count / launches;
  for (std::int64_t i = 0; i < launches; ++i) {
    std::int64_t const first = along_heads ? i * heads : i;
    for (std::size_t k = 0; k < 3; ++k) call.matrices[k] = matrices_from(*operands[k], first, step);
    state_->launch(call);
  }
}

void CublasLtGemm::multiply_group(MatrixProduct const& product) {
  state_->launch_group(single(product));
}

bool CublasLtGemm::is_faster_with_bias(MatrixProduct const& product,
                                       void const* bias,
                                       std::function<void(void* c)> const& add_bias) {
  bool const fits = product.shape.batch == 1 && !product.shape.accumulate &&
                    reinterpret_cast<std::uintptr_t>(bias) % bias_alignment == 0;
  if (state_->choices == nullptr || !fits) return false;
  StridedProduct call = single(product);
  call.bias = bias;
  std::scoped_lock const lock{state_->choices->measuring};
  auto const [decided, is_new] = state_->choices->faster_with_bias.try_emplace(key_of(call), false);
  if (is_new) decided->second = state_->prefers_bias(call, add_bias);
  return decided->second;
}

std::size_t CublasLtGemm::workspace_bytes() {
  int device = 0;
  int major = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "cudaDeviceGetAttribute");
  return std::size_t{major >= 9 ? 32U : 4U} << 20;
}

}  // namespace stagecraft
