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
  /// A limit; if it ends the search, the result depends on the machine.
  double seconds = 10;
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
  double lower_bound = 0;  ///< of the makespan of any order, in the unit of the costs
  std::int64_t iterations = 0;
  SearchEnd ended_by = SearchEnd::iterations;
};

/// Searches for an order of least makespan for given costs, chunks per stage, memory changes and
/// memory limit. Every backward is split, unless `joins_backward` lets the halves be joined if they
/// are adjacent. Chunks lie in a loop; two of them may lie in a V instead.
///
/// It begins with the best order of the named schedules and of list scheduling that keeps the
/// limit. Then it moves single tasks within their stage. A change is kept if the order is no worse
/// than the one before, or than that of some changes ago (late acceptance; Burke and Bykov 2017,
/// European Journal of Operational Research 258). Equal arguments give the same order on every
/// machine, unless the seconds end the search.
/// \throws ScheduleError  if no order is found that stays within the limit.
FoundOrder search_order(OrderRequest const& request, SearchEffort const& effort);

}  // namespace stagecraft
