#include "libsim/schedule/generators/order_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libsim/host/interruption.hpp"
#include "libsim/schedule/generators/first_orders.hpp"
#include "libsim/schedule/generators/named_orders.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

namespace {

/// splitmix64 (Steele, Lea and Flood 2014), the same on every machine.
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) : state_{seed} {}

  std::size_t below(std::size_t end) {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111eb;
    return static_cast<std::size_t>((mixed ^ (mixed >> 31U)) % end);
  }

 private:
  std::uint64_t state_;
};

/// Ends a search.
class Budget {
 public:
  explicit Budget(SearchEffort const& effort)
      : effort_{effort}, start_{std::chrono::steady_clock::now()} {}

  bool is_left() {
    if (used_ >= effort_.iterations) return false;
    if (used_ % 64 != 0) return true;
    throw_if_interrupted();
    std::chrono::duration<double> const time = std::chrono::steady_clock::now() - start_;
    if (time.count() >= effort_.seconds) ended_by_ = SearchEnd::seconds;
    return ended_by_ != SearchEnd::seconds;
  }
  void use() { ++used_; }
  std::int64_t used() const { return used_; }
  SearchEnd ended_by() const { return ended_by_; }

 private:
  SearchEffort effort_;
  std::chrono::steady_clock::time_point start_;
  std::int64_t used_ = 0;
  SearchEnd ended_by_ = SearchEnd::iterations;
};

/// Whether nothing can be gained: the bound allows for the rounding of sums of memory changes.
bool reaches(LetterTimes const& times, SimTime bound) {
  return times.makespan <= bound + bound / 250'000'000;
}

struct Judged {
  LetterOrder order;
  LetterTimes times;
};

constexpr std::size_t remembered_changes = 200;

/// Moves tasks of one order until the budget or the bound is reached. Between two changes,
/// `current_` is legal, within the memory limit and played, and `best_` is the fastest so far.
class Improver {
 public:
  Improver(Judged start, OrderRequest const& request, StageTicks const& costs, double memory_limit)
      : request_{request},
        memory_limit_{memory_limit},
        player_{start.order.placement, request.microbatches, costs},
        current_{std::move(start)},
        best_{current_},
        accepted_(remembered_changes, current_.times) {}

  void run(SimTime bound, RandomNumbers& random, Budget& budget) {
    for (; !reaches(best_.times, bound) && budget.is_left(); budget.use()) {
      auto& remembered = accepted_[static_cast<std::size_t>(budget.used()) % remembered_changes];
      change(random, remembered);
      remembered = std::min(remembered, current_.times);
    }
  }

  Judged const& best() const { return best_; }

 private:
  /// Moves one task to another place of its stage.
  void change(RandomNumbers& random, LetterTimes const& remembered) {
    auto& stage = current_.order.stages[random.below(current_.order.stages.size())];
    std::size_t const from = random.below(stage.size());
    std::size_t const reach = 1 + random.below(4 * current_.order.stages.size() + 2);
    bool const is_later = random.below(2) == 0;
    std::size_t const to =
        is_later ? std::min(from + reach, stage.size() - 1) : from - std::min(from, reach);
    if (stage[from] == stage[to]) return;
    std::vector<std::uint16_t> const before = stage;
    move(stage, from, to);
    if (is_stage_legal(stage, current_.order.placement.chunks(), request_.memory, memory_limit_)) {
      auto const times = player_.play(current_.order);
      if (times && (*times <= current_.times || *times <= remembered)) {
        current_.times = *times;
        if (*times < best_.times) best_ = current_;
        return;
      }
    }
    stage = before;
  }

  static void move(std::vector<std::uint16_t>& stage, std::size_t from, std::size_t to) {
    auto const at = [&](std::size_t place) {
      return stage.begin() + static_cast<std::ptrdiff_t>(place);
    };
    if (from < to) {
      std::rotate(at(from), at(from + 1), at(to + 1));
    } else {
      std::rotate(at(to), at(from), at(from + 1));
    }
  }

  OrderRequest const& request_;
  double memory_limit_;
  LetterPlayer player_;
  Judged current_;
  Judged best_;
  std::vector<LetterTimes> accepted_;  ///< times of some changes ago
};

/// The best of the first orders on a placement; nullopt if there is none within the limit.
std::optional<Judged> best_start(OrderRequest const& request,
                                 Placement const& placement,
                                 StageTicks const& costs,
                                 std::vector<PipelineOrder> const& named,
                                 double memory_limit) {
  LetterPlayer player{placement, request.microbatches, costs};
  std::optional<Judged> best;
  for (LetterOrder& order : first_orders(request, placement, costs, named, memory_limit)) {
    auto const times = player.play(order);
    if (times && (!best || *times < best->times)) best = Judged{std::move(order), *times};
  }
  return best;
}

/// The largest of each cost.
ChunkCosts largest_costs(OrderRequest const& request) {
  ChunkCosts largest = request.costs;
  for (ChunkCosts const& costs : request.stage_costs) {
    check_costs(costs);
    largest.forward = std::max(largest.forward, costs.forward);
    largest.backward = std::max(largest.backward, costs.backward);
    largest.transfer = std::max(largest.transfer, costs.transfer);
    largest.input_gradient = std::max(largest.input_gradient, costs.input_gradient);
    largest.weight_gradient = std::max(largest.weight_gradient, costs.weight_gradient);
  }
  return largest;
}

StageTicks stage_ticks(OrderRequest const& request, CostTicks const& ticks) {
  auto const of = [&](ChunkCosts const& costs) {
    SplitTicks split{ticks.of(costs.forward), ticks.of(costs.input_gradient),
                     ticks.of(costs.weight_gradient), ticks.of(costs.transfer)};
    if (!request.joins_backward) return split;
    SimTime const halves = split.input_gradient + split.weight_gradient;
    split.joint = std::max(SimTime{0}, halves - ticks.of(costs.backward));
    return split;
  };
  if (request.stage_costs.empty()) return StageTicks{of(request.costs)};
  std::vector<SplitTicks> stages;
  stages.reserve(request.stage_costs.size());
  for (ChunkCosts const& costs : request.stage_costs) stages.push_back(of(costs));
  return StageTicks{std::move(stages)};
}

}  // namespace

FoundOrder search_order(OrderRequest const& request, SearchEffort const& effort) {
  check_costs(request.costs);
  check_memory(request.memory);
  double const forwards = memory_limit_of(request);
  double const memory_limit = forwards * request.memory.forward;
  CostTicks const ticks{largest_costs(request),
                        5.0 * request.stages * request.chunks * request.microbatches};
  StageTicks const costs = stage_ticks(request, ticks);
  std::vector<Placement> placements{round_placement(request.stages, request.chunks)};
  if (request.chunks == 2 && request.stages > 1) placements.push_back(v_placement(request.stages));

  SimTime bound = SimTime::max();
  for (Placement const& placement : placements) {
    bound = std::min(bound, makespan_bound(placement, request.microbatches, costs, request.memory,
                                           memory_limit));
  }
  OrderRequest limited = request;
  limited.memory_limit = forwards;
  std::vector<PipelineOrder> const named = named_orders(limited);
  std::optional<Judged> best;
  for (Placement const& placement : placements) {
    auto start = best_start(request, placement, costs, named, memory_limit);
    if (start && (!best || start->times < best->times)) best = std::move(start);
  }
  if (!best) {
    throw ScheduleError{"memory limit",
                        fmt::format("'{:g}' forwards, within which no order was found", forwards),
                        "a larger limit"};
  }
  RandomNumbers random{effort.seed};
  Budget budget{effort};
  Improver improver{std::move(*best), request, costs, memory_limit};
  improver.run(bound, random, budget);
  Judged const& found = improver.best();
  return {.order = order_of(found.order, costs.joins()),
          .lower_bound = static_cast<double>(bound.count()) / ticks.ticks_per_unit(),
          .iterations = budget.used(),
          .ended_by = reaches(found.times, bound) ? SearchEnd::bound : budget.ended_by()};
}

}  // namespace stagecraft
