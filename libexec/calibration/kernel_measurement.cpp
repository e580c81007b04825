#include "libexec/calibration/kernel_measurement.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "libexec/calibration/layer_measurement.hpp"
#include "libexec/calibration/measurement.hpp"
#include "libexec/executor/job.hpp"
#include "libsim/plan/make_plan.hpp"

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

TrainingConfig flash_model(TrainingConfig config) {
  config.model.attention = Attention::flash;
  return config;
}

/// Models whose ops together cover all kinds.
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
    TrainingConfig relu = gpt;
    relu.model.activation = Activation::relu;
    relu.model.softmax_dropout = SoftmaxDropout::fused;  // in gpt they are separate
    TrainingConfig geglu = llama;
    geglu.model.activation = Activation::geglu;
    all.insert(all.end(), {gpt, llama, relu, geglu});
    if (scale.flash_by_bytes) all.push_back(flash_model(llama));
  }
  return all;
}

std::map<std::string, OpKind> kinds_of(TrainingPlan const& plan) {
  std::map<std::string, OpKind> kinds;
  auto const add = [&](auto const& ops) {
    for (Op const& op : ops) kinds[to_string(op.name)] = op.kind;
  };
  for (BlockProgram const& block : plan.programs.blocks) {
    add(block.forward);
    add(block.backward);
  }
  for (StagePlan const& rank : plan.stages) add(rank.step_ops);
  return kinds;
}

bool is_measured(OpKind kind) {
  OpClass const op_class = traits_of(kind).op_class;
  return kind != OpKind::gemm && (op_class == OpClass::compute || op_class == OpClass::step);
}

/// Calls take(kind, row) for the measured kernels of a trace.
template <typename Take>
void for_kernels(TrainingPlan const& plan, RankTrace const& trace, Take const& take) {
  TraceNames const names = TraceVocabulary{plan}.names();
  std::map<std::string, OpKind> const kinds = kinds_of(plan);
  for (std::size_t row = 0; row < trace.ops.rows(); ++row) {
    auto const kind = kinds.find(names.op[static_cast<std::size_t>(trace.ops.op[row])]);
    if (kind != kinds.end() && is_measured(kind->second)) take(kind->second, row);
  }
}

double seconds_of(RankTrace const& trace, std::size_t row) {
  constexpr double pico = 1e-12;
  return static_cast<double>(trace.ops.duration[row]) * pico;
}

/// Runs an iteration of the plan kernel by kernel, after one to warm up.
RankTrace run_once(TrainingPlan const& plan, ExecutionParts const& parts) {
  FreeCommunication const free;
  ExecutionParts costed = parts;
  costed.costs = &free;
  auto const tokens = synthetic_tokens(plan.config.model.vocabulary, 1);
  costed.tokens = tokens.get();
  ExecutionOptions options;
  options.steps = 2;
  options.values_matter = false;
  options.is_virtual = true;
  options.traces = true;
  return std::move(execute_on_threads(plan, costed, options).traces.front());
}

constexpr int runs = 3;

/// How much longer the smallest kernel on a device takes if it is timed alone than among others.
/// 0 if kernels have ended when their call returns.
double timing_overhead(ExecutionParts const& parts, Precision precision) {
  constexpr int samples = 50;
  constexpr std::size_t bytes = 16;
  auto const backend = parts.make_backend({.types = {activation_type(precision)}});
  DeviceTimeline* const device = backend->timeline();
  if (device == nullptr) return 0;
  FlatRange const range{backend->allocate(bytes), accumulation_type(precision), 1};
  auto const seconds_of = [&](int kernels) {
    device->restart(true);
    auto const begin = device->mark();
    for (int i = 0; i < kernels; ++i) fill_zero(*backend, range);
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

/// A layer that runs again and again, and what it runs with.
struct LoadLayer {
  FreeCommunication free;
  MeasuredLayer layer;
  double seconds = 0;  ///< of a forward and a backward

  LoadLayer(TrainingConfig const& config, ExecutionParts const& parts)
      : layer{config, costed(parts, free), 1} {
    layer.run_queued();  // lets libraries allocate
    seconds = to_seconds(layer.run_queued());
    if (seconds <= 0) {
      throw std::runtime_error{"the device measured 0 s for a layer, so it cannot be kept busy"};
    }
  }

 private:
  static ExecutionParts costed(ExecutionParts parts, FreeCommunication const& free) {
    parts.costs = &free;
    return parts;
  }
};

}  // namespace

DeviceLoad layer_load(ExecutionParts const& parts,
                      MeasurementScale const& scale,
                      Precision precision) {
  auto const layer = std::make_shared<LoadLayer>(model_of(scale.load, precision), parts);
  return [layer](double seconds) {
    auto const layers = static_cast<std::int64_t>(std::ceil(seconds / layer->seconds));
    for (std::int64_t i = 0; i < layers; ++i) layer->layer.run_queued();
  };
}

KernelCost fit_kernel(std::vector<KernelSample> const& samples) {
  constexpr double fastest = 1e15;  // bytes per second, for kernels whose time is all latency
  // The least squares of (a + b x - t) / t give two normal equations.
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
  std::map<OpKind, std::map<std::int64_t, std::vector<double>>> samples;  // by bytes
  for (TrainingConfig const& config : models(scale, precision)) {
    TrainingPlan const plan = make_plan(as_settled(config));
    for (int run = 0; run < runs; ++run) {
      RankTrace const trace = run_once(plan, parts);
      for_kernels(plan, trace, [&](OpKind kind, std::size_t row) {
        samples[kind][trace.ops.bytes[row]].push_back(seconds_of(trace, row));
      });
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

FlashRates measure_flash(ExecutionParts const& parts, Precision precision) {
  MeasurementScale const scale = measurement_scale(parts.device);
  TrainingConfig config = flash_model(model_of(scale.models.back(), precision));
  config.model.dropout = 0;  // like most models with flash attention; masks would take extra time
  TrainingPlan const plan = make_plan(as_settled(config));
  std::map<OpKind, std::vector<double>> rates;
  for (int run = 0; run < runs; ++run) {
    RankTrace const trace = run_once(plan, parts);
    for_kernels(plan, trace, [&](OpKind kind, std::size_t row) {
      rates[kind].push_back(static_cast<double>(trace.ops.flops[row]) / seconds_of(trace, row));
    });
  }
  return {.forward = {median(rates.at(OpKind::flash_attention))},
          .backward = {median(rates.at(OpKind::flash_attention_backward))}};
}

}  // namespace stagecraft
