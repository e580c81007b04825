#pragma once

#include <cstdint>

#include "libexec/kernels/cuda/block_scan.cuh"
#include "libexec/kernels/expert_choice.hpp"

namespace stagecraft {

/// Tokens that are where their number says.
struct TokensInOrder {
  STAGECRAFT_HOST_DEVICE std::int64_t operator()(std::int64_t token) const { return token; }
};

/// limit_expert() by a block per expert. A choice is kept if fewer than `expert_rows` others are
/// dropped after it.
template <typename C, typename PlaceOf>
__global__ void __launch_bounds__(scan_threads) limit_experts(MapSize const size,
                                                              RoutingAttributes const routing,
                                                              C const* probabilities,
                                                              Choice* choices,
                                                              PlaceOf const place_of) {
  std::int64_t const expert = blockIdx.x;
  std::int64_t const rows = routing.expert_rows;
  auto const element = [&](std::int64_t i) { return place_of(i) * size.experts + expert; };
  auto const claim = [&](std::int64_t i) { return Claim<C>{i, probabilities[element(i)]}; };
  int chosen = 0;
  for (std::int64_t i = threadIdx.x; i < size.tokens; i += blockDim.x) {
    chosen += choices[element(i)] == Choice::chosen ? 1 : 0;
  }
  std::int64_t const taken = row_sum(chosen);
  if (taken > rows) {
    __shared__ C probability[scan_threads];
    __shared__ bool is_taken[scan_threads];
    for (std::int64_t first = 0; first < size.tokens; first += blockDim.x) {
      std::int64_t const i = first + threadIdx.x;
      bool const is_own = i < size.tokens && is_chosen(choices[element(i)]);
      Claim<C> const own = is_own ? claim(i) : Claim<C>{};
      std::int64_t better = 0;
      for (std::int64_t tile = 0; tile < size.tokens; tile += blockDim.x) {
        std::int64_t const j = tile + threadIdx.x;
        __syncthreads();  // the tile before has been read
        // A choice that has been dropped meanwhile still counts: the token made it.
        is_taken[threadIdx.x] = j < size.tokens && is_chosen(choices[element(j)]);
        if (is_taken[threadIdx.x]) probability[threadIdx.x] = probabilities[element(j)];
        __syncthreads();
        for (unsigned t = 0; t < blockDim.x; ++t) {
          bool const counts = is_own && is_taken[t] && tile + t != i;
          if (!counts) continue;
          better += is_dropped_first(routing.drop, own, Claim<C>{tile + t, probability[t]}) ? 1 : 0;
        }
      }
      if (is_own && better >= rows) choices[element(i)] = Choice::dropped;
    }
    return;
  }
  std::int64_t left = routing.pads ? rows - taken : 0;
  for (std::int64_t first = 0; first < size.tokens && left > 0; first += blockDim.x) {
    std::int64_t const i = first + threadIdx.x;
    bool const is_free = i < size.tokens && choices[element(i)] == Choice::none;
    BlockSum<int> const free = block_prefix(is_free ? 1 : 0);
    if (is_free && free.before < left) choices[element(i)] = Choice::padding;
    left -= free.all;
  }
}

template <typename C, typename PlaceOf>
void launch_limit_experts(cudaStream_t stream,
                          MapSize const& size,
                          RoutingAttributes const& routing,
                          C const* probabilities,
                          Choice* choices,
                          PlaceOf const& place_of) {
  if (size.tokens == 0) return;
  launch(limit_experts<C, PlaceOf>, static_cast<unsigned>(size.experts), scan_threads, stream, size,
         routing, probabilities, choices, place_of);
}

}  // namespace stagecraft
