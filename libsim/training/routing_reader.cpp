#include "libsim/training/routing_reader.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/config/csv_table.hpp"
#include "libsim/config/file_beside.hpp"
#include "libsim/config/section_reader.hpp"
#include "libsim/config/section_writer.hpp"
#include "libsim/training/training_keys.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

constexpr std::int64_t most_numbered = 1 << 17;
constexpr std::int64_t most_microbatches = std::numeric_limits<int>::max();
constexpr std::int64_t most_rows = std::int64_t{1} << 40;
constexpr std::array<std::string_view, 4> columns{"layer", "microbatch", "expert", "rows"};

/// Reads the cells of a file of counts.
class CountsReader {
 public:
  explicit CountsReader(std::filesystem::path const& path)
      : table_{read_data_text(path), path.string()} {}

  std::vector<CountsOfLayer> read() {
    find_columns();
    diagnostics_.throw_if_any();
    for (std::size_t row = 0; row < table_.rows(); ++row) read_row(table_.row(row));
    diagnostics_.throw_if_any();
    std::vector<CountsOfLayer> layers;
    for (auto& [key, counts] : rows_) layers.push_back(std::move(counts));
    return layers;
  }

 private:
  void find_columns() {
    std::vector<CsvCell> const& header = table_.header();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      auto const found = std::find_if(header.begin(), header.end(), [&](CsvCell const& cell) {
        return cell.text == columns.at(i);
      });
      places_.at(i) = static_cast<std::size_t>(found - header.begin());
      if (found == header.end()) {
        diagnostics_.add({.place = table_.place_of(header.front()),
                          .key = "routing.file",
                          .found = "no column '" + std::string{columns.at(i)} + "'",
                          .accepted = "the columns layer, microbatch, expert, rows"});
      }
    }
    for (CsvCell const& cell : header) {
      if (std::find(columns.begin(), columns.end(), cell.text) != columns.end()) continue;
      report(cell, "the columns layer, microbatch, expert, rows");
    }
  }

  void report(CsvCell const& cell, std::string accepted) {
    diagnostics_.add({.place = table_.place_of(cell),
                      .key = "routing.file",
                      .found = "'" + printable(cell.text) + "'",
                      .accepted = std::move(accepted)});
  }

  std::int64_t number(CsvCell const& cell, std::int64_t most) {
    auto const value = parse_number<std::int64_t>(cell.text);
    if (value && *value >= 0 && *value <= most) return *value;
    report(cell, "a whole number from 0 to " + std::to_string(most));
    return 0;
  }

  void read_row(std::vector<CsvCell> const& cells) {
    CsvCell const& of_microbatch = cells[places_[1]];
    std::int64_t const layer = number(cells[places_[0]], most_numbered);
    BatchMicrobatchId const microbatch =
        of_microbatch.text.empty()
            ? every_microbatch
            : BatchMicrobatchId{static_cast<int>(number(of_microbatch, most_microbatches))};
    std::int64_t const expert = number(cells[places_[2]], most_numbered);
    std::int64_t const rows = number(cells[places_[3]], most_rows);
    CountsOfLayer& known = rows_[{layer, microbatch}];
    known.layer = layer;
    known.microbatch = microbatch;
    known.line = cells.front().line;
    auto const index = static_cast<std::size_t>(expert);
    if (known.rows.size() <= index) known.rows.resize(index + 1, -1);
    if (known.rows[index] >= 0) {
      report(cells[places_[2]], "each expert of a layer and microbatch once");
    }
    known.rows[index] = rows;
  }

  using Key = std::pair<std::int64_t, BatchMicrobatchId>;  ///< the former is the layer
  CsvTable table_;
  Diagnostics diagnostics_;
  std::array<std::size_t, columns.size()> places_{};
  std::map<Key, CountsOfLayer> rows_;
};

}  // namespace

CountsFile read_counts_file(std::filesystem::path const& path) {
  return {path.string(), CountsReader{path}.read()};
}

void read_field(ConfigNode const& node, CapacityScope<bool> scope) {
  scope.is_of_microbatch = node.reads("microbatch");
  if (!scope.is_of_microbatch && !node.reads("rank")) node.report("rank, microbatch");
}

nlohmann::ordered_json to_json(CapacityScope<bool const> scope) {
  return scope.is_of_microbatch ? "microbatch" : "rank";
}

void read_field(ConfigNode const& node, SharedCounts& counts) {
  auto const name = node.text();
  if (!name) return;
  try {
    // So that the configuration can be written to another folder.
    counts = SharedCounts{
        read_counts_file(std::filesystem::absolute(file_beside(node, *name)).lexically_normal())};
  } catch (ConfigError const& error) {
    for (Problem const& problem : error.problems()) node.diagnostics().add(problem);
    node.diagnostics().mark_unsound(node.key());
  }
}

nlohmann::ordered_json to_json(SharedCounts const& counts) { return counts->path; }

Routing read_routing(ConfigNode const& node) {
  Routing routing;
  if (!node.exists() || node.reads("balanced")) return routing;
  if (node.reads("natural")) return {.is_natural = true};
  if (!node.is_map()) {
    node.report(std::string{routing_text});
    return routing;
  }
  SectionReader reader{node};
  bool const has_capacity = node.child("capacity").exists();
  visit_keys(reader, routing, has_capacity);
  reader.finish();
  int const given = (node.child("factor").exists() ? 1 : 0) + (has_capacity ? 1 : 0) +
                    (node.child("file").exists() ? 1 : 0);
  if (!node.is_sound()) return Routing{};
  if (given == 1) return routing;
  node.report("one of the keys factor, file and capacity");
  return Routing{};
}

nlohmann::ordered_json to_json(Routing const& routing) {
  if (routing.is_balanced()) return "balanced";
  if (routing.is_natural) return "natural";
  SectionWriter writer;
  visit_keys(writer, routing, routing.capacity.has_value());
  return writer.map();
}

}  // namespace stagecraft
