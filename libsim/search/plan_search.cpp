#include "libsim/search/plan_search.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "libsim/engine/fullest_stage.hpp"
#include "libsim/engine/prediction.hpp"
#include "libsim/engine/settle.hpp"
#include "libsim/engine/verdict.hpp"
#include "libsim/host/worker_pool.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/search/candidate_source.hpp"
#include "libsim/search/ordered_plans.hpp"
#include "libsim/search/standings.hpp"

namespace stagecraft {
namespace {

/// The result of simulating a candidate.
struct Trial {
  Outcome outcome;
  bool fits = false;
  /// Whether it fits by counted bytes, but not by its allocator's replay.
  bool runs_out = false;
  /// Whether it stores nothing: the same plan as one without a window.
  bool is_empty_window = false;
  /// The simulation, with its allocators' reservations if they were replayed.
  std::optional<Simulation> simulation{};
};

class Search {
 public:
  explicit Search(SearchRequest const& request)
      : reserve_{request.base.memory.reserve},
        request_{with_margin(request)},
        source_{request_},
        standings_{kept_plans(request)} {}

  SearchResult run() {
    if (has_experts(request_.base.model)) {
      search_by_shape();
    } else {
      gather();
      simulate_promising(0);
    }
    std::int64_t const searched = result_.simulated;
    try_ordered();
    result_.unexamined = candidates_.unexamined;
    result_.oversized = candidates_.oversized;
    result_.dismissed_by_memory = candidates_.dismissed_by_memory + empty_windows_;
    result_.dismissed_by_bound = static_cast<std::int64_t>(candidates_.plans.size()) - searched -
                                 empty_windows_ + candidates_.too_long;
    result_.tried = static_cast<std::int64_t>(ordered_.size());
    result_.considered = candidates_.considered + result_.tried;
    for (Outcome const& outcome : standings_.best()) {
      if (result_.best.size() == static_cast<std::size_t>(request_.top)) break;
      result_.best.push_back(found(outcome));
    }
    for (Outcome const& outcome : standings_.front()) result_.front.push_back(found(outcome));
    if (fastest_to_run_out_) result_.fastest_to_run_out = found(*fastest_to_run_out_);
    if (result_.best.empty()) result_.closest = closest();
    return std::move(result_);
  }

 private:
  /// The number of fastest plans that are kept. They include layouts on which ordered schedules are
  /// tried.
  static int kept_plans(SearchRequest const& request) {
    if (request.filter.ordered.empty()) return request.top;
    return std::max(request.top, 4 * static_cast<int>(tried_layouts));
  }

  /// Tries the schedules that follow an order on the best layouts found.
  void try_ordered() {
    if (request_.filter.ordered.empty()) return;
    std::set<std::tuple<int, int, bool, std::int64_t, int, int, int, std::int64_t, Sharding>>
        layouts;
    for (Outcome const& outcome : standings_.best()) {
      Candidate const& plan = candidates_.plans[outcome.plan];
      Arrangement const& made =
          candidates_.arrangements[static_cast<std::size_t>(plan.arrangement)];
      if (layouts.size() == tried_layouts) break;
      bool const is_new =
          layouts
              .emplace(made.shape.tensor, made.shape.context, made.shape.sequence, made.shape.micro,
                       made.shape.expert, made.shape.expert_tensor, made.schedule.pipeline,
                       made.shares.first, plan.sharding)
              .second;
      if (!is_new || made.schedule.pipeline == 1) continue;
      for (TrainingConfig& run : ordered_runs(request_, candidates_, plan)) {
        ordered_.push_back(std::move(run));
      }
    }
    if (finds_layouts_only(request_.filter)) {
      standings_ = Standings{request_.top};
      result_.run_out = 0;
      fastest_to_run_out_.reset();
    }
    constexpr std::size_t batch = 32;
    for (std::size_t first = 0; first < ordered_.size(); first += batch) {
      std::vector<std::uint32_t> numbers(std::min(batch, ordered_.size() - first));
      std::iota(numbers.begin(), numbers.end(),
                static_cast<std::uint32_t>(candidates_.plans.size() + first));
      simulate(numbers);
      report(true,
             static_cast<double>(first + numbers.size()) / static_cast<double>(ordered_.size()));
    }
  }

  void report(bool is_simulating, double done) {
    share_simulated_ = is_simulating ? done : 0;
    request_.progress({is_simulating, done, candidates_.considered, result_.simulated});
  }
  /// Reports progress within a batch, which takes minutes with a million microbatches.
  void report_within(std::int64_t simulated) const {
    if (std::this_thread::get_id() != caller_) return;
    request_.progress(
        {true, share_simulated_, candidates_.considered, result_.simulated + simulated});
  }

  /// Collects all plans with their bounds.
  void gather() {
    std::vector<ShapeChoice> const shapes = shape_choices(request_);
    constexpr std::size_t batch = 16;
    for (std::size_t first = 0; first < shapes.size(); first += batch) {
      std::vector<Candidates> parts(std::min(batch, shapes.size() - first));
      parallel_for(request_.jobs, parts.size(),
                   [&](std::size_t i) { parts[i] = source_.of(shapes[first + i]); });
      for (Candidates& part : parts) candidates_.append(std::move(part));
      report(false, static_cast<double>(first + parts.size()) / static_cast<double>(shapes.size()));
    }
  }

  /// Visits the shapes by ascending lower bound, and simulates the plans of some before it looks at
  /// the next ones: most shapes and schedules are then known to be too slow before their blocks are
  /// built.
  void search_by_shape() {
    std::vector<ShapeChoice> const shapes = shape_choices(request_);
    std::vector<double> bounds(shapes.size());
    parallel_for(request_.jobs, shapes.size(),
                 [&](std::size_t i) { bounds[i] = source_.least_time(shapes[i]); });
    std::vector<std::size_t> order(shapes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return bounds[i]; });
    constexpr std::size_t batch = 16;
    for (std::size_t first = 0; first < order.size(); first += batch) {
      double const limit =
          request_.exhaustive ? std::numeric_limits<double>::infinity() : standings_.last_bound();
      std::vector<Candidates> parts(std::min(batch, order.size() - first));
      parallel_for(request_.jobs, parts.size(), [&](std::size_t i) {
        std::size_t const shape = order[first + i];
        if (bounds[shape] > limit) {
          ScheduleChoices const schedules = schedule_choices(request_, shapes[shape]);
          parts[i].unexamined = static_cast<std::int64_t>(schedules.size());
          parts[i].oversized = schedules.oversized;
        } else {
          parts[i] = source_.of(shapes[shape], CandidateSource::Hopeless::counted, limit);
        }
      });
      std::size_t const known = candidates_.plans.size();
      for (Candidates& part : parts) candidates_.append(std::move(part));
      simulate_promising(known);
      report(false, static_cast<double>(first + parts.size()) / static_cast<double>(order.size()));
    }
  }

  /// Keeps the first of the shapes that differ only in the microbatch size, which holds least.
  static void keep_smallest_microbatches(std::vector<ShapeChoice>& shapes) {
    std::set<std::tuple<int, int, bool, int, int>> seen;
    std::erase_if(shapes, [&](ShapeChoice const& shape) {
      return !seen.emplace(shape.tensor, shape.context, shape.sequence, shape.expert,
                           shape.expert_tensor)
                  .second;
    });
  }

  /// The plan closest to fitting, among all plans, including those that are dismissed at once.
  std::optional<NearMiss> closest() {
    std::vector<ShapeChoice> shapes = shape_choices(request_);
    if (has_experts(request_.base.model)) keep_smallest_microbatches(shapes);
    std::vector<std::optional<NearMiss>> misses(shapes.size());
    parallel_for(request_.jobs, shapes.size(), [&](std::size_t i) {
      misses[i] = source_.of(shapes[i], CandidateSource::Hopeless::looked_at).closest;
    });
    std::optional<NearMiss> least;
    for (auto const& miss : misses) {
      if (miss && (!least || miss->excess < least->excess)) least = miss;
    }
    return least;
  }

  /// Simulates the plans from the number `first` on that may belong to the answer.
  void simulate_promising(std::size_t first) {
    std::vector<Candidate> const& plans = candidates_.plans;
    std::vector<std::uint32_t> heap(plans.size() - first);
    std::iota(heap.begin(), heap.end(), static_cast<std::uint32_t>(first));
    auto const is_later = [&](std::uint32_t a, std::uint32_t b) {
      return plans[a].bound != plans[b].bound ? plans[a].bound > plans[b].bound : a > b;
    };
    std::make_heap(heap.begin(), heap.end(), is_later);
    double const first_bound = heap.empty() ? 0 : plans[heap.front()].bound;
    constexpr std::size_t batch_size = 32;
    std::vector<std::uint32_t> batch;
    while (!heap.empty()) {
      std::uint32_t const next = heap.front();
      double const bound = plans[next].bound;
      if (!request_.exhaustive && bound > standings_.last_bound()) break;
      std::pop_heap(heap.begin(), heap.end(), is_later);
      heap.pop_back();
      if (request_.exhaustive || standings_.may_belong(plans[next])) batch.push_back(next);
      if (batch.size() < batch_size && !heap.empty()) continue;
      simulate(batch);
      batch.clear();
      double const done =
          request_.exhaustive
              ? 1 - static_cast<double>(heap.size()) / static_cast<double>(plans.size() - first)
              : (bound - first_bound) / (standings_.last_bound() - first_bound);
      report(true, std::clamp(done, 0.0, 1.0));
    }
    simulate(batch);
  }

  void simulate(std::vector<std::uint32_t> const& batch) {
    std::vector<Trial> trials(batch.size());
    std::atomic<std::int64_t> simulated = 0;
    parallel_for(request_.jobs, batch.size(), [&](std::size_t i) {
      trials[i] = attempt(batch[i]);
      report_within(++simulated);
    });
    for (Trial& trial : trials) {
      if (trial.is_empty_window) {
        ++empty_windows_;
        continue;
      }
      ++result_.simulated;
      if (trial.fits) {
        standings_.add(trial.outcome);
        simulations_.insert_or_assign(trial.outcome.plan, *std::move(trial.simulation));
      }
      if (!trial.runs_out) continue;
      ++result_.run_out;
      if (!fastest_to_run_out_ || trial.outcome < *fastest_to_run_out_) {
        fastest_to_run_out_ = trial.outcome;
      }
    }
    forget_left_behind();
  }

  /// Keeps only the simulations of plans that may still belong to the answer.
  void forget_left_behind() {
    std::set<std::size_t> kept;
    for (Outcome const& outcome : standings_.best()) kept.insert(outcome.plan);
    for (Outcome const& outcome : standings_.front()) kept.insert(outcome.plan);
    std::erase_if(simulations_, [&](auto const& known) { return !kept.contains(known.first); });
  }

  Trial attempt(std::size_t plan) const {
    TrainingConfig const config = config_of(plan);
    Trial trial{.outcome = {.plan = plan}};
    trial.is_empty_window =
        has_window(plan) &&
        std::all_of(config.recompute.begin(), config.recompute.end(),
                    [](auto const& policy) { return policy.store_microbatches.count == 0; });
    if (trial.is_empty_window) return trial;
    Prediction const prediction = predict(as_settled(config), request_.system);
    trial.outcome.iteration = prediction.iteration;
    trial.outcome.peak = largest_peak(prediction.stages).count();
    bool const is_counted =
        Bytes{trial.outcome.peak} <= room_for(config.memory, request_.system.accelerator);
    // Its allocator is replayed only if the answer depends on it.
    if (!is_counted || !standings_.may_belong(trial.outcome)) return trial;
    trial.simulation = with_reservations(config);
    trial.runs_out = verdict_of(*trial.simulation) == Verdict::does_not_fit;
    trial.fits = !trial.runs_out && is_safe(*trial.simulation, config);
    return trial;
  }

  /// Simulates a plan on the device itself, for which the margin is not kept.
  Simulation with_reservations(TrainingConfig config, int jobs = 1) const {
    config.memory.reserve = reserve_;
    TrainingPlan const plan = make_plan(as_settled(config));
    Simulation simulation = stagecraft::simulate(plan, request_.system);
    add_reservations(simulation, plan, request_.system, jobs);
    return simulation;
  }

  /// Whether a plan fits with the probability that is asked for.
  bool is_safe(Simulation const& simulation, TrainingConfig const& config) const {
    return request_.safety <= 0 ||
           fit_probability_of(simulation, config, request_.system).run.value_or(0) >=
               request_.safety;
  }

  bool has_window(std::size_t number) const {
    return number < candidates_.plans.size() &&
           candidates_.plans[number].policy.kind == RecomputeKind::window;
  }

  TrainingConfig config_of(std::size_t number) const {
    std::size_t const searched = candidates_.plans.size();
    if (number >= searched) return ordered_[number - searched];
    return settled(stagecraft::config_of(request_, candidates_, candidates_.plans[number]),
                   request_.system)
        .get();
  }

  FoundPlan found(Outcome const& outcome) const {
    FoundPlan plan{.config = config_of(outcome.plan), .simulation = {}};
    auto const known = simulations_.find(outcome.plan);
    plan.simulation =
        known == simulations_.end() ? with_reservations(plan.config, request_.jobs) : known->second;
    plan.config.memory.reserve = reserve_;
    if (plan.simulation.iteration != outcome.iteration || plan.peak() != outcome.peak) {
      throw std::logic_error{"a prediction differs from the simulation of its plan"};
    }
    return plan;
  }

  /// The margin is added to the reserve, so that everything that decides whether a plan fits keeps
  /// it.
  static SearchRequest with_margin(SearchRequest request) {
    request.base.memory.reserve = request.base.memory.kept_in_reserve() + Bytes{request.margin};
    return request;
  }

  std::optional<Bytes> reserve_;  ///< as the request has it
  SearchRequest const request_;
  CandidateSource source_;
  Candidates candidates_;
  std::vector<TrainingConfig> ordered_;  ///< numbered after the candidates
  Standings standings_;
  SearchResult result_;
  std::optional<Outcome> fastest_to_run_out_;
  std::map<std::size_t, Simulation> simulations_;  ///< by plan, of outcomes in standings_
  /// Windows that cannot store any microbatch.
  std::int64_t empty_windows_ = 0;
  double share_simulated_ = 0;  ///< share that was reported last
  /// The only thread that is told of progress.
  std::thread::id caller_ = std::this_thread::get_id();
};

}  // namespace

std::int64_t FoundPlan::peak() const { return largest_peak(simulation.stages).count(); }

SearchResult search_plans(SearchRequest const& request) { return Search{request}.run(); }

}  // namespace stagecraft
