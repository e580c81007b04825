#include <catch2/catch.hpp>

#include "libsim/engine/player/schedule_timeline.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "tests/oracle/schedule_oracle.hpp"

namespace stagecraft::timeline_oracle_test {

namespace {

constexpr ChunkCosts free_transfers{.forward = 1, .backward = 2, .transfer = 0};
constexpr ChunkCosts quarter_transfers{.forward = 1, .backward = 2, .transfer = 0.25};

double makespan(nlohmann::json const& entry, P2p p2p, ChunkCosts const& costs) {
  PlayedOrder const played = play_schedule(make_pipeline_schedule(shape_of(entry, p2p)), costs);
  return played.in_units(played.makespan);
}

}  // namespace

TEST_CASE("with free transfers every rank ends when the oracle's does") {
  for (auto const& entry : schedule_oracle()) {
    INFO(name_of(entry));
    PlayedOrder const played =
        play_schedule(make_pipeline_schedule(shape_of(entry, P2p::overlapped)), free_transfers);
    REQUIRE(played.in_units(played.makespan) == entry.at("makespan").get<double>());
    std::vector<double> ends;
    for (StageRuns const& rank : played.stages) ends.push_back(played.in_units(rank.end));
    REQUIRE(ends == entry.at("rank_end").get<std::vector<double>>());
  }
}

TEST_CASE("overlapped transfers of 0.25 give the makespan of the oracle's buffered data flow") {
  for (auto const& entry : schedule_oracle()) {
    INFO(name_of(entry));
    REQUIRE(makespan(entry, P2p::overlapped, quarter_transfers) ==
            entry.at("mk_p2p025").at("async").get<double>());
  }
}

TEST_CASE("blocking exchanges give the makespan of Megatron-LM's recorded calls under rendezvous") {
  int with_transfers = 0;
  int without = 0;
  for (auto const& entry : schedule_oracle()) {
    INFO(name_of(entry));
    if (entry.at("mk_p2p025").contains("blocking")) {
      ++with_transfers;
      REQUIRE(makespan(entry, P2p::blocking, quarter_transfers) ==
              entry.at("mk_p2p025").at("blocking").get<double>());
    }
    if (entry.contains("mk_mcore_blocking")) {
      ++without;
      REQUIRE(makespan(entry, P2p::blocking, free_transfers) ==
              entry.at("mk_mcore_blocking").get<double>());
    }
  }
  REQUIRE(with_transfers == 91);  // 17 of 1F1B, 74 interleaved
  REQUIRE(without == 91);
}

}  // namespace stagecraft::timeline_oracle_test
