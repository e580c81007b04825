#include "libsim/report/unit_summary.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "libsim/report/text_table.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

struct UnitCollectives {
  Bytes largest;  ///< gathered unit
  std::int64_t gathers = 0;
  std::int64_t reductions = 0;

  void count(BlockProgram const& block, std::int64_t times) {
    for (std::vector<Op> const* const ops : {&block.forward, &block.backward}) {
      for (Op const& op : *ops) {
        if (op.stream != Stream::gather) continue;
        if (op.kind == OpKind::reduce_scatter || op.kind == OpKind::all_reduce) reductions += times;
        if (op.kind != OpKind::all_gather) continue;
        gathers += times;
        largest = std::max(largest, op.payload);
      }
    }
  }
};

std::string counted(std::int64_t number, std::string_view name) {
  return std::to_string(number) + " " + std::string{name} + (number == 1 ? "" : "s");
}

}  // namespace

std::string units_text(Simulation const& simulation, TrainingPlan const& plan) {
  if (!plan.config.sharding.has_units()) return "";
  // Microbatches with programs of their own have their chunks one after the other.
  std::int64_t const times = plan.microbatch_stride == 0 ? microbatches(plan.config) : 1;
  UnitCollectives all;
  for (ChunkProgram const& chunk : plan.programs.chunks) {
    for (std::int32_t const block : chunk.blocks) {
      all.count(plan.programs.blocks[static_cast<std::size_t>(block)], times);
    }
  }
  std::string const gathers = all.gathers == 0 ? "per iteration "
                                               : "units of up to " + readable_text(all.largest) +
                                                     " are gathered; per iteration " +
                                                     counted(all.gathers, "gather") + " and ";
  return gathers + counted(all.reductions, "reduction") + ", " +
         decimals(to_seconds(simulation.breakdown.shares.data_parallel), 3) +
         " s of them and of their copies hidden by no computation\n";
}

}  // namespace stagecraft
