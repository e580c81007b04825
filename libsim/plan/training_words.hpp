#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "libsim/config/words.hpp"
#include "libsim/plan/training_config.hpp"

namespace stagecraft {

// The words of section `schedule`, in configurations and in output.

template <>
struct Words<ScheduleKind> {
  static constexpr std::array<std::pair<ScheduleKind, std::string_view>, 3> all{
      {{ScheduleKind::gpipe, "gpipe"},
       {ScheduleKind::one_f_one_b, "1f1b"},
       {ScheduleKind::interleaved, "interleaved"}}};
};

template <>
struct Words<P2p> {
  static constexpr std::array<std::pair<P2p, std::string_view>, 2> all{
      {{P2p::blocking, "blocking"}, {P2p::overlapped, "overlapped"}}};
};

}  // namespace stagecraft
