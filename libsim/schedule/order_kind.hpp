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
  interleaved_zb,
  zbv,
  dualpipev,
  dualpipe,
  order,  ///< read from a file
};

template <>
struct EnumNames<OrderKind> {
  static constexpr std::array<std::pair<OrderKind, std::string_view>, 10> all{
      {{OrderKind::gpipe, "gpipe"},
       {OrderKind::one_f_one_b, "1f1b"},
       {OrderKind::interleaved, "interleaved"},
       {OrderKind::zb_h1, "zb_h1"},
       {OrderKind::zb_h2, "zb_h2"},
       {OrderKind::interleaved_zb, "interleaved_zb"},
       {OrderKind::zbv, "zbv"},
       {OrderKind::dualpipev, "dualpipev"},
       {OrderKind::dualpipe, "dualpipe"},
       {OrderKind::order, "order"}}};
};

}  // namespace stagecraft
