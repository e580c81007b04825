#include <algorithm>
#include <span>

#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/experts/limit_experts.cuh"
#include "libexec/kernels/cuda/experts/token_threads.cuh"
#include "libexec/kernels/expert_choice.hpp"
#include "libexec/kernels/router_formulas.hpp"

namespace stagecraft::cuda_ops {
namespace {

template <typename S>
struct RouteToken {
  using C = Compute<S>;
  RoutingAttributes routing;
  ForcedChoices forced;
  std::int64_t experts;
  S const* logits;
  C* probabilities;
  C* scores;
  Choice* choices;

  __device__ void operator()(std::int64_t token) const {
    std::int64_t const first = token * experts;
    route_token<S>(routing, forced, token, experts, logits + first, probabilities + first,
                   scores + first, choices + first);
  }
};

template <typename S>
struct RouteTokenBackward {
  using C = Compute<S>;
  RoutingAttributes routing;
  std::int64_t experts;
  C const* gradient;
  C const* scores;
  Choice const* choices;
  S* d_logits;

  __device__ void operator()(std::int64_t token) const {
    std::int64_t const first = token * experts;
    route_token_backward<S>(routing, experts, gradient + first, scores + first, choices + first,
                            d_logits + first);
  }
};

/// What fits into the parameters of a launch, which are at most 4 KiB.
constexpr std::int64_t values_per_launch = 256;

struct LaunchedValues {
  std::int64_t value[values_per_launch];
};

__global__ void __launch_bounds__(values_per_launch)
    store_values(LaunchedValues const values, std::int64_t count, std::int64_t* to) {
  if (threadIdx.x < count) to[threadIdx.x] = values.value[threadIdx.x];
}

/// Writes numbers of the host to device memory, in the order of the stream. They travel as
/// parameters of launches, so that they need not outlive the call, nor the call wait, as a copy
/// from pageable memory may.
void store_host_values(cudaStream_t stream,
                       std::span<std::int64_t const> values,
                       std::int64_t* to) {
  auto const count = static_cast<std::int64_t>(values.size());
  for (std::int64_t first = 0; first < count; first += values_per_launch) {
    std::int64_t const some = std::min(values_per_launch, count - first);
    LaunchedValues launched{};
    std::copy_n(values.begin() + first, some, launched.value);
    launch(store_values, 1, static_cast<unsigned>(values_per_launch), stream, launched, some,
           to + first);
  }
}

/// The choices that a plan forces, with their ends in scratch memory.
ForcedChoices forced_on_device(CudaContext const& context,
                               KernelCall const& call,
                               std::int64_t tokens) {
  ForcedChoices forced = forced_choices(context.tensor_rank, context.sequence, call, tokens);
  if (!forced.exist()) return forced;
  auto const experts = static_cast<std::size_t>(forced.slots.experts);
  expect(call, experts * sizeof(std::int64_t) <= CudaContext::scratch_bytes,
         "there are more experts than scratch memory has room for");
  auto* const ends = context.scratch_of<std::int64_t>();
  store_host_values(context.stream, {forced.slots.ends, experts}, ends);
  forced.slots.ends = ends;
  return forced;
}

}  // namespace

void route(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    auto const& routing = attributes_of<RoutingAttributes>(call);
    MapSize const size = expect_route<S>(call);
    RouteToken<S> const body{.routing = routing,
                             .forced = forced_on_device(context, call, size.tokens),
                             .experts = size.experts,
                             .logits = elements_of<S>(call.reads[0]),
                             .probabilities = elements_of<C>(call.writes[0]),
                             .scores = elements_of<C>(call.writes[1]),
                             .choices = elements_of<Choice>(call.writes[2])};
    launch_for_tokens(context.stream, 0, size.tokens, body);
    if (routing.expert_rows == 0) return;
    launch_limit_experts(context.stream, size, routing, body.probabilities, body.choices,
                         TokensInOrder{});
  });
}

void route_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.writes[0].type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    MapSize const size = expect_route_backward<S>(call);
    launch_for_tokens(
        context.stream, 0, size.tokens,
        RouteTokenBackward<S>{attributes_of<RoutingAttributes>(call), size.experts,
                              elements_of<C>(call.reads[0]), elements_of<C>(call.reads[1]),
                              elements_of<Choice>(call.reads[2]), elements_of<S>(call.writes[0])});
  });
}

void limit_choices(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using C = Compute<decltype(tag)>;
    LimitedChoices const all = expect_limit_choices<C>(context.tensor_rank, context.sequence, call);
    auto* const choices = elements_of<Choice>(call.writes[0]);
    launch_limit_experts(context.stream, all.size, attributes_of<RoutingAttributes>(call),
                         elements_of<C>(call.reads[0]), choices, all.place_of);
    check(cudaMemcpyAsync(call.writes[1].data, choices + all.first_own,
                          static_cast<std::size_t>(all.own), cudaMemcpyDeviceToDevice,
                          context.stream),
          "cudaMemcpyAsync");
  });
}

}  // namespace stagecraft::cuda_ops
