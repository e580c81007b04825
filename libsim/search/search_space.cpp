#include "libsim/search/search_space.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/ranks/unit_groups.hpp"
#include "libsim/training/low_precision/low_precision_reader.hpp"
#include "libsim/training/routing_check.hpp"
#include "libsim/training/size_limits.hpp"
#include "libsim/training/training_config_checks.hpp"

namespace stagecraft {
namespace {

/// Whether a file says how many rows experts compute in single microbatches of the global batch.
bool names_microbatches(Routing const& routing) {
  return routing.counts &&
         std::ranges::any_of(routing.counts->layers, [](CountsOfLayer const& counts) {
           return counts.microbatch != every_microbatch;
         });
}

/// A run of the shape on one stage with one microbatch per replica, which shows whether the shape
/// is legal. It has the fewest replicas, or if a file names microbatches, all of the global batch.
TrainingConfig shape_probe(SearchRequest const& request, ShapeChoice const& shape) {
  bool const has_whole_batch = names_microbatches(request.base.routing);
  std::int64_t const replicas =
      has_whole_batch ? request.global_batch / shape.micro : fewest_replicas(shape);
  Arrangement const alone{shape,
                          {.data = static_cast<int>(replicas), .p2p = request.base.schedule.p2p},
                          {request.base.model.layers, 0, 0}};
  TrainingConfig config = make_config(request, alone, {RecomputePolicy{}}, least_sharding(request));
  config.batch = {.global = shape.micro * replicas, .micro = shape.micro};
  return config;
}

/// The number that divides the experts of every layer; 1 for a model without experts.
std::int64_t experts_of(ModelConfig const& model) {
  std::int64_t common = 0;
  for (LayerRun const& run : layer_runs(model)) {
    if (run.kind.experts) common = std::gcd(common, run.kind.experts->count);
  }
  return std::max<std::int64_t>(1, common);
}

/// The shapes that differ from one in how experts are split.
std::vector<ShapeChoice> with_experts(SearchRequest const& request, ShapeChoice const& dense) {
  std::vector<ShapeChoice> shapes;
  SearchFilter const& filter = request.filter;
  std::int64_t const most_together = has_experts(request.base.model) ? dense.tensor : 1;
  for (std::int64_t const expert : divisors(experts_of(request.base.model))) {
    for (std::int64_t const expert_tensor : divisors(most_together)) {
      ShapeChoice shape = dense;
      shape.expert = static_cast<int>(expert);
      shape.expert_tensor = static_cast<int>(expert_tensor);
      std::int64_t const replicas = fewest_replicas(shape);
      bool const has_ranks = request.gpus / dense.ranks_together() % replicas == 0;
      bool const has_batch = request.global_batch % (replicas * dense.micro) == 0;
      if (has_ranks && has_batch && allows(filter.expert, shape.expert) &&
          allows(filter.expert_tensor, shape.expert_tensor)) {
        shapes.push_back(shape);
      }
    }
  }
  return shapes;
}

bool is_legal(TrainingConfig const& config) { return problems_of(config).empty(); }

/// Whether a run is illegal only because it has more chunk passes than a run may have.
bool is_oversized(TrainingConfig config) {
  if (plan_sizes(config).chunk_passes <= plan_limits.chunk_passes) return false;
  // As few microbatches as every schedule has.
  config.batch.global = config.parallel.data * config.batch.micro * config.parallel.pipeline;
  return is_legal(config);
}

/// Appends the shapes that a dense one becomes, as far as they are legal.
void append_legal(SearchRequest const& request,
                  ShapeChoice const& dense,
                  std::vector<ShapeChoice>& shapes) {
  for (ShapeChoice const& shape : with_experts(request, dense)) {
    if (is_legal(shape_probe(request, shape))) shapes.push_back(shape);
  }
}

/// The numbers of stages and replicas that a shape's ranks and batch can be divided into.
std::vector<std::pair<std::int64_t, std::int64_t>> divided_ranks(SearchRequest const& request,
                                                                 ShapeChoice const& shape) {
  std::vector<std::pair<std::int64_t, std::int64_t>> divided;
  SearchFilter const& filter = request.filter;
  std::int64_t const rest = request.gpus / shape.ranks_together();
  std::int64_t const fewest = fewest_replicas(shape);
  for (std::int64_t const p : divisors(rest)) {
    std::int64_t const d = rest / p;
    if (request.global_batch % (d * shape.micro) == 0 && p <= request.base.model.layers + 2 &&
        d % fewest == 0 && allows(filter.pipeline, static_cast<int>(p)) &&
        allows(filter.data, static_cast<int>(d))) {
      divided.emplace_back(p, d);
    }
  }
  return divided;
}

/// The kinds that follow an order, as far as they are searched.
std::vector<ScheduleKind> ordered_kinds(SearchFilter const& filter) {
  std::vector<ScheduleKind> kinds;
  for (OrderKindTraits const& traits : order_kinds) {
    bool const is_ordered = has_order(traits.kind) && is_searched(traits.kind);
    if (is_ordered && allows(filter.schedule, traits.kind)) kinds.push_back(traits.kind);
  }
  return kinds;
}

/// The numbers of chunks per stage that a kind is searched with.
std::vector<int> chunk_counts(ScheduleKind kind) {
  int const fixed = chunks_of({.kind = kind});
  return fixed > 0 ? std::vector{fixed} : std::vector{2, 3, 4};
}

/// The numbers of ranks that may split sequences beside `tensor` ranks.
std::vector<std::int64_t> context_sizes(SearchRequest const& request, std::int64_t tensor) {
  if (!splits_sequences(request)) return {1};
  std::vector<std::int64_t> sizes = divisors(request.gpus / tensor);
  std::erase_if(sizes, [&](std::int64_t const size) {
    return !allows(request.filter.context, static_cast<int>(size));
  });
  return sizes;
}

/// Appends uneven shares: for each size of a middle stage, those that leave the ends no more.
void append_uneven(std::vector<LayerShares>& shares,
                   std::int64_t layers,
                   std::int64_t p,
                   std::int64_t v) {
  std::int64_t const least = v == 1 ? 0 : v;
  std::int64_t const quarter_more = (5 * layers + 4 * p - 1) / (4 * p);
  std::int64_t const most = (quarter_more + v - 1) / v * v;
  auto const add = [&](std::int64_t first, std::int64_t middle, std::int64_t last) {
    LayerShares const made{first, middle, last};
    if (first != last || (p > 2 && first != middle)) shares.push_back(made);
  };
  if (p == 2) {
    for (std::int64_t first = least; first <= layers - least; first += v) {
      std::int64_t const last = layers - first;
      if (last % v == 0 && std::max(first, last) <= most) add(first, 0, last);
    }
    return;
  }
  for (std::int64_t middle = v; middle <= most && middle * (p - 2) <= layers; middle += v) {
    std::int64_t const ends = layers - middle * (p - 2);
    for (std::int64_t first = least; first <= std::min(middle, ends - least); first += v) {
      std::int64_t const last = ends - first;
      if (last <= middle && last % v == 0) add(first, middle, last);
    }
  }
}

}  // namespace

bool splits_sequences(SearchRequest const& request) {
  std::vector<int> const& wanted = request.filter.context;
  if (!wanted.empty()) return wanted != std::vector{1};
  return request.base.model.sequence >= least_split_sequence;
}

std::int64_t fewest_replicas(ShapeChoice const& shape) {
  return shape.expert_ranks() / std::gcd(shape.expert_ranks(), shape.ranks_together());
}

std::int64_t largest_chunk(Arrangement const& arrangement) {
  LayerShares const& shares = arrangement.shares;
  return std::max({shares.first, shares.middle, shares.last}) / arrangement.schedule.cuts();
}

std::vector<ShapeChoice> shape_choices(SearchRequest const& request) {
  std::vector<ShapeChoice> shapes;
  SearchFilter const& filter = request.filter;
  for (std::int64_t const t : divisors(request.gpus)) {
    if (!allows(filter.tensor, static_cast<int>(t))) continue;
    for (std::int64_t const c : context_sizes(request, t)) {
      for (bool const sequence : {false, true}) {
        if (!allows(filter.sequence, sequence) || (sequence && t == 1)) continue;
        for (std::int64_t const micro : divisors(request.global_batch)) {
          if (micro > (std::int64_t{1} << 20) || !allows(filter.micro, micro)) continue;
          ShapeChoice const dense{.tensor = static_cast<int>(t),
                                  .sequence = sequence,
                                  .micro = micro,
                                  .context = static_cast<int>(c)};
          append_legal(request, dense, shapes);
        }
      }
    }
  }
  return shapes;
}

ScheduleChoices schedule_choices(SearchRequest const& request, ShapeChoice const& shape) {
  ScheduleChoices choices;
  SearchFilter const& filter = request.filter;
  std::int64_t const layers = request.base.model.layers;
  auto const add = [&](ScheduleChoice const& choice) {
    if (!allows(filter.schedule, choice.kind) || !allows(filter.interleave, choice.interleave)) {
      return;
    }
    auto const shares = share_choices(request, choice);
    if (shares.empty()) return;
    TrainingConfig const config = make_config(request, {shape, choice, shares.front()},
                                              {RecomputePolicy{}}, least_sharding(request));
    if (is_legal(config)) {
      choices.legal.push_back(choice);
    } else if (is_oversized(config)) {
      ++choices.oversized;
    }
  };
  auto const add_modes = [&](ScheduleChoice choice) {
    P2p const usual = request.base.schedule.p2p;
    for (P2p const p2p : {usual, usual == P2p::blocking ? P2p::overlapped : P2p::blocking}) {
      choice.p2p = p2p;
      bool const is_allowed = choice.pipeline == 1 ? p2p == usual : allows(filter.p2p, p2p);
      if (is_allowed) add(choice);
    }
  };
  for (auto const& [p, d] : divided_ranks(request, shape)) {
    std::int64_t const n = request.global_batch / (d * shape.micro);
    ScheduleChoice choice{.pipeline = static_cast<int>(p), .data = static_cast<int>(d)};
    add_modes(choice);
    if (p == 1) continue;
    choice.kind = ScheduleKind::gpipe;
    add_modes(choice);
    choice.kind = ScheduleKind::interleaved;
    for (std::int64_t v = 2; v * p <= layers && n % p == 0; ++v) {
      choice.interleave = static_cast<int>(v);
      add_modes(choice);
    }
  }
  return choices;
}

bool is_searched(ScheduleKind kind) {
  if (!has_order(kind)) return true;
  return kind != ScheduleKind::order && !depends_on_costs(kind, OrderVariant::fixed);
}

bool has_rules(SearchFilter const& filter) {
  return filter.schedule.empty() ||
         std::ranges::any_of(filter.schedule, [](ScheduleKind kind) { return !has_order(kind); });
}

Placement placement_of(ScheduleChoice const& schedule) {
  return make_placement(traits_of(schedule.kind).placement, schedule.pipeline, schedule.interleave);
}

ScheduleChoices ordered_choices(SearchRequest const& request, ShapeChoice const& shape) {
  ScheduleChoices choices;
  SearchFilter const& filter = request.filter;
  if (!allows(filter.p2p, P2p::overlapped)) return choices;
  for (auto const& [p, d] : divided_ranks(request, shape)) {
    if (p == 1) continue;
    std::int64_t const n = request.global_batch / (d * shape.micro);
    for (ScheduleKind const kind : ordered_kinds(filter)) {
      for (int const chunks : chunk_counts(kind)) {
        ScheduleChoice const choice{.pipeline = static_cast<int>(p),
                                    .data = static_cast<int>(d),
                                    .interleave = chunks,
                                    .kind = kind,
                                    .p2p = P2p::overlapped};
        if (!allows(filter.interleave, chunks) || share_choices(request, choice).empty()) continue;
        bool const has_too_many = p * n * chunks > most_ordered_passes && !request.exhaustive;
        if (has_too_many) {
          ++choices.unordered;
        } else {
          choices.legal.push_back(choice);
        }
      }
    }
  }
  return choices;
}

std::vector<LayerShares> share_choices(SearchRequest const& request,
                                       ScheduleChoice const& schedule) {
  std::vector<LayerShares> shares;
  std::int64_t const layers = request.base.model.layers;
  std::int64_t const p = schedule.pipeline;
  std::int64_t const v = schedule.cuts();
  if (layers % (p * v) == 0) {
    std::int64_t const each = layers / p;
    shares.push_back({each, p > 2 ? each : 0, p > 1 ? each : 0});
  }
  if (!request.filter.only_even && p > 1) append_uneven(shares, layers, p, v);
  return shares;
}

Sharding least_sharding(SearchRequest const& request) {
  bool const keeps_low = request.base.low_precision.parameters == LowOrHigh::low;
  return {.kind = keeps_low ? ShardingKind::distributed_optimizer : ShardingKind::none};
}

Sharding fastest_sharding(SearchRequest const& request) {
  for (ShardingKind const kind : sharding_kinds(request)) {
    if (traits_of(kind).has_model_gradients) return default_sharding(kind);
  }
  return least_sharding(request);
}

std::vector<ShardingKind> const& sharding_kinds(SearchRequest const& request) {
  std::vector<ShardingKind> const& asked = request.filter.sharding;
  return asked.empty() ? request.system.software.replicas.sharding.value : asked;
}

std::vector<Sharding> kinds_of_shardings(SearchRequest const& request) {
  std::vector<Sharding> shardings;
  for (ShardingKind const kind : sharding_kinds(request)) {
    Sharding sharding = default_sharding(kind);
    if (kind != ShardingKind::megatron_fsdp) {
      shardings.push_back(sharding);
      continue;
    }
    for (auto const& [strategy, name] : EnumNames<ShardingStrategy>::all) {
      if (request.filter.strategy.value_or(strategy) != strategy) continue;
      sharding.strategy = strategy;
      shardings.push_back(sharding);
    }
  }
  return shardings;
}

bool searches_units(SearchRequest const& request) {
  return std::ranges::any_of(kinds_of_shardings(request), &Sharding::has_units);
}

bool searches_whole(SearchRequest const& request) {
  return !std::ranges::all_of(kinds_of_shardings(request), &Sharding::has_units);
}

std::vector<Sharding> whole_shardings(SearchRequest const& request,
                                      ShapeChoice const& shape,
                                      ScheduleChoice const& schedule) {
  std::vector<Sharding> shardings;
  for (Sharding const& sharding : kinds_of_shardings(request)) {
    bool const has_shards = !sharding.shares_optimizer() || schedule.data * shape.context > 1;
    bool const is_allowed =
        (sharding.traits().may_keep_low_weights || !least_sharding(request).shares_optimizer()) &&
        may_quantise(request.base.low_precision, sharding.traits());
    if (has_shards && is_allowed && !sharding.has_units()) shardings.push_back(sharding);
  }
  return shardings;
}

std::vector<Sharding> unit_shardings(SearchRequest const& request,
                                     ShapeChoice const& shape,
                                     ScheduleChoice const& schedule) {
  std::vector<Sharding> shardings;
  if (schedule.pipeline > 1) return shardings;
  Arrangement const arrangement{shape, schedule, {request.base.model.layers, 0, 0}};
  for (Sharding sharding : kinds_of_shardings(request)) {
    if (!sharding.has_units()) continue;
    SearchFilter const& filter = request.filter;
    sharding.stored_dtype = filter.stored_dtype.value_or(sharding.stored_dtype);
    sharding.parameter_dtype = filter.parameter_dtype.value_or(sharding.parameter_dtype);
    sharding.reduce_dtype = filter.reduce_dtype.value_or(sharding.reduce_dtype);
    if (!sharding.traits().reduces_every) {
      sharding.sync = request.system.software.replicas.sync.value;
    }
    TrainingConfig const config = make_config(request, arrangement, {RecomputePolicy{}}, sharding);
    if (!is_legal(config)) continue;
    auto const append = [&](Sharding made) {
      shardings.push_back(made);
      if (!made.traits().has_buckets()) return;
      made.overlap = !made.overlap;
      shardings.push_back(made);
    };
    if (!sharding.shares_parameters()) {
      append(sharding);
      continue;
    }
    for (int const group : unit_groups(config.parallel, request.system.node.accelerators.value)) {
      sharding.group = group;
      for (auto const after : {Reshard::Kind::automatic, Reshard::Kind::no}) {
        if (after == Reshard::Kind::no && !sharding.traits().may_keep_gathered) continue;
        sharding.reshard_after_forward.kind = after;
        append(sharding);
      }
    }
  }
  return shardings;
}

bool has_plans(SearchRequest const& request) {
  std::vector<ShapeChoice> const shapes = shape_choices(request);
  return std::any_of(shapes.begin(), shapes.end(), [&](ShapeChoice const& shape) {
    ScheduleChoices const schedules = schedule_choices(request, shape);
    auto const has_units = [&](ScheduleChoice const& schedule) {
      return !unit_shardings(request, shape, schedule).empty();
    };
    auto const has_whole = [&](ScheduleChoice const& schedule) {
      return !whole_shardings(request, shape, schedule).empty();
    };
    return std::ranges::any_of(schedules, has_whole) || std::ranges::any_of(schedules, has_units) ||
           std::ranges::any_of(ordered_choices(request, shape), has_whole);
  });
}

void split_experts(TrainingConfig& config, ShapeChoice const& shape) {
  config.parallel.expert = shape.expert;
  config.parallel.expert_tensor = shape.expert_tensor;
  if (!config.routing.factor) return;
  for (LayerRun const& run : layer_runs(config.model)) {
    if (!run.kind.experts) continue;
    config.routing.factor =
        std::min(*config.routing.factor, largest_routing_factor(*run.kind.experts, shape.expert));
  }
}

TrainingConfig make_config(SearchRequest const& request,
                           Arrangement const& arrangement,
                           std::vector<RecomputePolicy> recompute,
                           Sharding sharding) {
  TrainingConfig config = request.base;
  ScheduleChoice const& schedule = arrangement.schedule;
  config.parallel.tensor = arrangement.shape.tensor;
  config.parallel.sequence = arrangement.shape.sequence;
  config.parallel.context = arrangement.shape.context;
  split_experts(config, arrangement.shape);
  config.parallel.pipeline = schedule.pipeline;
  config.parallel.data = schedule.data;
  config.parallel.interleave = schedule.interleave;
  config.batch = {.global = request.global_batch, .micro = arrangement.shape.micro};
  config.schedule.kind = schedule.kind;
  config.schedule.p2p = schedule.p2p;
  if (copies_of(schedule.kind) > 1) config.parallel.overlap_gradients = false;
  config.schedule.group = schedule.kind == ScheduleKind::interleaved ? schedule.pipeline : 0;
  config.recompute = std::move(recompute);
  config.sharding = sharding;
  LayerShares const& shares = arrangement.shares;
  bool const is_even =
      schedule.pipeline == 1 ||
      (shares.first == shares.last && (schedule.pipeline == 2 || shares.first == shares.middle));
  config.layout = LayerSplit{};
  if (!is_even) {
    config.layout.kind = LayerSplit::Kind::first_last;
    config.layout.first = shares.first;
    config.layout.last = shares.last;
  }
  settle_routing(config);
  return config;
}

}  // namespace stagecraft
