#include "libsim/training/training_config_checks.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/schedule/orders/interleaving.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/training/combination_check.hpp"
#include "libsim/training/context_checks.hpp"
#include "libsim/training/expert_checks.hpp"
#include "libsim/training/expert_overlap.hpp"
#include "libsim/training/layer_split.hpp"
#include "libsim/training/layout_checks.hpp"
#include "libsim/training/low_precision/low_precision_reader.hpp"
#include "libsim/training/run_schedule.hpp"
#include "libsim/training/sharding/sharding_checks.hpp"
#include "libsim/training/size_limits.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

/// Checks of one configuration that need several of its keys. Each check is alone: it returns if a
/// key that it reads is wrong already, and reports the key that the user would change.
class Checker : CombinationCheck {
 public:
  using CombinationCheck::CombinationCheck;

  void check_state_types() const {
    if (!sound({"model.precision"})) return;
    std::string_view const precision = name_of(config_.model.precision);
    auto const check = [&](std::string_view key, StateType type, bool may_be_half) {
      bool const is_models = name_of(type) == precision;
      if (type == StateType::fp32 || !sound({key})) return;
      if (is_models && (type == StateType::bf16 || may_be_half)) return;
      refuse(key, name_of(type), "fp32, as model.precision is " + std::string{precision});
    };
    check("memory.gradient_dtype", config_.memory.gradient_dtype, true);
    check("memory.moments_dtype", config_.memory.moments_dtype, false);
  }

  void check_tf32() const {
    Precision const precision = config_.model.precision;
    if (!config_.tf32 || precision == Precision::fp32 || !sound({"tf32", "model.precision"}))
      return;
    refuse("tf32", "true",
           "false, as model.precision is " + std::string{name_of(precision)} + " and not fp32");
  }

  void check_tensor_parallelism() const {
    ModelConfig const& model = config_.model;
    std::int64_t const t = config_.parallel.tensor;
    std::string_view const tensor = "parallel.tensor";
    if (sound({tensor, "model.heads"}) && model.heads % t != 0) {
      refuse(tensor, t, "a divisor of model.heads (" + to_text(model.heads) + ")");
      return;
    }
    if (sound({tensor, "model.heads", "model.kv_heads"}) && model.kv_heads % t != 0 &&
        t % model.kv_heads != 0) {
      refuse(tensor, t,
             "a divisor or a multiple of model.kv_heads (" + to_text(model.kv_heads) + ")");
    }
    if (sound({tensor, "model.hidden", "model.ffn_hidden", "model.pattern"})) {
      for (LayerRun const& run : layer_runs(model)) {
        if (run.kind.ffn_hidden % t == 0) continue;
        refuse(tensor, t, "a divisor of model.ffn_hidden (" + to_text(run.kind.ffn_hidden) + ")");
        break;
      }
    }
    if (sound({tensor, "model.hidden"}) && model.predicted_tokens > 0 && model.hidden % t != 0) {
      refuse(
          tensor, t,
          "with model.predicted_tokens, a divisor of model.hidden (" + to_text(model.hidden) + ")");
    }
    if (sound({tensor, "model.qk_norm", "model.pattern"}) && t > 1) {
      for (LayerRun const& run : layer_runs(model)) {
        if (run.kind.qk_norm != QkNorm::full) continue;
        refuse(tensor, t, "1, as model.qk_norm is full: its mean is over the heads of all ranks");
        break;
      }
    }
    if (sound({tensor, "parallel.sequence", "model.sequence"}) && config_.parallel.sequence &&
        model.sequence % t != 0) {
      refuse(
          tensor, t,
          "with parallel.sequence, a divisor of model.sequence (" + to_text(model.sequence) + ")");
    }
  }

  void check_batch() const {
    std::int64_t const step = config_.batch.micro * config_.parallel.data;
    if (sound({"batch", "parallel.data"}) && config_.batch.global % step != 0) {
      refuse("batch.global", config_.batch.global,
             "a multiple of batch.micro x parallel.data (" + to_text(step) + ")");
    }
  }

  void check_step() const {
    if (config_.schedule.step == StepSync::barrier) return;
    if (!sound({"schedule", "parallel.pipeline", "model.precision", "memory", "sharding"})) return;
    std::string const why = ", as schedule.step is post_validated";
    if (config_.parallel.pipeline < 2) {
      refuse("parallel.pipeline", config_.parallel.pipeline,
             "at least 2" + why + ": one stage waits for no other before it steps");
    }
    Precision const precision = config_.model.precision;
    if (precision != Precision::fp16 && precision != Precision::bf16) {
      refuse("model.precision", name_of(precision),
             "fp16 or bf16" + why + ", which needs master copies to return to");
    }
    if (config_.sharding.shares_optimizer()) {
      // The key may be missing, which only a reader of it would report.
      ConfigNode const short_form = root_.child("memory").child("distributed_optimizer");
      bool const is_short = short_form.exists() && short_form.text() == "true";
      refuse(is_short ? "memory.distributed_optimizer" : "sharding",
             is_short ? "true" : name_of(config_.sharding.kind),
             (is_short ? "false" : "none") + why +
                 ": parameters that were gathered ahead would have to be gathered again once the "
                 "step is validated");
    }
  }

  void check_schedule() const {
    std::int64_t const p = config_.parallel.pipeline;
    std::int64_t const m = config_.parallel.interleave;
    std::string_view const kind = root_.child("schedule").is_map() ? "schedule.kind" : "schedule";
    bool const is_interleaved = config_.schedule.kind == ScheduleKind::interleaved;
    if (has_order(config_.schedule.kind)) return check_order(kind);
    if (sound({kind, "parallel.interleave"}) && m > 1 && !is_interleaved) {
      refuse(kind, name_of(config_.schedule.kind),
             "interleaved, as parallel.interleave is " + to_text(m) + ", or parallel.interleave 1");
    }
    if (!sound({kind, "parallel.pipeline"}) || !is_interleaved) return;
    if (p < 2) {
      refuse("parallel.pipeline", p, "at least 2, as schedule is interleaved");
    } else if (sound({"schedule", "batch", "parallel.data"})) {
      check_group();
    }
  }

  void check_recompute() const {
    if (!sound({"recompute"})) return;
    std::vector<RecomputePolicy> const& policies = config_.recompute;
    ConfigNode const section = root_.child("recompute");
    ConfigNode const per_stage = section.child("per_stage");
    if (!per_stage.exists() && policies.size() == 1) {
      check_policy(policies.front(), section, largest_chunk({}));
      return;
    }
    std::int64_t const p = config_.parallel.pipeline;
    if (!sound({"parallel.pipeline"})) return;
    if (static_cast<std::int64_t>(policies.size()) != p) {
      per_stage.report("a list of " + to_text(static_cast<std::int64_t>(policies.size())),
                       "a list of parallel.pipeline (" + to_text(p) + ") policies");
      return;
    }
    std::vector<ConfigNode> const items = per_stage.items();
    for (std::size_t stage = 0; stage < policies.size(); ++stage) {
      check_policy(policies[stage], items.empty() ? section : items[stage], largest_chunk(stage));
    }
  }

  void check_shards() const {
    ParallelLayout const& parallel = config_.parallel;
    bool const scatters = config_.schedule.scatter_gather && parallel.pipeline > 1;
    std::int64_t const t = parallel.tensor;
    if (!sound({"parallel", "schedule", "batch.micro", "model.sequence", "model.hidden"}) ||
        parallel.sequence || !scatters) {
      return;
    }
    // Modulo by modulo: the product itself may be out of range.
    std::int64_t const rows = config_.model.sequence / parallel.context;
    std::int64_t const rest =
        rows % t * (config_.batch.micro % t) % t * (config_.model.hidden % t) % t;
    if (rest != 0) {
      refuse(
          "schedule.scatter_gather", "true",
          "false, or batch.micro x model.sequence x model.hidden divisible by parallel.tensor (" +
              to_text(t) + ")");
    }
  }

  void check_sizes() const {
    if (!sound({"model", "parallel", "batch", "layout"})) return;
    PlanSizes const sizes = plan_sizes(config_);
    if (sizes.ranks > plan_limits.ranks) {
      root_.child("parallel")
          .report("a job of " + rounded(sizes.ranks) + " ranks",
                  "tensor x context x pipeline x data of at most " + rounded(plan_limits.ranks));
    }
    if (sizes.chunk_passes > plan_limits.chunk_passes) {
      root_.child("batch").report(
          rounded(sizes.chunk_passes) + " chunk passes an iteration",
          "parallel.pipeline x parallel.interleave x microbatches of at most " +
              rounded(plan_limits.chunk_passes));
    }
    if (sizes.bytes >= plan_limits.bytes || sizes.flops >= plan_limits.flops) {
      root_.child("model").report("a model and batch whose bytes or FLOPs do not fit in 63 bits",
                                  "smaller dimensions, or a smaller batch");
    }
  }

 private:
  static std::string rounded(double value) {
    return value < 1e15 ? std::to_string(static_cast<std::int64_t>(value)) : "more than 10^15";
  }

  /// Checks a schedule that is made as an order. An order that depends on costs is checked once the
  /// costs are known.
  void check_order(std::string_view kind) const {
    ScheduleConfig const& schedule = config_.schedule;
    std::string const name{name_of(schedule.kind)};
    if (!sound({"schedule", "parallel", "batch"})) return;
    if (schedule.p2p == P2p::blocking) {
      refuse("schedule.p2p", "blocking", "overlapped, as schedule is " + name);
    }
    int const chunks = chunks_of(schedule);
    if (chunks > 0 && config_.parallel.interleave != chunks) {
      refuse("parallel.interleave", config_.parallel.interleave,
             to_text(chunks) + ", as schedule is " + name);
      return;
    }
    if (overlaps_gradients(config_) && placement_of(config_).copies() > 1) {
      refuse("parallel.overlap_gradients", "true",
             "false, as schedule is " + name +
                 ": the two copies of a stage's parameters complete their gradients at different "
                 "times");
    }
    bool const has_microbatches =
        config_.batch.global % (config_.batch.micro * config_.parallel.data) == 0;
    bool const is_open = depends_on_costs(schedule.kind, schedule.variant) && !schedule.order;
    if (!has_microbatches || is_open) return;
    try {
      ScheduleShape const shape = checked_shape(schedule_shape(config_));
      bool const has_policies =
          config_.recompute.size() == 1 || config_.recompute.size() == shape.order->stages.size();
      if (sound({"recompute"}) && has_policies) check_recompute_tasks(config_, *shape.order);
    } catch (ScheduleError const& error) {
      ConfigNode const section = root_.child("schedule");
      report(error, kind == "schedule" ? section : section.child("kind"));
    }
  }

  void check_group() const {
    std::int64_t const p = config_.parallel.pipeline;
    std::int64_t const group = config_.schedule.group;
    if (config_.batch.global % (config_.batch.micro * config_.parallel.data) != 0) return;
    std::int64_t const n = microbatches(config_);
    std::string const microbatches_text = "microbatches of a replica (" + to_text(n) + ")";
    if (n < p) {
      refuse("batch.global", config_.batch.global,
             "enough for parallel.pipeline (" + to_text(p) + ") " + microbatches_text +
                 ", as schedule is interleaved");
      return;
    }
    if (is_group(group, n, p)) return;
    std::string const groups = accepted_groups(n, p);
    if (root_.child("schedule").child("group").exists()) {
      refuse("schedule.group", group,
             "for the " + microbatches_text + " of batch.global (" + to_text(config_.batch.global) +
                 "): " + groups);
    } else {
      refuse("batch.global", config_.batch.global,
             "one that makes the " + microbatches_text + " a multiple of parallel.pipeline (" +
                 to_text(p) + "), or schedule.group: " + groups);
    }
  }

  /// Layers of the largest chunk of a stage, or of all stages; nullopt if the layout is not sound.
  std::optional<std::int64_t> largest_chunk(std::optional<std::size_t> stage) const {
    if (!sound({"model.layers", "parallel.pipeline", "parallel.interleave", "layout"})) {
      return std::nullopt;
    }
    std::vector<std::int64_t> const layers = layers_of_virtual_stages(config_);
    Placement const placement = placement_of(config_);
    std::int64_t largest = 0;
    for (std::size_t v = 0; v < layers.size(); ++v) {
      std::size_t const of_chunk = placement.place(VirtualStageId::of_index(v)).stage.index();
      if (!stage || of_chunk == *stage) largest = std::max(largest, layers[v]);
    }
    return largest;
  }

  void check_policy(RecomputePolicy const& policy,
                    ConfigNode const& node,
                    std::optional<std::int64_t> chunk) const {
    bool const discards_latents =
        policy.granularity == RecomputeGranularity::selective &&
        std::ranges::find(policy.modules, "mla_up_projection") != policy.modules.end();
    if (discards_latents && sound({"model"}) && !has_latents(config_.model)) {
      node.child("modules").report("'mla_up_projection'",
                                   "the others, as model.latent_attention is not given");
    }
    bool const is_early = policy.early == EarlyRecompute::bubble;
    if (is_early && sound({"schedule"}) && config_.schedule.p2p == P2p::blocking) {
      node.child("early").report("'bubble'",
                                 "no, or schedule.p2p overlapped: a rank that "
                                 "waits for its message cannot recompute meanwhile");
    }
    if (policy.granularity != RecomputeGranularity::full) return;
    ConfigNode const layers = node.child("layers");
    if (chunk && policy.layers > *chunk && *chunk > 0) {
      layers.report("'" + to_text(policy.layers) + "'",
                    "a whole number from 1 to the layers of a chunk (" + to_text(*chunk) + ")");
    }
    if (!policy.sharded_checkpoints || !sound({"parallel.tensor", "parallel.sequence"})) return;
    ConfigNode const sharded = node.child("sharded_checkpoints");
    if (config_.parallel.tensor == 1) {
      sharded.report("false, as parallel.tensor is 1");
    } else if (config_.parallel.sequence) {
      sharded.report("false, as parallel.sequence shards the checkpoints already");
    }
  }
};

}  // namespace

std::vector<Problem> problems_of(TrainingConfig const& config) {
  YamlNode empty;
  empty.kind = YamlNode::Kind::map;
  Diagnostics diagnostics;
  check_training_config(config, ConfigNode{empty, "", diagnostics});
  return diagnostics.problems();
}

void check_training_config(TrainingConfig const& config, ConfigNode const& root) {
  Checker const checker{config, root};
  checker.check_state_types();
  checker.check_tf32();
  checker.check_tensor_parallelism();
  checker.check_batch();
  checker.check_schedule();
  checker.check_step();
  check_sharding(config, root);
  check_offload(config, root);
  check_layout(config, root);
  check_experts(config, root);
  check_expert_overlap(config, root);
  check_context(config, root);
  check_low_precision(config, root);
  checker.check_recompute();
  checker.check_shards();
  checker.check_sizes();
}

}  // namespace stagecraft
