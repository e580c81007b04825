#include "libsim/hardware/system_reader.hpp"

#include <algorithm>

#include "libsim/hardware/constant_visitors.hpp"
#include "libsim/hardware/software_reader.hpp"
#include "libsim/hardware/system_fields.hpp"

namespace stagecraft {
namespace {

/// Reports a leaf switch with fewer ports than a node without rails has adapters.
void check_leaf_ports(System const& system, ConfigNode const& section) {
  ConfigNode const constant = section.child("network").child("topology");
  ConfigNode const value = constant.child("value");
  ConfigNode const ports = (value.is_map() ? value : constant).child("leaf_ports");
  if (ports.exists() && ports.is_sound() && nodes_per_unit(system.node, system.network) == 0) {
    ports.report(
        "a port for each adapter of a node, or rails: true, which gives each adapter of a "
        "node a leaf of its own");
  }
}

/// What a whole system lacks, a base has.
void name_base_if_missing(ConfigNode const& section) {
  std::string const below = section.key().empty() ? "" : section.key() + ".";
  bool const lacks_some =
      std::ranges::any_of(section.diagnostics().problems(), [&](Problem const& problem) {
        if (!problem.found.empty() || !problem.key.starts_with(below)) return false;
        // Parts of a constant's value are missing in files with a base, too.
        return std::ranges::count(problem.key.substr(below.size()), '.') <= 1;
      });
  if (!lacks_some || !section.is_map()) return;
  section.diagnostics().add({section.place(), section.key(), "no base",
                             "all keys that are missing, or `base: dgx-h100` or another name of "
                             "configs/systems, from which they are inherited"});
}

}  // namespace

System read_system(ConfigNode const& section) {
  System system;
  ConstantReader reader{section};
  visit_system(reader, system);
  reader.name_misplaced("");
  reader.finish();
  if (!system.node.p2p.value.table.empty()) {
    section.child("node").child("p2p").child("value").report(
        "a latency and a bandwidth, not a table");
  }
  ConfigNode const memory = section.child("accelerator").child("memory");
  if (memory.exists() && memory.is_sound() && system.accelerator.memory.value.count() == 0) {
    (memory.is_map() ? memory.child("value") : memory).report("a size above 0 B");
  }
  check_leaf_ports(system, section);
  name_base_if_missing(section);
  bool const is_changed = std::ranges::any_of(section.entries(), [](ConfigNode const& entry) {
    return entry.is_map() && entry.is_overridden();
  });
  if (is_changed && !section.child("validated").is_overridden()) system.validated = false;
  system.software = default_software();
  return system;
}

nlohmann::ordered_json to_json(System const& system) {
  ConstantWriter writer;
  visit_system(writer, system);
  return writer.map();
}

}  // namespace stagecraft
