#include "libsim/explain/single_changes.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include "libsim/explain/recompute_changes.hpp"
#include "libsim/explain/sharding_changes.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/program/low_library.hpp"
#include "libsim/program/quantisation.hpp"
#include "libsim/run/run_keys.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/training/context_checks.hpp"
#include "libsim/training/expert_overlap.hpp"
#include "libsim/training/training_config_reader.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

/// Collects the changes to try for a run, in order. Some come from rows of keys; those of layouts,
/// schedules and groups depend on the run. Here a change is only described, as --set takes it.
/// finish() comes last.
class ChangeList {
 public:
  ChangeList(TrainingConfig const& config, System const& system)
      : config_{config}, system_{system}, json_(to_json(settled_with_stack(config))) {}

  void add_recompute() { changes_ = recompute_changes(config_); }

  void add_batch() {
    std::int64_t const micro = config_.batch.micro;
    for (std::int64_t const other : {micro / 2, 2 * micro}) {
      if (other > 0) add_number("microbatch", "batch.micro", micro, other);
    }
  }

  /// Moves a factor of two from one kind of parallelism to another.
  void add_exchanges() {
    ParallelLayout const& layout = config_.parallel;
    struct Kind {
      std::string name;
      std::int64_t ranks;
    };
    Kind const kinds[]{{"tensor", layout.tensor},
                       {"context", layout.context},
                       {"pipeline", layout.pipeline},
                       {"data", layout.data}};
    for (Kind const& less : kinds) {
      for (Kind const& more : kinds) {
        if (less.name == more.name || less.ranks % 2 != 0) continue;
        if (more.name == "context" && !can_split_sequences(config_.model)) continue;
        Change change{.what = step_text(less.name, less.ranks, less.ranks / 2) + ", " +
                              step_text(more.name, more.ranks, 2 * more.ranks),
                      .set = {setting("parallel." + less.name, less.ranks / 2),
                              setting("parallel." + more.name, 2 * more.ranks)}};
        // A library that casts weights needs sequence parallelism beside tensor parallelism.
        bool const is_first_split = more.name == "tensor" && more.ranks == 1;
        if (is_first_split && traits_of(config_.low_precision.implementation).casts_weights) {
          change.set.emplace_back("parallel.sequence=true");
        }
        bool const changes_stages = less.name == "pipeline" || more.name == "pipeline";
        std::int64_t const stages = less.name == "pipeline" ? less.ranks / 2 : 2 * more.ranks;
        if (changes_stages) {
          bool const keeps_chunks = is_interleaved() && stages > 1;
          append_layout(change, stages, keeps_chunks ? config_.parallel.interleave : 1);
        }
        if (changes_stages && is_interleaved()) {
          if (stages > 1) {
            ScheduleConfig schedule = config_.schedule;
            schedule.group = static_cast<int>(stages);
            change.set.push_back(schedule_setting(schedule));
          } else {
            append_plain_schedule(change);
          }
        }
        changes_.push_back(std::move(change));
      }
    }
  }

  /// Twice and half as many ranks that split the experts.
  void add_experts() {
    if (!has_experts(config_.model)) return;
    std::int64_t const ranks = config_.parallel.expert;
    for (std::int64_t const other : {ranks / 2, 2 * ranks}) {
      if (other > 0) add_number("expert", "parallel.expert", ranks, other);
    }
  }

  /// The other ways in which tokens may travel to their experts.
  void add_dispatchers() {
    if (!has_experts(config_.model) || config_.parallel.expert == 1) return;
    for (auto const& [dispatch, name] : EnumNames<Dispatch>::all) {
      if (dispatch == config_.dispatch) continue;
      changes_.push_back(
          {.what = "dispatch by " + std::string{name}, .set = {"dispatch=" + std::string{name}}});
    }
  }

  /// The other ways in which ranks may split sequences.
  void add_context_methods() {
    ParallelLayout const& layout = config_.parallel;
    if (layout.context == 1) return;
    bool const has_levels = layout.context_inner > 1;
    for (auto const& [method, name] : EnumNames<ContextMethod>::all) {
      if (method == layout.context_method && !has_levels) continue;
      changes_.push_back({.what = "context parallelism by " + std::string{name},
                          .set = {"parallel.context_method=" + std::string{name}}});
    }
  }

  void add_interleaving() {
    int const now = config_.parallel.interleave;
    if (config_.parallel.pipeline < 2) return;
    if (is_interleaved()) {
      Change plain{.what = "no interleaving (1f1b)",
                   .set = {},
                   .undoes = std::to_string(now) + " interleaved chunks per stage"};
      append_plain_schedule(plain);
      changes_.push_back(std::move(plain));
    }
    // With an uneven layout, the configuration's checks decide which of the two are legal.
    std::int64_t const stage_layers = config_.model.layers / config_.parallel.pipeline;
    int fewer = now - 1;
    while (fewer > 1 && stage_layers % fewer != 0) --fewer;
    if (fewer > 1) add_chunks(now, fewer);
    int more = now + 1;
    while (more < stage_layers && stage_layers % more != 0) ++more;
    add_chunks(now, more);
  }

  /// Schedules that run weight gradients on their own, those in a V, and those of two copies.
  void add_split_backward() {
    if (config_.parallel.pipeline < 2) return;
    ScheduleKind const now = config_.schedule.kind;
    if (has_order(now)) {
      Change plain{.what = "1f1b, no split backward",
                   .set = {},
                   .undoes = std::string{name_of(now)} + " schedule"};
      append_layout(plain, config_.parallel.pipeline, 1);
      append_plain_schedule(plain);
      changes_.push_back(std::move(plain));
    }
    for (ScheduleKind const kind :
         {ScheduleKind::zb_h1, ScheduleKind::zb_h2, ScheduleKind::zbv, ScheduleKind::v_half,
          ScheduleKind::v_min, ScheduleKind::dualpipev, ScheduleKind::dualpipe}) {
      if (kind == now) continue;
      int const chunks = std::max(1, chunks_of({.kind = kind}));
      bool const is_copied = copies_of(kind) > 1;
      Change change{
          .what = "split backward, " + std::string{name_of(kind)} + (is_copied ? ", 2 copies" : ""),
          .set = {}};
      int const cuts = chunks / copies_of(kind);  // of a stage's layers
      if (chunks != config_.parallel.interleave || copies_of(now) != copies_of(kind)) {
        append_layout(change, config_.parallel.pipeline, cuts);
        change.set.push_back(setting("parallel.interleave", chunks));
      }
      if (is_copied && overlaps_gradients(config_)) {
        change.set.emplace_back("parallel.overlap_gradients=false");
      }
      change.set.push_back(ordered_setting(kind));
      changes_.push_back(std::move(change));
    }
  }

  /// Tries the step with and without a barrier, if the schedule is a name with default options.
  void add_step() {
    ScheduleConfig schedule = config_.schedule;
    bool const is_later = schedule.step == StepSync::post_validated;
    schedule.step = StepSync::barrier;
    Precision const precision = config_.model.precision;
    bool const has_masters = precision == Precision::fp16 || precision == Precision::bf16;
    bool const is_named = schedule == ScheduleConfig{.kind = schedule.kind, .p2p = P2p::overlapped};
    if (!may_split_backward(schedule.kind) || !is_named || !has_masters ||
        config_.parallel.pipeline < 2 || config_.sharding.shares_optimizer()) {
      return;
    }
    std::string const name{name_of(schedule.kind)};
    if (is_later) {
      changes_.push_back({.what = "a barrier before the step",
                          .set = {"schedule=" + name},
                          .undoes = "step validated later"});
    } else {
      changes_.push_back({.what = "step validated later",
                          .set = {"schedule={kind: " + name + ", step: post_validated}"}});
    }
  }

  /// Products in 8 or 4 bits. Whether the accelerator has them, the change's own check says.
  void add_low_precision() {
    if (config_.low_precision.recipe != Recipe::none) {
      Change high{.what = "in 16 bits",
                  .set = {"low_precision=none"},
                  .undoes = "in " + bits_text(config_.low_precision.recipe)};
      if (config_.sharding.parameter_dtype == UnitType::low) {
        high.set.emplace_back("sharding.parameter_dtype=auto");
      }
      changes_.push_back(std::move(high));
      return;
    }
    LowLibrary const library = system_.software.kernels.low_precision.value;
    for (Recipe const recipe : {Recipe::current, Recipe::rowwise, Recipe::mxfp8, Recipe::nvfp4}) {
      if (!has_recipe(traits_of(library), recipe)) continue;
      changes_.push_back({.what = "in " + bits_text(recipe),
                          .set = {"low_precision=" + key_value(recipe, library)}});
    }
  }

  /// Whether sharing the optimizer's state is a switch of the run's framework.
  bool may_switch_optimizer() const {
    constexpr auto shared = ShardingKind::distributed_optimizer;
    ShardingKind const now = config_.sharding.kind;
    std::vector<ShardingKind> const kinds = kinds_of_framework(now, system_.software);
    return (now == ShardingKind::none || now == shared) &&
           std::ranges::find(kinds, shared) != kinds.end();
  }

  void add_switches() {
    ParallelLayout const& parallel = config_.parallel;
    ModelConfig const& model = config_.model;
    add_key("parallel.sequence");
    std::vector<Change> sharding = sharding_changes(config_, system_);
    std::ranges::move(sharding, std::back_inserter(changes_));
    add_key("memory.distributed_optimizer", may_switch_optimizer());
    add_key("parallel.overlap_gradients");
    add_key("memory.output_deallocation");
    add_key("model.attention");
    bool const is_unfused = model.attention == Attention::unfused;
    add_key("model.softmax_dropout", is_unfused && attention_dropout(model) > 0);
    add_key("model.dropout_mask", model.dropout > 0 || attention_dropout(model) > 0);
    bool const is_even = config_.routing.factor == 1;  // as balanced as it can be
    if (!config_.routing.is_balanced() && !is_even) {
      changes_.push_back({.what = "balanced routing", .set = {"routing=balanced"}});
    }
    add_dispatchers();
    add_key("tf32", model.precision == Precision::fp32 && system_.accelerator.peak.value.tf32);
    add_key("parallel.shared_expert_overlap", has_shared_experts(model) && parallel.expert > 1);
    for (KeyText const& text : run_keys()) add_key(text.key);
    if (parallel.pipeline > 1 && !has_order(config_.schedule.kind)) {
      bool const is_blocking = config_.schedule.p2p == P2p::blocking;
      ScheduleConfig schedule = config_.schedule;
      schedule.p2p = is_blocking ? P2p::overlapped : P2p::blocking;
      changes_.push_back({.what = is_blocking ? "overlapped transfers" : "blocking transfers",
                          .set = {schedule_setting(schedule)},
                          .undoes = is_blocking ? "" : "overlapped transfers"});
    }
  }

  void add_allocator() {
    MemoryConfig const& memory = config_.memory;
    if (memory.allocator != AllocatorKind::pytorch) return;
    std::string const& settings = memory.allocator_settings;
    std::string const expandable = "expandable_segments:True";
    if (settings.find("expandable_segments") == std::string::npos) {
      changes_.push_back({.what = "expandable segments",
                          .set = {"memory.allocator_settings='" + settings +
                                  (settings.empty() ? "" : ",") + expandable + "'"}});
    } else if (settings == expandable) {
      changes_.push_back(
          {.what = "no expandable segments", .set = {"memory.allocator_settings=''"}});
    }
    bool const empties = memory.empty_cache != EmptyCache::never;
    changes_.push_back(
        {.what = empties ? "no emptied cache" : "cache emptied before the step",
         .set = {empties ? "memory.empty_cache=never" : "memory.empty_cache=before_step"}});
  }

  std::vector<Change> finish() && { return std::move(changes_); }

 private:
  static std::string setting(std::string const& key, std::int64_t value) {
    return key + "=" + std::to_string(value);
  }
  static std::string step_text(std::string const& name, std::int64_t from, std::int64_t to) {
    return name + " " + std::to_string(from) + " -> " + std::to_string(to);
  }
  bool is_interleaved() const { return config_.schedule.kind == ScheduleKind::interleaved; }

  /// The whole section, so that it replaces whatever the file has. The group is written only with
  /// interleaving, and if it is not the default (0).
  static std::string schedule_setting(ScheduleConfig const& schedule) {
    bool const has_group = schedule.kind == ScheduleKind::interleaved && schedule.group > 0;
    return "schedule={kind: " + std::string{name_of(schedule.kind)} +
           (has_group ? ", group: " + std::to_string(schedule.group) : "") +
           ", p2p: " + std::string{name_of(schedule.p2p)} +
           (schedule.step == StepSync::barrier ? ""
                                               : ", step: " + std::string{name_of(schedule.step)}) +
           ", scatter_gather: " + (schedule.scatter_gather ? "true" : "false") + "}";
  }

  /// A kind that follows an order, with what the run says of transfers and of the step.
  std::string ordered_setting(ScheduleKind kind) const {
    ScheduleConfig const usual{.kind = kind, .p2p = P2p::overlapped};
    ScheduleConfig schedule = usual;
    schedule.scatter_gather = config_.schedule.scatter_gather;
    schedule.step = config_.schedule.step;
    return schedule == usual ? "schedule=" + std::string{name_of(kind)}
                             : schedule_setting(schedule);
  }

  /// Layers for another number of stages: as many on each if possible, else fewer on the first and
  /// the last, which also hold embedding and head. What suited the old number of stages does not
  /// suit the new one.
  void append_layout(Change& change, std::int64_t stages, std::int64_t chunks) const {
    std::int64_t const layers = config_.model.layers;
    bool const is_even = config_.layout.kind == LayerSplit::Kind::even;
    if (layers % (stages * chunks) == 0) {
      if (!is_even) change.set.emplace_back("layout=even");
      return;
    }
    std::int64_t const groups = layers / chunks;  // one layer of each chunk of a stage
    std::int64_t const middle = (groups + stages - 1) / stages;
    std::int64_t const ends = groups - middle * (stages - 2);
    if (layers % chunks != 0 || ends < 0) return;  // no layout is legal
    std::int64_t const last = ends / 2;
    change.set.push_back("layout={first: " + std::to_string((ends - last) * chunks) +
                         ", last: " + std::to_string(last * chunks) + "}");
  }

  void append_plain_schedule(Change& change) const {
    ScheduleConfig schedule = config_.schedule;
    schedule.kind = ScheduleKind::one_f_one_b;
    change.set.emplace_back("parallel.interleave=1");
    change.set.push_back(schedule_setting(schedule));
  }

  void add_number(std::string const& name,
                  std::string const& key,
                  std::int64_t from,
                  std::int64_t to) {
    changes_.push_back({.what = step_text(name, from, to), .set = {setting(key, to)}});
  }

  void add_chunks(int now, int chunks) {
    Change change{.what = step_text("chunks per stage", now, chunks),
                  .set = {setting("parallel.interleave", chunks)}};
    if (!is_interleaved()) {
      ScheduleConfig schedule = config_.schedule;
      schedule.kind = ScheduleKind::interleaved;
      schedule.group = 0;
      change.set.push_back(schedule_setting(schedule));
    }
    changes_.push_back(std::move(change));
  }

  /// Adds the change that the descriptor of a key names, if it has not been asked for before.
  void add_key(std::string_view key, bool has_effect = true) {
    auto const row = std::ranges::find(run_keys(), key, &KeyText::key);
    if (row->change.other.empty() || std::ranges::find(asked_, key) != asked_.end()) return;
    asked_.push_back(key);
    if (!has_effect || !json_.contains(pointer_to(key))) return;
    std::string const now = text_of(json_.at(pointer_to(key)));
    std::string const name{row->change.other};
    if (row->change.usual.empty()) {  // a switch
      bool const is_on = now == "true";
      bool const is_choice = is_on != (row->fallback == "true");
      changes_.push_back({.what = (is_on ? "no " : "") + name,
                          .set = {std::string{key} + (is_on ? "=false" : "=true")},
                          .undoes = is_choice ? (is_on ? "" : "no ") + name : ""});
    } else {
      bool const is_usual = now == row->fallback;
      std::string_view const other = row->accepts.substr(row->accepts.find(' ') + 1);
      changes_.push_back(
          {.what = is_usual ? name : std::string{row->change.usual},
           .set = {std::string{key} + "=" + std::string{is_usual ? other : row->fallback}},
           .undoes = is_usual ? "" : name});
    }
  }

  TrainingConfig const& config_;
  System const& system_;
  nlohmann::ordered_json json_;
  std::vector<std::string_view> asked_;  ///< keys
  std::vector<Change> changes_;
};

}  // namespace

std::vector<Change> single_changes(TrainingConfig const& config, System const& system) {
  ChangeList list{config, system};
  list.add_recompute();
  list.add_batch();
  list.add_interleaving();
  list.add_split_backward();
  list.add_step();
  list.add_exchanges();
  list.add_experts();
  list.add_context_methods();
  list.add_low_precision();
  list.add_switches();
  list.add_allocator();
  return std::move(list).finish();
}

}  // namespace stagecraft
