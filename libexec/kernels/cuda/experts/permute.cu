#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/experts/token_rows.cuh"
#include "libexec/kernels/cuda/experts/token_threads.cuh"
#include "libexec/kernels/cuda/row_numbers.cuh"
#include "libexec/kernels/token_choices.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// The probability of each row of a token.
template <typename C>
struct PermuteProbabilities {
  RowMap rows;
  ExpertRange experts;
  C const* probabilities;
  C* of_rows;

  __device__ void operator()(std::int64_t token) const {
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      of_rows[rows.row(token, j)] = probabilities[experts.element(token, rows.expert(token, j))];
    }
  }
};

/// The gradients of a token's probabilities.
template <typename C>
struct PermuteProbabilitiesBackward {
  RowMap rows;
  ExpertRange experts;
  C const* of_rows;
  C* d_probabilities;

  __device__ void operator()(std::int64_t token) const {
    for (std::int64_t e = 0; e < experts.all; ++e) d_probabilities[token * experts.all + e] = 0;
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      d_probabilities[experts.element(token, rows.expert(token, j))] = of_rows[rows.row(token, j)];
    }
  }
};

/// Rows that the plan has no room for are left out: whoever asks the device how many there are, as
/// grouped_gemm's host does, refuses them.
template <typename S>
void permute_of(CudaContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  PermuteOperands const all = expect_permute<S>(context.expert_rank, call);
  expect(call, all.rows.experts * sizeof(std::int32_t) <= CudaContext::scratch_bytes,
         "there are more experts than scratch memory has room for");
  launch_row_numbers(context.stream, HasRow{elements_of<Choice>(call.reads[2]), all.experts},
                     all.rows, all.room, context.scratch_of<std::int32_t>());
  spread_rows<S>(context, call, all.rows, call.reads[0], call.writes[0]);
  launch_for_tokens(context.stream, 0, all.rows.tokens,
                    PermuteProbabilities<C>{all.rows, all.experts, elements_of<C>(call.reads[1]),
                                            elements_of<C>(call.writes[1])});
}

template <typename S>
void permute_backward_of(CudaContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  PermuteOperands const all = expect_permute_backward<S>(context.expert_rank, call);
  sum_rows<S>(context, call, all.rows, call.reads[0], call.writes[0]);
  launch_for_tokens(
      context.stream, 0, all.rows.tokens,
      PermuteProbabilitiesBackward<C>{all.rows, all.experts, elements_of<C>(call.reads[1]),
                                      elements_of<C>(call.writes[1])});
}

}  // namespace

void permute(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { permute_of<decltype(tag)>(context, call); });
}

void permute_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { permute_backward_of<decltype(tag)>(context, call); });
}

void unpermute(CudaContext const& context, KernelCall const& call) {
  RowMap const rows = row_map_of(call, call.reads[1]);
  with_storage_type(call, [&](auto tag) {
    sum_rows<decltype(tag)>(context, call, rows, call.reads[0], call.writes[0]);
  });
}

void unpermute_backward(CudaContext const& context, KernelCall const& call) {
  RowMap const rows = row_map_of(call, call.reads[1]);
  with_storage_type(call, [&](auto tag) {
    spread_rows<decltype(tag)>(context, call, rows, call.reads[0], call.writes[0]);
  });
}

void count_rows(CudaContext const& context, KernelCall const& call) {
  ExpertRange const experts = expect_count_rows(context.expert_rank, call);
  HasRow const has{elements_of<Choice>(call.reads[0]), experts};
  launch(count_rows_of_columns<HasRow>, static_cast<unsigned>(experts.count), scan_threads,
         context.stream, has, call.reads[0].shape[0], elements_of<std::int32_t>(call.writes[0]));
}

}  // namespace stagecraft::cuda_ops
