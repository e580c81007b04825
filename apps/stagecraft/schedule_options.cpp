#include "apps/stagecraft/schedule_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "libsim/engine/schedule_timeline.hpp"
#include "libsim/plan/ordered_schedule.hpp"
#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/plan/schedule_rules.hpp"
#include "libsim/plan/training_names.hpp"
#include "libsim/schedule/order_file.hpp"
#include "libsim/schedule/order_request.hpp"
#include "libsim/schedule/order_timeline.hpp"

namespace stagecraft {

namespace {

/// More forwards than this are refused: their picture and order say nothing to a reader any more.
constexpr std::int64_t most_forwards = 1'000'000;

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

/// Refuses, by the options' names, what Megatron's interleaved schedule does not take.
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
    double number = 0;
    auto const end = part.data() + part.size();
    auto const read = std::from_chars(part.data(), end, number);
    if (read.ec != std::errc{} || read.ptr != end || !std::isfinite(number)) break;
    numbers.push_back(number);
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
  }
  if (line.is_given("memory")) {
    check("memory", kind.takes_memory,
          kinds_that([](OrderKindTraits const& row) { return row.takes_memory; }));
  }
  request.memory = read_memory(line.value("memory"));
}

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

/// The kinds whose stages exchange messages as Megatron-LM issues them, blocking or not.
std::optional<ScheduleKind> issued_kind(OrderRequest const& request) {
  if (request.kind == OrderKind::gpipe) return ScheduleKind::gpipe;
  if (request.kind == OrderKind::one_f_one_b) return ScheduleKind::one_f_one_b;
  bool const is_torch_only =
      request.microbatches < request.stages && request.group == request.microbatches;
  if (request.kind == OrderKind::interleaved && !request.expert_overlap && !is_torch_only) {
    return ScheduleKind::interleaved;
  }
  return std::nullopt;
}

std::string counted(int count, std::string const& one) {
  return std::to_string(count) + ' ' + one + (count == 1 ? "" : "s");
}

std::string microbatches_text(int count) {
  return std::to_string(count) + (count == 1 ? " microbatch" : " microbatches");
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
  title += ", " + counted(shape.stages, "stage") + ", " + microbatches_text(shape.microbatches);
  if (rules.takes_chunks) {
    title += ", " + counted(shape.chunks, "chunk") + " per stage, groups of " +
             std::to_string(schedule.shape.group);
  }
  title += p2p == P2p::blocking ? ", blocking transfers" : ", overlapped transfers";
  return {title, order_of(schedule), play_schedule(schedule, costs)};
}

bool has_split_backward(PipelineOrder const& order) {
  return std::any_of(order.stages.begin(), order.stages.end(), [](auto const& tasks) {
    return std::any_of(tasks.begin(), tasks.end(),
                       [](OrderTask const& task) { return task.run.part == Part::input_gradient; });
  });
}

AskedSchedule play_ordered(CommandLine const& line, PipelineOrder order, ChunkCosts const& costs) {
  std::string const& kind = line.value("schedule");
  if (line.has("p2p") && line.word<P2p>("p2p") == P2p::blocking) {
    refuse("--p2p", "blocking", "overlapped (its tasks do not wait for sends)",
           with_schedule(kind));
  }
  if (line.has("backward") && has_split_backward(order)) {
    refuse("--backward", line.value("backward"),
           "--input-gradient and --weight-gradient, which " + kind + " runs apart");
  }
  std::string title = kind + ", " + counted(order.placement.stages(), "stage") + ", " +
                      microbatches_text(order.microbatches);
  if (order.placement.chunks() > 1) {
    title += ", " + counted(order.placement.chunks(), "chunk") + " per stage";
  }
  if (order.placement.copies() > 1) title += ", two copies of the parameters";
  PlayedOrder played = play_order(order, costs);
  return {title + ", overlapped transfers", std::move(order), std::move(played)};
}

AskedSchedule play_searched(CommandLine const& line, OrderRequest const& request) {
  SearchEffort effort;
  effort.seed = static_cast<std::uint64_t>(line.whole_number("seed", 0, any_count));
  effort.iterations = line.whole_number("iterations", 0, any_count);
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

void check_searched(CommandLine const& line) {
  for (char const* option : {"seed", "iterations", "seconds"}) {
    if (!line.is_given(option)) continue;
    refuse("--" + std::string{option}, line.value(option), "only with --schedule searched");
  }
}

/// The order of a file, held against the shape that the command line may name.
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

}  // namespace

std::vector<Option> schedule_options() {
  return {{.name = "schedule",
           .value = Value::word_of<OrderKind>(),
           .description = "the order of a stage's forwards and backwards"},
          {.name = "pipeline",
           .letter = 'p',
           .value = Value::text("P"),
           .description = "pipeline stages"},
          {.name = "microbatches",
           .letter = 'n',
           .value = Value::text("N"),
           .description = "microbatches per iteration"},
          {.name = "chunks",
           .letter = 'm',
           .value = Value::text("M"),
           .description = "interleaved kinds: chunks per stage (default: 1)"},
          {.name = "group",
           .value = Value::text("G"),
           .description = "interleaved: microbatches per group (default: P)"},
          {.name = "expert-overlap",
           .description = "interleaved: each steady forward overlaps a backward, behind which "
                          "experts communicate"},
          {.name = "recompute-chunks",
           .value = Value::text("K"),
           .fallback = "0",
           .description = "group_interleaved: the first K chunks of a stage recompute"},
          {.name = "variant",
           .value = Value::word_of<OrderVariant>(),
           .fallback = "fixed",
           .description = "zbv: by a fixed rule, or fitted to costs and memory"},
          {.name = "fuse-adjacent",
           .value = Value::word({"true", "false"}),
           .description = "schedules that split backwards: true, to run an input gradient right "
                          "before its weight gradient as one whole backward; false, to split all "
                          "(default: as the schedule's public code does)"},
          {.name = "memory",
           .value = Value::text("F,I,W"),
           .fallback = "1,0,-1",
           .description =
               "zb_auto, zbv, searched: how a forward, input gradient and weight gradient change "
               "what a stage holds"},
          {.name = "memory-limit",
           .value = Value::text("X"),
           .description =
               "zb_auto, zbv, v_auto, searched: what a stage may hold, in forwards (default: as "
               "1F1B, P, or 2P of two chunks)"},
          {.name = "seed",
           .value = Value::text("S"),
           .fallback = "1",
           .description = "searched: of the random changes"},
          {.name = "iterations",
           .value = Value::text("N"),
           .fallback = "100000",
           .description = "searched: changes to try"},
          {.name = "seconds",
           .value = Value::text("T"),
           .fallback = "10",
           .description = "searched: a cap on the time for them"},
          {.name = "order",
           .value = Value::file("FILE", {"json"}),
           .description = "--schedule order: the file with the order, as --json prints it"},
          {.name = "forward",
           .value = Value::text("COST"),
           .fallback = "1",
           .description = "duration of a chunk's forward"},
          {.name = "input-gradient",
           .value = Value::text("COST"),
           .fallback = "1",
           .description = "duration of the part of a chunk's backward that other chunks wait for"},
          {.name = "weight-gradient",
           .value = Value::text("COST"),
           .fallback = "1",
           .description = "duration of the rest of a chunk's backward"},
          {.name = "backward",
           .value = Value::text("COST"),
           .description = "duration of a chunk's whole backward (default: the sum of its parts)"},
          {.name = "transfer",
           .value = Value::text("COST"),
           .fallback = "0",
           .description = "duration of a message, from its start to its arrival"},
          {.name = "p2p",
           .value = Value::word_of<P2p>(),
           .description = "blocking: a stage waits until its messages are over (default of gpipe, "
                          "1f1b and interleaved); overlapped: messages run beside computation"}};
}

AskedSchedule play_asked_schedule(CommandLine const& line) {
  line.needed("schedule", accepted_names<OrderKind>());
  auto const kind = line.word<OrderKind>("schedule");
  if (kind != OrderKind::searched) check_searched(line);
  if (kind == OrderKind::order) {
    return play_ordered(line, read_order(line), read_costs(line));
  }
  OrderRequest request = read_request(line);
  if (auto const issued = issued_kind(request)) {
    P2p const p2p = line.has("p2p") ? line.word<P2p>("p2p") : P2p::blocking;
    return play_issued(request, *issued, p2p, read_costs(line));
  }
  request.costs = read_costs(line);
  if (kind == OrderKind::searched) return play_searched(line, request);
  return play_ordered(line, make_order(request), request.costs);
}

}  // namespace stagecraft
