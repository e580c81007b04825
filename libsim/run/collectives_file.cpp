#include "libsim/run/collectives_file.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "libsim/config/csv_table.hpp"
#include "libsim/run/paper_config_folder.hpp"

namespace stagecraft {
namespace {

constexpr std::array<std::string_view, 3> collectives_of_node{"all_reduce", "all_gather",
                                                              "reduce_scatter"};

using Tables = std::shared_ptr<CollectiveTables const>;

/// Sweeps and what-ifs read a system once for each of their runs.
class OpenTables {
 public:
  /// \throws ConfigError  if the file is not a file of tables.
  Tables at(std::filesystem::path const& path) {
    std::lock_guard const lock{mutex_};
    Tables& tables = tables_[path.string()];
    if (!tables) {
      CsvTable const csv{read_data_text(path), path.string()};
      tables = std::make_shared<CollectiveTables const>(read_collective_tables(csv));
    }
    return tables;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Tables> tables_;
};

bool is_file(std::filesystem::path const& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

/// The file that `name` stands for, as it is found from any folder.
std::string settled_name(std::string const& name, Place const& place) {
  std::filesystem::path const folder = place.line == 0 || !place.origin
                                           ? std::filesystem::path{}
                                           : std::filesystem::path{*place.origin}.parent_path();
  std::filesystem::path const beside = folder / name;
  bool const is_name = std::filesystem::path{name}.filename() == name;
  std::error_code ignored;
  if (is_name && (!is_file(beside) || std::filesystem::equivalent(
                                          beside, config_folder() / "systems" / name, ignored))) {
    return name;
  }
  return std::filesystem::absolute(beside).lexically_normal().string();
}

/// Reads the file of one section and takes the shapes of one node, or those of several.
void open_tables(MeasuredCollectives& measured,
                 ConfigNode const& value,
                 bool of_one_node,
                 Diagnostics& diagnostics) {
  static OpenTables open_tables;
  try {
    measured.file = settled_name(measured.file, value.place());
    std::filesystem::path const path{measured.file};
    measured.tables =
        open_tables.at(path.is_absolute() ? path : config_folder() / "systems" / path);
  } catch (ConfigError const& error) {
    for (Problem problem : error.problems()) {
      problem.key = value.key();
      diagnostics.add(std::move(problem));
    }
    return;
  }
  bool const has_shapes = std::ranges::any_of(
      *measured.tables, [&](auto const& table) { return (table.first.nodes == 1) == of_one_node; });
  if (!has_shapes) {
    value.report(of_one_node ? "a file with shapes of one node, such as all_reduce 1x8"
                             : "a file with shapes of several nodes, such as all_reduce 2x8");
  }
}

/// Whether an override gives one of `keys` of a section, and not its tables.
bool overrides_tables(ConfigNode const& section, std::span<std::string_view const> keys) {
  return !section.child("collectives").is_overridden() &&
         std::ranges::any_of(
             keys, [&](std::string_view key) { return section.child(key).is_overridden(); });
}

void require_node_constants(ConfigNode const& node) {
  for (std::string_view const key : collectives_of_node) {
    ConfigNode const constant = node.child(key);
    if (!constant.exists() && constant.is_sound()) {
      constant.report("a map {value: ..., source: ..., fitted: no | 'on what'}, or " +
                      node.key_of("collectives") + " with tables of one node");
    }
  }
}

}  // namespace

void open_collectives(System& system, ConfigNode const& section, Diagnostics& diagnostics) {
  constexpr std::array<std::string_view, 6> rates_of_network{
      "bandwidth", "adapters", "efficiency", "bus_bandwidth", "gather_bandwidth", "topology"};
  for (auto const& [key, measured, rates] :
       {std::tuple{"node", &system.node.collectives,
                   std::span<std::string_view const>{collectives_of_node}},
        {"network", &system.network.collectives, rates_of_network}}) {
    ConfigNode const below = section.child(key);
    if (overrides_tables(below, rates)) *measured = {};
    if (measured->value.file.empty()) continue;
    ConfigNode const constant = below.child("collectives");
    open_tables(measured->value, constant.is_map() ? constant.child("value") : constant,
                measured == &system.node.collectives, diagnostics);
  }
  ConfigNode const node = section.child("node");
  if (system.node.collectives.value.file.empty() && node.child("collectives").is_sound()) {
    require_node_constants(node);
  }
}

}  // namespace stagecraft
