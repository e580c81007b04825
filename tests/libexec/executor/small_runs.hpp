#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libexec/executor/job.hpp"
#include "libexec/kernels/cpu/cpu_kernels.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// A GPT small enough to run in milliseconds: 4 layers, h 16, 4 heads, s 8, 19 words (padded), two
/// sequences per microbatch, four microbatches.
TrainingConfig small_gpt(Precision precision);
/// The same with RMS norm, SwiGLU, rotary positions, two key and value heads, no biases, untied.
TrainingConfig small_llama(Precision precision);
/// Latent attention; query_rank 0: without a latent of queries.
TrainingConfig small_deepseek(Precision precision, std::int64_t query_rank);
/// Norms of each query and key head.
TrainingConfig small_qwen3(Precision precision);
/// Norms of all heads, and norms after attention and MLP, here with biases.
TrainingConfig small_olmo2(Precision precision);
/// Norms on both sides, a window in one of two layers, caps that scores and logits come near.
TrainingConfig small_gemma2(Precision precision);
/// The clamped gate of GPT-OSS.
TrainingConfig small_gpt_oss(Precision precision);
/// A layer of 4 experts, of which a token uses 2, beside one shared expert; 16 tokens per
/// microbatch.
TrainingConfig small_mixture(Precision precision);
/// As Llama 4 has it: one expert per token, whose input is multiplied by a sigmoid; sparse and
/// dense layers alternate.
TrainingConfig mixture_on_input(Precision precision);

/// Tensor, pipeline, data, expert and expert tensor ranks; sequence parallelism if t > 1.
ParallelLayout expert_layout(int t, int p, int d, int expert, int expert_tensor);
/// Selective recompute of these modules.
RecomputePolicy selective(std::vector<std::string> modules);

/// Sets what follows from other settings, as the reader of a configuration does.
TrainingConfig completed(TrainingConfig config);

/// Options and parts that tests change.
struct SmallRun {
  ExecutionOptions options{};
  GemmKind gemm = GemmKind::plain;
  int threads = 1;
  TokenSource const* tokens = nullptr;  ///< default: synthetic
  CommunicationCosts const* costs = nullptr;
  DeviceKind device = DeviceKind::cpu;
  bool fastest_products = false;  ///< on a CUDA device
};

Execution execute(TrainingConfig const& config, SmallRun const& run = {});

/// One tensor of the whole model.
struct WholeTensor {
  std::string name;
  std::vector<double> values;
};

/// The gradients of the whole model after one iteration without clipping, put together from the
/// ranks' parts; by name.
std::vector<WholeTensor> gradients_of(TrainingConfig config, SmallRun run = {});
/// The parameters after `steps` iterations.
std::vector<WholeTensor> parameters_after(TrainingConfig const& config,
                                          int steps,
                                          SmallRun run = {});

}  // namespace stagecraft
