#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "libsim/schedule/generators/order_request.hpp"

namespace stagecraft {

/// How long an order is searched.
struct SearchEffort {
  std::uint64_t seed = 1;
  std::int64_t iterations = 100'000;  ///< changes that are tried
  double seconds = 10;                ///< a cap on them; the result then depends on the machine
};

/// What ended a search.
enum class SearchEnd : std::uint8_t { iterations, seconds, bound };

template <>
struct EnumNames<SearchEnd> {
  static constexpr std::array<std::pair<SearchEnd, std::string_view>, 3> all{
      {{SearchEnd::iterations, "iterations"},
       {SearchEnd::seconds, "seconds"},
       {SearchEnd::bound, "bound"}}};
};

/// The best order that a search found.
struct FoundOrder {
  PipelineOrder order;
  double lower_bound = 0;  ///< of the makespan of any order, in units of the costs
  std::int64_t iterations = 0;
  SearchEnd ended_by = SearchEnd::iterations;
};

/// Searches for an order of least makespan, of given costs, chunks per stage, memory changes and
/// memory limit. Every backward is split, unless `joins_backward` lets the halves be joined where
/// they are adjacent. Chunks lie in a loop; two of them may lie in a V instead.
///
/// It begins with the best of what the named schedules make within the limit and of list
/// scheduling, and then moves single tasks within their stage; a change is kept if it is no worse
/// than the order before, or than that of some changes ago (late acceptance; Burke and Bykov 2017,
/// European Journal of Operational Research 258). Equal numbers give the same order on every
/// machine, unless the seconds end the search.
/// \throws ScheduleError  if no order is found that stays within the limit.
FoundOrder search_order(OrderRequest const& request, SearchEffort const& effort);

}  // namespace stagecraft
