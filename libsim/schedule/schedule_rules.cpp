#include "libsim/schedule/schedule_rules.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "libsim/schedule/orders/interleaving.hpp"

namespace stagecraft {
namespace {

Placement round_of_chunks(ScheduleShape const& shape) {
  return round_placement(shape.stages, shape.chunks);
}

int all_forwards(ScheduleShape const& shape, StageId /*stage*/) {
  return shape.microbatches * shape.chunks;
}

int forwards_of_later_stages(ScheduleShape const& shape, StageId stage) {
  return std::min(shape.stages - 1 - stage.value(), all_forwards(shape, stage));
}

int warmup_of_chunks(ScheduleShape const& shape, StageId stage) {
  int const behind = shape.stages - 1 - stage.value();
  return std::min(interleaved_warmup(behind, shape.chunks, shape.group),
                  all_forwards(shape, stage));
}

/// Indexed by ScheduleKind.
constexpr std::array<ScheduleRules, 3> all_rules{{
    {.title = "GPipe", .placement = round_of_chunks, .warmup = all_forwards},
    {.title = "1F1B",
     .alternates = true,
     .placement = round_of_chunks,
     .warmup = forwards_of_later_stages},
    {.title = "interleaved 1F1B",
     .takes_chunks = true,
     .alternates = true,
     .placement = round_of_chunks,
     .warmup = warmup_of_chunks},
}};

}  // namespace

ScheduleRules const& rules_of(ScheduleKind kind) {
  return all_rules.at(static_cast<std::size_t>(kind));
}

}  // namespace stagecraft
