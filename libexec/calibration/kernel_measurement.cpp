#include "libexec/calibration/kernel_measurement.hpp"

#include <algorithm>
#include <string>

#include "libexec/calibration/measurement_scale.hpp"
#include "libexec/calibration/sample_statistics.hpp"

namespace stagecraft {
namespace {

TrainingConfig model_of(MeasurementScale::Model const& size, Precision precision) {
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
std::vector<TrainingConfig> models(MeasurementScale const& scale, Precision precision) {
  std::vector<TrainingConfig> all;
  for (MeasurementScale::Model const& size : scale.models) {
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
    TrainingConfig relu = gpt;
    relu.model.activation = Activation::relu;
    TrainingConfig geglu = llama;
    geglu.model.activation = Activation::geglu;
    all.insert(all.end(), {gpt, llama, relu, geglu});
    if (scale.has_flash) all.push_back(flash);
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

/// How much longer the smallest kernel takes on a device that is timed alone than among others.
/// 0 where kernels are over when their call returns.
double timing_overhead(ExecutionParts const& parts, Precision precision) {
  constexpr int samples = 50;
  constexpr std::size_t bytes = 16;
  RankShare share;
  share.shape.model.precision = precision;
  auto const backend = parts.make_backend(share);
  DeviceTimeline* const device = backend->timeline();
  if (device == nullptr) return 0;
  FlatRange const range{backend->allocate(bytes), gradient_type(precision), 1};
  auto const seconds_of = [&](int kernels) {
    device->restart(true);
    auto const begin = device->mark();
    for (int i = 0; i < kernels; ++i) backend->zero(range);
    auto const end = device->mark();
    device->synchronize();
    return to_seconds(device->time_of(end) - device->time_of(begin));
  };
  seconds_of(1);
  std::vector<double> alone;
  std::vector<double> queued;
  for (int i = 0; i < samples; ++i) {
    alone.push_back(seconds_of(1));
    queued.push_back(seconds_of(samples) / samples);
  }
  backend->deallocate(range.data, bytes);
  return std::max(median(alone) - median(queued), 0.0);
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
  MeasurementScale const scale = measurement_scale(parts.device);
  FreeCommunication const free;
  ExecutionParts priced = parts;
  priced.prices = &free;
  Samples samples;
  for (TrainingConfig const& config : models(scale, precision)) {
    TrainingPlan const plan = make_plan(config);
    auto const tokens = synthetic_tokens(config.model.vocabulary, 1);
    priced.tokens = tokens.get();
    for (int again = 0; again < 3; ++again) {
      ExecutionOptions options;
      options.steps = 2;  // the first warms up
      options.values_matter = false;
      options.is_virtual = true;
      options.traces = true;
      take(samples, plan, execute_on_threads(plan, priced, options).traces.front());
    }
  }
  double const overhead = timing_overhead(parts, precision);
  std::map<OpKind, KernelCost> costs;
  for (auto const& [kind, by_bytes] : samples) {
    std::vector<KernelSample> medians;
    for (auto const& [bytes, times] : by_bytes) {
      medians.push_back({static_cast<double>(bytes), std::max(median(times) - overhead, 0.0)});
    }
    costs[kind] = fit_kernel(medians);
  }
  return costs;
}

}  // namespace stagecraft
