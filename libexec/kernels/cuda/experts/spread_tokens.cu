#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/experts/token_rows.cuh"
#include "libexec/kernels/cuda/experts/token_threads.cuh"
#include "libexec/kernels/cuda/row_numbers.cuh"
#include "libexec/kernels/expert_rows.hpp"
#include "libexec/kernels/token_choices.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// The probabilities that go with each row of a token.
template <typename C>
struct SpreadProbabilities {
  RowMap rows;
  ExpertsOfRanks experts;
  Choice const* choices;
  C const* probabilities;
  C* of_rows;

  __device__ void operator()(std::int64_t token) const {
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      std::int64_t const first = token * experts.all + experts.first_of(rows.expert(token, j));
      C* const to = of_rows + rows.row(token, j) * experts.local;
      for (std::int64_t e = 0; e < experts.local; ++e) {
        to[e] = has_row(choices[first + e]) ? probabilities[first + e] : C{not_chosen};
      }
    }
  }
};

template <typename C>
struct SpreadProbabilitiesBackward {
  RowMap rows;
  ExpertsOfRanks experts;
  C const* of_rows;
  C* d_probabilities;

  __device__ void operator()(std::int64_t token) const {
    C* const to = d_probabilities + token * experts.all;
    for (std::int64_t e = 0; e < experts.all; ++e) to[e] = 0;
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      C const* const of_row = of_rows + rows.row(token, j) * experts.local;
      C* const of_rank = to + experts.first_of(rows.expert(token, j));
      for (std::int64_t e = 0; e < experts.local; ++e) of_rank[e] += of_row[e];
    }
  }
};

template <typename S>
void spread_tokens_of(CudaContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  SpreadOperands const all = expect_spread_tokens<S>(call);
  auto const* const choices = elements_of<Choice>(call.reads[2]);
  launch_row_numbers(context.stream, GoesToRank{choices, all.experts}, all.rows, all.room,
                     elements_of<std::int32_t>(call.writes[3]));
  spread_rows<S>(context, call, all.rows, call.reads[0], call.writes[0]);
  launch_for_tokens(
      context.stream, 0, all.rows.tokens,
      SpreadProbabilities<C>{all.rows, all.experts, choices, elements_of<C>(call.reads[1]),
                             elements_of<C>(call.writes[1])});
}

template <typename S>
void spread_tokens_backward_of(CudaContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  SpreadOperands const all = expect_spread_tokens_backward<S>(call);
  sum_rows<S>(context, call, all.rows, call.reads[0], call.writes[0]);
  launch_for_tokens(
      context.stream, 0, all.rows.tokens,
      SpreadProbabilitiesBackward<C>{all.rows, all.experts, elements_of<C>(call.reads[1]),
                                     elements_of<C>(call.writes[1])});
}

/// Marks the choices of tokens that have arrived, as many as the last of `arrived` says.
template <typename C>
struct MarkChoices {
  static constexpr int in_flight = 1;
  C const* probabilities;
  Choice* choices;
  std::int64_t const* arrived;

  template <int width>
  struct Loaded {
    Pack<C, width> probability;
    bool has_arrived;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(probabilities + at.element), at.row < *arrived};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      bool const is_chosen = in.has_arrived && in.probability[i] >= 0;
      choices[at.element + i] = is_chosen ? Choice::chosen : Choice::none;
    }
  }
};

template <typename C>
void mark_choices_of(CudaContext const& context, KernelCall const& call) {
  expect_mark_choices<C>(call);
  Operand const& probabilities = call.reads[0];
  std::int64_t const ranks = call.reads[1].shape.elements();
  expect(call, (ranks + 1) * sizeof(std::int64_t) <= CudaContext::scratch_bytes,
         "there are more ranks than scratch memory has room for");
  auto* const sums = context.scratch_of<std::int64_t>();
  launch_running_sums(context.stream,
                      GroupCounts{elements_of<std::int32_t>(call.reads[1]), 1, ranks}, ranks, sums);
  MarkChoices<C> const body{elements_of<C>(probabilities), elements_of<Choice>(call.writes[0]),
                            sums + ranks};
  constexpr int width = pack_width<C>;
  launch_element_wise<width>(context.stream,
                             extent_of(probabilities.shape[0], probabilities.shape[1]),
                             can_pack(width, body.probabilities), body);
}

}  // namespace

void spread_tokens(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { spread_tokens_of<decltype(tag)>(context, call); });
}

void spread_tokens_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call,
                    [&](auto tag) { spread_tokens_backward_of<decltype(tag)>(context, call); });
}

void mark_choices(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call,
                    [&](auto tag) { mark_choices_of<Compute<decltype(tag)>>(context, call); });
}

}  // namespace stagecraft::cuda_ops
