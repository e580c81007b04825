#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "libsim/schedule/orders/placement.hpp"
#include "libsim/units/enum_names.hpp"

namespace stagecraft {

/// How the order of a pipeline's tasks is made. A new kind has a row in `order_kinds` and a case in
/// make_order() (order_request.hpp).
enum class OrderKind : std::uint8_t {
  gpipe,
  one_f_one_b,
  interleaved,
  zb_h1,
  zb_h2,
  zb_auto,
  interleaved_zb,
  zbv,
  v_half,
  v_min,
  v_auto,
  one_f_one_b_v,
  dualpipev,
  dualpipe,
  group_interleaved,
  order,     ///< read from a file
  searched,  ///< found by a search, see order_search.hpp
};

/// Whether an order follows from a rule, or from costs and memory.
enum class OrderVariant : std::uint8_t { fixed, automatic };

template <>
struct EnumNames<OrderVariant> {
  static constexpr std::array<std::pair<OrderVariant, std::string_view>, 2> all{
      {{OrderVariant::fixed, "fixed"}, {OrderVariant::automatic, "auto"}}};
};

/// When an order of a kind follows from costs and memory, so that a plan cannot make it by itself.
enum class FitsCosts : std::uint8_t {
  never,
  always,
  automatic,  ///< with OrderVariant::automatic
};

/// What is known about a kind of order before an order is made.
struct OrderKindTraits {
  OrderKind kind;
  std::string_view name;  ///< in run files and on the command line
  PlacementShape placement = PlacementShape::loop;
  int chunks = 1;            ///< chunks per stage; 0: any number
  bool takes_group = false;  ///< microbatches go through its chunks in groups
  FitsCosts fits_costs = FitsCosts::never;
  bool takes_limit = false;      ///< whether the order depends on a memory limit
  bool takes_memory = false;     ///< whether the order depends on the memory changes of each task
  bool splits_backward = false;  ///< the rule or heuristic that makes it may split backwards
  /// Its own order has pairs of passes, which run beside each other.
  bool has_pairs = false;
};

/// Every kind, in the order of OrderKind.
inline constexpr std::array order_kinds{
    OrderKindTraits{.kind = OrderKind::gpipe, .name = "gpipe", .chunks = 0},
    OrderKindTraits{.kind = OrderKind::one_f_one_b, .name = "1f1b"},
    OrderKindTraits{
        .kind = OrderKind::interleaved, .name = "interleaved", .chunks = 0, .takes_group = true},
    OrderKindTraits{.kind = OrderKind::zb_h1, .name = "zb_h1", .splits_backward = true},
    OrderKindTraits{.kind = OrderKind::zb_h2, .name = "zb_h2", .splits_backward = true},
    OrderKindTraits{.kind = OrderKind::zb_auto,
                    .name = "zb_auto",
                    .fits_costs = FitsCosts::always,
                    .takes_limit = true,
                    .takes_memory = true,
                    .splits_backward = true},
    OrderKindTraits{.kind = OrderKind::interleaved_zb,
                    .name = "interleaved_zb",
                    .chunks = 0,
                    .splits_backward = true},
    OrderKindTraits{.kind = OrderKind::zbv,
                    .name = "zbv",
                    .placement = PlacementShape::v,
                    .chunks = 2,
                    .fits_costs = FitsCosts::automatic,
                    .takes_limit = true,
                    .takes_memory = true,
                    .splits_backward = true},
    OrderKindTraits{.kind = OrderKind::v_half,
                    .name = "v_half",
                    .placement = PlacementShape::v,
                    .chunks = 2,
                    .splits_backward = true},
    OrderKindTraits{.kind = OrderKind::v_min,
                    .name = "v_min",
                    .placement = PlacementShape::v,
                    .chunks = 2,
                    .splits_backward = true},
    OrderKindTraits{.kind = OrderKind::v_auto,
                    .name = "v_auto",
                    .placement = PlacementShape::v,
                    .chunks = 2,
                    .fits_costs = FitsCosts::always,
                    .takes_limit = true,
                    .splits_backward = true},
    OrderKindTraits{.kind = OrderKind::one_f_one_b_v,
                    .name = "1f1b_v",
                    .placement = PlacementShape::v,
                    .chunks = 2},
    OrderKindTraits{.kind = OrderKind::dualpipev,
                    .name = "dualpipev",
                    .placement = PlacementShape::v,
                    .chunks = 2,
                    .splits_backward = true,
                    .has_pairs = true},
    OrderKindTraits{.kind = OrderKind::dualpipe,
                    .name = "dualpipe",
                    .placement = PlacementShape::bidirectional,
                    .chunks = 2,
                    .splits_backward = true,
                    .has_pairs = true},
    OrderKindTraits{.kind = OrderKind::group_interleaved,
                    .name = "group_interleaved",
                    .chunks = 0,
                    .takes_group = true,
                    .fits_costs = FitsCosts::always},
    OrderKindTraits{.kind = OrderKind::order, .name = "order", .chunks = 0},
    OrderKindTraits{.kind = OrderKind::searched,
                    .name = "searched",
                    .chunks = 0,
                    .fits_costs = FitsCosts::always,
                    .takes_limit = true,
                    .takes_memory = true}};

/// \throws std::out_of_range  if `kind` is no enumerator.
constexpr OrderKindTraits const& traits_of(OrderKind kind) {
  return order_kinds.at(static_cast<std::size_t>(kind));
}

template <>
struct EnumNames<OrderKind> {
  static constexpr auto all = [] {
    std::array<std::pair<OrderKind, std::string_view>, order_kinds.size()> names{};
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (order_kinds[i].kind != static_cast<OrderKind>(i)) {
        throw std::logic_error{"order_kinds is not in the order of OrderKind"};
      }
      names[i] = {order_kinds[i].kind, order_kinds[i].name};
    }
    return names;
  }();
};

}  // namespace stagecraft
