#include "libsim/hardware/system_reader.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/section_reader.hpp"
#include "libsim/config/section_writer.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/hardware/config_texts.hpp"
#include "libsim/hardware/constant_values.hpp"
#include "libsim/hardware/software_keys.hpp"
#include "libsim/hardware/sourced.hpp"
#include "libsim/hardware/system_keys.hpp"

namespace stagecraft {

namespace {

/// A key that users look for in the wrong section of a system file, or under another name. The hint
/// "did you mean" names the one that is meant.
struct MisplacedKey {
  std::string_view section;  ///< empty: in none
  std::string_view key;
  std::string_view meant;
};

inline constexpr std::array<MisplacedKey, 23> misplaced_keys{
    {{"", "nics", "network.adapters"},
     {"", "adapters", "network.adapters"},
     {"", "gpus", "node.accelerators"},
     {"", "memory", "accelerator.memory"},
     {"", "bandwidth", "network.bandwidth"},
     {"node", "adapters", "network.adapters"},
     {"node", "nics", "network.adapters"},
     {"node", "network", "network.bandwidth"},
     {"node", "efficiency", "network.efficiency"},
     {"node", "gather_bandwidth", "network.gather_bandwidth"},
     {"node", "memory", "accelerator.memory"},
     {"node", "gpus", "accelerators"},
     {"network", "nics", "network.adapters"},
     {"network", "accelerators", "node.accelerators"},
     {"network", "all_reduce", "network.collectives"},
     {"network", "oversubscription", "network.topology.oversubscription"},
     {"network", "nodes_per_unit", "network.topology.nodes_per_unit"},
     {"network", "leaf_ports", "network.topology.leaf_ports"},
     {"network", "rails", "network.topology.rails"},
     {"accelerator", "accelerators", "node.accelerators"},
     {"accelerator", "bus_bandwidth", "node.bus_bandwidth"},
     {"accelerator", "gemm_efficiency", "calibration.gemm_efficiency"},
     {"accelerator", "sms", "multiprocessors"}}};

template <typename Field>
inline constexpr bool is_plain = std::same_as<Field, std::string> || std::same_as<Field, bool>;

/// Fills a system or a stack, or a section of one, from a configuration. It owns the list of keys
/// that were asked for, by which unknown ones are found.
class ConstantReader : public KeyVisitor<ConstantReader> {
 public:
  explicit ConstantReader(ConfigNode const& node) : reader_{node} {}

  template <typename Field>
  void key(Key const& key, Field& field) {
    if constexpr (is_plain<Field>) {
      reader_.key(key, field);
      return;
    } else {
      ConfigNode const node = reader_.take(key.name);
      bool const is_required = key.need == Need::required;
      if constexpr (is_sourced<Field>) {
        if (node.exists() || is_required) read_any(node, field, key);
      } else if constexpr (is_optional<Field>) {
        if (node.exists()) read_section(node, key, field.emplace());
      } else {
        if (!node.exists() && is_required && node.is_sound()) node.report("a map");
        read_section(node, key, field);
      }
    }
  }

  /// Names the keys that are meant by those which users look for in a section.
  void name_misplaced(std::string_view section) {
    for (MisplacedKey const& misplaced : misplaced_keys) {
      if (misplaced.section == section) reader_.synonym(misplaced.key, misplaced.meant);
    }
  }

  void finish() const { reader_.finish(); }

 private:
  template <typename Section>
  static void read_section(ConfigNode const& node, Key const& key, Section& section) {
    ConstantReader below{node};
    visit_keys(below, section);
    below.name_misplaced(key.name);
    below.finish();
  }

  /// Says where a value was given. If an override changes a part of it, that is the override.
  static std::string given_in(ConfigNode node) {
    while (node.is_map() && node.is_overridden()) {
      std::vector<ConfigNode> const entries = node.entries();
      auto const changed = std::ranges::find_if(
          entries, [](ConfigNode const& entry) { return entry.is_overridden(); });
      if (changed == entries.end()) break;
      node = *changed;
    }
    return std::string{given_source} + (node.place().origin ? *node.place().origin : "a text");
  }

  template <typename Value>
  static void read(ConfigNode const& node, Value& value, Key const& key) {
    if constexpr (std::same_as<Value, int>) {
      read_value(node, value, key.whole);
    } else if constexpr (requires { read_value(node, value, key.range); }) {
      read_value(node, value, key.range);
    } else {
      read_value(node, value);
    }
  }

  /// A value alone, or a map with the value and its provenance.
  template <typename Value>
  static void read_any(ConfigNode const& node, Sourced<Value>& field, Key const& key) {
    if (node.is_map() && (node.child("value").exists() || node.child("source").exists())) {
      read_constant(node, field, key);
    } else {
      read(node, field.value, key);
      field.source = given_in(node);
    }
  }

  template <typename Value>
  static void read_constant(ConfigNode const& node, Sourced<Value>& field, Key const& of_key) {
    SectionReader constant{node};
    ConfigNode const value = constant.take("value");
    ConfigNode const source = constant.take("source");
    ConfigNode const fitted = constant.take("fitted");
    constant.value("spread", field.spread,
                   NumberRange{.lower = 1e-3, .upper = 10, .includes_upper = true});
    constant.finish();
    read(value, field.value, of_key);
    // Provenance is that of a value: a new value without a new source has none but the user.
    bool const is_changed = value.is_overridden() && !source.is_overridden();
    if (!source.exists() || is_changed) {
      field.source = given_in(value);
      field.fitted.clear();
      return;
    }
    field.source = source.text().value_or("");
    if (fitted.exists() && !fitted.reads("no") && !fitted.reads("false")) {
      if (fitted.reads("yes") || fitted.reads("true")) {
        fitted.report("no, or on what it was fitted");
      } else {
        field.fitted = fitted.text().value_or("");
      }
    }
  }

  SectionReader reader_;
};

/// Writes what ConstantReader reads.
class ConstantWriter : public KeyVisitor<ConstantWriter> {
 public:
  nlohmann::ordered_json const& map() const { return writer_.map(); }

  template <typename Field>
  void key(Key const& key, Field const& field) {
    if constexpr (is_plain<Field>) {
      writer_.key(key, field);
    } else if constexpr (is_sourced<Field>) {
      if (key.need == Need::required || !field.source.empty()) write(key, field);
    } else if constexpr (is_optional<Field>) {
      if (field) this->key(key, *field);
    } else {
      ConstantWriter below;
      visit_keys(below, field);
      if (!below.map().empty()) writer_.put(key.name, below.map());
    }
  }

 private:
  template <typename Value>
  void write(Key const& key, Sourced<Value> const& field) {
    nlohmann::ordered_json constant;
    constant["value"] = value_json(field.value);
    constant["source"] = field.source;
    if (field.fitted.empty()) {
      constant["fitted"] = false;
    } else {
      constant["fitted"] = field.fitted;
    }
    if (field.spread > 0) constant["spread"] = field.spread;
    writer_.put(key.name, constant);
  }

  SectionWriter writer_;
};

Software read_default() {
  Diagnostics diagnostics;
  auto const root = parse_yaml(default_software_text, "megatron-2022.yaml", diagnostics);
  diagnostics.throw_if_any();
  Software software = read_software(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  return software;
}

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

Software read_software(ConfigNode const& section) {
  Software software;
  ConstantReader reader{section};
  visit_keys(reader, software);
  reader.finish();
  return software;
}

nlohmann::ordered_json to_json(Software const& software) {
  ConstantWriter writer;
  visit_keys(writer, software);
  return writer.map();
}

Software const& default_software() {
  static Software const software = read_default();
  return software;
}

System read_system(ConfigNode const& section) {
  System system;
  ConstantReader reader{section};
  visit_keys(reader, system);
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
  visit_keys(writer, system);
  return writer.map();
}

}  // namespace stagecraft
