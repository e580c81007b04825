#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "apps/stagecraft/plan/plan_question.hpp"
#include "libsim/engine/schedule_bound.hpp"
#include "libsim/interval/time_interval.hpp"
#include "libsim/report/operation.hpp"
#include "libsim/search/plan_search.hpp"

namespace stagecraft {

/// The probability that the best plan is faster than another one, both run on this machine.
double probability_best(FoundPlan const& best, FoundPlan const& other, PlanOptions const& options);

/// How sure it must be that the best plan is faster than another one for them to be separable.
inline constexpr double separable_probability = 0.8;

/// The plans that may be faster than the best, by their index in the result.
std::vector<std::size_t> rivals_of(SearchResult const& result, PlanOptions const& options);

/// The plans that may be as fast as the best, and itself, by ascending peak memory: indices.
std::vector<std::size_t> near_ties(SearchResult const& result, PlanOptions const& options);

/// The one measurement that would say most: of the first rival and the best, which tells the two
/// apart; without rivals of the best alone, which corrects the bias of all times.
nlohmann::ordered_json next_measurement(SearchResult const& result, PlanOptions const& options);

/// Money, energy and goodput of training with the plan.
OperatingFigures figures_of(FoundPlan const& plan, PlanOptions const& options);

/// The time of training on all tokens, in days.
std::optional<double> days_of(FoundPlan const& plan, PlanOptions const& options);

/// The cost of training on all tokens; without a number of tokens, of an iteration.
std::optional<double> cost_of(FoundPlan const& plan, PlanOptions const& options);

/// The energy of training on all tokens in MWh; without a number of tokens, of an iteration in kWh.
std::optional<double> energy_of(FoundPlan const& plan, PlanOptions const& options);

/// The bytes that the fullest device has left: the least `margin_bytes` of `simulate`.
std::int64_t free_bytes(FoundPlan const& plan);

/// Model FLOPs per second and accelerator, in 10^12, as MFU counts them.
double teraflops_per_gpu(FoundPlan const& plan, PlanOptions const& options);

/// Tokens per second and accelerator.
double tokens_per_gpu(FoundPlan const& plan, PlanOptions const& options);

/// Whether a plan leaves the usual margin, whatever --margin says.
bool has_margin(FoundPlan const& plan, PlanOptions const& options);

/// The interval that contains the measured time, by measured runs.
TimeInterval interval_of_plan(FoundPlan const& plan, PlanOptions const& options);

/// How fast any other order of its passes could be at most.
ScheduleBound schedule_bound_of(FoundPlan const& plan, PlanOptions const& options);

}  // namespace stagecraft
