#include "libexec/calibration/kernel_measurement.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "libexec/calibration/sample_statistics.hpp"

namespace stagecraft {
namespace {

/// Communication takes no time: only kernels are of interest.
class NoPrices : public CommunicationPrices {
 public:
  SimTime collective(Op const& /*op*/) const override { return SimTime{0}; }
  MessageTime message(int /*from*/, int /*to*/) const override { return {}; }
};

struct Size {
  std::int64_t hidden, heads, sequence, micro;
};
constexpr std::array sizes{Size{64, 4, 32, 1}, Size{128, 4, 128, 2}, Size{256, 8, 256, 2},
                           Size{512, 8, 256, 4}};

TrainingConfig model_of(Size const& size, Precision precision) {
  TrainingConfig config;
  ModelConfig& model = config.model;
  model.layers = 1;
  model.hidden = size.hidden;
  model.heads = size.heads;
  model.kv_heads = size.heads;
  model.head_dim = size.hidden / size.heads;
  model.sequence = size.sequence;
  model.vocabulary = 16 * size.hidden;
  model.ffn_hidden = 4 * size.hidden;
  model.precision = precision;
  config.batch = {.global = 2 * size.micro, .micro = size.micro};
  return config;
}

/// The models whose ops together are all kinds.
std::vector<TrainingConfig> models(Precision precision) {
  std::vector<TrainingConfig> all;
  for (Size const& size : sizes) {
    TrainingConfig const gpt = model_of(size, precision);
    TrainingConfig llama = gpt;
    llama.model.norm = Norm::rmsnorm;
    llama.model.activation = Activation::swiglu;
    llama.model.positions = Positions::rotary;
    llama.model.kv_heads = llama.model.heads / 2;
    llama.model.tied_embeddings = false;
    llama.model.biases = false;
    TrainingConfig flash = llama;
    flash.model.attention = Attention::flash;
    flash.model.activation = Activation::geglu;
    TrainingConfig relu = gpt;
    relu.model.activation = Activation::relu;
    all.insert(all.end(), {gpt, llama, flash, relu});
  }
  return all;
}

std::map<std::string, OpKind> kinds_of(TrainingPlan const& plan) {
  std::map<std::string, OpKind> kinds;
  auto const add = [&](std::vector<Op> const& ops) {
    for (Op const& op : ops) kinds[to_string(op.name)] = op.kind;
  };
  for (BlockProgram const& block : plan.blocks) {
    add(block.forward);
    add(block.backward);
  }
  for (RankPlan const& rank : plan.ranks) add(rank.step_ops);
  return kinds;
}

bool is_measured(OpKind kind) {
  return kind != OpKind::gemm && kind != OpKind::wait && kind != OpKind::hold &&
         kind != OpKind::all_reduce && kind != OpKind::all_gather && kind != OpKind::reduce_scatter;
}

using Samples = std::map<OpKind, std::map<std::int64_t, std::vector<double>>>;

void take(Samples& samples, TrainingPlan const& plan, RankTrace const& trace) {
  TraceNames const names = TraceVocabulary{plan}.names();
  std::map<std::string, OpKind> const kinds = kinds_of(plan);
  OpColumns const& ops = trace.ops;
  for (std::size_t row = 0; row < ops.rows(); ++row) {
    auto const kind = kinds.find(names.op[static_cast<std::size_t>(ops.op[row])]);
    if (kind == kinds.end() || !is_measured(kind->second)) continue;
    samples[kind->second][ops.bytes[row]].push_back(static_cast<double>(ops.duration[row]) * 1e-12);
  }
}

}  // namespace

KernelCost fit_kernel(std::vector<KernelSample> const& samples) {
  constexpr double fastest = 1e15;  // bytes a second; what moves nothing has a latency alone
  // Least squares of (a + b x - t) / t: two normal equations.
  double w = 0;
  double wx = 0;
  double wxx = 0;
  double wt = 0;
  double wxt = 0;
  for (KernelSample const& sample : samples) {
    double const t = std::max(sample.seconds, 1e-9);
    double const weight = 1 / (t * t);
    w += weight;
    wx += weight * sample.bytes;
    wxx += weight * sample.bytes * sample.bytes;
    wt += weight * t;
    wxt += weight * sample.bytes * t;
  }
  double const determinant = w * wxx - wx * wx;
  double a = 0;
  double b = 0;
  if (determinant > 1e-12 * w * wxx) {
    a = (wt * wxx - wxt * wx) / determinant;
    b = (w * wxt - wx * wt) / determinant;
  }
  if (b <= 0) {
    a = wt / w;
    b = 0;
  }
  if (a < 0 || (a == 0 && b == 0)) {
    a = 0;
    b = wxx > 0 ? wxt / wxx : 0;
  }
  return {.latency = {a}, .bandwidth = {b > 1 / fastest ? 1 / b : fastest}};
}

std::map<OpKind, KernelCost> measure_kernels(ExecutionParts const& parts, Precision precision) {
  NoPrices const no_prices;
  ExecutionParts priced = parts;
  priced.prices = &no_prices;
  Samples samples;
  for (TrainingConfig const& config : models(precision)) {
    TrainingPlan const plan = make_plan(config);
    auto const tokens = synthetic_tokens(config.model.vocabulary, 1);
    priced.tokens = tokens.get();
    for (int again = 0; again < 3; ++again) {
      ExecutionOptions options;
      options.steps = 2;  // the first warms up
      options.is_virtual = true;
      options.traces = true;
      take(samples, plan, execute_on_threads(plan, priced, options).traces.front());
    }
  }
  std::map<OpKind, KernelCost> costs;
  for (auto const& [kind, by_bytes] : samples) {
    std::vector<KernelSample> medians;
    for (auto const& [bytes, times] : by_bytes) {
      medians.push_back({static_cast<double>(bytes), median(times)});
    }
    costs[kind] = fit_kernel(medians);
  }
  return costs;
}

}  // namespace stagecraft
