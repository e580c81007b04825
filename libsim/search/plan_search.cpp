#include "libsim/search/plan_search.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "libsim/engine/fullest_stage.hpp"
#include "libsim/host/worker_pool.hpp"
#include "libsim/search/candidate_source.hpp"
#include "libsim/search/closest_plan.hpp"
#include "libsim/search/device_room.hpp"
#include "libsim/search/first_filling.hpp"
#include "libsim/search/plan_trial.hpp"
#include "libsim/search/standings.hpp"

namespace stagecraft {
namespace {

/// One search: run() is called once, by the thread to which progress is told.
///
/// It gathers candidates with lower bounds of their times, simulates them by ascending bound, and
/// lets the standings decide which of them may still belong to the answer. A candidate is known by
/// its number in `candidates_`, which only grows. A plan whose stages do not fit is refilled: its
/// `fillings_` say with which policies it is tried again, under the same number. Simulations are
/// kept only of outcomes that the standings still have. Threads work inside of a batch alone and
/// touch nothing here but what belongs to their own candidate.
class Search {
 public:
  explicit Search(SearchRequest const& request)
      : request_{request}, source_{request_}, standings_{request.top} {}

  SearchResult run() {
    bool const has_whole = searches_whole(request_);
    if (has_whole && has_rules(request_.filter)) {
      if (has_experts(request_.base.model)) {
        search_by_shape(Family::rules);
      } else {
        gather([&](ShapeChoice const& shape) { return source_.of(shape); });
      }
    }
    if (searches_units(request_)) {
      double const limit = limit_of(Family::rules);
      gather([&](ShapeChoice const& shape) {
        return source_.units(shape, CandidateSource::Hopeless::counted, limit);
      });
    }
    if (has_whole) search_by_shape(Family::orders);
    note_slow();
    result_.unexamined = candidates_.unexamined;
    result_.oversized = candidates_.oversized;
    result_.unordered = candidates_.unordered;
    result_.dismissed_by_memory = candidates_.dismissed_by_memory + empty_windows_;
    result_.dismissed_by_bound = static_cast<std::int64_t>(candidates_.plans.size()) - continued_ -
                                 result_.simulated - empty_windows_ + candidates_.too_long;
    result_.tried = candidates_.ordered;
    result_.considered = candidates_.considered;
    for (Outcome const& outcome : standings_.best()) result_.best.push_back(found(outcome));
    for (Outcome const& outcome : standings_.front()) result_.front.push_back(found(outcome));
    for (OrderKindTraits const& traits : order_kinds) {
      bool const is_looked_at =
          is_searched(traits.kind) && (has_whole || traits.kind == ScheduleKind::one_f_one_b);
      if (!is_looked_at || !allows(request_.filter.schedule, traits.kind)) continue;
      ScheduleBest& of_kind = result_.schedules.emplace_back();
      of_kind.kind = traits.kind;
      set_time(of_kind, best_by_kind_);
    }
    for (ShardingKind const kind : sharding_kinds(request_)) {
      ShardingBest& of_kind = result_.shardings.emplace_back();
      of_kind.kind = kind;
      set_time(of_kind, best_by_sharding_);
    }
    if (!launchable_.best().empty()) result_.best_launchable = found(launchable_.best().front());
    if (result_.best.empty()) result_.closest = closest_plan(request_);
    return std::move(result_);
  }

 private:
  /// Schedules that are laid out by a rule, and those that follow an order.
  enum class Family : std::uint8_t { rules, orders };

  /// Adds the kinds of the candidates that were not simulated.
  void note_slow() {
    for (std::size_t i = 0; i < candidates_.plans.size(); ++i) {
      Candidate const& plan = candidates_.plans[i];
      if (i < tried_.size() && tried_[i]) continue;
      candidates_.slow.add(schedule_of(plan).kind, plan.sharding.kind);
    }
  }
  ScheduleChoice const& schedule_of(Candidate const& plan) const {
    return candidates_.arrangements[static_cast<std::size_t>(plan.arrangement)].schedule;
  }
  template <typename Best, typename Times>
  void set_time(Best& of_kind, Times const& times) const {
    auto const best = times.find(of_kind.kind);
    if (best != times.end()) {
      of_kind.iteration = best->second;
    } else {
      of_kind.why_not = candidates_.slow.has(of_kind.kind)      ? NoTime::is_slow
                        : candidates_.misfits.has(of_kind.kind) ? NoTime::fits_nowhere
                                                                : NoTime::has_no_plan;
    }
  }

  using Part = SearchProgress::Part;
  void report(Part part, double done) {
    done_ = part == part_ ? std::max(done_, done) : done;
    part_ = part;
    request_.progress({part_, done_, candidates_.considered, result_.simulated});
  }
  /// Within a batch, which takes minutes with a million microbatches.
  void report_within(std::int64_t simulated) const {
    if (std::this_thread::get_id() != caller_) return;
    request_.progress({part_, done_, candidates_.considered, result_.simulated + simulated});
  }

  /// Gives every plan its bounds, and simulates those that may belong to the answer.
  template <typename PlansOf>
  void gather(PlansOf const& plans_of) {
    std::vector<ShapeChoice> const shapes = shape_choices(request_);
    std::size_t const known = candidates_.plans.size();
    constexpr std::size_t batch = 16;
    for (std::size_t first = 0; first < shapes.size(); first += batch) {
      std::vector<Candidates> parts(std::min(batch, shapes.size() - first));
      parallel_for(request_.jobs, parts.size(),
                   [&](std::size_t i) { parts[i] = plans_of(shapes[first + i]); });
      for (Candidates& part : parts) candidates_.append(std::move(part));
      report(Part::bounds,
             static_cast<double>(first + parts.size()) / static_cast<double>(shapes.size()));
    }
    simulate_promising(known, [&](double done) { report(Part::simulations, done); });
  }

  /// A plan of the family with a larger bound cannot belong to the answer.
  double limit_of(Family family) const {
    if (request_.exhaustive) return std::numeric_limits<double>::infinity();
    return joins_front(family) ? standings_.last_bound() : standings_.last_best();
  }
  /// Whether plans of the family may belong to the front without being among the best. Of schedules
  /// that follow an order only if there are no others: there are too many of them.
  bool joins_front(Family family) const {
    return family == Family::rules || !has_rules(request_.filter);
  }

  /// Goes through the shapes by ascending lower bound, and simulates the plans of some before it
  /// looks at the next: most shapes and schedules are then known to be too slow before their blocks
  /// are built.
  void search_by_shape(Family family) {
    bool const has_orders = family == Family::orders;
    std::vector<ShapeChoice> shapes = shape_choices(request_);
    if (has_orders) {
      std::erase_if(shapes, [&](ShapeChoice const& shape) {
        ScheduleChoices const schedules = ordered_choices(request_, shape);
        if (schedules.empty()) candidates_.unordered += schedules.unordered;
        return schedules.empty();
      });
    }
    std::vector<double> bounds(shapes.size());
    parallel_for(request_.jobs, shapes.size(), [&](std::size_t i) {
      bounds[i] =
          source_.least_time(shapes[i], has_orders ? BackwardPasses::split : BackwardPasses::whole);
    });
    std::vector<std::size_t> order(shapes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return bounds[i]; });
    if (has_orders) first_ordered_ = candidates_.plans.size();
    constexpr std::size_t batch = 16;
    for (std::size_t first = 0; first < order.size(); first += batch) {
      double const limit = limit_of(family);
      std::vector<Candidates> parts(std::min(batch, order.size() - first));
      parallel_for(request_.jobs, parts.size(), [&](std::size_t i) {
        std::size_t const shape = order[first + i];
        if (bounds[shape] > limit) {
          ScheduleChoices const schedules = has_orders ? ordered_choices(request_, shapes[shape])
                                                       : schedule_choices(request_, shapes[shape]);
          for (ScheduleChoice const& schedule : schedules) {
            source_.leave_out(shapes[shape], schedule, parts[i]);
          }
          parts[i].oversized = schedules.oversized;
          parts[i].unordered = schedules.unordered;
        } else if (has_orders) {
          parts[i] = source_.ordered(shapes[shape], CandidateSource::Hopeless::counted, limit);
        } else {
          parts[i] = source_.of(shapes[shape], CandidateSource::Hopeless::counted, limit);
        }
      });
      std::size_t const known = candidates_.plans.size();
      for (Candidates& part : parts) candidates_.append(std::move(part));
      // Of the shapes that may still be worth a look.
      auto const end = std::ranges::upper_bound(order, limit_of(family), {},
                                                [&](std::size_t i) { return bounds[i]; });
      auto const all = static_cast<double>(std::max<std::size_t>(
          first + parts.size(), static_cast<std::size_t>(end - order.begin())));
      Part const part = has_orders ? Part::orders : Part::shapes;
      auto const begin = static_cast<double>(first);
      auto const count = static_cast<double>(parts.size());
      simulate_promising(known, [&](double done) { report(part, (begin + done * count) / all); });
      report(part, (begin + count) / all);
    }
  }

  /// Simulates those of the plans from the number `first` on that may belong to the answer.
  template <typename ReportDone>
  void simulate_promising(std::size_t first, ReportDone const& report_done) {
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
             (request_.exhaustive || plans[heap.front()].bound <= last_bound(first));
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
              : (bound - first_bound) / (last_bound(first) - first_bound);
      report_done(std::clamp(done, 0.0, 1.0));
    }
  }

  Family family_of(std::size_t number) const {
    return number < first_ordered_ ? Family::rules : Family::orders;
  }
  /// A plan from the number on with a larger bound cannot belong to the answer.
  double last_bound(std::size_t number) const {
    double const last = limit_of(family_of(number));
    return request_.is_launchable ? std::max(last, launchable_.last_best()) : last;
  }

  /// Whether a plan that has not been simulated as it is now may belong to the answer.
  bool may_belong(std::uint32_t number) const {
    Candidate const& plan = candidates_.plans[number];
    bool const is_filled = fillings_.contains(number);
    if (is_filled || !joins_front(family_of(number)) ? standings_.may_be_best(plan.bound)
                                                     : standings_.may_belong(plan)) {
      return true;
    }
    return request_.is_launchable && launchable_.may_be_best(plan.bound) &&
           request_.is_launchable(
               is_filled ? fillings_.at(number).config()
                         : stagecraft::config_of(request_, candidates_, candidates_.plans[number]));
  }
  /// Whether one that has been may.
  bool may_belong(Outcome const& outcome, TrainingConfig const& config, bool is_filled) const {
    if (is_filled || !joins_front(family_of(outcome.plan)) ? standings_.may_be_best(outcome)
                                                           : standings_.may_belong(outcome)) {
      return true;
    }
    return request_.is_launchable && launchable_.may_be_best(outcome) &&
           request_.is_launchable(config);
  }

  /// Returns those of the plans that are to be tried again with another filling.
  std::vector<std::uint32_t> simulate(std::vector<std::uint32_t> const& batch) {
    std::vector<Trial> trials(batch.size());
    std::vector<std::optional<TrainingConfig>> configs(batch.size());
    std::atomic<std::int64_t> simulated = 0;
    parallel_for(request_.jobs, batch.size(), [&](std::size_t i) {
      auto const filling = fillings_.find(batch[i]);
      bool const is_filled = filling != fillings_.end();
      TrainingConfig config = config_of(batch[i]);
      if (!is_filled && is_empty_window(batch[i], config)) return;
      std::vector<StageId> const changed =
          is_filled ? filling->second.changed() : std::vector<StageId>{};
      trials[i] =
          try_plan(request_, reserved_, config, changed, batch[i], source_.room(),
                   [&](Outcome const& outcome) { return may_belong(outcome, config, is_filled); });
      configs[i] = std::move(config);
      if (!is_filled) report_within(++simulated);
    });
    std::vector<std::uint32_t> again;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      set_tried(batch[i], true);
      if (!configs[i]) {
        ++empty_windows_;
        continue;
      }
      PlanKinds& left_out = trials[i].is_wanted ? candidates_.misfits : candidates_.slow;
      if (!trials[i].fits()) left_out.add(configs[i]->schedule.kind, configs[i]->sharding.kind);
      bool const is_first = !fillings_.contains(batch[i]);
      if (is_first) ++result_.simulated;
      if (trials[i].fits()) keep(trials[i], is_first, *configs[i]);
      if (trials[i].refused.empty()) continue;
      if (is_first && trials[i].simulation) note_refused(trials[i], *configs[i]);
      refill(batch[i], trials[i], again);
    }
    forget_left_behind();
    return again;
  }

  void keep(Trial& trial, bool is_first, TrainingConfig const& config) {
    if (!is_first && is_another(trial.outcome.plan)) return;
    bool const joins = is_first && joins_front(family_of(trial.outcome.plan));
    joins ? standings_.add(trial.outcome) : standings_.add_to_best(trial.outcome);
    SimTime& of_kind =
        best_by_kind_.try_emplace(config.schedule.kind, trial.outcome.iteration).first->second;
    of_kind = std::min(of_kind, trial.outcome.iteration);
    SimTime& of_sharding =
        best_by_sharding_.try_emplace(config.sharding.kind, trial.outcome.iteration).first->second;
    of_sharding = std::min(of_sharding, trial.outcome.iteration);
    if (request_.is_launchable && request_.is_launchable(config)) {
      launchable_.add_to_best(trial.outcome);
    }
    simulations_.insert_or_assign(trial.outcome.plan, *std::move(trial.simulation));
  }

  void note_refused(Trial& trial, TrainingConfig const& config) {
    ++result_.run_out;
    if (fastest_to_run_out_ && *fastest_to_run_out_ <= trial.outcome) return;
    fastest_to_run_out_ = trial.outcome;
    result_.fastest_to_run_out = {config, *std::move(trial.simulation)};
  }

  /// Gives the refused stages of a plan their next policies, and adds what is to be tried to
  /// `again`.
  void refill(std::uint32_t number, Trial const& trial, std::vector<std::uint32_t>& again) {
    Candidate const plan = candidates_.plans[number];
    bool const has_choice =
        plan.policy.kind == RecomputeKind::per_stage || plan.policy.kind == RecomputeKind::window;
    if (fillings_.contains(number) || has_choice) return take_next(number, trial, again);
    if (plan.begins_stages) go_on(plan, {RecomputeKind::per_stage, 0}, trial, again);
    if (!plan.begins_windows) return;
    for (std::int32_t const code : {0, 1}) {
      go_on(plan, {RecomputeKind::window, code}, trial, again);
    }
  }
  /// Goes on with the choices of a plan that had none.
  void go_on(Candidate plan,
             PolicyCode policy,
             Trial const& trial,
             std::vector<std::uint32_t>& again) {
    plan.policy = policy;
    plan.begins_stages = plan.begins_windows = false;
    candidates_.plans.push_back(plan);
    ++continued_;
    take_next(static_cast<std::uint32_t>(candidates_.plans.size() - 1), trial, again);
  }
  void take_next(std::uint32_t number, Trial const& trial, std::vector<std::uint32_t>& again) {
    auto place = fillings_.find(number);
    if (place == fillings_.end())
      place = fillings_
                  .emplace(number,
                           first_filling(request_, source_, candidates_, candidates_.plans[number]))
                  .first;
    StageFilling& filling = place->second;
    if (!filling.refuse(trial.refused) || !is_wanted(filling.config())) return;
    double& bound = candidates_.plans[number].bound;
    bound = std::max(bound, static_cast<double>(trial.outcome.iteration.count()));
    again.push_back(number);
    set_tried(number, false);
  }
  void set_tried(std::uint32_t number, bool is_tried) {
    tried_.resize(candidates_.plans.size());
    tried_[number] = is_tried;
  }

  /// Whether the filling of a plan has become another plan of the space, without a choice.
  bool is_another(std::size_t number) const {
    StageFilling const& filling = fillings_.at(number);
    return filling.is_without_choice() &&
           allows(request_.filter.recompute, kind_of(filling.config().recompute.front()));
  }

  bool is_wanted(TrainingConfig const& config) const {
    return !request_.is_wanted || request_.is_wanted(config);
  }

  /// Keeps the simulations of those plans alone that may still belong to the answer.
  void forget_left_behind() {
    std::set<std::size_t> kept;
    for (Outcome const& outcome : standings_.best()) kept.insert(outcome.plan);
    for (Outcome const& outcome : standings_.front()) kept.insert(outcome.plan);
    for (Outcome const& outcome : launchable_.best()) kept.insert(outcome.plan);
    std::erase_if(simulations_, [&](auto const& known) { return !kept.contains(known.first); });
  }

  bool has_window(std::size_t number) const {
    return candidates_.plans[number].policy.kind == RecomputeKind::window;
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
    return first_run(request_, candidates_, candidates_.plans[number], source_.room());
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
  /// The first of the candidates whose schedules follow an order.
  std::size_t first_ordered_ = std::numeric_limits<std::size_t>::max();
  Standings standings_;
  std::vector<bool> tried_;  ///< by candidate: whether it was simulated as it is now
  std::map<ScheduleKind, SimTime> best_by_kind_;
  std::map<ShardingKind, SimTime> best_by_sharding_;
  Standings launchable_{1};  ///< of plans that is_launchable() accepts
  /// By plan, of those that were refused with their first policies. Kept after they have been
  /// tried.
  std::map<std::size_t, StageFilling> fillings_;
  SearchResult result_;
  std::optional<Outcome> fastest_to_run_out_;
  std::map<std::size_t, Simulation> simulations_;  ///< by plan, of outcomes in standings_
  ReservedStages reserved_;
  std::int64_t continued_ = 0;      ///< of the candidates: others that were gone on with
  std::int64_t empty_windows_ = 0;  ///< no microbatch of theirs can be stored
  Part part_ = Part::bounds;        ///< that was reported last
  double done_ = 0;                 ///< likewise
  std::thread::id caller_ = std::this_thread::get_id();  ///< whom alone progress is told to
};

}  // namespace

std::int64_t FoundPlan::peak() const { return largest_peak(simulation.stages).count(); }

SearchResult search_plans(SearchRequest const& request) { return Search{request}.run(); }

}  // namespace stagecraft
