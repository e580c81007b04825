#include "tests/libexec/executor/small_runs.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "libexec/backends/cpu_backend.hpp"
#include "libexec/backends/cuda_backend.hpp"
#include "libexec/backends/numbers.hpp"
#include "libexec/executor/job.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/parameter_layout.hpp"

namespace stagecraft {
namespace {

using WholeTensors = std::map<std::string, std::vector<double>>;

/// What a rank has of a tensor of the step, by its flat order; the others are empty.
std::vector<std::optional<double>> values_of(RankContext const& context,
                                             ParameterStore const& store,
                                             TensorId tensor) {
  std::vector<std::optional<double>> values(static_cast<std::size_t>(store.elements()));
  bool const has_all =
      tensor == step_tensor::parameters && !context.plan.config.sharding.shares_parameters();
  std::vector<OwnedRun> const runs =
      has_all ? std::vector<OwnedRun>{{0, store.elements(), 0}} : store.owned();
  for (OwnedRun const& run : runs) {
    FlatRange const range = store.part(tensor, run);
    std::vector<std::byte> bytes(range.bytes());
    context.backend.read(bytes.data(), range.data, bytes.size());
    std::vector<double> const own = decode(bytes, range.type);
    std::copy(own.begin(), own.end(), values.begin() + run.first);
  }
  return values;
}

/// Puts what this rank has of every parameter in its place.
void collect(WholeTensors& whole, RankContext const& context, ParameterStore& store, TensorId of) {
  std::vector<std::optional<double>> const values = values_of(context, store, of);
  for (PlacedParameter const& placed : store.layout()) {
    ParameterWindow const window = context.window(placed);
    std::vector<double>& tensor = whole[placed.name()];
    tensor.resize(static_cast<std::size_t>(window.whole_rows * window.whole_columns));
    for (RowRange const& rows : window.rows) {
      for (std::int64_t i = 0; i < rows.count; ++i) {
        for (std::int64_t j = 0; j < window.columns; ++j) {
          auto const from = placed.offset + (rows.local + i) * window.columns + j;
          std::optional<double> const& value = values[static_cast<std::size_t>(from)];
          if (!value) continue;
          auto const to = (rows.whole + i) * window.whole_columns + window.first_column + j;
          tensor[static_cast<std::size_t>(to)] = *value;
        }
      }
    }
  }
}

std::vector<WholeTensor> in_order(WholeTensors const& whole) {
  std::vector<WholeTensor> tensors;
  for (auto const& [name, values] : whole) tensors.push_back({name, values});
  return tensors;
}

std::vector<WholeTensor> collect_after(TrainingConfig const& config, SmallRun run, TensorId of) {
  WholeTensors whole;
  std::mutex mutex;
  run.options.after_last = [&](RankContext const& context, RankExecutor& executor,
                               StepReport const&) {
    std::scoped_lock const lock{mutex};
    collect(whole, context, executor.parameters(), of);
  };
  execute(config, run);
  return in_order(whole);
}

}  // namespace

TrainingConfig small_gpt(Precision precision) {
  TrainingConfig config;
  ModelConfig& model = config.model;
  model.layers = 4;
  model.hidden = 16;
  model.heads = 4;
  model.kv_heads = 4;
  model.head_dim = 4;
  model.sequence = 8;
  model.vocabulary = 19;
  model.vocabulary_multiple = 2;
  model.ffn_hidden = 64;
  model.precision = precision;
  config.batch = {.global = 8, .micro = 2};
  config.training.init_std = 0.3;  // so that gradients are not all close to zero
  return config;
}

TrainingConfig small_llama(Precision precision) {
  TrainingConfig config = small_gpt(precision);
  ModelConfig& model = config.model;
  model.kv_heads = 2;
  model.ffn_hidden = 24;
  model.norm = Norm::rmsnorm;
  model.activation = Activation::swiglu;
  model.positions = Positions::rotary;
  model.biases = false;
  model.tied_embeddings = false;
  return config;
}

TrainingConfig small_deepseek(Precision precision, std::int64_t query_rank) {
  TrainingConfig config = small_llama(precision);
  ModelConfig& model = config.model;
  model.latent_attention = {
      .query_rank = query_rank, .key_rank = 10, .nope_dim = 4, .rope_dim = 2, .value_dim = 5};
  model.kv_heads = model.heads;
  model.head_dim = 6;
  return config;
}

TrainingConfig small_qwen3(Precision precision) {
  TrainingConfig config = small_llama(precision);
  config.model.qk_norm = QkNorm::head;
  return config;
}

TrainingConfig small_olmo2(Precision precision) {
  TrainingConfig config = small_gpt(precision);
  config.model.qk_norm = QkNorm::full;
  config.model.norms = NormPlaces::post;
  return config;
}

TrainingConfig small_gemma2(Precision precision) {
  TrainingConfig config = small_llama(precision);
  ModelConfig& model = config.model;
  model.norms = NormPlaces::both;
  model.activation = Activation::geglu;
  model.attention_softcap = 0.05;
  model.logit_softcap = 0.3;
  LayerConfig windowed = model;
  windowed.window = 3;
  model.pattern = {{windowed, 1}, {model, 1}};
  return config;
}

TrainingConfig small_gpt_oss(Precision precision) {
  TrainingConfig config = small_gpt(precision);
  config.model.activation = Activation::swiglu_clamped;
  return config;
}

TrainingConfig small_mixture(Precision precision) {
  TrainingConfig config = small_llama(precision);
  config.model.experts =
      ExpertsConfig{.count = 4, .per_token = 2, .ffn_hidden = 12, .shared_ffn_hidden = 8};
  return config;
}

TrainingConfig mixture_on_input(Precision precision) {
  TrainingConfig config = small_llama(precision);
  config.model.experts =
      ExpertsConfig{.count = 4,
                    .per_token = 1,
                    .ffn_hidden = 12,
                    .shared_ffn_hidden = 12,
                    .every = 2,
                    .offset = 1,
                    .probabilities_on = ProbabilitiesOn::input,
                    .router = {.score = RouterScore::sigmoid, .normalise = false}};
  return config;
}

ParallelLayout expert_layout(int t, int p, int d, int expert, int expert_tensor) {
  return {.tensor = t,
          .pipeline = p,
          .data = d,
          .sequence = t > 1,
          .expert = expert,
          .expert_tensor = expert_tensor};
}

RecomputePolicy selective(std::vector<std::string> modules) {
  return {.granularity = RecomputeGranularity::selective, .modules = std::move(modules)};
}

TrainingConfig completed(TrainingConfig config) {
  if (config.schedule.kind == ScheduleKind::interleaved && config.schedule.group == 0) {
    config.schedule.group = config.parallel.pipeline;
  }
  return config;
}

Execution execute(TrainingConfig const& config, SmallRun const& run) {
  TrainingPlan const plan = make_plan(as_settled(completed(config)));
  auto const synthetic = synthetic_tokens(config.model.vocabulary, 7);
  CpuKernelOptions const kernels{.gemm = run.gemm, .threads = run.threads};
  auto const choices = run.fastest_products ? make_product_choices() : nullptr;
  ExecutionParts const parts{.make_backend =
                                 [&](KernelNeeds const& needs) {
                                   return run.device == DeviceKind::cuda
                                              ? make_cuda_backend(needs, 0, choices)
                                              : make_cpu_backend(needs, kernels);
                                 },
                             .device = run.device,
                             .tokens = run.tokens != nullptr ? run.tokens : synthetic.get(),
                             .costs = run.costs};
  return execute_on_threads(plan, parts, run.options);
}

std::vector<WholeTensor> gradients_of(TrainingConfig config, SmallRun run) {
  config.training.clip = 0;
  run.options.steps = 1;
  return collect_after(config, std::move(run), step_tensor::gradients);
}

std::vector<WholeTensor> parameters_after(TrainingConfig const& config, int steps, SmallRun run) {
  run.options.steps = steps;
  return collect_after(config, std::move(run), step_tensor::parameters);
}

}  // namespace stagecraft
