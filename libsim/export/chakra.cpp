#include "libsim/export/chakra.hpp"

#include <string>

#include "libsim/export/astra_sim_machine.hpp"
#include "libsim/export/chakra_nodes.hpp"
#include "libsim/export/job_groups.hpp"
#include "libsim/export/transfer_pairs.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/run/pipeline_shape.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {

namespace {

/// \throws TraceFileError  when a message has only one end: who reads the files would wait forever.
void require_both_ends(TraceReader const& trace,
                       std::vector<std::int32_t> const& ranks,
                       PipelineShape const& shape,
                       KnownNames const& names) {
  TransferPairs messages{shape, names};
  for (std::int32_t const rank : ranks) messages.add(trace.read(rank));
  if (messages.unmatched() == 0) return;
  throw TraceFileError{
      trace.name(), std::to_string(messages.unmatched()) +
                        " sends or receives have no other end in these ranks; accepted: all ranks"};
}

std::string groups_json(GroupNumbers const& groups) {
  std::string text = "{";
  for (std::size_t number = 0; number < groups.members().size(); ++number) {
    text +=
        (number == 0 ? "\n\"" : ",\n\"") + std::to_string(number + first_chakra_group) + "\": [";
    std::string separator;
    for (RankId const rank : groups.members()[number]) {
      text += separator + std::to_string(rank.value());
      separator = ", ";
    }
    text += "]";
  }
  return text + "\n}\n";
}

}  // namespace

void write_chakra(TraceReader const& trace,
                  std::vector<std::int32_t> const& ranks,
                  std::filesystem::path const& prefix) {
  TrainingPlan const plan = plan_of_trace(trace);
  KnownNames const names{trace.names()};
  PipelineShape const shape{.stages = plan.groups.stages(),
                            .ranks_per_stage = plan.groups.ranks_per_stage(),
                            .placement = plan.placement};
  require_both_ends(trace, ranks, shape, names);
  auto const collectives = collectives_of(plan);
  GroupNumbers groups{plan.groups};
  FileSet files;
  for (std::int32_t const number : ranks) {
    RankTrace const rank = trace.read(number);
    JobRanks const members = job_ranks_of(trace, rank, plan.groups);
    ChakraNodes const nodes{rank, trace.names(), names, collectives};
    for (std::int32_t i = 0; i < members.count; ++i) {
      std::int32_t const member = members.first + i;
      files.write(with_ending(prefix, "." + std::to_string(member) + ".et"),
                  [&](OutputFile& output) {
                    output.write(chakra_header());
                    nodes.write(member, groups, shape, output);
                  });
    }
  }
  files.write(with_ending(prefix, ".groups.json"),
              [&](OutputFile& output) { output.write(groups_json(groups)); });
  System const system = run_config_of(trace.meta())->system;
  files.write(with_ending(prefix, ".network.yml"), [&](OutputFile& output) {
    output.write(astra_sim_network(system, plan.groups.ranks()));
  });
  files.write(with_ending(prefix, ".system.json"), [&](OutputFile& output) {
    output.write(astra_sim_system(system, plan.groups.ranks()));
  });
  files.keep();
}

}  // namespace stagecraft
