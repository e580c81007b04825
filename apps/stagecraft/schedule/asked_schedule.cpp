#include "apps/stagecraft/schedule/asked_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "apps/program/command_line.hpp"
#include "apps/stagecraft/schedule/asked_units.hpp"
#include "libsim/config/optional_json.hpp"
#include "libsim/engine/player/schedule_timeline.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/schedule/generators/order_request.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/interleaving.hpp"
#include "libsim/schedule/orders/order_file.hpp"
#include "libsim/schedule/orders/order_text.hpp"
#include "libsim/schedule/orders/order_timeline.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"
#include "libsim/schedule/pipeline_schedule.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/schedule/schedule_rules.hpp"
#include "libsim/training/training_names.hpp"
#include "libsim/units/parse_number.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

namespace {

/// More forwards than this are refused: their picture and order say nothing to a reader.
constexpr std::int64_t most_forwards = 1'000'000;

/// The largest limit that run files accept.
constexpr double most_memory_limit = 1e9;
constexpr char const* stages_option = "--pipeline (-p)";
constexpr char const* microbatches_option = "--microbatches (-n)";
constexpr int any_count = std::numeric_limits<int>::max();

/// "interleaved, interleaved_zb": the kinds for which `takes` holds.
template <class Predicate>
std::string kinds_that(Predicate takes) {
  std::string text;
  for (OrderKindTraits const& row : order_kinds) {
    if (takes(row)) text += (text.empty() ? "" : ", ") + std::string{name_of(row.kind)};
  }
  return text;
}

std::string with_schedule(std::string_view kind) { return "with --schedule " + std::string{kind}; }

[[noreturn]] void refuse(std::string const& option,
                         std::string const& found,
                         std::string const& accepted,
                         std::string const& condition = {}) {
  throw CommandLineError{option, "'" + found + "'", accepted, condition};
}

int needed_count(CommandLine const& line, char const* option) {
  line.needed(option, "a whole number from 1");
  return line.whole_number(option, 1, any_count);
}

int read_chunks(CommandLine const& line, OrderKind kind) {
  int const fixed = traits_of(kind).chunks;
  if (!line.has("chunks")) return std::max(fixed, 1);
  int const chunks = line.whole_number("chunks", 1, any_count);
  if (fixed == 0 || chunks == fixed) return chunks;
  refuse("--chunks (-m)", line.value("chunks"),
         std::to_string(fixed) + ", or --schedule " + kinds_that([](OrderKindTraits const& row) {
           return row.chunks == 0 && row.kind != OrderKind::order;
         }));
}

/// `f,i,w`, of which each may be negative.
MemoryChanges read_memory(std::string const& text) {
  std::vector<double> numbers;
  for (std::string const& part : list_items(text)) {
    auto const number = parse_number<double>(part);
    if (!number) break;
    numbers.push_back(*number);
  }
  if (numbers.size() != 3 || std::count(text.begin(), text.end(), ',') != 2) {
    refuse("--memory", text, "three numbers f,i,w, like 1,0,-1");
  }
  return {numbers[0], numbers[1], numbers[2]};
}

void read_memory_options(CommandLine const& line, OrderRequest& request) {
  OrderKindTraits const& kind = traits_of(request.kind);
  request.variant = line.word<OrderVariant>("variant");
  bool const is_zbv = request.kind == OrderKind::zbv;
  if (!is_zbv && line.is_given("variant")) {
    refuse("--variant", line.value("variant"), "only with --schedule zbv");
  }
  bool const is_fixed = is_zbv && request.variant == OrderVariant::fixed;
  auto const check = [&](char const* option, bool is_taken, std::string const& kinds) {
    if (is_taken && !is_fixed) return;
    refuse("--" + std::string{option}, line.value(option),
           "only with --schedule " + kinds + " (zbv: --variant auto)");
  };
  if (line.has("memory-limit")) {
    check("memory-limit", kind.takes_limit,
          kinds_that([](OrderKindTraits const& row) { return row.takes_limit; }));
    request.memory_limit = line.number_from_zero("memory-limit");
    if (*request.memory_limit > most_memory_limit) {
      refuse("--memory-limit", line.value("memory-limit"), "a number from 0 to 1e9");
    }
  }
  if (line.is_given("memory")) {
    check("memory", kind.takes_memory,
          kinds_that([](OrderKindTraits const& row) { return row.takes_memory; }));
  }
  request.memory = read_memory(line.value("memory"));
}

/// Refuses, by the options' names, what Megatron's interleaved schedule does not take.
/// \throws CommandLineError
void check_interleaved(ScheduleShape const& shape) {
  int const p = shape.stages;
  int const n = shape.microbatches;
  auto const refuse_count = [](char const* option, int found, std::string const& accepted) {
    refuse(option, std::to_string(found), accepted, with_schedule(name_of(OrderKind::interleaved)));
  };
  std::string const stages = "-p (" + std::to_string(p) + ")";
  if (p < 2) refuse_count(stages_option, p, "a whole number from 2");
  if (n < p) {
    refuse_count(microbatches_option, n,
                 "at least " + stages + ", or all in one group: --group " + std::to_string(n));
  }
  std::string const groups = accepted_groups(n, p);
  if (shape.group != 0 && !is_group(shape.group, n, p)) {
    refuse_count("--group", shape.group,
                 groups + " (from " + stages + " to -n (" + std::to_string(n) +
                     "), the last group full or of at least -p)");
  }
  if (shape.group == 0 && !is_group(p, n, p)) {
    refuse_count(microbatches_option, n,
                 "a multiple of " + stages + ", or --group with one of " + groups);
  }
}

/// Reads what a command line asks a generator for, except for costs.
/// \throws CommandLineError
OrderRequest read_request(CommandLine const& line) {
  OrderRequest request;
  request.kind = line.word<OrderKind>("schedule");
  request.stages = needed_count(line, "pipeline");
  request.microbatches = needed_count(line, "microbatches");
  request.chunks = read_chunks(line, request.kind);
  if (line.has("group")) {
    request.group = line.whole_number("group", 1, any_count);
    if (!traits_of(request.kind).takes_group) {
      refuse("--group", line.value("group"),
             "only with --schedule " +
                 kinds_that([](OrderKindTraits const& row) { return row.takes_group; }));
    }
  }
  request.recompute_chunks = line.whole_number("recompute-chunks", 0, any_count);
  if (request.recompute_chunks > 0 && request.kind != OrderKind::group_interleaved) {
    refuse("--recompute-chunks", line.value("recompute-chunks"),
           "only with --schedule group_interleaved");
  }
  read_memory_options(line, request);
  if (line.has("fuse-adjacent")) {
    request.fuse_adjacent = line.value("fuse-adjacent") == "true";
    if (!traits_of(request.kind).splits_backward) {
      refuse("--fuse-adjacent", line.value("fuse-adjacent"),
             "only with --schedule " +
                 kinds_that([](OrderKindTraits const& row) { return row.splits_backward; }));
    }
  }
  request.expert_overlap = line.has("expert-overlap");
  if (request.expert_overlap && request.kind != OrderKind::interleaved) {
    throw CommandLineError{"--expert-overlap",
                           "with --schedule " + std::string{name_of(request.kind)}, "interleaved"};
  }
  std::int64_t const virtual_stages = std::int64_t{request.stages} * request.chunks;
  if (virtual_stages > most_forwards || virtual_stages * request.microbatches > most_forwards) {
    throw CommandLineError{"-p x -m x -n",
                           "'" + std::to_string(request.stages) + " x " +
                               std::to_string(request.chunks) + " x " +
                               std::to_string(request.microbatches) + "'",
                           "a product of at most " + std::to_string(most_forwards)};
  }
  return request;
}

/// \throws CommandLineError
ChunkCosts read_costs(CommandLine const& line) {
  auto const cost = [&](std::string const& name) { return line.number_from_zero(name); };
  ChunkCosts costs{.forward = cost("forward"),
                   .transfer = cost("transfer"),
                   .input_gradient = cost("input-gradient"),
                   .weight_gradient = cost("weight-gradient")};
  costs.backward = costs.input_gradient + costs.weight_gradient;
  if (!line.has("backward")) return costs;
  if (line.is_given("input-gradient") || line.is_given("weight-gradient")) {
    refuse("--backward", line.value("backward"),
           "only without --input-gradient and --weight-gradient, whose sum it is");
  }
  costs.backward = cost("backward");
  return costs;
}

/// Refuses options of searches.
/// \throws CommandLineError
void check_searched(CommandLine const& line) {
  for (char const* option : {"seed", "iterations", "seconds"}) {
    if (!line.is_given(option)) continue;
    refuse("--" + std::string{option}, line.value(option), "only with --schedule searched");
  }
}

/// Refuses options that an order, whose messages are buffered, does not take.
/// \throws CommandLineError
void check_ordered(CommandLine const& line, PipelineOrder const& order) {
  std::string const& kind = line.value("schedule");
  if (line.has("p2p") && line.word<P2p>("p2p") == P2p::blocking) {
    refuse("--p2p", "blocking", "overlapped (its tasks do not wait for sends)",
           with_schedule(kind));
  }
  if (line.has("backward") && splits_backward(order)) {
    refuse("--backward", line.value("backward"),
           "--input-gradient and --weight-gradient, which " + kind + " runs apart");
  }
}

/// The order with what ranks that share parameters communicate, if --sharding asks for that.
/// \throws CommandLineError, ScheduleError
std::optional<LoweredOrder> read_lowered(CommandLine const& line, PipelineOrder const& order) {
  if (!line.is_given("sharding")) {
    for (char const* option :
         {"max-active-stages", "unshard-lookahead", "defer-reduce-grad-wait"}) {
      if (line.is_given(option)) {
        refuse("--" + std::string{option}, line.value(option), "only with --sharding");
      }
    }
    return std::nullopt;
  }
  if (read_units_sharding(line) != default_sharding(ShardingKind::fsdp2)) {
    refuse("--sharding", line.value("sharding"), "fsdp2, without other keys", "with --schedule");
  }
  return lowered(order, {.max_active_stages = line.whole_number("max-active-stages", 1, any_count),
                         .looks_ahead_by_rank = line.value("unshard-lookahead") == "auto",
                         .defers_reduction_wait = line.value("defer-reduce-grad-wait") == "true"});
}

/// The order of a file, held against the shape that the command line may name.
/// \throws CommandLineError, ScheduleError
PipelineOrder read_order(CommandLine const& line) {
  PipelineOrder order = read_order_file(line.needed("order", "a JSON file"));
  struct Count {
    char const* option;
    char const* shown;
    int found;
  };
  for (auto const& [option, shown, found] :
       {Count{"pipeline", stages_option, order.placement.stages()},
        Count{"microbatches", microbatches_option, order.microbatches},
        Count{"chunks", "--chunks (-m)", order.placement.chunks()}}) {
    if (line.has(option) && line.whole_number(option, 1, any_count) != found) {
      refuse(shown, line.value(option), std::to_string(found) + ", as the order has");
    }
  }
  return order;
}

/// The kinds whose stages exchange messages as Megatron-LM issues them, blocking or not.
/// \param is_torch  whether the order is to be PyTorch's
std::optional<ScheduleKind> issued_kind(OrderRequest const& request, bool is_torch) {
  bool const is_looped = is_torch || request.chunks > 1;
  if (request.kind == OrderKind::gpipe && !is_looped) return ScheduleKind::gpipe;
  if (request.kind == OrderKind::one_f_one_b) return ScheduleKind::one_f_one_b;
  bool const is_torch_only =
      request.microbatches < request.stages && request.group == request.microbatches;
  if (request.kind == OrderKind::interleaved && !request.expert_overlap && !is_torch_only) {
    return ScheduleKind::interleaved;
  }
  return std::nullopt;
}

AskedSchedule play_issued(OrderRequest const& request,
                          ScheduleKind kind,
                          P2p p2p,
                          ChunkCosts const& costs) {
  ScheduleShape const shape{kind,           request.stages, request.microbatches,
                            request.chunks, request.group,  p2p};
  if (kind == ScheduleKind::interleaved) check_interleaved(shape);
  PipelineSchedule const schedule = make_pipeline_schedule(shape);
  ScheduleRules const& rules = rules_of(kind);
  std::string title{rules.title};
  title += ", " + counted(shape.stages, "stage") + ", " +
           counted(shape.microbatches, "microbatch", "microbatches");
  if (rules.takes_chunks) {
    title += ", " + counted(shape.chunks, "chunk") + " per stage, groups of " +
             std::to_string(schedule.shape.group);
  }
  title += p2p == P2p::blocking ? ", blocking transfers" : ", overlapped transfers";
  return {title, order_of(schedule), play_schedule(schedule, costs)};
}

AskedSchedule play_ordered(CommandLine const& line, PipelineOrder order, ChunkCosts const& costs) {
  check_ordered(line, order);
  std::string title = line.value("schedule") + ", " + counted(order.placement.stages(), "stage") +
                      ", " + counted(order.microbatches, "microbatch", "microbatches");
  if (order.placement.chunks() > 1) {
    title += ", " + counted(order.placement.chunks(), "chunk") + " per stage";
  }
  if (order.placement.copies() > 1) title += ", two copies of the parameters";
  PlayedOrder played = play_order(order, costs);
  return {title + ", overlapped transfers", std::move(order), std::move(played)};
}

AskedSchedule play_searched(CommandLine const& line, OrderRequest const& request) {
  SearchEffort effort;
  effort.seed =
      static_cast<std::uint64_t>(line.whole_number("seed", 0, std::numeric_limits<int>::max()));
  effort.iterations = line.whole_number("iterations", 0, std::numeric_limits<int>::max());
  effort.seconds = line.number_from_zero("seconds");
  FoundOrder found = search_order(request, effort);
  AskedSchedule asked = play_ordered(line, found.order, request.costs);
  asked.title += fmt::format(
      "\nno order of these costs within this memory takes less than {:g}; {} changes tried, "
      "ended by {}",
      found.lower_bound, found.iterations, name_of(found.ended_by));
  asked.found = std::move(found);
  return asked;
}

}  // namespace

nlohmann::ordered_json to_json(AskedSchedule const& asked) {
  PipelineOrder const& order = asked.order;
  PlayedOrder const& played = asked.played;
  using Json = nlohmann::ordered_json;
  auto const time_of = [&](SimTime StageRuns::*time) {
    return list_of(played.stages,
                   [&](StageRuns const& stage) { return played.in_units(stage.*time); });
  };
  auto const most = [&](InFlight until) {
    return list_of(order.placement.stage_ids(),
                   [&](StageId stage) { return most_in_flight(order, stage.index(), until); });
  };
  Json document{{"schema", schedule_schema},
                {"orders", list_of(order.stages, order_text)},
                {"placement", name_of(shape_of(order.placement))},
                {"makespan", played.in_units(played.makespan)},
                {"span", played.in_units(span_of(played))},
                {"ideal", played.in_units(ideal_time(played))},
                {"bubble_fraction", bubble_fraction(played)},
                {"stage_start", time_of(&StageRuns::start)},
                {"stage_end", time_of(&StageRuns::end)},
                {"in_flight_chunks", most(InFlight::until_weight_gradient)},
                {"in_flight_until_input_gradient", most(InFlight::until_input_gradient)}};
  if (asked.lowered) {
    document["actions"] = list_of(asked.lowered->ranks, lowered_text);
    document["peak_unsharded_stages"] = asked.lowered->most_unsharded;
    document["unshards_per_rank"] = asked.lowered->unshards;
  }
  if (asked.found) {
    document["lower_bound"] = asked.found->lower_bound;
    document["iterations"] = asked.found->iterations;
    document["ended_by"] = name_of(asked.found->ended_by);
  }
  return document;
}

namespace {

AskedSchedule play_order_of(CommandLine const& line) {
  line.needed("schedule", accepted_names<OrderKind>());
  auto const kind = line.word<OrderKind>("schedule");
  if (kind != OrderKind::searched) check_searched(line);
  if (kind == OrderKind::order) {
    return play_ordered(line, read_order(line), read_costs(line));
  }
  OrderRequest request = read_request(line);
  if (auto const issued = issued_kind(request, line.is_given("sharding"))) {
    P2p const p2p = line.has("p2p") ? line.word<P2p>("p2p") : P2p::blocking;
    return play_issued(request, *issued, p2p, read_costs(line));
  }
  request.costs = read_costs(line);
  if (kind == OrderKind::searched) return play_searched(line, request);
  return play_ordered(line, make_order(request), request.costs);
}

}  // namespace

AskedSchedule play_asked_schedule(CommandLine const& line) {
  AskedSchedule asked = play_order_of(line);
  asked.lowered = read_lowered(line, asked.order);
  return asked;
}

}  // namespace stagecraft
