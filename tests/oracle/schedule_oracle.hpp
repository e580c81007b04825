#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libsim/schedule/pipeline_schedule.hpp"

namespace stagecraft {

/// The entries of tests/oracle/schedules.json. Those of 1F1B and the interleaved schedule were
/// recorded by executing Megatron-LM's own scheduling functions; see the file's "meta".
inline nlohmann::json const& schedule_oracle() {
  static nlohmann::json const entries = [] {
    std::ifstream file{STAGECRAFT_SOURCE_DIR "/tests/oracle/schedules.json"};
    return nlohmann::json::parse(file).at("entries");
  }();
  return entries;
}

/// The shape of an entry. In the oracle m is microbatches, v chunks per stage, g the group; without
/// pipelining the order is that of 1F1B on one stage.
inline ScheduleShape shape_of(nlohmann::json const& entry, P2p p2p) {
  std::string const kind = entry.at("k");
  return {.kind = kind == "gpipe"         ? ScheduleKind::gpipe
                  : kind == "interleaved" ? ScheduleKind::interleaved
                                          : ScheduleKind::one_f_one_b,
          .stages = entry.at("p"),
          .microbatches = entry.at("m"),
          .chunks = entry.at("v"),
          .group = entry.value("g", 0),
          .p2p = p2p};
}

/// "interleaved p=4 n=8 m=2 G=4", to name an entry in a failed test.
inline std::string name_of(nlohmann::json const& entry) {
  return entry.at("k").get<std::string>() + " p=" + entry.at("p").dump() +
         " n=" + entry.at("m").dump() + " m=" + entry.at("v").dump() +
         (entry.contains("g") ? " G=" + entry.at("g").dump() : "");
}

}  // namespace stagecraft
