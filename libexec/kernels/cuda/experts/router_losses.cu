#include <algorithm>

#include "libexec/kernels/cuda/block_scan.cuh"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/experts/token_threads.cuh"
#include "libexec/kernels/router_tokens.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// Marks the choices of tokens from `first` on in a map [tokens, experts].
template <typename S>
struct MarkCountedChoices {
  RouterTokens<S> all;
  std::int64_t first;
  Choice* map;

  __device__ void operator()(std::int64_t token) const {
    Choice* const choices = map + (token - first) * all.experts;
    for (std::int64_t e = 0; e < all.experts; ++e) choices[e] = Choice::none;
    for_counted_choices(all, token, [&](std::int64_t expert) { choices[expert] = Choice::chosen; });
  }
};

/// Tokens that are counted at once.
struct CountedTokens {
  std::int64_t first;
  std::int64_t count;
  std::int64_t sequences;
  std::int64_t experts;
};

/// counts = how many tokens of a sequence chose an expert; a block for each of both. Adds to those
/// of the tokens before if the first one is not the microbatch's.
template <typename C>
__global__ void __launch_bounds__(scan_threads)
    count_marked_choices(Choice const* map, CountedTokens const tokens, C* counts) {
  std::int64_t const expert = blockIdx.x;
  std::int64_t const sequence = blockIdx.y;
  int chosen = 0;
  for (std::int64_t i = threadIdx.x; i < tokens.count; i += blockDim.x) {
    bool const is_counted = (tokens.first + i) % tokens.sequences == sequence &&
                            map[i * tokens.experts + expert] == Choice::chosen;
    chosen += is_counted ? 1 : 0;
  }
  chosen = row_sum(chosen);
  if (threadIdx.x > 0) return;
  C& count = counts[sequence * tokens.experts + expert];
  count = static_cast<C>(chosen) + (tokens.first == 0 ? C{0} : count);
}

template <typename S>
void count_of(CudaContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  RouterTokens<S> const all{call, 0};
  std::int64_t const sequences = all.losses.sequences;
  C* const counts = expect_choice_counts(call, all);
  auto* const map = context.scratch_of<Choice>();
  std::int64_t const room = CudaContext::scratch_bytes / all.experts;
  expect(call, room > 0, "there are more experts than scratch memory has room for");
  for (std::int64_t first = 0; first < all.tokens; first += room) {
    std::int64_t const count = std::min(room, all.tokens - first);
    launch_for_tokens(context.stream, first, count, MarkCountedChoices<S>{all, first, map});
    launch(count_marked_choices<C>,
           dim3{static_cast<unsigned>(all.experts), static_cast<unsigned>(sequences)}, scan_threads,
           context.stream, map, CountedTokens{first, count, sequences, all.experts}, counts);
  }
}

/// Adds the counts of a microbatch; one block.
template <typename C>
__global__ void __launch_bounds__(scan_threads) average_counts(ChoiceCounter<C> const all) {
  C const microbatches = all.counter[all.experts] + 1;
  for (std::int64_t e = threadIdx.x; e < all.experts; e += blockDim.x) all.add(e, microbatches);
  __syncthreads();  // all have read their number
  if (threadIdx.x == 0) all.counter[all.experts] = microbatches;
}

constexpr int most_loss_blocks = 256;

/// partial[block] = the losses of a block's tokens.
template <typename S>
__global__ void __launch_bounds__(scan_threads)
    sum_token_losses(RouterTokens<S> const all, double* partial) {
  double sum = 0;
  std::int64_t const step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t token = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; token < all.tokens;
       token += step) {
    sum += loss_of_token(all, token);
  }
  sum = row_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// The sum of at most as many numbers as a block has threads; one block.
template <typename C>
__global__ void __launch_bounds__(scan_threads)
    sum_partial(double const* partial, int count, C* to) {
  double const own = static_cast<int>(threadIdx.x) < count ? partial[threadIdx.x] : 0;
  double const sum = row_sum(own);
  if (threadIdx.x == 0) to[0] = static_cast<C>(sum);
}

template <typename S>
void loss_of(CudaContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  static_assert(most_loss_blocks <= scan_threads);
  RouterTokens<S> const all{call, 0};
  C* const loss = expect_router_loss(call, all);
  auto const blocks = static_cast<int>(std::clamp<std::int64_t>(
      (all.tokens + warp_threads - 1) / warp_threads, 1, most_loss_blocks));
  auto* const partial = context.scratch_of<double>();
  // One warp per block, so that few tokens occupy many multiprocessors.
  launch(sum_token_losses<S>, static_cast<unsigned>(blocks), warp_threads, context.stream, all,
         partial);
  launch(sum_partial<C>, 1, scan_threads, context.stream, partial, blocks, loss);
}

template <typename T, typename S>
struct AddLossGradients {
  RouterTokens<S> all;
  Compute<S> weight;
  T* d_logits;

  __device__ void operator()(std::int64_t token) const {
    add_loss_gradients(all, token, weight, d_logits + token * all.experts);
  }
};

}  // namespace

void count_choices(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { count_of<decltype(tag)>(context, call); });
}

void average_choices(CudaContext const& context, KernelCall const& call) {
  auto const run = [&](auto tag) {
    using C = decltype(tag);
    launch(average_counts<C>, 1, scan_threads, context.stream, ChoiceCounter<C>{call});
  };
  call.reads[0].type == ElementType::f64 ? run(double{}) : run(float{});
}

void router_loss(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { loss_of<decltype(tag)>(context, call); });
}

void router_loss_backward(CudaContext const& context, KernelCall const& call) {
  with_gradient_types(call, [&](auto gradient, auto logit) {
    using T = decltype(gradient);
    using S = decltype(logit);
    RouterTokens<S> const all{call, 1};
    launch_for_tokens(context.stream, 0, all.tokens,
                      AddLossGradients<T, S>{all, static_cast<Compute<S>>(call.loss_gradient),
                                             expect_logit_gradients<T>(call, all)});
  });
}

}  // namespace stagecraft::cuda_ops
