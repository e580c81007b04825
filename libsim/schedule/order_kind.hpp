#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "libsim/units/enum_names.hpp"

namespace stagecraft {

/// How the order of a pipeline's tasks is made.
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

template <>
struct EnumNames<OrderKind> {
  static constexpr std::array<std::pair<OrderKind, std::string_view>, 17> all{
      {{OrderKind::gpipe, "gpipe"},
       {OrderKind::one_f_one_b, "1f1b"},
       {OrderKind::interleaved, "interleaved"},
       {OrderKind::zb_h1, "zb_h1"},
       {OrderKind::zb_h2, "zb_h2"},
       {OrderKind::zb_auto, "zb_auto"},
       {OrderKind::interleaved_zb, "interleaved_zb"},
       {OrderKind::zbv, "zbv"},
       {OrderKind::v_half, "v_half"},
       {OrderKind::v_min, "v_min"},
       {OrderKind::v_auto, "v_auto"},
       {OrderKind::one_f_one_b_v, "1f1b_v"},
       {OrderKind::dualpipev, "dualpipev"},
       {OrderKind::dualpipe, "dualpipe"},
       {OrderKind::group_interleaved, "group_interleaved"},
       {OrderKind::order, "order"},
       {OrderKind::searched, "searched"}}};
};

/// Whether an order follows from a rule, or from costs and memory.
enum class OrderVariant : std::uint8_t { fixed, automatic };

template <>
struct EnumNames<OrderVariant> {
  static constexpr std::array<std::pair<OrderVariant, std::string_view>, 2> all{
      {{OrderVariant::fixed, "fixed"}, {OrderVariant::automatic, "auto"}}};
};

}  // namespace stagecraft
