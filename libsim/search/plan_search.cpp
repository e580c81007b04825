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
#include "libsim/engine/store_window.hpp"
#include "libsim/host/worker_pool.hpp"
#include "libsim/search/candidate_source.hpp"
#include "libsim/search/device_room.hpp"
#include "libsim/search/ordered_plans.hpp"
#include "libsim/search/plan_trial.hpp"
#include "libsim/search/standings.hpp"

namespace stagecraft {
namespace {

class Search {
 public:
  explicit Search(SearchRequest const& request)
      : request_{request}, source_{request_}, standings_{kept_plans(request)} {}

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
    if (result_.best.empty()) result_.closest = closest();
    return std::move(result_);
  }

 private:
  /// How many of the fastest plans are kept: also layouts on which others are tried.
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
      result_.fastest_to_run_out.reset();
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
  /// Within a batch, which takes minutes with a million microbatches.
  void report_within(std::int64_t simulated) const {
    if (std::this_thread::get_id() != caller_) return;
    request_.progress(
        {true, share_simulated_, candidates_.considered, result_.simulated + simulated});
  }

  /// Gives every plan its bounds.
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

  /// Goes through the shapes by ascending lower bound, and simulates the plans of some before it
  /// looks at the next: most shapes and schedules are then known to be too slow before their blocks
  /// are built.
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

  /// Keeps of the shapes that differ only in the microbatch size the first, which holds least.
  static void keep_smallest_microbatches(std::vector<ShapeChoice>& shapes) {
    std::set<std::tuple<int, int, bool, int, int>> seen;
    std::erase_if(shapes, [&](ShapeChoice const& shape) {
      return !seen.emplace(shape.tensor, shape.context, shape.sequence, shape.expert,
                           shape.expert_tensor)
                  .second;
    });
  }

  /// The closest of all plans, those dismissed at once included.
  std::optional<NearMiss> closest() {
    SearchRequest dismissing = request_;  // an exhaustive search has no plans that were dismissed
    dismissing.exhaustive = false;
    CandidateSource source{dismissing};
    std::vector<ShapeChoice> shapes = shape_choices(request_);
    if (has_experts(request_.base.model)) keep_smallest_microbatches(shapes);
    std::vector<std::optional<NearMiss>> misses(shapes.size());
    parallel_for(request_.jobs, shapes.size(), [&](std::size_t i) {
      misses[i] = source.of(shapes[i], CandidateSource::Hopeless::looked_at).closest;
    });
    std::optional<NearMiss> least;
    for (auto const& miss : misses) {
      if (miss && (!least || miss->excess < least->excess)) least = miss;
    }
    if (least) ask_device(*least);
    return least;
  }

  /// Says what the plan lacks on its device, which may be more than by counted bytes.
  void ask_device(NearMiss& miss) const {
    TrainingConfig const config =
        make_config(request_, miss.arrangement, {policy_of(miss.policy)}, miss.sharding);
    Simulation const simulation = simulate_with_reservations(request_, config, request_.jobs);
    miss.fits_without_margin =
        std::ranges::all_of(simulation.stages, [](StageResult const& stage) { return stage.fits; });
    for (StageResult const& stage : simulation.stages) {
      std::int64_t const lacking = request_.margin - stage.margin;
      if (lacking <= miss.excess) continue;
      miss.excess = lacking;
      miss.stage = StageId{stage.stage};
    }
  }

  /// Simulates those of the plans from the number `first` on that may belong to the answer.
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
    auto const may_follow = [&] {
      return !heap.empty() &&
             (request_.exhaustive || plans[heap.front()].bound <= standings_.last_bound());
    };
    while (may_follow()) {
      std::vector<std::uint32_t> batch;
      double const bound = plans[heap.front()].bound;
      while (batch.size() < batch_size && may_follow()) {
        std::pop_heap(heap.begin(), heap.end(), is_later);
        if (request_.exhaustive || may_belong(heap.back())) batch.push_back(heap.back());
        heap.pop_back();
      }
      for (std::uint32_t const again : simulate(batch)) {
        heap.push_back(again);
        std::push_heap(heap.begin(), heap.end(), is_later);
      }
      double const done =
          request_.exhaustive
              ? 1 - static_cast<double>(heap.size()) / static_cast<double>(plans.size() - first)
              : (bound - first_bound) / (standings_.last_bound() - first_bound);
      report(true, std::clamp(done, 0.0, 1.0));
    }
  }

  /// Whether a plan that has not been simulated as it is now may belong to the answer.
  bool may_belong(std::uint32_t number) const {
    Candidate const& plan = candidates_.plans[number];
    return fillings_.contains(number) ? standings_.may_be_best(plan.bound)
                                      : standings_.may_belong(plan);
  }

  /// Returns those of the plans that are to be tried again with another filling.
  std::vector<std::uint32_t> simulate(std::vector<std::uint32_t> const& batch) {
    std::vector<Trial> trials(batch.size());
    std::vector<std::optional<TrainingConfig>> configs(batch.size());
    std::atomic<std::int64_t> simulated = 0;
    parallel_for(request_.jobs, batch.size(), [&](std::size_t i) {
      auto const filling = fillings_.find(batch[i]);
      if (filling != fillings_.end()) {
        trials[i] = try_filling(request_, filling->second, batch[i], standings_, source_.room());
        return;
      }
      TrainingConfig config = config_of(batch[i]);
      if (is_empty_window(batch[i], config)) return;
      trials[i] = try_plan(request_, config, batch[i], standings_, source_.room());
      configs[i] = std::move(config);
      report_within(++simulated);
    });
    std::vector<std::uint32_t> again;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      bool const is_first = !fillings_.contains(batch[i]);
      if (is_first && !configs[i]) {
        ++empty_windows_;
        continue;
      }
      if (is_first) ++result_.simulated;
      if (trials[i].fits()) keep(trials[i], is_first);
      if (trials[i].refused.empty()) continue;
      if (is_first && trials[i].simulation) note_refused(trials[i], *configs[i]);
      if (has_choice(batch[i]) && refill(batch[i], trials[i], configs[i])) {
        again.push_back(batch[i]);
      }
    }
    forget_left_behind();
    return again;
  }

  void keep(Trial& trial, bool is_first) {
    is_first ? standings_.add(trial.outcome) : standings_.add_to_best(trial.outcome);
    simulations_.insert_or_assign(trial.outcome.plan, *std::move(trial.simulation));
  }

  void note_refused(Trial& trial, TrainingConfig const& config) {
    ++result_.run_out;
    if (fastest_to_run_out_ && *fastest_to_run_out_ <= trial.outcome) return;
    fastest_to_run_out_ = trial.outcome;
    result_.fastest_to_run_out = {config, *std::move(trial.simulation)};
  }

  /// Gives the refused stages of a plan their next policies. Returns false if there are none, or if
  /// the plan that they make is another one of the space.
  bool refill(std::uint32_t number,
              Trial const& trial,
              std::optional<TrainingConfig> const& config) {
    auto place = fillings_.find(number);
    if (place == fillings_.end()) {
      place = fillings_.emplace(number, filling_of(number, *config)).first;
    }
    StageFilling& filling = place->second;
    if (!filling.refuse(trial.refused) || filling.is_uniform() || !is_wanted(filling.config())) {
      return false;
    }
    double& bound = candidates_.plans[number].bound;
    bound = std::max(bound, static_cast<double>(trial.outcome.iteration.count()));
    return true;
  }

  bool is_wanted(TrainingConfig const& config) const {
    return !request_.is_wanted || request_.is_wanted(config);
  }

  /// Whether stages of the plan choose among policies.
  bool has_choice(std::size_t number) const {
    if (number >= candidates_.plans.size()) return false;
    RecomputeKind const kind = candidates_.plans[number].policy.kind;
    return kind == RecomputeKind::per_stage || kind == RecomputeKind::window;
  }

  /// What the stages of a plan can have besides what they have in `config`.
  StageFilling filling_of(std::size_t number, TrainingConfig const& config) {
    Candidate const& plan = candidates_.plans[number];
    std::vector<std::vector<RecomputePolicy>> options;
    if (plan.policy.kind == RecomputeKind::per_stage) {
      for (auto const& codes : source_.stage_policies(
               candidates_.arrangements[static_cast<std::size_t>(plan.arrangement)],
               plan.sharding)) {
        std::vector<RecomputePolicy>& of_stage = options.emplace_back();
        for (PolicyCode const code : codes) of_stage.push_back(policy_of(code));
      }
    } else {
      for (int stage = 0; stage < config.parallel.pipeline; ++stage) {
        options.push_back(smaller_windows(stagecraft::policy_of(config, StageId{stage})));
      }
    }
    return {config, std::move(options)};
  }

  /// Keeps the simulations of those plans alone that may still belong to the answer.
  void forget_left_behind() {
    std::set<std::size_t> kept;
    for (Outcome const& outcome : standings_.best()) kept.insert(outcome.plan);
    for (Outcome const& outcome : standings_.front()) kept.insert(outcome.plan);
    std::erase_if(simulations_, [&](auto const& known) { return !kept.contains(known.first); });
  }

  bool has_window(std::size_t number) const {
    return number < candidates_.plans.size() &&
           candidates_.plans[number].policy.kind == RecomputeKind::window;
  }

  /// Whether no microbatch of the plan is stored: it is the same as one without a window.
  bool is_empty_window(std::size_t number, TrainingConfig const& config) const {
    return has_window(number) &&
           std::ranges::all_of(config.recompute, [](RecomputePolicy const& policy) {
             return policy.store_microbatches.count == 0;
           });
  }

  TrainingConfig config_of(std::size_t number) const {
    auto const filling = fillings_.find(number);
    if (filling != fillings_.end()) return filling->second.config();
    std::size_t const searched = candidates_.plans.size();
    if (number >= searched) return ordered_[number - searched];
    TrainingConfig config = stagecraft::config_of(request_, candidates_, candidates_.plans[number]);
    if (!has_window(number)) return config;
    // Begins with as many microbatches as counted bytes may allow.
    std::optional<Bytes> const reserve = config.memory.reserve;
    config.memory.reserve = request_.system.accelerator.memory.value -
                            request_.system.calibration.workspace.value - source_.room();
    config = resolve_store_windows(std::move(config), request_.system);
    config.memory.reserve = reserve;
    return config;
  }

  FoundPlan found(Outcome const& outcome) const {
    FoundPlan plan{.config = config_of(outcome.plan), .simulation = {}};
    auto const known = simulations_.find(outcome.plan);
    plan.simulation = known == simulations_.end()
                          ? simulate_with_reservations(request_, plan.config, request_.jobs)
                          : known->second;
    if (plan.simulation.iteration != outcome.iteration || plan.peak() != outcome.peak) {
      throw std::logic_error{"a prediction differs from the simulation of its plan"};
    }
    return plan;
  }

  SearchRequest const request_;
  CandidateSource source_;
  Candidates candidates_;
  std::vector<TrainingConfig> ordered_;  ///< numbered after the candidates
  Standings standings_;
  /// By plan, of those that were refused with their first policies. Kept after they have been
  /// tried.
  std::map<std::size_t, StageFilling> fillings_;
  SearchResult result_;
  std::optional<Outcome> fastest_to_run_out_;
  std::map<std::size_t, Simulation> simulations_;        ///< by plan, of outcomes in standings_
  std::int64_t empty_windows_ = 0;                       ///< no microbatch of theirs can be stored
  double share_simulated_ = 0;                           ///< that was reported last
  std::thread::id caller_ = std::this_thread::get_id();  ///< whom alone progress is told to
};

}  // namespace

std::int64_t FoundPlan::peak() const { return largest_peak(simulation.stages).count(); }

SearchResult search_plans(SearchRequest const& request) { return Search{request}.run(); }

}  // namespace stagecraft
