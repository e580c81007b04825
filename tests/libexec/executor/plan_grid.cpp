#include "tests/libexec/executor/plan_grid.hpp"

#include <array>
#include <functional>

#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/split_runs.hpp"

namespace stagecraft {
namespace {

struct Variant {
  std::string name;
  std::function<TrainingConfig(Precision)> make;
};

std::vector<Variant> model_variants() {
  auto const changed = [](auto change) {
    return [change](Precision precision) {
      TrainingConfig config = small_gpt(precision);
      change(config);
      return config;
    };
  };
  return {
      {"gpt", small_gpt},
      {"llama", small_llama},
      {"flash", changed([](TrainingConfig& config) { config.model.attention = Attention::flash; })},
      {"regenerated masks", changed([](TrainingConfig& config) {
         config.model.dropout_mask = DropoutMask::regenerated;
       })},
      {"softmax and dropout in one", changed([](TrainingConfig& config) {
         config.model.softmax_dropout = SoftmaxDropout::fused;
       })},
      {"no dropout, no mask", changed([](TrainingConfig& config) {
         config.model.dropout = 0;
         config.model.causal_mask = CausalMask::none;
       })},
      {"side by side, ReLU, more positions", changed([](TrainingConfig& config) {
         config.model.residual = Residual::parallel;
         config.model.activation = Activation::relu;
         config.model.position_rows = config.model.sequence + 2;
         config.model.attention_dropout = 0.2;
       })},
      {"one norm, GeGLU", changed([](TrainingConfig& config) {
         config.model.residual = Residual::parallel_one_norm;
         config.model.activation = Activation::geglu;
         config.model.biases = false;
         config.model.qkv_bias = true;
       })},
      {"grouped heads", changed([](TrainingConfig& config) { config.model.kv_heads = 1; })},
      {"wide layers and narrow ones", changed([](TrainingConfig& config) {
         LayerConfig wide = config.model;
         wide.ffn_hidden = 96;
         wide.activation = Activation::swiglu;
         LayerConfig narrow = config.model;
         narrow.ffn_hidden = 32;
         narrow.norm = Norm::rmsnorm;
         narrow.biases = false;
         narrow.attention = Attention::flash;
         config.model.pattern = {{wide, 1}, {narrow, 1}};
       })},
      {"norms of heads, and on both sides", changed([](TrainingConfig& config) {
         config.model.qk_norm = QkNorm::head;
         config.model.norms = NormPlaces::both;
         config.model.kv_heads = 2;
       })},
      {"norms behind, caps, windows", changed([](TrainingConfig& config) {
         config.model.norms = NormPlaces::post;
         config.model.attention_softcap = 2;
         config.model.logit_softcap = 3;
         LayerConfig windowed = config.model;
         windowed.window = 3;
         windowed.attention = Attention::flash;
         config.model.pattern = {{windowed, 1}, {config.model, 1}};
       })},
      {"latents", [](Precision precision) { return small_deepseek(precision, 6); }},
      {"latents of keys alone",
       [](Precision precision) {
         TrainingConfig config = small_deepseek(precision, 0);
         config.model.attention = Attention::flash;
         return config;
       }},
      {"outputs kept",
       changed([](TrainingConfig& config) { config.memory.output_deallocation = false; })}};
}

constexpr std::array precisions{Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp64};

}  // namespace

std::vector<NamedRun> layouts_of(TrainingConfig const& base) {
  std::vector<NamedRun> runs;
  auto const add = [&](std::string name, auto change) {
    TrainingConfig config = base;
    change(config);
    runs.push_back({std::move(name), config});
  };
  add("one rank", [](TrainingConfig&) {});
  add("t 2", [](TrainingConfig& c) { c.parallel.tensor = 2; });
  add("t 4 sequence", [](TrainingConfig& c) {
    c.parallel.tensor = 4;
    c.parallel.sequence = true;
  });
  add("p 2", [](TrainingConfig& c) { c.parallel.pipeline = 2; });
  add("p 4 gpipe", [](TrainingConfig& c) {
    c.parallel.pipeline = 4;
    c.schedule.kind = ScheduleKind::gpipe;
  });
  add("p 2 x 2 interleaved", [](TrainingConfig& c) {
    c.parallel.pipeline = 2;
    c.parallel.interleave = 2;
    c.schedule.kind = ScheduleKind::interleaved;
  });
  add("t 2 p 2 scattered", [](TrainingConfig& c) {
    c.parallel.tensor = 2;
    c.parallel.pipeline = 2;
  });
  add("t 2 p 2 x 2 sequence overlapped", [](TrainingConfig& c) {
    c.parallel = {.tensor = 2, .pipeline = 2, .interleave = 2, .sequence = true};
    c.schedule = {.kind = ScheduleKind::interleaved, .p2p = P2p::overlapped};
  });
  add("d 2", [](TrainingConfig& c) { c.parallel.data = 2; });
  add("d 4 distributed", [](TrainingConfig& c) {
    c.parallel.data = 4;
    c.sharding = sharding_of(true);
  });
  add("p 2 d 2 overlapped gradients", [](TrainingConfig& c) {
    c.parallel = {.pipeline = 2, .data = 2, .overlap_gradients = true};
    c.sharding = sharding_of(true);
  });
  add("p 3 uneven", [](TrainingConfig& c) {
    c.parallel.pipeline = 3;
    c.layout = {.kind = LayerSplit::Kind::list, .first = {}, .last = {}, .list = {2, 2, 0}};
  });
  return runs;
}

std::vector<NamedRun> split_layouts_of(TrainingConfig const& base) {
  std::vector<NamedRun> runs;
  auto const add = [&](ScheduleKind kind, int stages, int chunks) {
    TrainingConfig config = with_schedule(base, kind, chunks);
    config.parallel.pipeline = stages;
    if (kind == ScheduleKind::dualpipe) config.parallel.overlap_gradients = false;  // refused
    runs.push_back({std::string{name_of(kind)}, std::move(config)});
  };
  add(ScheduleKind::zb_h1, 4, 1);
  add(ScheduleKind::zb_h2, 2, 1);
  add(ScheduleKind::interleaved_zb, 2, 2);
  for (ScheduleKind const kind :
       {ScheduleKind::zbv, ScheduleKind::v_half, ScheduleKind::v_min, ScheduleKind::one_f_one_b_v,
        ScheduleKind::dualpipev, ScheduleKind::dualpipe}) {
    add(kind, 2, 2);
  }
  return runs;
}

std::vector<NamedPolicy> all_policies() {
  RecomputePolicy const none;
  RecomputePolicy selective;
  selective.granularity = RecomputeGranularity::selective;
  RecomputePolicy modules = selective;
  modules.modules = {"mlp", "core_attention", "layernorm", "mla_up_projection"};
  RecomputePolicy full;
  full.granularity = RecomputeGranularity::full;
  RecomputePolicy pairs = full;
  pairs.layers = 2;
  RecomputePolicy block = full;
  block.method = RecomputeMethod::block;
  RecomputePolicy window = selective;
  window.store_microbatches.count = 1;
  RecomputePolicy sharded = full;
  sharded.sharded_checkpoints = true;
  return {{"none", none},   {"selective", selective}, {"modules", modules}, {"full", full},
          {"pairs", pairs}, {"block", block},         {"window", window},   {"sharded", sharded}};
}

std::vector<NamedRun> plan_grid() {
  std::vector<NamedRun> grid;
  std::vector<Variant> const variants = model_variants();
  std::size_t number = 0;
  for (NamedPolicy const& policy : all_policies()) {
    for (std::size_t layout = 0; layout < layouts_of(small_gpt(Precision::fp32)).size(); ++layout) {
      for (int again = 0; again < 2; ++again, ++number) {
        Variant const& variant = variants[number % variants.size()];
        Precision const precision = precisions[(number / 2 + layout) % precisions.size()];
        NamedRun run = layouts_of(variant.make(precision))[layout];
        bool const is_sharded = policy.policy.sharded_checkpoints;
        if (is_sharded && (run.config.parallel.sequence || run.config.parallel.tensor == 1)) {
          continue;
        }
        run.config.recompute = {policy.policy};
        std::vector<std::string>& modules = run.config.recompute.front().modules;
        if (!has_latents(run.config.model)) std::erase(modules, "mla_up_projection");
        run.name = variant.name + ", " + policy.name + ", " + run.name + ", precision " +
                   std::to_string(static_cast<int>(precision));
        grid.push_back(run);
      }
    }
  }
  return grid;
}

}  // namespace stagecraft
